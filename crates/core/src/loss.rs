//! A TCP sender's losses: what the acknowledgements say of them, and how each is put to a protocol machine that knows
//! less of them.
//!
//! The machine below (smoltcp) sends the first unacknowledged segment again after three duplicate acknowledgements that
//! leave the window as it is, takes the loss for repaired with the next new acknowledgement (RFC 5681 section 3.2), and
//! opens its window by one step for each acknowledgement that it gets. So an acknowledgement is handed to it as it is,
//! in two parts, several times or not at all:
//!
//! | what comes | handed | source |
//! |---|---|---|
//! | new data of more than one segment acknowledged | in parts of a segment | RFC 3465 section 2.1: by bytes |
//! | the same before the first repair, or between a time-out and the next repair | in two parts | RFC 3465 section 2.2: `L` = 2 |
//! | the same after a time-out, until all is acknowledged that was sent before | once | RFC 3465 section 2.3: `L` = 1 |
//! | the third duplicate | until it counts as the third | RFC 6675 section 2: with selective blocks it is one whatever its window |
//! | a duplicate with selective blocks and fewer than four segments under way, when all but one are told of | as the third | RFC 5827 section 3 |
//! | part of what was sent before the repair began | as itself and three duplicates of it: the next hole is sent again | RFC 6582 section 3.2 step 3 |
//! | a duplicate after a time-out, until all is acknowledged that was sent before | not at all | RFC 6582 section 4: it may come of what is sent twice |
//!
//! Sequence numbers are those of the segments, modulo 2^32.

/// Duplicate acknowledgements that mean a loss (RFC 5681 section 3.2).
const DUPLICATES: u32 = 3;
/// Most steps that one acknowledgement is worth: full Ethernet segments in the longest packet, as which a receiver may
/// have merged what it acknowledges.
const STEPS_MAX: u32 = 45;
/// The same while the window is opened exponentially (RFC 3465 section 2.2).
const SLOW_STEPS_MAX: u32 = 2;

/// An acknowledgement that carries no data, and what is known when it comes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The first number that the peer has not got.
    pub number: u32,
    /// The window field as it stands in the segment.
    pub window: u16,
    /// It says which segments came out of order (RFC 2018).
    pub selective: bool,
    /// SND.MAX: behind all that was ever sent.
    pub sent_to: u32,
    /// Bytes of the longest segment that was sent; 0: none was.
    pub longest: u32,
}

/// How an acknowledgement is handed on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Handing {
    /// As it is.
    Once,
    /// Beginning with one of this number, each of a segment more; then as it is.
    Parts {
        /// Number of the first.
        first: u32,
        /// How many, the last not counted.
        parts: u32,
    },
    /// So many times.
    Times(u32),
    /// Not at all.
    Never,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum LossPhase {
    /// Nothing is known to be lost.
    Open,
    /// A loss is repaired by duplicates; over when all before `recover` is acknowledged.
    Repair { recover: u32 },
    /// A loss is repaired since a time-out; likewise.
    TimedOut { recover: u32 },
}

/// What a sender knows of its losses.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Losses {
    phase: LossPhase,
    /// Number and window of the last acknowledgement.
    last: Option<(u32, u16)>,
    /// Duplicates of it since.
    duplicates: u32,
    /// A segment is going to be sent again because of an acknowledgement.
    asked: bool,
    /// The window may be opened exponentially: since the beginning, or a time-out, nothing was repaired by duplicates.
    slow: bool,
}

impl Losses {
    /// A connection that has sent nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { phase: LossPhase::Open, last: None, duplicates: 0, asked: false, slow: true }
    }

    /// An acknowledgement has come, without data.
    #[inline]
    pub fn acknowledged(&mut self, ack: &Ack) -> Handing {
        let left = distance(ack.number, ack.sent_to);
        let (una, window) = self.last.unwrap_or((ack.number, ack.window));
        let acked = distance(una, ack.number);
        if acked < 0 || left < 0 {
            // Old, or for what was never sent.
            return Handing::Once;
        }
        self.last = Some((ack.number, ack.window));
        if acked > 0 {
            return self.got_on(acked.unsigned_abs(), left, ack);
        }
        if left == 0 {
            return Handing::Once;
        }
        self.stood_still(ack.window == window, left.unsigned_abs(), ack)
    }

    /// An acknowledgement of `number` has come with data, which is handed on as it is; `sent_to` as in [`Ack`].
    #[inline]
    pub fn carried(&mut self, number: u32, window: u16, sent_to: u32) {
        let advances = self.last.is_none_or(|(una, _)| distance(una, number) > 0);
        if !advances || distance(number, sent_to) < 0 {
            return;
        }
        self.last = Some((number, window));
        (self.duplicates, self.asked) = (0, false);
        self.end_of_repair(number);
    }

    /// A segment that ends at `end` was sent again; `sent_to` as in [`Ack`]. If no acknowledgement was the cause it was
    /// a time-out.
    #[inline]
    pub fn sent_again(&mut self, end: u32, sent_to: u32) {
        let Some((una, _)) = self.last else { return };
        // A keep-alive repeats what is acknowledged.
        if distance(una, end) > 0 && !core::mem::take(&mut self.asked) {
            self.phase = LossPhase::TimedOut { recover: sent_to };
        }
    }

    fn got_on(&mut self, acked: u32, left: i32, ack: &Ack) -> Handing {
        (self.duplicates, self.asked) = (0, false);
        if self.phase == LossPhase::Open {
            return self.steps(acked, ack);
        }
        self.end_of_repair(ack.number);
        // What is left may be a FIN alone, which smoltcp sends again by its timer only.
        if matches!(self.phase, LossPhase::Repair { .. }) && left > 1 {
            return self.repair();
        }
        Handing::Once
    }

    fn end_of_repair(&mut self, number: u32) {
        let (LossPhase::Repair { recover } | LossPhase::TimedOut { recover }) = self.phase else { return };
        if distance(number, recover) <= 0 {
            self.slow = matches!(self.phase, LossPhase::TimedOut { .. });
            self.phase = LossPhase::Open;
        }
    }

    fn steps(&self, acked: u32, ack: &Ack) -> Handing {
        if ack.longest == 0 || acked <= ack.longest {
            return Handing::Once;
        }
        let steps_max = if self.slow { SLOW_STEPS_MAX } else { STEPS_MAX };
        let steps = acked.div_ceil(ack.longest).min(steps_max);
        let first = ack.number.wrapping_sub(acked).wrapping_add(ack.longest);
        Handing::Parts { first, parts: steps - 1 }
    }

    /// Nothing new is acknowledged and `left` bytes are not.
    fn stood_still(&mut self, same_window: bool, left: u32, ack: &Ack) -> Handing {
        match self.phase {
            LossPhase::TimedOut { .. } if same_window => return Handing::Never,
            LossPhase::TimedOut { .. } => return Handing::Once,
            LossPhase::Repair { .. } => {
                // smoltcp counts anew after another window, and sends again what it did already.
                self.duplicates = if same_window { self.duplicates.saturating_add(1) } else { 0 };
                self.asked |= self.duplicates == DUPLICATES;
                return Handing::Once;
            }
            LossPhase::Open => {}
        }
        if !(same_window || ack.selective) {
            return Handing::Once;
        }
        self.duplicates += 1;
        let segments = left.div_ceil(ack.longest.max(1));
        // The one that is missing tells of nothing.
        let enough = if ack.selective { (segments - 1).clamp(1, DUPLICATES) } else { DUPLICATES };
        if self.duplicates < enough || left == 1 {
            return Handing::Once;
        }
        self.phase = LossPhase::Repair { recover: ack.sent_to };
        self.repair()
    }

    /// As many as are taken for the third duplicate, whatever window the one before had.
    fn repair(&mut self) -> Handing {
        (self.duplicates, self.asked) = (DUPLICATES, true);
        Handing::Times(1 + DUPLICATES)
    }
}

impl Default for Losses {
    fn default() -> Self {
        Self::new()
    }
}

/// From `from` to `to`; negative if `to` comes before.
const fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}

#[cfg(test)]
#[path = "loss_tests.rs"]
mod tests;
