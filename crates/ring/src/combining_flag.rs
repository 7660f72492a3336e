//! A combining lock without a value: its holder does the work that all contenders have published.

use crate::sync::{AtomicU32, Ordering, Point, full_fence};

/// Of all threads that publish work, one holds the flag and does the work of all (flat combining).
///
/// The order that strands no work: *publish, then* [`CombiningFlag::try_take`]; the thread that fails leaves, for the
/// holder looks again after it let go ([`Combiner::pass`]). A [`CombiningLock`](crate::CombiningLock) has a value within, and
/// is told of the work by a note instead of that look.
pub struct CombiningFlag {
    held: AtomicU32,
}

impl Default for CombiningFlag {
    fn default() -> Self {
        Self::new()
    }
}

impl CombiningFlag {
    /// A flag that no thread holds.
    #[must_use]
    pub fn new() -> Self {
        Self { held: AtomicU32::new(0) }
    }

    /// Takes the flag if it is free. Call it after the work is published; `None` = the holder will see that work.
    pub fn try_take(&self) -> Option<Combiner<'_>> {
        // Pairs with the fence in `pass`: either the holder's last look sees our work, or we see the flag free.
        full_fence(Point::FlagTake);
        self.retake()
    }

    /// Whether a thread holds the flag, as a hint: it may have changed by the time the caller looks.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) != 0
    }

    fn retake(&self) -> Option<Combiner<'_>> {
        // Acquire: pairs with the Release store in `let_go`: what the last holder wrote is seen here.
        let taken = self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| Combiner { flag: self })
    }

    fn let_go(&self) {
        // Release: pairs with the Acquire in `retake`.
        self.held.store(0, Ordering::Release);
    }
}

/// The flag, held. Pass it on with [`Combiner::pass`]; a plain drop (a panic) lets go without the second look.
#[must_use = "the thread that takes the flag does the work and passes it on"]
pub struct Combiner<'a> {
    flag: &'a CombiningFlag,
}

impl<'a> Combiner<'a> {
    /// Lets go, looks once more, and takes the flag again if there is work and no other thread came first.
    pub fn pass(self, has_work: impl FnOnce() -> bool) -> Option<Combiner<'a>> {
        let flag = self.flag;
        drop(self);
        // Pairs with the fence in `try_take`.
        full_fence(Point::FlagPass);
        if has_work() { flag.retake() } else { None }
    }
}

impl Drop for Combiner<'_> {
    fn drop(&mut self) {
        self.flag.let_go();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_holder() {
        let flag = CombiningFlag::new();
        let held = flag.try_take().expect("free");
        assert!(flag.try_take().is_none());
        assert!(flag.is_held());
        let held = held.pass(|| true).expect("work was there");
        assert!(held.pass(|| false).is_none());
        assert!(!flag.is_held());
    }

    #[test]
    fn whoever_came_first_keeps_it() {
        let flag = CombiningFlag::new();
        let held = flag.try_take().expect("free");
        let mut other = None;
        let again = held.pass(|| {
            other = flag.try_take();
            true
        });
        assert!(again.is_none() && other.is_some());
    }
}
