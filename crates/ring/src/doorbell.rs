//! The one word through which a producer wakes a sleeping consumer.

use crate::sync::{AtomicU32, Ordering, Point, full_fence};

/// A doorbell: 0 = no thread sleeps, 1 = the owner sleeps or is about to.
///
/// One sleeper, any number of ringers. The sleeper: [`arm`](Self::arm), and if that is true, sleep until
/// [`word`](Self::word) is no longer 1. A ringer: publish, [`ring`](Self::ring), and if that is true, wake. At most
/// one ringer gets `true` per sleep.
pub struct Doorbell {
    armed: AtomicU32,
}

impl Default for Doorbell {
    fn default() -> Self {
        Self::new()
    }
}

impl Doorbell {
    /// A doorbell with no thread asleep.
    #[must_use]
    pub fn new() -> Self {
        Self { armed: AtomicU32::new(0) }
    }

    /// Announces sleep, then looks once more. `true` = sleep now; `false` = there is work, and the bell is disarmed.
    #[must_use = "true means that the caller has to sleep or disarm"]
    pub fn arm(&self, has_work: impl FnOnce() -> bool) -> bool {
        self.armed.store(1, Ordering::Relaxed);
        // Pairs with the fence in `ring`: either this look sees the work, or the ringer sees the bell armed.
        full_fence(Point::DoorbellArm);
        if has_work() {
            self.disarm();
            return false;
        }
        true
    }

    /// Call after publishing work. `true` = the owner sleeps and it is up to the caller to wake it.
    #[must_use = "true means that the caller has to wake the sleeper"]
    pub fn ring(&self) -> bool {
        // Pairs with the fence in `arm`.
        full_fence(Point::DoorbellRing);
        // Relaxed look first: ringers do not fight for the cache line while no thread sleeps.
        // AcqRel swap: pairs with the swap in `disarm`, so that one side alone ends this sleep.
        self.armed.load(Ordering::Relaxed) != 0 && self.armed.swap(0, Ordering::AcqRel) == 1
    }

    /// Ends the sleep from the sleeper's side (a timeout, a signal). `true` = a ringer had already claimed it.
    pub fn disarm(&self) -> bool {
        // AcqRel: pairs with the swap in `ring`.
        self.armed.swap(0, Ordering::AcqRel) == 0
    }

    /// The word itself, for a futex: sleep while it is 1.
    pub fn word(&self) -> &AtomicU32 {
        &self.armed
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ring_wakes_once() {
        let bell = Doorbell::new();
        assert!(!bell.ring());
        assert!(bell.arm(|| false));
        assert_eq!(bell.word().load(Ordering::Relaxed), 1);
        assert!(bell.ring());
        assert!(!bell.ring());
        assert!(bell.disarm());
    }

    #[test]
    fn arm_with_work_does_not_sleep() {
        let bell = Doorbell::new();
        assert!(!bell.arm(|| true));
        assert!(!bell.ring());
    }

    #[test]
    fn disarm_tells_whether_it_was_rung() {
        let bell = Doorbell::new();
        assert!(bell.arm(|| false));
        assert!(!bell.disarm());
    }
}
