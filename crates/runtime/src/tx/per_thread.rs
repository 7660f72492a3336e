//! What a thread keeps of the engine from one call to the next, and what has to be done with it when the thread ends.
//!
//! Plain words of a thread are in `napier_sys::current`. Here is what owns something: a thread-local of its own, for a program's
//! thread has no other place that goes with it.

use std::cell::RefCell;
use std::sync::Arc;

use napier_stack::deferred::{self, Work};
use napier_stack::host::{Sleeper, Whom};

use super::kicks::DeferredKicks;
use crate::threads::{Duties, OwedCalls, ThreadRole, Threads};

/// Of one thread, for all engines. Fields are dropped in this order.
pub(crate) struct PerThread {
    /// Kicks that it has deferred.
    pub(super) kicks: RefCell<DeferredKicks>,
    /// Sleepers that its poll calls when it is over.
    calls: RefCell<OwedCalls>,
    /// The timer of an instance that it armed last.
    pub(crate) timer: RefCell<Option<DeferredTimer>>,
    /// What it is registered for.
    duties: RefCell<Duties>,
}

/// A timer that a thread armed without setting the kernel's timer to it exactly.
pub(crate) struct DeferredTimer {
    pub(crate) cpu: Arc<dyn TimerCpu>,
    /// Number of the instance.
    pub(crate) napi: u32,
    pub(crate) at_ns: u64,
    /// The kernel's timer was not even set late.
    pub(crate) held: bool,
}

/// The softirq CPU on which a timer is armed.
pub(crate) trait TimerCpu: Send + Sync {
    /// Sets the kernel's timer unless it fires before `at_ns` or not much later.
    fn program_if_late(&self, at_ns: u64);
    /// Sets the kernel's timer exactly to what is armed on the CPU: the calling thread is about to sleep.
    fn settle_before_sleep(&self);
}

thread_local! {
    static THIS: PerThread = const {
        PerThread {
            kicks: RefCell::new(DeferredKicks::new()),
            calls: RefCell::new(OwedCalls::new()),
            timer: RefCell::new(None),
            duties: RefCell::new(Duties::new()),
        }
    };
}

impl PerThread {
    /// Shows the calling thread's own; `None` if the thread ends and has let go of it.
    #[inline]
    pub(crate) fn with<R>(f: impl FnOnce(&Self) -> R) -> Option<R> {
        THIS.try_with(f).ok()
    }

    /// See [`Wait::owe_call`](napier_stack::host::Wait::owe_call). A thread that ends calls now.
    pub(crate) fn owe_call(sleeper: &dyn Fn() -> Option<Arc<dyn Sleeper>>, whom: Whom, shares_cpu: bool) -> bool {
        let owed = Self::with(|mine| mine.calls.borrow_mut().told(sleeper, whom, shares_cpu)).unwrap_or(false);
        if owed {
            deferred::owe(Work::Calls, make_calls);
        }
        owed
    }

    /// The calling thread begins a duty.
    pub(crate) fn begin_duty(threads: &Threads, role: ThreadRole) {
        Self::with(|mine| mine.duties.borrow_mut().begin(threads, role));
    }

    /// The calling thread is about to end, or ends the duty for this engine that it began last.
    pub(crate) fn end_duty(threads: &Threads) {
        // Not dropped while borrowed.
        let _ended = Self::with(|mine| mine.duties.borrow_mut().end(threads));
    }

    /// The calling thread has spent these ticks in polls that found nothing. A thread that ends polls no more: nothing is lost.
    #[inline]
    pub(crate) fn spun(ticks: u64) {
        Self::with(|mine| mine.duties.borrow().spun(ticks));
    }
}

/// Makes the calls that the calling thread owes.
fn make_calls() {
    // One at a time, with nothing borrowed: it may drop what it has called.
    while let Some(Some((sleeper, whom))) = PerThread::with(|mine| mine.calls.borrow_mut().take()) {
        sleeper.call(whom);
    }
}
