//! What a thread that is no softirq thread does of a softirq that it raises.
//!
//! The kernel runs the whole softirq where a program enables bottom halves again, and nobody takes the processor away
//! meanwhile. Here the program can lose it. So it takes nothing but what it owns: the instance that it raises, for one
//! poll, or the transmit queue that it schedules, for one run. All else is the CPU's thread's.

use std::sync::atomic::Ordering;

use super::SoftirqCpu;
use crate::deliver::Deliver;
use crate::napi::{Context, Napi};
use napier_core::context::PollContext;

/// Polls of one instance by a program that comes for what was held back: `netdev_budget`, 300 packets, by 64.
const POLLS_MAX: u32 = 4;

impl SoftirqCpu {
    /// Sees to it that an instance, whose owner calls, is polled as of this CPU: by the caller once, or by the CPU's thread.
    pub(crate) fn raise(&self, cx: Context, deliver: &Deliver, napi: &Napi) {
        if !cx.may_run_inline() {
            self.raised.push(&deliver.napi_links, napi.index);
            return self.kick_unless_looked_after(cx);
        }
        self.counters.task_runs.fetch_add(1, Ordering::Relaxed);
        if self.poll_inline(*cx.inline_on(self.index), deliver, napi) {
            self.raised.push(&deliver.napi_links, napi.index);
            self.kick();
        }
    }

    /// Polls once, or as long as one softirq run may if the caller came for packets; true if the instance wants another poll.
    #[inline]
    fn poll_inline(&self, cx: Context, deliver: &Deliver, napi: &Napi) -> bool {
        let mut polled = deliver.poll_once(cx, napi, PollContext::Softirq);
        let mut polls_left = if cx.polls_on() { POLLS_MAX - 1 } else { 0 };
        while polled.repoll && polls_left > 0 {
            polls_left -= 1;
            polled = deliver.poll_once(cx, napi, PollContext::Softirq);
        }
        polled.repoll
    }

    /// Sees to it that a transmit queue which was scheduled is run (`NET_TX`): by the caller if it may, or by the CPU's
    /// thread. The caller never polls here: it may be inside a call that a poll would wait for.
    pub(crate) fn raise_tx(&self, cx: Context, deliver: &Deliver, index: u32, by_caller: bool) {
        if !by_caller || !cx.may_run_inline() {
            self.raised_tx.push(&deliver.tx_links, index);
            return self.kick_unless_looked_after(cx);
        }
        let _inline = cx.inline();
        deliver.napi_at(index).tx_path().softirq_run();
    }

    /// The thread that runs this CPU's lists, or is about to, looks at them again.
    fn kick_unless_looked_after(&self, cx: Context) {
        if cx.is_inline() || !cx.looks_after(self.index) {
            self.kick();
        }
    }
}

#[cfg(test)]
#[path = "inline_tests.rs"]
mod tests;
