//! When an instance's callback is due.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use napier_core::time::Instant;

/// The instance's one timer: when it expires and on which softirq CPU, in one word.
///
/// Arming replaces any earlier expiry; the last arming wins.
pub(crate) struct TimerSlot {
    /// 0 = not armed; else ns since `epoch_ns` and the softirq CPU.
    word: AtomicU64,
    epoch_ns: u64,
    /// A program that runs looks at it by itself, so that the CPU's thread need not be exact. A hint.
    looked_after: AtomicBool,
}

const CPU_BITS: u32 = 10;

impl TimerSlot {
    pub(super) fn new(epoch: Instant) -> Self {
        Self { word: AtomicU64::new(0), epoch_ns: epoch.ns, looked_after: AtomicBool::new(false) }
    }

    fn instant(&self, word: u64) -> Instant {
        Instant { ns: self.epoch_ns + (word >> CPU_BITS) }
    }

    /// Arms for `at` on softirq CPU `cpu`.
    pub(crate) fn arm(&self, at: Instant, cpu: u32) {
        assert!(cpu < 1 << CPU_BITS, "softirq CPU number does not fit a timer slot");
        // 54 bits of nanoseconds since the engine started are 208 days; later means never, as the kernel saturates too.
        let ns = at.ns.saturating_sub(self.epoch_ns).clamp(1, (1 << (64 - CPU_BITS)) - 1);
        // Release: pairs with the Acquire of `take_due`; what the armer did before is seen by the callback.
        self.word.store(ns << CPU_BITS | u64::from(cpu), Ordering::Release);
    }

    /// Disarms for who has just taken the instance: whatever comes after arms anew, or needs no timer. Until then an expiry does
    /// nothing by the rules, for the instance has an owner (`napi_watchdog`), so that this is no event.
    #[inline]
    pub(crate) fn moot(&self) {
        // Relaxed: as if it had expired meanwhile.
        if self.word.load(Ordering::Relaxed) != 0 {
            self.word.store(0, Ordering::Relaxed);
        }
    }

    /// Whether a program looks at it by itself.
    #[inline]
    pub(crate) fn is_looked_after(&self) -> bool {
        self.looked_after.load(Ordering::Relaxed)
    }

    /// A program will look at it by itself from now on, or will not.
    #[inline]
    pub(crate) fn look_after(&self, looks: bool) {
        if self.is_looked_after() != looks {
            self.looked_after.store(looks, Ordering::Relaxed);
        }
    }

    /// Disarms; a callback that took the slot before is not stopped by this. True if it was armed.
    pub(crate) fn cancel(&self) -> bool {
        self.word.swap(0, Ordering::AcqRel) != 0
    }

    /// The expiry, if armed on `cpu`.
    #[inline]
    pub(crate) fn expiry_on(&self, cpu: u32) -> Option<Instant> {
        let word = self.word.load(Ordering::Acquire);
        (word != 0 && word & ((1 << CPU_BITS) - 1) == u64::from(cpu)).then(|| self.instant(word))
    }

    /// Takes the slot if it is armed on `cpu` and due: the caller runs the callback.
    pub(crate) fn take_due(&self, cpu: u32, now: Instant) -> Option<Instant> {
        let word = self.word.load(Ordering::Acquire);
        let at = self.instant(word);
        if word == 0 || word & ((1 << CPU_BITS) - 1) != u64::from(cpu) || at > now {
            return None;
        }
        // AcqRel: pairs with `arm`; a re-arming in between wins and leaves the slot to its own expiry.
        self.word.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed).ok().map(|_| at)
    }
}
