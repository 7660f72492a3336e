//! Run, or leave the work to the one who runs.

use crate::sync::{AtomicU32, Ordering, Point, full_fence};

/// A baton: of all threads that publish work, one holds the baton and does everybody's.
///
/// The order that strands no work: *publish, then* [`Baton::try_take`]; the thread that fails leaves, for the holder looks
/// again after it let go ([`Held::pass`]).
pub struct Baton {
    held: AtomicU32,
}

impl Default for Baton {
    fn default() -> Self {
        Self::new()
    }
}

impl Baton {
    /// A baton that no thread holds.
    #[must_use]
    pub fn new() -> Self {
        Self { held: AtomicU32::new(0) }
    }

    /// Takes the baton if it lies free. Call it after the work is published; `None` = the holder will see that work.
    pub fn try_take(&self) -> Option<Held<'_>> {
        // Pairs with the fence in `pass`: either the holder's last look sees our work, or we see the baton free.
        full_fence(Point::BatonTake);
        self.retake()
    }

    /// Whether a thread holds the baton, as a hint: it may have changed by the time the caller looks.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) != 0
    }

    fn retake(&self) -> Option<Held<'_>> {
        // Acquire: pairs with the Release store in `let_go`: what the last holder wrote is seen here.
        let taken = self.held.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| Held { baton: self })
    }

    fn let_go(&self) {
        // Release: pairs with the Acquire in `retake`.
        self.held.store(0, Ordering::Release);
    }
}

/// The baton in hand. Pass it on with [`Held::pass`]; a plain drop (a panic) lets go without the second look.
#[must_use = "the thread that takes the baton does the work and passes it on"]
pub struct Held<'a> {
    baton: &'a Baton,
}

impl<'a> Held<'a> {
    /// Lets go, looks once more, and takes the baton again if there is work and no other thread came first.
    pub fn pass(self, has_work: impl FnOnce() -> bool) -> Option<Held<'a>> {
        let baton = self.baton;
        drop(self);
        // Pairs with the fence in `try_take`.
        full_fence(Point::BatonPass);
        if has_work() { baton.retake() } else { None }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.baton.let_go();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_holder() {
        let baton = Baton::new();
        let held = baton.try_take().expect("free");
        assert!(baton.try_take().is_none());
        assert!(baton.is_held());
        let held = held.pass(|| true).expect("work was there");
        assert!(held.pass(|| false).is_none());
        assert!(!baton.is_held());
    }

    #[test]
    fn whoever_came_first_keeps_it() {
        let baton = Baton::new();
        let held = baton.try_take().expect("free");
        let mut other = None;
        let again = held.pass(|| {
            other = baton.try_take();
            true
        });
        assert!(again.is_none() && other.is_some());
    }
}
