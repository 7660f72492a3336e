//! The state word of a root queueing discipline: who comes back for it, and whether it is alive. Source:
//! `include/net/sch_generic.h enum qdisc_state_t`, `net/core/dev.c __netif_schedule`, `net/sched/sch_generic.c
//! dev_deactivate_many` (Linux 7.3).
//!
//! A transition is a pure function; the executor applies it with one compare-and-swap loop.
//!
//! ```text
//! idle --schedule--> SCHED (on one CPU's output queue) --softirq takes it: unschedule--> run
//! alive --deactivate--> DEACTIVATED --activate--> alive (and scheduled, if packets wait)
//! no root lock: none left behind --miss--> MISSED --empty dequeue--> none | --queue stopped--> DRAINING
//! ```

use crate::bits::{set_of_bits, shown_as_set, word};

/// The word.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct QdiscState(u8);

impl QdiscState {
    /// No bit.
    pub const EMPTY: Self = Self(0);
    /// It waits for a transmit softirq.
    pub const SCHED: Self = Self::bit(0);
    /// It is taken away from its device: nothing is queued and nothing scheduled.
    pub const DEACTIVATED: Self = Self::bit(1);
    /// Without root lock: a thread could not become runner, or the runner has left something.
    pub const MISSED: Self = Self::bit(2);
    /// Without root lock: packets wait, and the transmit queue is stopped; its wake brings the runner.
    pub const DRAINING: Self = Self::bit(3);

    /// Asks for a run in softirq context. `true`: append the discipline to this CPU's output queue
    /// ([`crate::tx::softirq::OutputQueue`]). Nothing happens if it is there already, if it is deactivated (activation
    /// schedules what waits), or if the defer list is not empty: its flusher will take the root lock after this and run
    /// the discipline, or find a runner who looks again. `defer_empty` must have been read after whatever the caller
    /// wants to be seen by that run. Source: `net/core/dev.c __netif_schedule`.
    #[inline]
    #[must_use]
    pub const fn schedule(self, defer_empty: bool) -> (Self, bool) {
        if self.intersects(Self::SCHED.with(Self::DEACTIVATED)) || !defer_empty {
            return (self, false);
        }
        (self.with(Self::SCHED), true)
    }

    /// The softirq has taken the discipline off its queue. To be applied under the root lock and before the run: what
    /// is scheduled during the run is scheduled again. Source: `net/core/dev.c net_tx_action`.
    ///
    /// # Panics
    /// If it was not scheduled.
    #[inline]
    #[must_use]
    pub const fn unschedule(self) -> Self {
        assert!(self.intersects(Self::SCHED), "only what was scheduled is run by the softirq");
        self.without(Self::SCHED)
    }

    /// Deactivation begins.
    #[inline]
    #[must_use]
    pub const fn deactivate(self) -> Self {
        self.with(Self::DEACTIVATED)
    }

    /// Activation. If packets wait, schedule afterwards. Source: `net/sched/sch_generic.c transition_one_qdisc`.
    #[inline]
    #[must_use]
    pub const fn activate(self) -> Self {
        self.without(Self::DEACTIVATED)
    }

    /// The word with `MISSED`; `true` if it was set before. Source: `include/net/sch_generic.h qdisc_run_begin`.
    #[inline]
    #[must_use]
    pub const fn miss(self) -> (Self, bool) {
        (self.with(Self::MISSED), self.intersects(Self::MISSED))
    }

    /// Packets may wait in a discipline without root lock. Source: `include/net/sch_generic.h
    /// nolock_qdisc_is_empty`.
    #[inline]
    #[must_use]
    pub const fn may_hold(self) -> bool {
        self.intersects(Self::MISSED.with(Self::DRAINING))
    }

    /// The word without `MISSED` and `DRAINING`.
    #[inline]
    #[must_use]
    pub const fn clear_holding(self) -> Self {
        self.without(Self::MISSED.with(Self::DRAINING))
    }

    /// The word without `MISSED`.
    #[inline]
    #[must_use]
    pub const fn clear_missed(self) -> Self {
        self.without(Self::MISSED)
    }

    /// The word with `DRAINING`.
    #[inline]
    #[must_use]
    pub const fn drain(self) -> Self {
        self.with(Self::DRAINING)
    }
}

set_of_bits!(QdiscState(u8): SCHED, DEACTIVATED, MISSED, DRAINING);
word! {
    QdiscState(u8),
    ///
    /// # Panics
    /// If there is no such bit.
    NAMES
}
shown_as_set!(QdiscState);

/// What to do next in a deactivation.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum DeactivateStep {
    /// Apply [`QdiscState::deactivate`], and let senders find a discipline that drops everything for
    /// [`super::DropReason::Deactivated`]. Answer: [`Deactivation::on_done`].
    Mark,
    /// Wait until every sender that may have found the old discipline has left the transmit path. Answer:
    /// [`Deactivation::on_done`].
    WaitForSenders,
    /// Under the root lock (without one: while no thread runs): drop what is queued ([`super::root::Root::reset`]).
    /// Answer: [`Deactivation::on_done`].
    Reset,
    /// Wait until no thread runs it and no softirq has it on its list. Answer: [`Deactivation::on_done`].
    WaitForRunner,
    /// The discipline is empty and not known any more.
    Done,
}

/// One deactivation. The kernel resets once; here it happens a second time when no thread runs, because the last runner may
/// have put a chain back after the first. Source: `net/sched/sch_generic.c dev_deactivate_many`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Deactivation {
    done: usize,
}

impl Deactivation {
    const STEPS: [DeactivateStep; 6] = [
        DeactivateStep::Mark,
        DeactivateStep::WaitForSenders,
        DeactivateStep::Reset,
        DeactivateStep::WaitForRunner,
        DeactivateStep::Reset,
        DeactivateStep::Done,
    ];

    /// Begins.
    #[must_use]
    pub const fn new() -> Self {
        Self { done: 0 }
    }

    /// What to do next.
    pub const fn next(&self) -> DeactivateStep {
        Self::STEPS[self.done]
    }

    /// The step was done.
    ///
    /// # Panics
    /// If there was none.
    pub const fn on_done(&mut self) {
        assert!(self.done + 1 < Self::STEPS.len(), "the deactivation is over");
        self.done += 1;
    }
}

impl Default for Deactivation {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
