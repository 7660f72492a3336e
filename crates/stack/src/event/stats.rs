//! ContextCounters of a context: monotonic, readable at any time, never read by the context itself.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::host::EventStats;

/// One counter. Relaxed throughout: it orders nothing.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The live counters; those that waits write are on another cache line than the one that deliveries write.
#[derive(Default)]
pub(super) struct ContextCounters {
    pub(super) waits: Counter,
    pub(super) events: Counter,
    pub(super) busy_loops: Counter,
    pub(super) sleeps: Counter,
    pub(super) wakes: Delivery,
}

#[derive(Default)]
#[repr(align(64))]
pub(super) struct Delivery(pub(super) Counter);

impl ContextCounters {
    pub(super) fn snapshot(&self) -> EventStats {
        EventStats {
            waits: self.waits.read(),
            events: self.events.read(),
            busy_loops: self.busy_loops.read(),
            sleeps: self.sleeps.read(),
            wakes: self.wakes.0.read(),
        }
    }
}
