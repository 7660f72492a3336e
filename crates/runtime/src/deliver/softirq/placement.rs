//! Where the thread of a softirq CPU may run.
//!
//! A pinned `SCHED_FIFO` thread waits for as long as a real-time thread of the same priority has its processor. The kernel's
//! softirqs cannot come into that: they run on top of whatever is there. So a pinned thread that stands still with work
//! (`watchdog`) is let go to the other processors for [`AWAY_FOR`](napier_core::serving::AWAY_FOR).

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use napier_core::serving::{Rescue, ThreadPlace, rescue};
use napier_core::time::{Instant, Span};
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

use super::serving::ServingCell;
use crate::deliver::Deliver;
use napier_sys::sched::pin_current_thread;

/// Where the thread of a softirq CPU may run.
pub(crate) struct Placement {
    /// The processor of the CPU.
    home: usize,
    /// The thread stays there.
    pinned: bool,
    serving: Arc<ServingCell>,
    /// When the pinned thread was let go elsewhere, in ns.
    away_since_ns: AtomicU64,
    /// How often the thread had come round then.
    progress_at_let_go: AtomicU64,
    /// The thread's id at the system; 0 while there is none.
    thread: AtomicI32,
}

impl Placement {
    pub(super) const fn new(home: usize, pinned: bool, serving: Arc<ServingCell>) -> Self {
        Self {
            home,
            pinned,
            serving,
            away_since_ns: AtomicU64::new(0),
            progress_at_let_go: AtomicU64::new(u64::MAX),
            thread: AtomicI32::new(0),
        }
    }

    /// The calling thread is the CPU's from here on.
    pub(super) fn begin(&self) {
        self.thread.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Relaxed);
    }

    /// The CPU has no thread any more.
    pub(super) fn end(&self) {
        self.thread.store(0, Ordering::Relaxed);
    }

    /// The thread's id at the system; 0 while there is none.
    pub(super) fn tid(&self) -> i32 {
        self.thread.load(Ordering::Relaxed)
    }

    /// Pins the thread to its processor, if that was asked for and the system allows it.
    pub(crate) fn pin(&self) {
        if self.pinned
            && let Ok(tid) = u32::try_from(self.tid())
        {
            napier_sys::sched::pin_thread(tid, self.home);
        }
    }

    /// Lets the thread run anywhere, so that it ends though its own processor has no time for it.
    pub(crate) fn unpin(&self) {
        if let Ok(tid) = u32::try_from(self.tid()) {
            napier_sys::sched::unpin_thread(tid);
        }
    }

    /// What is done for the thread, whose work is overdue, and which has come round `progress` times up to now.
    pub(super) fn rescue(&self, progress: u64) -> Rescue {
        rescue(self.pinned, self.progress_at_let_go.load(Ordering::Relaxed) != progress)
    }

    /// Lets the thread run anywhere but where it stands still; false if there is no other place for it. After true the caller
    /// kicks it.
    pub(super) fn let_go(&self, deliver: &Deliver, progress: u64, now: Instant) -> bool {
        let tid = self.tid();
        let Some(thread) = Pid::from_raw(tid) else { return false };
        // One that is away already may stand still there too.
        let stands_on = napier_sys::sched::processor_of(tid).unwrap_or(self.home);
        let Some(elsewhere) = deliver.cpus_without(stands_on) else { return false };
        if sched_setaffinity(Some(thread), &elsewhere).is_err() {
            return false;
        }
        self.progress_at_let_go.store(progress, Ordering::Relaxed);
        // After the call: one who comes home at the same time is then away once more on paper only.
        self.away_since_ns.store(now.ns, Ordering::Relaxed);
        self.serving.change(|word| (word.let_go(), ()));
        true
    }

    /// The calling thread, which is this CPU's, comes round: it goes where it has to.
    #[inline]
    pub(super) fn comes_round(&self, deliver: &Deliver, now: Instant) {
        if !self.serving.load().is_home() {
            self.go(deliver, now);
        }
    }

    #[cold]
    fn go(&self, deliver: &Deliver, now: Instant) {
        let away = Span::from_ns(now.ns.saturating_sub(self.away_since_ns.load(Ordering::Relaxed)));
        match self.serving.change(|word| word.comes_round(away)) {
            ThreadPlace::Stay => {}
            ThreadPlace::Anywhere => deliver.unpin_thread(),
            ThreadPlace::Home => pin_current_thread(self.home),
        }
    }
}

/// The processors of `all` but one, if there are any.
pub(crate) fn without(all: &CpuSet, cpu: usize) -> Option<CpuSet> {
    let mut others = *all;
    if cpu < CpuSet::MAX_CPU {
        others.unset(cpu);
    }
    (others.count() > 0).then_some(others)
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
