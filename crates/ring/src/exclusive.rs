//! Data with one owner at a time, where a second owner is a mistake and not something to wait for.

use core::ops::{Deref, DerefMut};

use crate::claim::Claim;
use crate::sync::{AtomicU32, MutPtr, Ordering, Point, UnsafeCell, order};

/// A value that is entered by at most one thread at a time. None ever waits.
///
/// Ownership is decided elsewhere (an instance's SCHED bit, a combining flag); this type turns a hole in that decision into a
/// panic or a refusal instead of a data race.
pub struct Exclusive<T> {
    occupied: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: `occupied` lets one thread at a time reach the value, so sharing the cell only ever moves the value
// between threads.
unsafe impl<T: Send> Sync for Exclusive<T> {}
// SAFETY: an `Exclusive` owns its value, and moving it moves the value.
unsafe impl<T: Send> Send for Exclusive<T> {}

impl<T> Exclusive<T> {
    /// Wraps a value that no thread has entered.
    pub fn new(value: T) -> Self {
        Self { occupied: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Enters, or returns `None` if a thread is inside.
    #[inline]
    pub fn try_enter(&self) -> Option<Entered<'_, T>> {
        // Acquire: pairs with the Release store of `Leave`: what the last owner wrote is seen here.
        self.occupied.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let leave = Leave(&self.occupied);
        // SAFETY: `occupied` is ours until `leave` is dropped, which is after the value.
        let value = unsafe { Claim::new(&self.value) };
        Some(Entered { value, _leave: leave })
    }

    /// Whether a thread is inside. `false` also means that what the last one inside wrote is seen.
    #[inline]
    pub fn is_entered(&self) -> bool {
        // Acquire: pairs with the Release store of `Leave`.
        self.occupied.load(Ordering::Acquire) != 0
    }

    /// Enters.
    ///
    /// # Panics
    ///
    /// If a thread is inside: two owners is our own mistake.
    #[inline]
    pub fn enter(&self) -> Entered<'_, T> {
        match self.try_enter() {
            Some(entered) => entered,
            None => panic!("entered twice: what has one owner at a time has two"),
        }
    }

    /// The value, through the only reference to the cell.
    pub fn get_mut(&mut self) -> &mut T {
        assert_eq!(self.occupied.load(Ordering::Relaxed), 0, "a guard was forgotten while inside");
        let inside = self.value.get_mut();
        // SAFETY: `&mut self` is the only reference, and no guard is inside (asserted above).
        let value: *mut T = unsafe { MutPtr::deref(&inside) };
        // SAFETY: as above; the reference borrows from `&mut self`.
        unsafe { &mut *value }
    }

    /// Unwraps the value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

/// The inside of an [`Exclusive`]; dropping it leaves.
pub struct Entered<'a, T> {
    value: Claim<'a, T>,
    /// Behind the value: fields are dropped in order.
    _leave: Leave<'a>,
}

impl<T> Deref for Entered<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Entered<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Leaves when it is dropped.
struct Leave<'a>(&'a AtomicU32);

impl Drop for Leave<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `try_enter`.
        self.0.store(0, order(Point::ExclusiveLeave, Ordering::Release));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_owner_at_a_time() {
        let cell = Exclusive::new(1);
        let mut inside = cell.enter();
        *inside += 1;
        assert!(cell.try_enter().is_none());
        drop(inside);
        assert_eq!(*cell.enter(), 2);
        assert_eq!(cell.into_inner(), 2);
    }

    #[test]
    #[should_panic(expected = "entered twice")]
    fn a_second_owner_panics() {
        let cell = Exclusive::new(());
        let _first = cell.enter();
        let _second = cell.enter();
    }

    #[test]
    fn a_panic_inside_leaves() {
        let cell = Exclusive::new(0);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _inside = cell.enter();
            panic!("on purpose");
        }));
        assert!(result.is_err());
        assert!(cell.try_enter().is_some());
    }

    #[test]
    fn get_mut_needs_no_claim() {
        let mut cell = Exclusive::new(1);
        *cell.get_mut() = 7;
        assert_eq!(*cell.enter(), 7);
    }
}
