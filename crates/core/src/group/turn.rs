//! What a poller of a group does beside polling: arming a member before it sleeps, giving way to other threads, and
//! keeping count of how much its members take.

use crate::time::{Instant, Span};

/// What to do next in arming one member, whose turn the caller has.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ArmStep {
    /// Look at the rings of the member. Answer: [`Arming::on_looked`].
    Look,
    /// Apply [`super::Seat::arm`]. Answer: [`Arming::on_done`].
    Arm,
    /// Apply [`crate::state::State::group_release`]. Answer: [`Arming::on_released`].
    Release,
    /// Unmask the interrupt. Answer: [`Arming::on_done`].
    Unmask,
    /// Something came after the interrupt was unmasked. Do what an interrupt does: try to take `SCHED`, and if that
    /// succeeds mask and apply [`super::Seat::ready`]. The member has something to poll, whatever took it. Ends it.
    Event,
    /// Apply [`super::Seat::ready`]: the group still owns the instance. Ends it; the member has something to poll.
    Ready,
    /// Apply [`super::Seat::give`]: nothing was undone. Ends it; the member has something to poll.
    Give,
    /// The member is armed. Ends it.
    Armed,
}

/// Arming one member: it has nothing to poll, as far as its poller knows, and from now on its interrupt is to say so.
/// The order is the rule; each step answers for something that may come after the one before.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Arming {
    next: ArmStep,
    unmasked: bool,
}

impl Arming {
    /// Begins, in a turn.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { next: ArmStep::Look, unmasked: false }
    }

    /// What to do next.
    #[inline]
    pub const fn next(&self) -> ArmStep {
        self.next
    }

    /// The rings were looked at.
    ///
    /// # Panics
    /// If that was not asked for.
    #[inline]
    pub const fn on_looked(&mut self, found: bool) {
        assert!(matches!(self.next, ArmStep::Look), "on_looked answers Look");
        self.next = match (self.unmasked, found) {
            (false, true) => ArmStep::Give,
            (false, false) => ArmStep::Arm,
            (true, true) => ArmStep::Event,
            (true, false) => ArmStep::Armed,
        };
    }

    /// The word was released, or an event was `missed` and it was not.
    ///
    /// # Panics
    /// If that was not asked for.
    #[inline]
    pub const fn on_released(&mut self, missed: bool) {
        assert!(matches!(self.next, ArmStep::Release), "on_released answers Release");
        self.next = if missed { ArmStep::Ready } else { ArmStep::Unmask };
    }

    /// The step was done.
    ///
    /// # Panics
    /// If it has an answer of its own, or ends the arming.
    #[inline]
    pub const fn on_done(&mut self) {
        match self.next {
            ArmStep::Arm => self.next = ArmStep::Release,
            ArmStep::Unmask => {
                self.unmasked = true;
                self.next = ArmStep::Look;
            }
            _ => panic!("on_done answers Arm and Unmask"),
        }
    }
}

impl Default for Arming {
    fn default() -> Self {
        Self::new()
    }
}

/// When a poller that has its CPU for itself lets other threads run: after they have waited for this long, for as long
/// as that. A poller that the scheduler can preempt needs it less than a real-time one, and keeps it all the same.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct GiveWay {
    after: Span,
    waiting_since: Option<Instant>,
}

impl GiveWay {
    /// Others wait at most this long, plus one turn.
    #[must_use]
    pub const fn new(after: Span) -> Self {
        Self { after, waiting_since: None }
    }

    /// Between two turns: is there another thread that could run on this CPU? `true`: step aside now.
    #[inline]
    #[must_use]
    pub fn asks(&mut self, now: Instant, others_wait: bool) -> bool {
        if !others_wait {
            self.waiting_since = None;
            return false;
        }
        let since = *self.waiting_since.get_or_insert(now);
        let due = now - since >= self.after;
        if due {
            self.waiting_since = None;
        }
        due
    }
}

/// Length of the window that a load is measured over.
const LOAD_WINDOW: Span = Span::from_us(50);
/// The whole of a CPU.
const WHOLE: u64 = 1000;

/// The share of a CPU's time that a member's polls with packets take, in thousandths; a moving mean over some windows of
/// 50 us. Empty polls do not count: a poller that spins is not busy.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Load {
    since: Instant,
    spent: Span,
    permille: u16,
}

impl Load {
    /// A poll ended at `now` that took `spent`, and had packets.
    #[inline]
    pub fn polled(&mut self, now: Instant, spent: Span) {
        self.spent = Span::from_ns(self.spent.ns + spent.ns);
        self.roll(now);
    }

    /// The load as of `now`.
    #[inline]
    #[must_use]
    pub fn permille(&mut self, now: Instant) -> u16 {
        self.roll(now);
        self.permille
    }

    fn roll(&mut self, now: Instant) {
        let length = now - self.since;
        if length < LOAD_WINDOW {
            return;
        }
        let share = (self.spent.ns * WHOLE / length.ns).min(WHOLE);
        let windows = (length.ns / LOAD_WINDOW.ns).min(16);
        // Each window moves the mean by a quarter of the way.
        let mut kept = u64::from(self.permille);
        for _ in 0..windows {
            kept = (kept * 3 + share) / 4;
        }
        *self = Self { since: now, spent: Span::ZERO, permille: kept as u16 };
    }
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
