//! When a segment is answered or sent again where smoltcp's own idea of it does not do.

use napier_core::time::{Deadline, Instant};
use smoltcp::socket::tcp::State;

use crate::tables::Tables;
use crate::tcp::conn::Core;
use crate::tcp::rules;
use crate::wire::{IPV4_LEN, IPV6_LEN, TCP_LEN};

/// The turns of an embryo's SYN|ACK.
#[derive(Copy, Clone, Debug, Default)]
pub(in crate::tcp) struct SynAck {
    /// Times that it was sent again.
    again: u32,
    /// When it is sent again next; `None`: no more, or the connection is no embryo.
    next: Option<Instant>,
}

impl Core {
    /// `bytes` have come in one packet. Two full segments are acknowledged at once (RFC 1122 section 4.2.3.2): smoltcp
    /// counts packets, and one that was merged of many would wait for another.
    #[inline]
    pub(in crate::tcp) fn acknowledge_train(&mut self, tables: &Tables, now: Instant, bytes: usize) {
        let full = |ip_len: usize| self.outlet.route.mtu().saturating_sub(ip_len + TCP_LEN);
        // The addresses are looked at only if they decide: they lie apart from what each segment needs.
        if bytes >= 2 * full(IPV6_LEN) {
            let v4 = self.outlet.route.ends().0.addr.is_v4();
            if !v4 || bytes >= 2 * full(IPV4_LEN) {
                self.acknowledge_unless_done(tables, now, bytes);
            }
        }
    }

    #[cold]
    fn acknowledge_unless_done(&mut self, tables: &Tables, now: Instant, bytes: usize) {
        let (Some(expected), Some(said)) = (self.expected(), self.outlet.acked_to()) else { return };
        if !self.dead && expected.next.wrapping_sub(said) as usize >= bytes {
            self.acknowledge(tables, now);
        }
    }

    /// The SYN|ACK of an embryo has left for the first time.
    pub(in crate::tcp) fn synack_begins(&mut self, now: Instant) {
        self.synack = SynAck { again: 0, next: rules::synack_after(0).map(|gap| now + gap) };
    }

    /// Whether an embryo's SYN|ACK is not to be sent again now, or is: then the next turn is the following one.
    pub(in crate::tcp) fn synack_rests(&mut self, now: Instant) -> bool {
        if !self.is_waiting_embryo() || self.outlet.is_stuck() {
            return false;
        }
        match self.synack.next {
            Some(at) if at <= now => {
                let again = self.synack.again + 1;
                self.synack = SynAck { again, next: rules::synack_after(again).map(|gap| now + gap) };
                false
            }
            _ => true,
        }
    }

    /// When smoltcp is asked next, which would like to be asked at `wanted`.
    #[inline]
    pub(in crate::tcp) fn synack_turn(&self, wanted: Deadline) -> Deadline {
        if !self.is_waiting_embryo() {
            return wanted;
        }
        self.synack.next.map_or(Deadline::NEVER, Deadline::at)
    }

    #[inline]
    fn is_waiting_embryo(&self) -> bool {
        self.is_embryo() && self.state() == State::SynReceived
    }
}
