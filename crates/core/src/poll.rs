//! What follows one poll in softirq or thread context. Source: `net/core/dev.c __napi_poll` (Linux 7.3).

use crate::completion::Flush;
use crate::state::State;

/// Packets per poll in softirq and thread context unless a driver says otherwise. Source:
/// `include/linux/netdevice.h NAPI_POLL_WEIGHT`.
pub const NAPI_POLL_WEIGHT: u32 = 64;

/// What to do after a poll.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum AfterPoll {
    /// The poll took less than its weight: the driver has completed it already, nothing to do.
    Done,
    /// A disable waits: complete with work 0, do not poll again.
    CompleteZero,
    /// A prefer-busy-poll user waits: complete with the work done; if that allows unmasking then nothing else would
    /// bring the instance back, so schedule it (instead of unmasking). Do not poll again.
    HandToBusyPoller,
    /// There is more: flush held frames, deliver, and poll again (in softirq: tail of the repoll list; in a thread:
    /// after giving way to the scheduler).
    Repoll {
        /// Which held frames to flush first.
        flush: Flush,
    },
}

/// False if the poll function must not be called (and work counts as 0): the instance has no owner, it was pulled from
/// under its list by netpoll in the kernel, and never in a correct executor.
#[inline]
#[must_use]
pub const fn may_poll(state: State) -> bool {
    state.intersects(State::SCHED)
}

/// Decides after a poll that returned `work` packets of at most `weight`. `state` is the word after the poll, `hz` the
/// tick rate. More work than weight is a driver's mistake and counts as a full poll; report it once.
#[inline]
pub const fn after_poll(state: State, work: u32, weight: u32, hz: u32) -> AfterPoll {
    if work < weight {
        AfterPoll::Done
    } else if state.intersects(State::DISABLE) {
        AfterPoll::CompleteZero
    } else if state.intersects(State::PREFER_BUSY_POLL) {
        AfterPoll::HandToBusyPoller
    } else {
        AfterPoll::Repoll { flush: Flush::for_hz(hz) }
    }
}

#[cfg(test)]
#[path = "poll_tests.rs"]
mod tests;
