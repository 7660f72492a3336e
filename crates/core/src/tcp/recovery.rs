//! What a loss does to the window while it is repaired, and how that is taken back if nothing was lost.
//!
//! | phase | event | window | phase then |
//! |---|---|---|---|
//! | open | something is lost | goes to the threshold as data is delivered (RFC 9937) | repair |
//! | open, repair | the time ran out | a segment; the threshold is lowered unless that was done for this repair | timeout |
//! | timeout | the time ran out once more | a segment | timeout |
//! | repair | all that was under way is acknowledged | the threshold | open |
//! | timeout | the same | as it has grown since | open |
//! | repair, timeout | nothing was lost (below) | as before | open |
//! | any | segments are longer than the path takes | as it is (RFC 1191 section 6.5) | timeout |
//!
//! Nothing was lost, if an acknowledgement comes that was sent before the first segment that was sent again, as its timestamp says (RFC
//! 3522, RFC 5682's aim); or when all that was sent again since it began came twice (RFC 3708, `tcp_try_undo_dsack`).

use crate::tcp::congestion::{Congestion, Control};
use crate::tcp::ranges::SackBlock;
use crate::tcp::seq::Seq;

/// What is going on.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing is lost.
    Open,
    /// Losses are repaired.
    Repair,
    /// The time ran out.
    Timeout,
}

/// What is needed to take it back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Undo {
    before: Congestion,
    /// What was not acknowledged when it began (`undo_marker`): what came twice before it is of another time.
    from: Seq,
    /// The clock of the timestamps when the first segment was sent again.
    first_again: Option<u32>,
    /// Bytes that were sent again and did not come twice.
    doubtful: u32,
    /// Something was sent again.
    any: bool,
}

/// The losses of one connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    phase: Phase,
    /// Behind all that was sent when it began.
    high: Seq,
    /// Bytes that were under way then (RFC 9937 `RecoverFS`).
    flight: u32,
    /// Bytes delivered and sent since (`prr_delivered`, `prr_out`).
    delivered: u32,
    out: u32,
    undo: Option<Undo>,
}

impl Default for Recovery {
    fn default() -> Self {
        Self { phase: Phase::Open, high: Seq(0), flight: 0, delivered: 0, out: 0, undo: None }
    }
}

/// What an acknowledgement brought while something is repaired.
#[derive(Copy, Clone, Debug)]
pub struct Delivery {
    /// Bytes delivered by it.
    pub bytes: u32,
    /// Bytes under way now.
    pub pipe: u32,
    /// It acknowledged something, and told of no further loss (RFC 9937 `SafeACK`).
    pub safe: bool,
    /// Longest segment.
    pub segment: u32,
}

impl Recovery {
    /// What is going on.
    #[inline]
    #[must_use]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Behind all that was sent when it began.
    #[must_use]
    pub const fn high(&self) -> Seq {
        self.high
    }

    /// Something is lost. `(from, sent)`: what is not acknowledged, and behind all that was sent; `flight`: bytes that were under way before
    /// that was known.
    pub fn begins(&mut self, congestion: &mut Congestion, (from, sent): (Seq, Seq), flight: u32) {
        let undo = Undo { before: *congestion, from, first_again: None, doubtful: 0, any: false };
        congestion.reduce(flight);
        *self =
            Self { phase: Phase::Repair, high: sent, flight: flight.max(1), delivered: 0, out: 0, undo: Some(undo) };
    }

    /// An acknowledgement came while a loss is repaired.
    pub fn delivered(&mut self, congestion: &mut Congestion, delivery: &Delivery) {
        let Delivery { bytes, pipe, safe, segment } = *delivery;
        if self.phase != Phase::Repair || bytes == 0 || congestion.control() == Control::None {
            return;
        }
        self.delivered = self.delivered.saturating_add(bytes);
        let threshold = congestion.threshold();
        let mut count = if pipe > threshold {
            let part = (u64::from(self.delivered) * u64::from(threshold)).div_ceil(u64::from(self.flight));
            u32::try_from(part).unwrap_or(u32::MAX).saturating_sub(self.out)
        } else {
            let owed = self.delivered.saturating_sub(self.out).max(bytes);
            let more = if safe { segment } else { 0 };
            owed.saturating_add(more).min(threshold - pipe)
        };
        if self.out == 0 {
            // The first segment that is lost is sent again in any case.
            count = count.max(segment);
        }
        congestion.set_window(pipe.saturating_add(count));
    }

    /// Bytes leave.
    #[inline]
    pub fn sent(&mut self, bytes: u32) {
        if self.phase == Phase::Repair {
            self.out = self.out.saturating_add(bytes);
        }
    }

    /// Bytes leave again; `clock`: that of the timestamps.
    pub fn sent_again(&mut self, bytes: u32, clock: Option<u32>) {
        if let Some(undo) = &mut self.undo
            && self.phase != Phase::Open
        {
            undo.doubtful = undo.doubtful.saturating_add(bytes);
            if !core::mem::replace(&mut undo.any, true) {
                undo.first_again = clock;
            }
        }
    }

    /// The time ran out. `ends` and `flight` as for [`begins`](Self::begins); `pipe`: what is still under way; `again`: not for the first time in
    /// a row.
    pub fn timed_out(&mut self, congestion: &mut Congestion, ends: (Seq, Seq), flight: u32, pipe: u32, again: bool) {
        if self.phase == Phase::Open || self.phase == Phase::Timeout && !again {
            self.begins(congestion, ends, flight);
        }
        (self.phase, self.high) = (Phase::Timeout, ends.1);
        congestion.timed_out(pipe);
    }

    /// Segments are sent again because the path takes shorter ones only: nothing is wrong with the window.
    pub fn resized(&mut self, sent: Seq) {
        (self.phase, self.high, self.undo) = (Phase::Timeout, sent, None);
    }

    /// A probe of the tail has repaired a loss that nothing else told of (RFC 8985 section 7.4.2).
    pub fn probe_repaired(&mut self, congestion: &mut Congestion) {
        let window = congestion.window();
        congestion.reduce(window);
        congestion.set_window(congestion.threshold());
    }

    /// All before `next` is acknowledged. Whether something was repaired by that.
    #[inline]
    pub fn acknowledged(&mut self, congestion: &mut Congestion, next: Seq) -> bool {
        match self.phase {
            Phase::Open => false,
            Phase::Repair | Phase::Timeout if next.is_before(self.high) => false,
            Phase::Repair => {
                congestion.set_window(congestion.threshold());
                self.phase = Phase::Open;
                true
            }
            Phase::Timeout => {
                self.phase = Phase::Open;
                true
            }
        }
    }

    /// An acknowledgement of something new has brought back `echo` of the clock of timestamps. Whether nothing was lost: the window is
    /// as before.
    pub fn echoed(&mut self, congestion: &mut Congestion, echo: u32) -> bool {
        let Some(first) = self.undo.and_then(|undo| undo.first_again) else { return false };
        self.phase != Phase::Open && Seq(echo).is_before(Seq(first)) && self.take_back(congestion)
    }

    /// These bytes came twice. Whether nothing was lost. Source: `net/ipv4/tcp_input.c tcp_check_dsack`, `tcp_try_undo_dsack`.
    pub fn came_twice(&mut self, congestion: &mut Congestion, twice: SackBlock) -> bool {
        let Some(undo) = self.undo.as_mut().filter(|undo| undo.any && twice.end.is_after(undo.from)) else {
            return false;
        };
        undo.doubtful = undo.doubtful.saturating_sub(twice.end - twice.start.later(undo.from));
        undo.doubtful == 0 && self.take_back(congestion)
    }

    fn take_back(&mut self, congestion: &mut Congestion) -> bool {
        let Some(undo) = self.undo.take() else { return false };
        congestion.undo(&undo.before);
        self.phase = Phase::Open;
        true
    }
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
