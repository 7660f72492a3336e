//! One 32-bit word that several threads change, each change by one compare-and-swap.

use crate::sync::{AtomicU32, Ordering, Point, order};

/// A word of state bits. The rules that change it are pure functions of the old value; this cell applies them.
pub struct StateCell {
    word: AtomicU32,
}

impl StateCell {
    /// A cell that holds `bits`.
    #[must_use]
    pub fn new(bits: u32) -> Self {
        Self { word: AtomicU32::new(bits) }
    }

    /// The current bits. What was written before the update that made them is visible after this.
    #[inline]
    pub fn load(&self) -> u32 {
        // Acquire: pairs with the AcqRel swap in `update` and `update_once`.
        self.word.load(Ordering::Acquire)
    }

    /// Replaces the bits by what `rule` makes of them and returns the rule's answer.
    ///
    /// `rule` runs again after every lost race, so it must be pure. The swap happens even if the new bits equal the
    /// old ones, as in `net/core/dev.c napi_schedule_prep`: it orders the caller's writes before the next owner's
    /// reads.
    #[inline]
    pub fn update<R>(&self, mut rule: impl FnMut(u32) -> (u32, R)) -> R {
        let success = order(Point::StateUpdate, Ordering::AcqRel);
        let mut old = self.word.load(Ordering::Relaxed);
        loop {
            let (new, answer) = rule(old);
            // AcqRel: pairs with itself in the other updater: an owner sees what the one before it wrote.
            match self.word.compare_exchange_weak(old, new, success, Ordering::Relaxed) {
                Ok(_) => return answer,
                Err(now) => old = now,
            }
        }
    }

    /// Makes exactly one attempt to apply `rule`.
    ///
    /// # Errors
    ///
    /// The bits that stood in the way: those that `rule` refused (it returned `None`; nothing was written), or those
    /// that another thread put there between the look and the attempt.
    #[inline]
    pub fn update_once(&self, rule: impl FnOnce(u32) -> Option<u32>) -> Result<u32, u32> {
        let success = order(Point::StateUpdate, Ordering::AcqRel);
        // Acquire: pairs with the AcqRel swap in `update`; a refusal may be acted upon.
        let old = self.word.load(Ordering::Acquire);
        let new = rule(old).ok_or(old)?;
        // AcqRel: pairs with itself in the other updater. Strong, so that a failure means a real change.
        self.word.compare_exchange(old, new, success, Ordering::Acquire)
    }
}

impl core::fmt::Debug for StateCell {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "StateCell({:#x})", self.load())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn update_returns_the_answer_and_stores_the_bits() {
        let cell = StateCell::new(0b01);
        assert!(cell.update(|old| (old | 0b10, old & 0b01 != 0)));
        assert_eq!(cell.load(), 0b11);
    }

    #[test]
    fn update_once_refused_writes_nothing() {
        let cell = StateCell::new(5);
        assert_eq!(cell.update_once(|_| None), Err(5));
        assert_eq!(cell.update_once(|old| Some(old + 1)), Ok(5));
        assert_eq!(cell.load(), 6);
    }

    #[test]
    fn update_once_does_not_retry() {
        let cell = StateCell::new(0);
        let result = cell.update_once(|old| {
            cell.update(|now| (now + 10, ())); // the race, made certain
            Some(old + 1)
        });
        assert_eq!(result, Err(10));
        assert_eq!(cell.load(), 10);
    }

    #[test]
    fn updates_from_threads_add_up() {
        let each = if cfg!(miri) { 50 } else { 10_000 };
        let cell = StateCell::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..each).for_each(|_| cell.update(|old| (old + 1, ()))));
            }
        });
        assert_eq!(cell.load(), 3 * each);
    }
}
