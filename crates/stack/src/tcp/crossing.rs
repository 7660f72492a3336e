//! Probes of a closed window that cross each other.
//!
//! smoltcp probes with the next byte and does not count it as sent. So do both ends when both windows are closed, and when
//! programs have read, both take the other's byte. From then on each of its segments begins one byte before what the other
//! expects: old for that end, and smoltcp answers what is old without a look at what it acknowledges. Neither end would ever
//! learn that its byte has come and that the window is open.
//!
//! So an old segment that acknowledges all that was sent is put to smoltcp as if it began where it should, without what it
//! carries. The stack of BSD does the same: "keep on processing for RST or ACK". Source: `tcp_do_segment` of FreeBSD, RFC
//! 9293 section 3.10.7.4 (valid acknowledgements are taken also where no segment is acceptable).

use napier_core::time::Instant;
use smoltcp::socket::tcp::State;

use super::super::netns::Inner;
use super::super::wire::flag;
use super::conn::Core;
use super::losses::{BARE_MAX, Header};

/// What of an old segment is worth a look.
fn is_crossed(header: &Header<'_>, flags: u8, next: u32, sent_to: u32) -> bool {
    let behind = next.wrapping_sub(header.seq());
    let occupied = header.payload() + u32::from(flags & flag::FIN != 0);
    // Not more than a window behind: else it is from another life.
    (1..=u32::from(u16::MAX)).contains(&behind) && occupied <= behind && header.ack() == sent_to
}

impl Core {
    /// Takes the acknowledgement of an old segment. smoltcp gets the segment as well, and answers it.
    #[cold]
    pub(super) fn take_crossed(&mut self, ns: &Inner, now: Instant, flags: u8, packet: &[u8]) {
        let (Some(header), Some(sent_to)) = (Header::of(packet), self.outlet.sent_to()) else { return };
        if flags & (flag::ACK | flag::SYN | flag::RST) != flag::ACK
            || matches!(
                self.state(),
                State::Closed | State::Listen | State::SynSent | State::SynReceived | State::TimeWait
            )
        {
            return;
        }
        let Some(expected) = self.expected() else { return };
        if !is_crossed(&header, flags, expected.next, sent_to) {
            return;
        }
        let mut copy = [0; BARE_MAX];
        let copy = header.bare(expected.next, &mut copy);
        self.hear(ns, now, copy);
    }

    /// Whether the segment in a packet does not begin where the next one should.
    #[inline]
    pub(super) fn is_out_of_place(&self, packet: &[u8]) -> bool {
        let seq = Header::of(packet).map(|header| header.seq());
        self.expected().is_some_and(|expected| seq.is_some_and(|seq| seq != expected.next))
    }
}
