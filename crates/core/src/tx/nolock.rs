//! A discipline without root lock (`pfifo_fast`): its queues take packets from many senders at once, and a sequence lock
//! that is only ever tried makes one of them the runner. The defer list is not used. Source: `include/net/sch_generic.h
//! qdisc_run_begin`, `qdisc_run_end`, `net/core/dev.c __dev_xmit_skb`, `net/sched/sch_generic.c
//! pfifo_fast_dequeue`, `qdisc_maybe_clear_missed` (Linux 7.3).
//!
//! No thread waits, so one that does not get the lock must be sure that the runner looks again. Two bits of
//! [`QdiscState`] see to it:
//!
//! * A sender queues its packet, and tries the lock. Failing, it sets `MISSED`, and tries once more: either it gets the
//!   lock now, or the runner, which gives it up first and looks at `MISSED` afterwards, sees the bit.
//! * A runner that finds nothing clears the bits and looks once more before it stops.
//! * Packets behind a stopped transmit queue are marked by `DRAINING` instead, so that senders do not come back in vain;
//!   the queue's wake schedules.

use super::state::QdiscState;

/// What a sender does with its packet.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum NolockPlan {
    /// Try to become runner ([`NolockBegin`]). Got it: [`recheck`]. Not: as [`NolockPlan::Enqueue`].
    TryBypass,
    /// Queue it, then try to become runner and run; the sender is told what came of queueing.
    Enqueue,
}

/// Decides on a packet. `state` as it is now.
#[inline]
pub const fn plan(can_bypass: bool, state: QdiscState) -> NolockPlan {
    if can_bypass && !state.may_hold() { NolockPlan::TryBypass } else { NolockPlan::Enqueue }
}

/// What a sender does that has become runner in order to pass by.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Recheck {
    /// Straight to the driver, and a run afterwards if all went well and [`QdiscState::may_hold`]. It is told success.
    Transmit,
    /// A thread has put packets back meanwhile: queue the packet and run.
    Enqueue,
}

/// Looks once more, now as runner.
#[inline]
pub const fn recheck(state: QdiscState) -> Recheck {
    if state.may_hold() { Recheck::Enqueue } else { Recheck::Transmit }
}

/// What to do next in an attempt to become runner.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum BeginStep {
    /// Try the sequence lock. Answer: [`NolockBegin::on_tried`].
    TryLock,
    /// Apply [`QdiscState::miss`], with a full fence. Answer: [`NolockBegin::on_missed`].
    Miss,
    /// The caller runs the discipline, and ends by releasing the lock and asking [`end_schedules`].
    Run,
    /// Another thread runs it, and will look again.
    GiveUp,
}

/// One attempt to become runner.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct NolockBegin {
    phase: NolockPhase,
}

#[derive(Copy, Clone, Default, PartialEq, Eq, Hash, Debug)]
enum NolockPhase {
    #[default]
    First,
    Missing,
    Second,
    Runner,
    GivenUp,
}

impl NolockBegin {
    /// Begins.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { phase: NolockPhase::First }
    }

    /// What to do next.
    #[inline]
    pub const fn next(&self) -> BeginStep {
        match self.phase {
            NolockPhase::First | NolockPhase::Second => BeginStep::TryLock,
            NolockPhase::Missing => BeginStep::Miss,
            NolockPhase::Runner => BeginStep::Run,
            NolockPhase::GivenUp => BeginStep::GiveUp,
        }
    }

    /// The lock was tried.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub fn on_tried(&mut self, got: bool) {
        self.phase = match (self.phase, got) {
            (NolockPhase::First | NolockPhase::Second, true) => NolockPhase::Runner,
            (NolockPhase::First, false) => NolockPhase::Missing,
            (NolockPhase::Second, false) => NolockPhase::GivenUp,
            (NolockPhase::Missing | NolockPhase::Runner | NolockPhase::GivenUp, _) => {
                panic!("on_tried answers TryLock")
            }
        };
    }

    /// `MISSED` is set; it `was` set before, so another thread has seen to it that the runner looks again.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub fn on_missed(&mut self, was: bool) {
        assert!(self.phase == NolockPhase::Missing, "on_missed answers Miss");
        self.phase = if was { NolockPhase::GivenUp } else { NolockPhase::Second };
    }
}

/// The runner has released the lock and made a full fence, and this is the word now. `true`: schedule
/// ([`QdiscState::schedule`]; the defer list counts as empty).
#[inline]
#[must_use]
pub const fn end_schedules(state: QdiscState) -> bool {
    state.intersects(QdiscState::MISSED)
}

/// One dequeue that may find nothing.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct NolockDequeue {
    retried: bool,
}

impl NolockDequeue {
    /// Begins.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { retried: false }
    }

    /// Nothing was found. `true`: apply [`QdiscState::clear_holding`], full fence, look once more. `false`: stop.
    #[inline]
    #[must_use]
    pub const fn on_empty(&mut self, state: QdiscState) -> bool {
        let again = !self.retried && state.may_hold();
        self.retried = true;
        again
    }
}

/// What to do next about a stopped transmit queue with packets behind it.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum StoppedStep {
    /// Apply [`QdiscState::clear_missed`], with a full fence, and look at the queue again. Answer:
    /// [`Stopped::on_looked`].
    ClearAndLook,
    /// It is stopped still: apply [`QdiscState::drain`].
    Drain,
    /// It was woken in between, and that wake's run may have been lost with `MISSED`: apply [`QdiscState::miss`].
    Miss,
}

/// A runner has found a transmit queue stopped or frozen.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct Stopped {
    stopped: Option<bool>,
}

impl Stopped {
    /// Begins, whatever the word is: packets wait, so one of the two bits must be left set.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { stopped: None }
    }

    /// What to do next; the last two end it.
    #[inline]
    pub const fn next(&self) -> StoppedStep {
        match self.stopped {
            None => StoppedStep::ClearAndLook,
            Some(true) => StoppedStep::Drain,
            Some(false) => StoppedStep::Miss,
        }
    }

    /// The queue is stopped (or frozen) still, or not.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub const fn on_looked(&mut self, frozen_or_stopped: bool) {
        assert!(self.stopped.is_none(), "on_looked answers ClearAndLook");
        self.stopped = Some(frozen_or_stopped);
    }
}

#[cfg(test)]
#[path = "nolock_tests.rs"]
mod tests;
