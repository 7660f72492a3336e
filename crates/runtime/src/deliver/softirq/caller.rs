//! What a thread that is no softirq thread does of a softirq that it raises.
//!
//! The kernel runs the whole softirq where a program enables bottom halves again, and nobody takes the processor away
//! meanwhile. Here the program can lose it. So it takes nothing but what it owns: the instance that it raises, for one
//! poll, or the transmit queue that it schedules, for one run. All else is the CPU's thread's.

use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use super::SoftirqCpu;
use crate::deliver::Deliver;
use crate::napi::Napi;
use crate::napi::place::{HERE, Here};
use napier_core::context::PollContext;

/// Polls of one instance by a program that comes for what was held back: `netdev_budget`, 300 packets, by 64.
const POLLS_MAX: u32 = 4;

impl SoftirqCpu {
    /// Sees to it that an instance, whose owner calls, is polled as of this CPU: by the caller once, or by the CPU's thread.
    pub(crate) fn raise(&self, deliver: &Deliver, napi: &Napi) {
        let here = HERE.get();
        if !here.may_run_inline() {
            self.raised.push(&deliver.napi_links, napi.index);
            return self.kick_unless_here(here);
        }
        self.counters.task_runs.fetch_add(1, Ordering::Relaxed);
        HERE.set(Here { handling: Some(self.index), inline: true, ..here });
        let mut polled = deliver.poll_once(napi, PollContext::Softirq);
        let mut polls_left = if here.polls_on { POLLS_MAX - 1 } else { 0 };
        while polled.repoll && polls_left > 0 {
            polls_left -= 1;
            polled = deliver.poll_once(napi, PollContext::Softirq);
        }
        HERE.set(here);
        if polled.repoll {
            self.raised.push(&deliver.napi_links, napi.index);
            self.kick();
        }
    }

    /// Sees to it that a transmit queue which was scheduled is run (`NET_TX`): by the caller if it may, or by the CPU's
    /// thread. The caller never polls here: it may be inside a call that a poll would wait for.
    pub(crate) fn raise_tx(&self, deliver: &Deliver, index: u32, by_caller: bool) {
        let here = HERE.get();
        if !by_caller || !here.may_run_inline() {
            self.raised_tx.push(&deliver.tx_links, index);
            return self.kick_unless_here(here);
        }
        HERE.set(Here { inline: true, ..here });
        deliver.napi_at(index).tx_path().softirq_run();
        HERE.set(here);
    }

    /// The thread that runs this CPU's lists, or is about to, looks at them again.
    fn kick_unless_here(&self, here: Here) {
        if here.inline || !here.looks_after(self.index) {
            self.kick();
        }
    }
}

impl Here {
    /// Whether the thread polls what it raises: a program's, that is not in a softirq already.
    pub(super) fn may_run_inline(self) -> bool {
        self.thread_of.is_none() && self.handling.is_none() && !self.inline && !self.kicks_only
    }
}

/// The calling thread raises softirqs for others to run, from here on: a thread of the engine's with a duty of its own.
pub(crate) fn never_run_inline() {
    HERE.set(Here { kicks_only: true, ..HERE.get() });
}

/// While it lives the calling thread raises softirqs for others to run: it holds a lock, or is not to be kept.
#[must_use]
pub(crate) struct KickOnly {
    before: bool,
    /// Ends on the thread where it began.
    here_only: PhantomData<*const ()>,
}

impl KickOnly {
    /// Begins.
    pub(crate) fn begin() -> Self {
        let here = HERE.get();
        HERE.set(Here { kicks_only: true, ..here });
        Self { before: here.kicks_only, here_only: PhantomData }
    }
}

impl Drop for KickOnly {
    fn drop(&mut self) {
        HERE.set(Here { kicks_only: self.before, ..HERE.get() });
    }
}

impl Deliver {
    /// As [`Self::interrupt`], and the CPU's thread polls, not the caller.
    pub(crate) fn interrupt_by_thread(&self, napi: &Napi) {
        let _kick_only = KickOnly::begin();
        self.interrupt(napi);
    }
}

#[cfg(test)]
#[path = "caller_tests.rs"]
mod tests;
