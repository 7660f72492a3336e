//! What a program does.

use napier_core::tcp::congestion::Control;
use napier_core::tcp::options::STAMPS_LEN;
use napier_core::time::{Deadline, Instant, Span};

use super::{PATH_MIN, TcpMachine, TcpState};
use crate::tcp::memory::Lender;

/// Memory that an idle connection keeps for each direction.
const ROOM_KEPT: usize = 16 << 10;
/// How long memory stays that is not used.
const TRIM_AFTER: Span = Span::from_secs(1);

impl TcpMachine {
    /// Bytes to read.
    #[inline]
    pub(in crate::tcp) fn unread(&self) -> usize {
        self.receiver.unread()
    }

    /// Bytes that the peer has not acknowledged, sent or not.
    #[inline]
    pub(in crate::tcp) fn unacknowledged(&self) -> usize {
        self.sender.unacknowledged()
    }

    /// Copies out what there is, and keeps it.
    pub(in crate::tcp) fn peek(&self, buffer: &mut [u8]) -> usize {
        self.receiver.copy_to(buffer)
    }

    /// Takes what there is. How much, and whether something is to be sent for it.
    #[inline]
    pub(in crate::tcp) fn read(&mut self, buffer: &mut [u8]) -> (usize, bool) {
        let count = self.receiver.copy_to(buffer);
        let grows = self.receiver.consume(count, self.sender.trips.smoothed());
        let tells = grows && self.is_synchronised() && self.state != TcpState::TimeWait;
        if tells {
            self.receiver.acks.at_once();
        }
        (count, tells)
    }

    /// Takes as much of `data` as there is room for; nothing leaves by that.
    #[inline]
    pub(in crate::tcp) fn write(&mut self, data: &[u8]) -> usize {
        match self.state {
            TcpState::Established | TcpState::CloseWait => self.sender.write(data),
            TcpState::Closed
            | TcpState::SynSent
            | TcpState::SynReceived
            | TcpState::FinWait1
            | TcpState::FinWait2
            | TcpState::Closing
            | TcpState::LastAck
            | TcpState::TimeWait => 0,
        }
    }

    /// No more is written: the FIN leaves behind what was.
    pub(in crate::tcp) fn close(&mut self) {
        match self.state {
            TcpState::Established => self.state = TcpState::FinWait1,
            TcpState::CloseWait => self.state = TcpState::LastAck,
            TcpState::SynReceived => {}
            TcpState::SynSent => return self.ends(),
            TcpState::Closed
            | TcpState::FinWait1
            | TcpState::FinWait2
            | TcpState::Closing
            | TcpState::LastAck
            | TcpState::TimeWait => return,
        }
        self.sender.closes = true;
    }

    /// Ends the connection; a reset is sent unless the peer would not understand it.
    pub(in crate::tcp) fn abort(&mut self) {
        let quiet = matches!(self.state, TcpState::SynSent | TcpState::Closed | TcpState::TimeWait);
        let next = self.sender.next;
        self.ends();
        self.reset = (!quiet).then_some(next);
    }

    /// The peer is told at once where the connection stands.
    pub(in crate::tcp) fn acknowledge(&mut self) {
        self.receiver.acks.at_once();
    }

    pub(in crate::tcp) fn set_nodelay(&mut self, nodelay: bool) {
        self.sender.nodelay = nodelay;
    }

    pub(in crate::tcp) fn set_control(&mut self, control: Control) {
        self.sender.congestion.set_control(control);
    }

    /// Bytes that wait for the program at most, from now on.
    pub(in crate::tcp) fn set_receive_room(&mut self, bytes: u32) {
        self.receiver.set_limit(bytes);
    }

    /// Bytes that wait for the peer at most, from now on.
    pub(in crate::tcp) fn set_send_room(&mut self, bytes: u32) {
        self.sender.set_limit(bytes);
    }

    /// Probes of a silent peer: after how long, and then each.
    pub(in crate::tcp) fn set_keep(&mut self, now: Instant, keep: Option<(Span, Span)>) {
        let now = self.latest(now);
        self.keep = keep;
        self.keep_at = Deadline::NEVER;
        if self.is_synchronised() {
            self.keep_from(now);
        }
    }

    /// The peer was heard.
    #[inline]
    pub(super) fn keep_from(&mut self, now: Instant) {
        if let Some((idle, _)) = self.keep {
            self.keep_at = Deadline::after(now, idle);
        }
    }

    /// Packets of the path have so many bytes behind the IP header and the first 20 of TCP's. Whether segments that are under way are sent
    /// again, because they are longer.
    #[inline]
    pub(in crate::tcp) fn set_path(&mut self, now: Instant, segment: u32) -> bool {
        let now = self.latest(now);
        let options = if self.stamped { STAMPS_LEN as u32 } else { 0 };
        let before = self.sender.segment;
        self.sender.set_segment(segment.max(PATH_MIN), None, options);
        self.sender.segment < before && self.is_synchronised() && self.sender.resend_longer(now)
    }

    /// Memory that is not used is given back later.
    #[inline]
    pub(super) fn trim_later(&mut self, now: Instant) {
        let large = self.receiver.queue.room().max(self.sender.queue.room()) > ROOM_KEPT;
        if large && self.trim_at.is_never() {
            self.trim_at = Deadline::after(now, TRIM_AFTER);
        }
    }

    /// Gives memory back, if nothing is in it.
    pub(super) fn trim(&mut self, now: Instant) {
        self.trim_at = Deadline::NEVER;
        let quiet = now - self.sender.sent_at() >= TRIM_AFTER;
        if self.receiver.queue.is_empty() && self.receiver.ranges.is_empty() && self.receiver.queue.room() > ROOM_KEPT {
            self.receiver.queue.clear();
        }
        if quiet && self.sender.queue.is_empty() && self.sender.queue.room() > ROOM_KEPT {
            self.sender.queue.clear();
        }
        // What is in use now will not be for ever.
        self.trim_later(now);
    }

    /// Memory for both queues is had from there; they have none yet.
    pub(in crate::tcp) fn charge_to(&mut self, lender: &Lender) {
        self.receiver.queue.charge_to(lender.clone());
        self.sender.queue.charge_to(lender.clone());
    }

    /// Gives back memory that nothing is in.
    pub(in crate::tcp) fn fit(&mut self) {
        self.receiver.queue.fit();
        self.sender.queue.fit();
    }

    /// Gives all memory back: no program will look at it.
    pub(in crate::tcp) fn free(&mut self) {
        self.receiver.queue.clear();
        self.sender.queue.clear();
    }
}
