//! When a softirq CPU has to end the holds of its interrupt lines: by the CPU's timer, late rather than often.

use std::sync::atomic::{AtomicU64, Ordering};

use napier_core::time::Instant;
use napier_ring::LazyTimer;

use super::SoftirqCpu;
use crate::deliver::Deliver;
use crate::napi::Context;

/// Whether a CPU may have lines that are held back, and until when: the time of the one that was begun last; 0 if there are none.
#[derive(Default)]
pub(in crate::deliver) struct Holds(AtomicU64);

impl Holds {
    /// One was begun; before its queue is polled.
    #[inline]
    pub(in crate::deliver) fn begin(&self, until: Instant) {
        // Release: pairs with the Acquire in `take` and `due`, which are followed by a look at all of them.
        self.0.store(until.ns.max(1), Ordering::Release);
    }

    /// Whether there may be one.
    #[inline]
    pub(in crate::deliver) fn any(&self) -> bool {
        // Relaxed: who was told of a packet was told after `begin`.
        self.0.load(Ordering::Relaxed) != 0
    }

    /// True: the caller ends them all.
    pub(in crate::deliver) fn take(&self) -> bool {
        self.0.swap(0, Ordering::AcqRel) != 0
    }

    /// Whether it is time to end some: by the one that was begun last for a program `works`, which looks again soon; with any at
    /// all for who sees to them. The answer is for [`Self::looked`].
    pub(in crate::deliver) fn due(&self, now: Instant, works: bool) -> Option<u64> {
        let until_ns = self.0.load(Ordering::Acquire);
        (until_ns != 0 && (!works || until_ns <= now.ns)).then_some(until_ns)
    }

    /// Those that were due are ended, and of the others the first ends then, if there is one. Not if another was begun
    /// meanwhile.
    pub(in crate::deliver) fn looked(&self, due_ns: u64, next: Option<Instant>) {
        let next_ns = next.map_or(0, |next| next.ns);
        let _ = self.0.compare_exchange(due_ns, next_ns, Ordering::AcqRel, Ordering::Relaxed);
    }
}

impl SoftirqCpu {
    /// The timer is to end a hold of this CPU then: its thread wakes up in time, or as late as for other timers that
    /// are armed again and again.
    #[inline]
    pub(in crate::deliver) fn hold_armed(&self, cx: Context, at: Instant) {
        if cx.thread_of() != Some(self.index) {
            self.program_if_late(at.ns);
        }
    }

    /// When the timer is to end the first hold, in ns; never if there is none.
    pub(super) fn earliest_hold(&self, deliver: &Deliver) -> u64 {
        if !self.holds.any() {
            return LazyTimer::NEVER_NS;
        }
        let mut next_ns = LazyTimer::NEVER_NS;
        deliver.for_each_napi(|napi| {
            if let Some(at) = napi.moderation.timer_on(self.index) {
                next_ns = next_ns.min(at.ns);
            }
        });
        next_ns
    }
}
