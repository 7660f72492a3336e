//! Whether something is left of what was taken off a list.

use crate::sync::{AtomicU32, Ordering, Point, fence_of, order};

/// Beside a list ([`List`](crate::List), [`FrameList`](crate::FrameList)) whose elements are taken as a whole and dealt with
/// one by one: others must not believe that there is nothing, only because a thread is dealing with it.
///
/// The taker, one at a time: [`begin`](Self::begin), take the list, deal with elements, [`settle`](Self::settle). Any thread:
/// if the list is empty, [`is_left`](Self::is_left). If both say no, what was on the list has been dealt with, and what that
/// wrote is seen.
#[derive(Default)]
pub struct Remainder {
    left: AtomicU32,
}

impl Remainder {
    /// Nothing is left.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The caller is about to take the list.
    #[inline]
    pub fn begin(&self) {
        self.left.store(1, Ordering::Relaxed);
        // Release: pairs with the Acquire fence in `is_left`, by way of the list's head as the caller leaves it.
        fence_of(Point::RemainderBegin, Ordering::Release);
    }

    /// The caller has dealt with all that it took, or has something `left`.
    #[inline]
    pub fn settle(&self, left: bool) {
        // Release: pairs with the Acquire load in `is_left`: what was done with the elements is seen there.
        self.left.store(u32::from(left), order(Point::RemainderSettle, Ordering::Release));
    }

    /// Whether a taker has something left, asked after the list was seen empty.
    #[must_use]
    #[inline]
    pub fn is_left(&self) -> bool {
        // Acquire: pairs with the Release fence in `begin`: a list that was emptied shows that a thread has it.
        fence_of(Point::RemainderLook, Ordering::Acquire);
        // Acquire: pairs with the Release in `settle`.
        self.left.load(Ordering::Acquire) != 0
    }
}
