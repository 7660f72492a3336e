//! A value that many read without a lock while it is replaced as a whole.

use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr;

use crate::sync::{AtomicPtr, AtomicU32, Ordering, Point, order};

/// One reader, in the upper bits of the word. The lower ones are the address of the value, or 0.
const READER: usize = 1 << ADDRESS_BITS;
const ADDRESS_BITS: u32 = 48;
const ADDRESS: usize = READER - 1;
/// Readers of one value at a time; more are our own mistake.
const READERS_MAX: usize = 1 << 15;

/// A place for a value, or none, that is read in place and replaced as a whole.
///
/// The word says where the value is and how many began to read it there, so both are seen at once. A replacement takes the
/// number along: it is what the old value is owed, and the thread that pays the last of it frees the value.
///
/// | step | word | debt of the value |
/// |---|---|---|
/// | a reader begins | readers + 1 | |
/// | it ends, the value is still there | readers - 1 | |
/// | a writer replaces the value | new value, no readers | + readers of the old |
/// | a reader of the old one ends | | - 1 |
///
/// A reader may end before the writer has written the debt down, so it can be negative in between; it is 0 after a step
/// once, and that is the last one. The address of a value that a thread reads is not used again, so a reader knows its own.
///
/// No reader waits, and none is waited for: it tries again only if another reader or a writer got in between.
pub struct Published<T> {
    /// A pointer to the value, with the number of readers in the upper bits of its address.
    word: AtomicPtr<Node<T>>,
    /// It owns one value.
    value: PhantomData<Box<T>>,
}

// SAFETY: readers on several threads share the value, and any of them may drop it.
unsafe impl<T: Send + Sync> Sync for Published<T> {}
// SAFETY: as `Box<T>`, and a reader does not outlive the place.
unsafe impl<T: Send + Sync> Send for Published<T> {}

struct Node<T> {
    /// Readers that have not ended since the value was replaced. Modulo 2^32, for it may be negative.
    debt: AtomicU32,
    value: T,
}

impl<T> Default for Published<T> {
    fn default() -> Self {
        Self { word: AtomicPtr::new(ptr::null_mut()), value: PhantomData }
    }
}

impl<T> Published<T> {
    /// The value as it is now, or `None`.
    #[inline]
    pub fn read(&self) -> Option<Reading<'_, T>> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word.addr() & ADDRESS == 0 {
                return None;
            }
            assert!(readers(word) < READERS_MAX, "every reader ends");
            // Acquire: pairs with the Release of `replace`: the value is seen as it was written.
            let acquire = order(Point::PublishedRead, Ordering::Acquire);
            let counted = word.map_addr(|word| word + READER);
            match self.word.compare_exchange_weak(word, counted, acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Reading { place: self, node: node(word) }),
                Err(now) => word = now,
            }
        }
    }

    /// Puts another value there. Readers go on with the one they have; the last of them frees it.
    pub fn replace(&self, value: Option<T>) {
        let new = value.map_or(ptr::null_mut(), publishable);
        // Release: pairs with the Acquire of `read`. Acquire: pairs with the Release of those that have ended, for the
        // value may be dropped here.
        retire(self.word.swap(new, order(Point::PublishedReplace, Ordering::AcqRel)));
    }

    /// Puts another value there if the one that was `seen` still is: its readers go on with it. `None`: there was none.
    ///
    /// # Errors
    /// The new value, if another thread has replaced the old one.
    pub fn replace_if(&self, seen: Option<&Reading<'_, T>>, value: Option<T>) -> Result<(), Option<T>> {
        // Not used again while it is read, so it cannot have gone and come back.
        let seen = seen.map_or(ptr::null_mut(), |reading| reading.node);
        let new = value.map_or(ptr::null_mut(), publishable);
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if !ptr::eq(node(word), seen) {
                // SAFETY: made by `publishable` above, and never published.
                return Err((!new.is_null()).then(|| unsafe { Box::from_raw(new) }.value));
            }
            // As in `replace`.
            let both = order(Point::PublishedReplace, Ordering::AcqRel);
            match self.word.compare_exchange_weak(word, new, both, Ordering::Relaxed) {
                Ok(old) => {
                    retire(old);
                    return Ok(());
                }
                Err(now) => word = now,
            }
        }
    }

    /// Address and bytes of the value, to ask for its memory before it is read.
    #[inline]
    #[must_use]
    pub fn place_of_value(&self) -> Option<(usize, usize)> {
        // Relaxed: nothing is read there.
        let address = self.word.load(Ordering::Relaxed).addr() & ADDRESS;
        (address != 0).then_some((address, size_of::<Node<T>>()))
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        self.replace(None);
    }
}

/// A value that is being read. It stays as it is until the end of this.
pub struct Reading<'a, T> {
    place: &'a Published<T>,
    node: *mut Node<T>,
}

impl<T> Deref for Reading<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: we are counted as a reader of it, so no thread frees it, and no thread writes to it.
        unsafe { &(*self.node).value }
    }
}

impl<T> Drop for Reading<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let mut word = self.place.word.load(Ordering::Relaxed);
        while ptr::eq(node(word), self.node) {
            // Release: pairs with the Acquire of `replace`: we have read before the value is dropped.
            let release = order(Point::PublishedEnd, Ordering::Release);
            let discounted = word.map_addr(|word| word - READER);
            match self.place.word.compare_exchange_weak(word, discounted, release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
        settle(self.node, |debt| debt.wrapping_sub(1));
    }
}

fn publishable<T>(value: T) -> *mut Node<T> {
    let node = Box::into_raw(Box::new(Node { debt: AtomicU32::new(0), value }));
    assert!(node.addr() & !ADDRESS == 0, "addresses of this platform are longer than {ADDRESS_BITS} bits");
    node
}

/// What a word named is not published any more.
fn retire<T>(old: *mut Node<T>) {
    if !node(old).is_null() {
        let owed = u32::try_from(readers(old)).expect("sixteen bits");
        settle(node(old), |debt| debt.wrapping_add(owed));
    }
}

#[inline]
fn node<T>(word: *mut Node<T>) -> *mut Node<T> {
    word.map_addr(|word| word & ADDRESS)
}

#[inline]
fn readers<T>(word: *mut Node<T>) -> usize {
    word.addr() / READER
}

/// Changes the debt of a value that is not published any more, and frees it if nothing is owed any more.
#[cold]
fn settle<T>(node: *mut Node<T>, change: impl Fn(u32) -> u32) {
    // SAFETY: the step that makes the debt 0 is still to come: this one or a later one.
    let debt = unsafe { &(*node).debt };
    // AcqRel: pairs with itself: all have read before the last one drops the value.
    let both = order(Point::PublishedDebt, Ordering::AcqRel);
    let mut before = debt.load(Ordering::Relaxed);
    while let Err(now) = debt.compare_exchange_weak(before, change(before), both, Ordering::Relaxed) {
        before = now;
    }
    if change(before) == 0 {
        // SAFETY: it was a box, no thread can find it, and all who had found it have ended.
        drop(unsafe { Box::from_raw(node) });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn readers_keep_what_they_have_and_the_last_one_frees_it() {
        let place = Published::default();
        assert!(place.read().is_none() && place.place_of_value().is_none());
        let (first, second) = (Arc::new(1), Arc::new(2));
        place.replace(Some(first.clone()));
        let (one, other) = (place.read().expect("there"), place.read().expect("there"));
        place.replace(Some(second.clone()));
        assert_eq!((**one, **other, **place.read().expect("there")), (1, 1, 2));
        drop(one);
        assert_eq!(Arc::strong_count(&first), 2, "a thread reads it");
        drop(other);
        assert_eq!(Arc::strong_count(&first), 1, "none does");
        let reading = place.read().expect("there");
        place.replace(None);
        assert!(place.read().is_none());
        assert_eq!((**reading, Arc::strong_count(&second)), (2, 2));
        drop(reading);
        assert_eq!(Arc::strong_count(&second), 1);
    }

    #[test]
    fn a_place_drops_its_value() {
        let value = Arc::new(());
        let place = Published::default();
        place.replace(Some(value.clone()));
        drop(place);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn threads_read_whole_values_while_they_are_replaced() {
        let rounds = if cfg!(miri) { 50 } else { 20_000 };
        let place = Published::default();
        place.replace(Some([0_u64; 4]));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    for _ in 0..rounds {
                        if let Some(value) = place.read() {
                            assert!(value.iter().all(|word| *word == value[0]) && value[0] >= last);
                            last = value[0];
                        }
                    }
                });
            }
            for round in 1..=rounds {
                place.replace((round % 7 != 0).then_some([round; 4]));
            }
        });
    }
}
