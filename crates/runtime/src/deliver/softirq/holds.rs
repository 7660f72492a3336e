//! Holding interrupts back: the line of an instance stays masked for a while after the poll, so that an interrupt does not take
//! the processor from a program that works.
//!
//! The rules see a line that was unmasked and an interrupt that comes later, as with a NIC that moderates. What ends a hold:
//! its time, which the softirq CPU sees to as late as it sees to other timers; and a program that is about to sleep on that
//! CPU, for then there is nothing left to be protected. So a machine with little to do answers as quickly as without.

use std::sync::atomic::{AtomicU64, Ordering};

use napier_core::moderation::ADAPTIVE_HOLD;
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

    /// Ends all holds that this CPU sees to.
    pub(super) fn end_holds(&self, cx: Context, deliver: &Deliver) {
        if self.holds.take() {
            deliver.for_each_napi(|napi| {
                if napi.moderation.end_on(self.index) {
                    deliver.hold_ended(cx, napi);
                }
            });
        }
    }

    /// A program that serves this CPU in place of its thread is about to sleep: nothing is held back meanwhile.
    pub(super) fn release_before_sleep(&self, cx: Context, deliver: &Deliver) {
        if self.holds.any() {
            let cx = cx.unmoderated();
            self.end_holds(*cx, deliver);
            self.run(*cx, deliver);
        }
    }

    /// Ends those that are due; false if none was. Not those that have nothing to tell if a program `works`, which looks
    /// again or is about to sleep some time: then its next packet would interrupt it.
    pub(super) fn end_due_holds(&self, cx: Context, deliver: &Deliver, now: Instant, works: bool) -> bool {
        let Some(due_ns) = self.holds.due(now, works) else { return false };
        let (mut any, mut next) = (false, None::<Instant>);
        deliver.for_each_napi(|napi| {
            if works && !napi.irq.packets_wait() && napi.moderation.extend(self.index, now) {
                next = Some(next.map_or(now + ADAPTIVE_HOLD, |next| next.min(now + ADAPTIVE_HOLD)));
            } else if napi.moderation.take_due(self.index, now) {
                any = true;
                deliver.hold_ended(cx, napi);
            } else if let Some(until) = napi.moderation.until_on(self.index) {
                next = Some(next.map_or(until, |next| next.min(until)));
            }
        });
        self.holds.looked(due_ns, next);
        any
    }
}
