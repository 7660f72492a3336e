//! What is not delivered: counted, and its frame goes home.

use napier_ring::{Frame, FrameChain};

use crate::counters::Counter;
use crate::pass::{DryRun, RxPass};
use crate::wire::{self, Refused};

/// What a lost datagram adds to, over IPv4 and over IPv6.
pub(super) const ADDR_ERRORS: [&[Counter]; 2] = [&[Counter::IpInAddrErrors], &[Counter::Ip6InAddrErrors]];
pub(super) const NO_PORTS: [&[Counter]; 2] =
    [&[Counter::IpInDelivers, Counter::UdpNoPorts], &[Counter::Ip6InDelivers, Counter::Udp6NoPorts]];
pub(super) const RCVBUF_ERRORS: [&[Counter]; 2] = [
    &[Counter::IpInDelivers, Counter::UdpRcvbufErrors, Counter::UdpInErrors],
    &[Counter::Ip6InDelivers, Counter::Udp6RcvbufErrors, Counter::Udp6InErrors],
];

impl RxPass<'_> {
    /// The one place where datagrams are lost on their way in.
    #[cold]
    pub(super) fn lose(&mut self, frame: Frame, v4: bool, counters: [&[Counter]; 2]) {
        if self.dry.is_some() {
            return self.end_dry(frame, DryRun::Nowhere);
        }
        self.at.tables.counters.count(if v4 { Counter::IpInReceives } else { Counter::Ip6InReceives });
        for counter in counters[usize::from(!v4)] {
            self.at.tables.counters.count(*counter);
        }
        self.at.tables.frames.give_back(frame);
    }

    #[cold]
    pub(super) fn count_refused(&self, bytes: &[u8], &Refused(first, second): &Refused) {
        let below_ip = matches!(first, Counter::RxLength | Counter::RxOtherhost | Counter::RxNohandler);
        if !below_ip {
            let v4 = bytes[12..14] == wire::ETHERTYPE_IPV4;
            self.at.tables.counters.count(if v4 { Counter::IpInReceives } else { Counter::Ip6InReceives });
        }
        if matches!(first, Counter::TcpInErrs | Counter::TcpInCsumErrors) {
            self.at.tables.counters.count(Counter::TcpInSegs);
        }
        let is_checksum = |counter| {
            use Counter as C;
            matches!(counter, C::IpInCsumErrors | C::UdpInCsumErrors | C::Udp6InCsumErrors | C::TcpInCsumErrors)
        };
        if is_checksum(first) || second.is_some_and(is_checksum) {
            self.at.interface.egress.note_wrong_checksum();
        }
        for counter in [Some(first), second].into_iter().flatten() {
            self.at.tables.counters.count(counter);
        }
    }

    #[cold]
    pub(super) fn lose_chain(&mut self, frames: FrameChain, v4: bool, counters: [&[Counter]; 2]) {
        let mut frames = frames.into_fifo(&self.at.tables.frames);
        while let Some(frame) = frames.pop(&self.at.tables.frames) {
            self.lose(frame, v4, counters);
        }
    }
}
