//! When to look at a queue again though no thread sends.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use napier_core::time::Instant;
use napier_core::upkeep::recheck_after;

const NEVER_NS: u64 = u64::MAX;

/// The watchdog of one queue. It looks less and less often while that is in vain.
pub(super) struct Watchdog {
    due_ns: AtomicU64,
    /// Softirq CPU whose thread looks.
    cpu: AtomicU32,
    /// Looks in a row that found the queue still stopped, or its transmit lock taken.
    in_vain: AtomicU32,
}

impl Watchdog {
    pub(super) fn new() -> Self {
        Self { due_ns: AtomicU64::new(NEVER_NS), cpu: AtomicU32::new(0), in_vain: AtomicU32::new(0) }
    }

    /// The softirq CPU whose thread is to look.
    pub(super) fn bind(&self, cpu: u32) {
        self.cpu.store(cpu, Ordering::Relaxed);
    }

    pub(super) fn cpu(&self) -> u32 {
        self.cpu.load(Ordering::Relaxed)
    }

    /// A look at `at` or before: who found the queue in another state, and is late, must not defer the other's look.
    pub(super) fn arm(&self, at: Instant) {
        self.due_ns.fetch_min(at.ns, Ordering::SeqCst);
    }

    /// When the thread of softirq CPU `cpu` is to look.
    pub(super) fn due_on(&self, cpu: u32) -> Option<Instant> {
        let due_ns = self.due_ns.load(Ordering::SeqCst);
        (due_ns != NEVER_NS && self.cpu() == cpu).then_some(Instant { ns: due_ns })
    }

    /// Takes this expiry; false if it was armed anew meanwhile, or another thread has taken it.
    pub(super) fn take(&self, due: Instant) -> bool {
        self.due_ns.compare_exchange(due.ns, NEVER_NS, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// When to look again, at least after so many looks in vain as `patience`.
    pub(super) fn recheck_at(&self, now: Instant, patience: u32) -> Instant {
        now + recheck_after(self.in_vain().max(patience))
    }

    pub(super) fn in_vain(&self) -> u32 {
        self.in_vain.load(Ordering::Relaxed)
    }

    /// A look was in vain.
    pub(super) fn note_in_vain(&self) {
        self.in_vain.fetch_add(1, Ordering::Relaxed);
    }

    /// A run has ended: `sent` something, or was `refused` the transmit lock, whose holder schedules the queue when it lets
    /// go. Looks until then are mostly in vain.
    pub(super) fn tried(&self, sent: bool, refused: bool) {
        if sent {
            self.not_in_vain();
        }
        if refused {
            self.note_in_vain();
        }
    }

    /// There was room.
    pub(super) fn not_in_vain(&self) {
        if self.in_vain() != 0 {
            self.in_vain.store(0, Ordering::Relaxed);
        }
    }
}
