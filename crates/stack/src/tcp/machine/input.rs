//! A segment comes (RFC 9293 section 3.10.7.4).

use napier_core::tcp::options::STAMP_FOR;
use napier_core::tcp::seq::Seq;
use napier_core::tcp::time_wait::{LASTS, OnLate};
use napier_core::time::{Deadline, Instant, Span};

use super::segment::Inbound;
use super::sender::{Acknowledgement, Echo};
use super::{ANSWERS_IN, ANSWERS_MAX, Accepted, TcpMachine, TcpState};
use crate::wire::flag;

/// Longest round trip that an echo is believed to have taken, in milliseconds.
const ECHO_MAX_MS: u32 = 1 << 20;

impl TcpMachine {
    /// Takes a segment.
    #[inline]
    pub(in crate::tcp) fn input(&mut self, now: Instant, seg: &Inbound<'_>) -> Accepted {
        let now = self.latest(now);
        match self.state {
            TcpState::Closed => return Accepted::default(),
            TcpState::SynSent => {
                self.opening_input(now, seg);
                let heard = self.state != TcpState::SynSent;
                return Accepted { bytes: 0, heard, advances: heard };
            }
            TcpState::TimeWait => {
                self.late(now, seg);
                return Accepted::default();
            }
            TcpState::SynReceived
            | TcpState::Established
            | TcpState::FinWait1
            | TcpState::FinWait2
            | TcpState::CloseWait
            | TcpState::Closing
            | TcpState::LastAck => {}
        }
        if self.stamped && self.is_outdated(now, seg) {
            self.answer(now, seg);
            return Accepted::default();
        }
        let una = self.sender.una;
        if !self.receiver.is_acceptable(seg) {
            let heard = self.take_stray(now, seg);
            return Accepted { bytes: 0, heard, advances: heard && self.gets_on(una) };
        }
        if seg.has(flag::RST) {
            self.ends();
            return Accepted::default();
        }
        if !seg.has(flag::ACK) || !self.take_acknowledgement(now, seg) {
            return Accepted::default();
        }
        let advances = self.gets_on(una);
        if self.stamped {
            self.note_stamp(now, seg);
        }
        self.keep_from(now);
        let bytes = if seg.payload.is_empty() && !seg.has(flag::FIN) { 0 } else { self.take_data(now, seg) };
        if self.sender.closes && self.sender.fin_is_acknowledged() {
            self.fin_is_acknowledged(now);
        }
        Accepted { bytes, heard: true, advances }
    }

    /// Whether a segment that was accepted is all that the peer can say for now: it acknowledges something behind `una`, or answers a
    /// probe of a window that is closed.
    #[inline]
    fn gets_on(&self, una: Seq) -> bool {
        self.sender.una != una || self.sender.sent.is_empty() || self.sender.window == 0
    }

    /// RFC 7323 section 5.3.
    #[inline]
    fn is_outdated(&self, now: Instant, seg: &Inbound<'_>) -> bool {
        let Some(stamps) = seg.options.stamps else {
            // Section 3.2: it should have one. Resets need none.
            return false;
        };
        stamps.is_outdated(self.clocks.recent, now - self.clocks.recent_at) && !seg.has(flag::RST)
    }

    /// Notes for the next echo what is new in a segment whose acknowledgement was accepted (RFC 7323 section 4.3).
    #[inline]
    fn note_stamp(&mut self, now: Instant, seg: &Inbound<'_>) {
        let Some(stamps) = seg.options.stamps else { return };
        if Seq(stamps.value).is_before(Seq(self.clocks.recent)) && now - self.clocks.recent_at < STAMP_FOR {
            return;
        }
        // Of the segment that the next acknowledgement is about.
        if !seg.seq.is_after(self.receiver.told) && !seg.end().is_before(self.receiver.told) {
            (self.clocks.recent, self.clocks.recent_at) = (stamps.value, now);
        }
    }

    /// Tells where the connection stands, unless that was told too often and nothing was asked.
    fn answer(&mut self, now: Instant, seg: &Inbound<'_>) {
        if seg.has(flag::RST) {
            return;
        }
        if seg.payload.is_empty() && !seg.has(flag::FIN) {
            if now - self.answers.0 >= ANSWERS_IN {
                self.answers = (now, 0);
            }
            if self.answers.1 >= ANSWERS_MAX {
                return;
            }
            self.answers.1 += 1;
        } else if seg.end().is_within(self.receiver.told - (1 << 30), self.receiver.next) {
            // It has come before (RFC 2883 section 4.1).
            let block = napier_core::tcp::ranges::SackBlock { start: seg.seq, end: seg.end() };
            self.receiver.ranges.came_twice(block);
        }
        self.receiver.acks.at_once();
    }

    /// A segment that is not acceptable. A peer that probes with a byte which it does not count begins its segments with that byte from
    /// then on; what such a segment acknowledges counts, if it is everything. Source: `tcp_do_segment` of FreeBSD: "keep on processing for
    /// RST or ACK". Whether it was that.
    #[cold]
    fn take_stray(&mut self, now: Instant, seg: &Inbound<'_>) -> bool {
        self.answer(now, seg);
        let old = self.is_synchronised()
            && seg.flags & (flag::ACK | flag::SYN | flag::RST) == flag::ACK
            && self.receiver.next - seg.seq <= u32::from(u16::MAX)
            && seg.ack == self.sender.next;
        if old {
            let next = self.receiver.next;
            let bare = Inbound { seq: next, payload: &[], flags: flag::ACK, ..*seg };
            self.take_acknowledgement(now, &bare);
            if self.sender.fin_is_acknowledged() {
                self.fin_is_acknowledged(now);
            }
        }
        old
    }

    /// Whether the rest of the segment is to be looked at.
    #[inline]
    fn take_acknowledgement(&mut self, now: Instant, seg: &Inbound<'_>) -> bool {
        let (una, next) = (self.sender.una, self.sender.next);
        if self.state == TcpState::SynReceived {
            if seg.ack != next {
                // RFC 9293 section 3.10.7.4: not of our SYN.
                self.reset = Some(seg.ack);
                return false;
            }
            self.opened(now, seg.ack);
            let scale = if seg.has(flag::SYN) { 0 } else { self.sender.scale };
            self.sender.window_begins(u32::from(seg.window) << scale, seg.seq, seg.ack);
            self.sample_echo(now, seg);
            return true;
        }
        if seg.ack.is_after(next) || seg.ack.is_before(una - self.sender.window.max(1 << 16)) {
            // RFC 5961 section 5.2.
            self.answer(now, seg);
            return false;
        }
        if !seg.ack.is_before(una) {
            let stamps = seg.options.stamps.filter(|stamps| self.stamped && stamps.echo != 0);
            let echo = stamps.map(|stamps| Echo { value: stamps.echo, now: self.clocks.at(now) });
            let answer = Acknowledgement {
                seq: seg.seq,
                ack: seg.ack,
                window: u32::from(seg.window) << self.sender.scale,
                blocks: seg.options.blocks(),
                echo,
                carries: !seg.payload.is_empty() || seg.has(flag::FIN),
            };
            self.sender.answered(now, &answer);
            if self.sender.queue.is_empty() {
                self.trim_later(now);
            }
        }
        true
    }

    #[inline]
    fn take_data(&mut self, now: Instant, seg: &Inbound<'_>) -> u32 {
        match self.state {
            TcpState::Established | TcpState::FinWait1 | TcpState::FinWait2 => {}
            // Nothing comes behind the peer's FIN; its FIN again is told that it came.
            TcpState::CloseWait | TcpState::Closing | TcpState::LastAck | TcpState::TimeWait => {
                self.receiver.take(now, seg);
                return 0;
            }
            TcpState::Closed | TcpState::SynSent | TcpState::SynReceived => return 0,
        }
        let bytes = self.receiver.take(now, seg);
        if bytes > 0 {
            self.sample_echo(now, seg);
        }
        if self.receiver.ended {
            self.state = match self.state {
                TcpState::Established => TcpState::CloseWait,
                TcpState::FinWait1 if self.sender.fin_is_acknowledged() => TcpState::TimeWait,
                TcpState::FinWait1 => TcpState::Closing,
                TcpState::FinWait2 => TcpState::TimeWait,
                other => other,
            };
            if self.state == TcpState::TimeWait {
                self.waits_out(now);
            }
        }
        bytes
    }

    /// What a segment with data echoes says how long the way here and back is.
    #[inline]
    fn sample_echo(&mut self, now: Instant, seg: &Inbound<'_>) {
        if let Some(stamps) = seg.options.stamps.filter(|stamps| self.stamped && stamps.echo != 0) {
            let ms = self.clocks.at(now).wrapping_sub(stamps.echo);
            if ms < ECHO_MAX_MS {
                self.receiver.sampled(Span::from_ms(ms.max(1).into()));
            }
        }
    }

    fn fin_is_acknowledged(&mut self, now: Instant) {
        match self.state {
            TcpState::FinWait1 => {
                self.state = TcpState::FinWait2;
                self.sender.rests(now);
            }
            TcpState::Closing => self.waits_out(now),
            TcpState::LastAck => self.ends(),
            TcpState::Closed
            | TcpState::SynSent
            | TcpState::SynReceived
            | TcpState::Established
            | TcpState::FinWait2
            | TcpState::CloseWait
            | TcpState::TimeWait => {}
        }
    }

    /// A segment in TIME-WAIT.
    #[cold]
    fn late(&mut self, now: Instant, seg: &Inbound<'_>) {
        let Some(ended) = self.ended() else { return };
        match ended.on_late(now, &seg.as_late()) {
            OnLate::Ignore => {}
            OnLate::Again => {
                self.gone_at = Deadline::after(now, LASTS);
                self.receiver.acks.at_once();
            }
            // One that may begin a connection was asked about before (`reopens`): no socket listens.
            OnLate::Answer | OnLate::Reopen(_) => self.answer(now, seg),
        }
    }
}
