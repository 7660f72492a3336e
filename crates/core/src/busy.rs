//! The busy loop: an application thread polls the instance itself. Source: `net/core/dev.c __napi_busy_loop`,
//! `busy_poll_stop`, `include/net/busy_poll.h` (Linux 7.3).
//!
//! ```text
//! Acquire --got--> Poll --> CheckEnd --not ended--> Poll ...
//!    |                         |
//!    +--not got----> CheckEnd  +--ended--> Stop --> Leave
//!                    not ended--> Acquire  +--need_resched--> Stop --> Yield --> Acquire (with the first start time)
//! ```
//! `Stop` comes only to an owner. The end condition is looked at after an iteration, never before: one attempt to poll
//! is always made. Signals do not end the loop; callers look at them before or after.

use crate::completion::Tunables;
use crate::time::{Instant, Span};

/// Packets per iteration when the caller gives no budget. Source: `net/core/dev.c BUSY_POLL_BUDGET`.
pub const BUSY_POLL_BUDGET: u16 = 8;

/// How long a busy loop goes on.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub enum BusyLimit {
    /// One iteration and no question: the call does not block.
    Once,
    /// Until its events are there, or longer than this many busy-poll microseconds (1024 ns each) have passed. 0 has
    /// expired from the beginning: one iteration.
    For(u32),
}

/// What a caller asks of a busy loop.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub struct BusyParams {
    /// Prefer busy polling: the caller promises to come back before the timer does.
    pub prefer: bool,
    /// Packets per iteration; 0 means [`BUSY_POLL_BUDGET`].
    pub budget_pkts: u16,
    /// When to end.
    pub limit: BusyLimit,
}

impl BusyParams {
    /// The budget in force, in packets.
    #[inline]
    #[must_use]
    pub const fn budget_pkts(&self) -> u16 {
        if self.budget_pkts == 0 { BUSY_POLL_BUDGET } else { self.budget_pkts }
    }
}

/// The busy-poll clock: units of 1024 ns, called microseconds. Source: `include/net/busy_poll.h
/// busy_loop_current_time`.
#[inline]
#[must_use]
pub const fn busy_clock(now: Instant) -> u64 {
    now.ns >> 10
}

/// True if more than `limit` busy-poll microseconds have passed since `start`, or `limit` is 0. Survives a wrap of the
/// clock. Source: `include/net/busy_poll.h sk_busy_loop_timeout`.
#[inline]
#[must_use]
pub const fn busy_expired(start: u64, limit: u32, now: u64) -> bool {
    if limit == 0 {
        return true;
    }
    let end = start.wrapping_add(limit as u64);
    // The kernel's time_after: the end lies in the half of the clock's range that is behind now.
    end.wrapping_sub(now).cast_signed() < 0
}

/// What the executor does next; each is answered by the method named.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum BusyStep {
    /// Try once to become owner ([`crate::state::State::busy_acquire`]); if that fails and the caller prefers busy
    /// polling, apply [`crate::state::State::busy_contended`]. Answer: [`BusyLoop::on_acquire`].
    Acquire,
    /// Poll with this budget, then deliver what is pending (held frames are not flushed). Answer:
    /// [`BusyLoop::on_polled`].
    Poll {
        /// Packets.
        budget_pkts: u16,
    },
    /// Look at the clock and the caller's events. Answer: [`BusyLoop::on_ended`].
    CheckEnd,
    /// Owner only: apply [`crate::state::State::busy_stop_begin`] and run [`busy_poll_stop`]. Answer:
    /// [`BusyLoop::on_stopped`].
    Stop,
    /// Give the CPU away, then find the instance by its id again (gone: leave). Answer: [`BusyLoop::on_yielded`].
    Yield,
    /// The loop is over.
    Leave,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
enum BusyPhase {
    Acquiring,
    Polling,
    /// After an iteration.
    Checking {
        owner: bool,
    },
    Stopping {
        then_yield: bool,
    },
    Yielding,
    Left,
}

/// One busy loop on one instance.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct BusyLoop {
    params: BusyParams,
    start: u64,
    /// The caller cannot give way and come back: it leaves instead.
    leaves_on_resched: bool,
    rx_pkts: u64,
    phase: BusyPhase,
}

impl BusyLoop {
    /// A loop that gives way to the scheduler and resumes. The time limit counts from `now`, whatever happens.
    #[inline]
    #[must_use]
    pub const fn new(params: BusyParams, now: Instant) -> Self {
        Self { params, start: busy_clock(now), leaves_on_resched: false, rx_pkts: 0, phase: BusyPhase::Acquiring }
    }

    /// A loop that ends when another thread wants the CPU. Source: `net/core/dev.c napi_busy_loop_rcu`.
    #[inline]
    #[must_use]
    pub const fn new_rcu(params: BusyParams, now: Instant) -> Self {
        Self { leaves_on_resched: true, ..Self::new(params, now) }
    }

    /// True while the caller owns the instance.
    #[inline]
    #[must_use]
    pub const fn owner(&self) -> bool {
        match self.phase {
            BusyPhase::Polling | BusyPhase::Stopping { .. } | BusyPhase::Checking { owner: true } => true,
            BusyPhase::Acquiring | BusyPhase::Checking { owner: false } | BusyPhase::Yielding | BusyPhase::Left => {
                false
            }
        }
    }

    /// Packets polled inside the loop (`BusyPollRxPackets`; the poll of the stop does not count).
    #[inline]
    #[must_use]
    pub const fn rx_pkts(&self) -> u64 {
        self.rx_pkts
    }

    /// What to do next.
    #[inline]
    pub const fn next(&self) -> BusyStep {
        match self.phase {
            BusyPhase::Acquiring => BusyStep::Acquire,
            BusyPhase::Polling => BusyStep::Poll { budget_pkts: self.params.budget_pkts() },
            BusyPhase::Checking { .. } => BusyStep::CheckEnd,
            BusyPhase::Stopping { .. } => BusyStep::Stop,
            BusyPhase::Yielding => BusyStep::Yield,
            BusyPhase::Left => BusyStep::Leave,
        }
    }

    /// The attempt to become owner was made.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub fn on_acquire(&mut self, got: bool) {
        assert!(self.phase == BusyPhase::Acquiring, "on_acquire answers Acquire");
        self.phase = if got { BusyPhase::Polling } else { self.after_iteration(false) };
    }

    /// The poll returned `work` packets.
    ///
    /// # Panics
    /// If it was not asked for, or `work` exceeds the budget.
    #[inline]
    pub fn on_polled(&mut self, work: u32) {
        assert!(self.phase == BusyPhase::Polling, "on_polled answers Poll");
        assert!(work <= u32::from(self.params.budget_pkts()), "a poll returned more than its budget");
        self.rx_pkts += u64::from(work);
        self.phase = self.after_iteration(true);
    }

    /// The caller looked: its events are there or not, and another thread wants this CPU or not.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub fn on_ended(&mut self, now: Instant, events_ready: bool, need_resched: bool) {
        let BusyPhase::Checking { owner } = self.phase else { panic!("on_ended answers CheckEnd") };
        self.phase = if self.ended(now, events_ready) || (need_resched && self.leaves_on_resched) {
            Self::leaving(owner, false)
        } else if need_resched {
            Self::leaving(owner, true)
        } else if owner {
            BusyPhase::Polling
        } else {
            BusyPhase::Acquiring
        };
    }

    /// The stop is done; the caller owns nothing any more.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub fn on_stopped(&mut self) {
        let BusyPhase::Stopping { then_yield } = self.phase else { panic!("on_stopped answers Stop") };
        self.phase = if then_yield { BusyPhase::Yielding } else { BusyPhase::Left };
    }

    /// The caller has the CPU again.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub fn on_yielded(&mut self, now: Instant, events_ready: bool) {
        assert!(self.phase == BusyPhase::Yielding, "on_yielded answers Yield");
        self.phase = if self.ended(now, events_ready) { BusyPhase::Left } else { BusyPhase::Acquiring };
    }

    #[inline]
    const fn after_iteration(&self, owner: bool) -> BusyPhase {
        match self.params.limit {
            BusyLimit::Once => Self::leaving(owner, false),
            BusyLimit::For(_) => BusyPhase::Checking { owner },
        }
    }

    #[inline]
    const fn ended(&self, now: Instant, events_ready: bool) -> bool {
        match self.params.limit {
            BusyLimit::Once => true,
            BusyLimit::For(limit) => events_ready || busy_expired(self.start, limit, busy_clock(now)),
        }
    }

    #[inline]
    const fn leaving(owner: bool, then_yield: bool) -> BusyPhase {
        match (owner, then_yield) {
            (true, then_yield) => BusyPhase::Stopping { then_yield },
            (false, true) => BusyPhase::Yielding,
            (false, false) => BusyPhase::Left,
        }
    }
}

/// How a busy poller stops, decided after [`crate::state::State::busy_stop_begin`].
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum BusyStop {
    /// Flush held frames ([`crate::completion::Flush::for_hz`]), deliver, apply
    /// [`crate::state::State::busy_stop_release`], and only then arm the timer with this. No poll is made and the
    /// interrupt stays masked.
    ArmTimer(Span),
    /// Poll once more with the same budget, so that the driver completes the instance and the interrupt is unmasked.
    /// Then [`after_stop_poll`].
    PollOnce,
}

/// Decides how a busy poller stops. With `prefer` the deferral counter is loaded and none is spent, so after the last
/// busy poll one timer more than `defer-hard-irqs` passes before the interrupt is unmasked. `irq-suspend-timeout` has
/// no say here. Source: `net/core/dev.c busy_poll_stop`.
#[inline]
pub fn busy_poll_stop(prefer: bool, t: &Tunables, defers_left: &mut u32) -> BusyStop {
    if prefer {
        *defers_left = t.defer_hard_irqs;
        if *defers_left != 0 && !t.gro_flush_timeout.is_zero() {
            return BusyStop::ArmTimer(t.gro_flush_timeout);
        }
    }
    BusyStop::PollOnce
}

/// What follows the poll of [`BusyStop::PollOnce`].
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum AfterStopPoll {
    /// A full budget: still owned. Deliver what is pending and schedule; softirq or the thread goes on.
    HandOver,
    /// Less: the driver has completed it, and another thread may own it already. Touch nothing.
    Gone,
}

/// Decides after the last poll of a stop. Source: `net/core/dev.c busy_poll_stop`.
#[inline]
pub const fn after_stop_poll(work: u32, budget_pkts: u16) -> AfterStopPoll {
    if work >= budget_pkts as u32 { AfterStopPoll::HandOver } else { AfterStopPoll::Gone }
}

#[cfg(test)]
#[path = "busy_tests.rs"]
mod tests;
