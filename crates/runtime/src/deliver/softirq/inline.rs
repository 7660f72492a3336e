//! What a thread that is no softirq thread does of a softirq that it raises.
//!
//! The kernel runs the whole softirq where a program enables bottom halves again, and the processor is not taken away
//! meanwhile. Here the program can lose it. So it takes nothing but what it owns: the instance that it raises, for one
//! poll, or the transmit queue that it schedules, for one run. All else is the CPU's thread's.

use std::sync::atomic::Ordering;

use super::SoftirqCpu;
use crate::deliver::Deliver;
use crate::napi::{Context, Napi};
use napier_core::context::PollContext;
use napier_core::serving::{Raise, Raiser, raise};

impl SoftirqCpu {
    /// The thread of context `cx`, which raises something on this CPU.
    #[inline]
    fn raiser(&self, cx: Context) -> Raiser {
        Raiser {
            may_run_inline: cx.may_run_inline(),
            polls_on: cx.polls_on(),
            looks_after: cx.looks_after(self.index),
            is_inline: cx.is_inline(),
        }
    }

    /// Sees to it that an instance, whose owner calls, is polled as of this CPU: by the caller, or by the CPU's thread.
    pub(crate) fn raise(&self, cx: Context, deliver: &Deliver, napi: &Napi) {
        let kick = match raise(self.raiser(cx)) {
            Raise::Inline { polls_max } => {
                self.counters.task_runs.fetch_add(1, Ordering::Relaxed);
                if !poll_inline(*cx.inline_on(self.index), deliver, napi, polls_max) {
                    return;
                }
                true
            }
            Raise::Queue => false,
            Raise::QueueAndKick => true,
        };
        self.raised.push(&deliver.napi_links, napi.index);
        if kick {
            self.kick();
        }
    }

    /// Sees to it that a transmit queue which was scheduled is run (`NET_TX`): by the caller if it may, or by the CPU's
    /// thread. The caller never polls here: it may be inside a call that a poll would wait for.
    pub(crate) fn raise_tx(&self, cx: Context, deliver: &Deliver, index: u32, by_caller: bool) {
        let raiser = self.raiser(cx);
        let kick = match raise(Raiser { may_run_inline: by_caller && raiser.may_run_inline, ..raiser }) {
            Raise::Inline { .. } => {
                let _inline = cx.inline();
                return deliver.napi_at(index).tx_path().softirq_run();
            }
            Raise::Queue => false,
            Raise::QueueAndKick => true,
        };
        self.raised_tx.push(&deliver.tx_links, index);
        if kick {
            self.kick();
        }
    }
}

/// Polls until the instance wants no other poll, or so many times; true if it wants another.
#[inline]
fn poll_inline(cx: Context, deliver: &Deliver, napi: &Napi, polls_max: u32) -> bool {
    for _ in 0..polls_max {
        if !deliver.poll_once(cx, napi, PollContext::Softirq).repoll {
            return false;
        }
    }
    true
}

#[cfg(test)]
#[path = "inline_tests.rs"]
mod tests;
