//! A segment leaves.

use napier_core::tcp::options::{BLOCKS_MAX, OPTIONS_MAX, Written};
use napier_core::tcp::seq::Seq;
use napier_core::time::{Deadline, Instant};

use super::segment::Departure;
use super::{TcpMachine, TcpState};
use crate::wire::flag;

impl TcpMachine {
    /// The next segment, which leaves now; `None`: there is nothing to send. `answers`: no more than what the peer is owed.
    #[inline]
    pub(in crate::tcp) fn departs(&mut self, now: Instant, answers: bool) -> Option<Departure> {
        let now = self.latest(now);
        if self.reset.is_some() {
            return self.reset_departs();
        }
        match self.state {
            TcpState::Closed => None,
            TcpState::SynSent => self.syn_departs(now),
            TcpState::SynReceived => self.syn_departs(now).or_else(|| self.bare_departs(now)),
            TcpState::TimeWait => self.bare_departs(now),
            TcpState::Established
            | TcpState::FinWait1
            | TcpState::FinWait2
            | TcpState::CloseWait
            | TcpState::Closing
            | TcpState::LastAck => {
                // What is out of order is told by itself: a full segment has no room for it.
                let tells = self.sender.selective && !self.receiver.ranges.is_silent();
                if answers || tells && self.receiver.acks.is_due(now) {
                    return self.bare_departs(now);
                }
                if let Some(departure) = self.data_departs(now) {
                    return Some(departure);
                }
                self.sender.rests(now);
                self.bare_departs(now)
            }
        }
    }

    #[inline]
    fn data_departs(&mut self, now: Instant) -> Option<Departure> {
        let clock = self.stamped.then(|| self.clocks.at(now));
        let piece = self.sender.next_piece(now, clock)?;
        let mut flags = flag::ACK;
        if piece.last && piece.len > 0 {
            flags |= flag::PSH;
        }
        if piece.fin {
            flags |= flag::FIN;
        }
        let options = self.options(now, piece.len);
        let window = self.receiver.tell();
        let ack = self.receiver.next;
        Some(Departure {
            seq: piece.seq,
            ack,
            flags,
            window,
            options,
            at: piece.at,
            len: piece.len,
            again: piece.again,
        })
    }

    /// Options of a segment with `len` bytes: blocks go where there is room.
    #[inline]
    fn options(&mut self, now: Instant, len: usize) -> Written {
        let mut options = Written::default();
        if self.stamped {
            options.stamps(self.clocks.stamps(now));
        }
        if self.sender.selective && !self.receiver.ranges.is_silent() {
            let room = (self.sender.segment as usize).saturating_sub(len + options.len());
            let blocks = (room.min(OPTIONS_MAX - options.len()).saturating_sub(4) / 8).min(BLOCKS_MAX);
            if blocks > 0 {
                options.blocks(self.receiver.ranges.tell().take(blocks));
            }
        }
        options
    }

    /// An acknowledgement, or what the peer has to answer: a segment that it has already (RFC 9293 section 3.8.4).
    #[inline]
    fn bare_departs(&mut self, now: Instant) -> Option<Departure> {
        if !self.probe && !self.receiver.acks.is_due(now) {
            return None;
        }
        let seq = if std::mem::take(&mut self.probe) { self.sender.una - 1 } else { self.sender.next };
        let options = self.options(now, 0);
        let window = self.receiver.tell();
        Some(Departure { seq, ack: self.receiver.next, flags: flag::ACK, window, options, at: 0, len: 0, again: false })
    }

    #[cold]
    fn syn_departs(&mut self, now: Instant) -> Option<Departure> {
        if !std::mem::take(&mut self.opening.due) {
            return None;
        }
        let mut options = Written::default();
        options.syn(&self.opening.offer);
        if self.opening.stamped {
            options.stamps(self.clocks.stamps(now));
        }
        let answers = self.state == TcpState::SynReceived;
        let window = self.receiver.tell_unscaled();
        let again = self.opening.again;
        self.opening.sent_at = now;
        self.sender.rto = Deadline::after(now, self.sender.trips.timeout());
        let (flags, ack) = if answers { (flag::SYN | flag::ACK, self.receiver.next) } else { (flag::SYN, Seq(0)) };
        Some(Departure { seq: self.first, ack, flags, window, options, at: 0, len: 0, again })
    }

    /// RFC 9293 section 3.10.7.4: of a connection that stands with what is expected, else with what was acknowledged.
    #[cold]
    fn reset_departs(&mut self) -> Option<Departure> {
        let seq = self.reset.take()?;
        let (flags, ack) = if self.state == TcpState::Closed {
            (flag::RST | flag::ACK, self.receiver.next)
        } else {
            (flag::RST, Seq(0))
        };
        Some(Departure { seq, ack, flags, window: 0, options: Written::default(), at: 0, len: 0, again: false })
    }
}
