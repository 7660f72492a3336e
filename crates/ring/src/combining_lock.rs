//! A combining lock: its contenders need not wait, for they leave their work to its holder.

use core::ops::{Deref, DerefMut};

use crate::claim::Claim;
use crate::sync::{AtomicU32, Ordering, Point, UnsafeCell, order};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Another thread has left work.
const NOTED: u32 = 2;

/// A value with one thread inside at a time, and room for a note to it.
///
/// The order that strands no work: *publish, then* [`CombiningLock::enter_or_note`]; the thread that is inside looks at
/// what was published before it leaves for good ([`Inside::leave`]). As [`CombiningFlag`](crate::CombiningFlag), with the
/// value within and without a fence.
// The word lies before the value, with what of it is used most.
#[repr(C)]
pub struct CombiningLock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: `word` lets one thread at a time reach the value, so sharing the cell only ever moves the value between
// threads.
unsafe impl<T: Send> Sync for CombiningLock<T> {}
// SAFETY: a `CombiningLock` owns its value, and moving it moves the value.
unsafe impl<T: Send> Send for CombiningLock<T> {}

impl<T> CombiningLock<T> {
    /// Bytes from the beginning of this to the value.
    pub(crate) const VALUE_OFFSET: usize = core::mem::offset_of!(Self, value);

    /// Wraps a value with no thread inside.
    pub fn new(value: T) -> Self {
        Self { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Enters if no thread is inside.
    #[inline]
    pub fn try_enter(&self) -> Option<Inside<'_, T>> {
        // Acquire: pairs with the Release of `leave`: what was written inside is seen here.
        self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let word = Free(&self.word);
        // SAFETY: the word is ours until it is freed, which is after the value is dropped.
        let value = unsafe { Claim::new(&self.value) };
        Some(Inside { value, word })
    }

    /// Enters, or leaves a note to the thread that is inside: `None` = it will see what was published before this call.
    #[inline]
    pub fn enter_or_note(&self) -> Option<Inside<'_, T>> {
        loop {
            if let Some(inside) = self.try_enter() {
                return Some(inside);
            }
            // Release: pairs with the Acquire of `leave`. Also over an earlier note, whose reader must see our work too.
            let note = order(Point::CombiningNote, Ordering::Release);
            let held = self.word.compare_exchange(HELD, NOTED, note, Ordering::Relaxed);
            if held.is_ok() || self.word.compare_exchange(NOTED, NOTED, note, Ordering::Relaxed).is_ok() {
                return None;
            }
        }
    }

    /// Whether a thread is inside, as a hint.
    #[inline]
    pub fn is_entered(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }
}

/// The inside of a [`CombiningLock`]. A plain drop (a panic) leaves without looking at notes.
#[must_use = "leave with `leave`, which tells of work that others have left"]
pub struct Inside<'a, T> {
    value: Claim<'a, T>,
    /// Behind the value: fields are dropped in order.
    word: Free<'a>,
}

impl<'a, T> Inside<'a, T> {
    /// Leaves; `Some` = not yet, another thread has left work, which is visible now.
    #[inline]
    pub fn leave(self) -> Option<Inside<'a, T>> {
        let word = self.word.0;
        // Release: pairs with the Acquire of `try_enter`.
        let free = order(Point::CombiningLeave, Ordering::Release);
        if word.compare_exchange(HELD, FREE, free, Ordering::Relaxed).is_ok() {
            core::mem::forget(self.word); // it is free already
            return None;
        }
        // Acquire: pairs with the Release of the note. A swap, so that the note it takes is the last one.
        let noted = word.swap(HELD, order(Point::CombiningRead, Ordering::Acquire));
        assert_eq!(noted, NOTED, "left twice");
        Some(self)
    }
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Inside<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Frees the word when it is dropped.
struct Free<'a>(&'a AtomicU32);

impl Drop for Free<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: pairs with the Acquire of `try_enter`.
        self.0.store(FREE, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_note_keeps_the_one_inside() {
        let lock = CombiningLock::new(1);
        let mut inside = lock.try_enter().expect("free");
        *inside += 1;
        assert!(lock.try_enter().is_none() && lock.is_entered());
        assert!(lock.enter_or_note().is_none());
        assert!(lock.enter_or_note().is_none(), "a second note is one note");
        let inside = inside.leave().expect("a note");
        assert_eq!(*inside, 2);
        assert!(inside.leave().is_none() && !lock.is_entered());
        assert!(lock.enter_or_note().is_some());
        assert!(!lock.is_entered(), "a drop leaves");
    }
}
