//! What is not delivered: counted, and its frame goes home.

use napier_core::icmp::answers::Trouble;
use napier_ring::{Frame, FrameChain};

use crate::counters::Counter;
use crate::pass::in_hand::InHand;
use crate::pass::{DryRun, RxPass};
use crate::tables::Ingress;
use crate::tables::answer::tell_sender;
use crate::wire::{self, Meta, Refused};

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

    /// A datagram for a port that no socket has, whose frame says where it ends: its sender is told.
    #[cold]
    pub(super) fn lose_without_port(&mut self, frame: Frame, v4: bool) {
        if self.dry.is_none() {
            let (Ingress { tables, devices, interface, .. }, now) = (self.at, self.now());
            let mut hand = InHand::new(&tables.frames, frame);
            let meta = Meta::from_bits(tables.frames.meta(hand.frame()));
            let bytes = tables.frames.data(hand.frame(), meta.payload().end);
            // Where the time is written the sender's Ethernet address is not any more.
            if meta.stamp(bytes).is_none() {
                tell_sender(tables, (devices, interface), bytes, Trouble::NoPort, now);
            }
            return self.lose(hand.give_on(), v4, NO_PORTS);
        }
        self.lose(frame, v4, NO_PORTS);
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
            if counters == NO_PORTS {
                self.lose_without_port(frame, v4);
            } else {
                self.lose(frame, v4, counters);
            }
        }
    }
}
