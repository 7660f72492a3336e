//! Completing a poll: release or refuse, unmask or defer. Source: `net/core/dev.c napi_complete_done` (Linux 7.3).
//!
//! The rule is cut in two around the compare-and-swap on the state word:
//!
//! ```text
//! match complete(state, work, held, &tunables, &mut defers_left) {
//!     Refused            => nothing: still owned, nothing flushed, nothing counted
//!     Release(release)   => flush held frames (release.flush), deliver, unlink from the poll list,
//!                           word := complete_release -> missed,
//!                           match release.finish(missed) {
//!                               Reschedule             => schedule again; masked, no timer
//!                               Released{arm, unmask}  => arm the timer if given, unmask if told
//!                           }
//! }
//! ```
//!
//! Without `MISSED` and without a busy poller ("held": frames wait for being merged; g, d, k ≥ 1):
//!
//! | work | dhi | left before | gft | held | unmask | timer | left after |
//! |---|---|---|---|---|---|---|---|
//! | 0 | any | 0 | any | any | yes | no | 0 |
//! | >0 | 0 | any | 0 | any | yes | no | 0 |
//! | >0 | 0 | any | g | no | yes | no | 0 |
//! | >0 | 0 | any | g | yes | yes | g | 0 |
//! | >0 | d | any | 0 | any | yes | no | d-1 |
//! | >0 | d | any | g | any | no | g | d-1 |
//! | 0 | any | k | g | any | no | g | k-1 |
//! | 0 | any | k | 0 | any | yes | no | k-1 |

use crate::state::State;
use crate::time::Span;

/// The three settings of one instance that govern deferral. All zero: plain interrupts.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct Tunables {
    /// How many completions may leave the interrupt masked, counted from the last one with work
    /// (`defer-hard-irqs`).
    pub defer_hard_irqs: u32,
    /// Time until the next look while the interrupt is deferred or frames are held (`gro-flush-timeout`).
    pub gro_flush_timeout: Span,
    /// Time for which epoll may leave the interrupt masked after it returned events (`irq-suspend-timeout`).
    pub irq_suspend_timeout: Span,
}

/// Which held frames to complete and deliver.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub enum Flush {
    /// All of them.
    All,
    /// Only those held since before the current tick.
    OldOnly,
}

impl Flush {
    /// The flush of places other than a completion: old frames only if ticks are short (HZ of 1000 and more), else all.
    /// Source: `net/core/dev.c __napi_poll`, `busy_poll_stop`.
    #[inline]
    #[must_use]
    pub const fn for_hz(hz: u32) -> Self {
        if hz >= 1000 { Self::OldOnly } else { Self::All }
    }
}

/// What [`complete`] decided.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub enum Completion {
    /// A busy poller owns the instance, or it is disabled: do nothing at all, and do not unmask.
    Refused,
    /// Release it, in the order of the module's head.
    Release(Release),
}

/// A release under way: what to flush before it, and what it will come to.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub struct Release {
    /// Flush this, and deliver, before releasing the word.
    pub flush: Flush,
    timer: Span,
    unmask: bool,
}

/// What to do after the word was released.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub enum Completed {
    /// An event came meanwhile: the instance is still owned and must be scheduled again. The interrupt stays masked
    /// and no timer is armed, although a deferral was spent.
    Reschedule,
    /// The instance is free.
    Released {
        /// Arm its timer with this (replacing whatever was armed).
        arm: Option<Span>,
        /// Unmask its interrupt. False: the timer brings it back.
        unmask: bool,
    },
}

impl Completed {
    /// What the kernel's function returns: may the driver unmask?
    #[inline]
    #[must_use]
    pub const fn may_unmask(self) -> bool {
        matches!(self, Self::Released { unmask: true, .. })
    }
}

/// Decides a completion. `state` is the word as it is now, `work_done` in packets, `held` tells whether frames wait
/// for being merged, `defers_left` is the owner's counter of deferrals left.
#[inline]
pub fn complete(state: State, work_done: u32, held: bool, t: &Tunables, defers_left: &mut u32) -> Completion {
    if state.complete_refused() {
        return Completion::Refused;
    }
    let mut timer = Span::ZERO;
    let mut unmask = true;
    if work_done != 0 {
        if held {
            timer = t.gro_flush_timeout;
        }
        *defers_left = t.defer_hard_irqs;
    }
    if *defers_left > 0 {
        *defers_left -= 1;
        timer = t.gro_flush_timeout;
        unmask = timer.is_zero();
    }
    let flush = if timer.is_zero() { Flush::All } else { Flush::OldOnly };
    Completion::Release(Release { flush, timer, unmask })
}

impl Release {
    /// The release has been applied to the word and found `missed`.
    #[inline]
    pub const fn finish(self, missed: bool) -> Completed {
        if missed {
            return Completed::Reschedule;
        }
        let arm = if self.timer.is_zero() { None } else { Some(self.timer) };
        Completed::Released { arm, unmask: self.unmask }
    }
}

#[cfg(test)]
#[path = "completion_tests.rs"]
mod tests;
