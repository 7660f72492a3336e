//! The scheduling class of a softirq thread, as long as it runs.

use std::sync::atomic::Ordering;

use napier_core::serving::{Share, ShareVerdict};
use napier_core::time::{Instant, Span};

use super::SoftirqCpu;
use napier_sys::cpuclock::ThreadClock;

/// `SCHED_FIFO` priority of softirq threads: the middle, as the kernel gives its own interrupt threads.
pub(in crate::deliver) const FIFO_PRIORITY: i32 = 50;

/// `SCHED_FIFO` where it is granted, but not while the thread takes most of its processor (`napier_core::serving`).
pub(super) struct Class {
    /// It was granted.
    granted: bool,
    clock: Option<ThreadClock>,
    share: Share,
}

impl Class {
    /// Asks for `SCHED_FIFO` for the calling thread if it is wanted.
    pub(super) fn begin(cpu: &SoftirqCpu, wanted: bool, now: Instant) -> Self {
        let granted = wanted && napier_sys::sched::set_fifo(FIFO_PRIORITY).is_ok();
        cpu.fifo.store(granted, Ordering::Relaxed);
        let clock = ThreadClock::current();
        Self { granted, clock, share: Share::begin(now, used(clock)) }
    }

    /// Looks at the share of the period that has gone by.
    #[inline]
    pub(super) fn look(&mut self, cpu: &SoftirqCpu, now: Instant) {
        if self.granted && self.share.is_due(now) {
            self.judge(cpu, now);
        }
    }

    #[cold]
    fn judge(&mut self, cpu: &SoftirqCpu, now: Instant) {
        match self.share.look(now, used(self.clock)) {
            ShareVerdict::Stay => {}
            ShareVerdict::Leave => {
                cpu.counters.fifo_left.fetch_add(1, Ordering::Relaxed);
                let _ = napier_sys::sched::set_other();
            }
            ShareVerdict::Return => self.resume(cpu),
        }
    }

    /// The class of programs for a while.
    pub(super) fn suspend(&self) {
        if self.granted && self.share.is_real_time() {
            let _ = napier_sys::sched::set_other();
        }
    }

    /// The end of [`Self::suspend`].
    pub(super) fn resume(&self, cpu: &SoftirqCpu) {
        if self.granted && self.share.is_real_time() {
            cpu.fifo.store(napier_sys::sched::set_fifo(FIFO_PRIORITY).is_ok(), Ordering::Relaxed);
        }
    }
}

/// CPU time of the calling thread; without a clock it is never found to take too much.
fn used(clock: Option<ThreadClock>) -> Span {
    let used = clock.and_then(ThreadClock::read).unwrap_or_default();
    Span::from_ns(u64::try_from(used.as_nanos()).unwrap_or(u64::MAX))
}
