//! Messages from any thread to the one that takes them all: neither a push nor a taker ever waits.
//!
//! As [`List`](crate::List), but of values that are made when they are needed. It is for what happens rarely, because
//! each message is an allocation.

use crate::sync::{AtomicPtr, Ordering, Point, UnsafeCell, order};

/// A list of messages, newest first, that is taken as a whole.
pub struct Inbox<M> {
    newest: AtomicPtr<Letter<M>>,
}

struct Letter<M> {
    message: UnsafeCell<Option<M>>,
    next: *mut Letter<M>,
}

// SAFETY: a message moves from the thread that pushes it to the one that takes it; no thread sees it in between.
unsafe impl<M: Send> Sync for Inbox<M> {}
// SAFETY: an inbox owns its messages, and moving it moves them.
unsafe impl<M: Send> Send for Inbox<M> {}

impl<M> Inbox<M> {
    /// An inbox without messages.
    #[must_use]
    pub fn new() -> Self {
        Self { newest: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Leaves a message; true if there was none before.
    pub fn push(&self, message: M) -> bool {
        let letter =
            Box::into_raw(Box::new(Letter { message: UnsafeCell::new(Some(message)), next: core::ptr::null_mut() }));
        let mut newest = self.newest.load(Ordering::Relaxed);
        loop {
            // SAFETY: the letter is ours until it is published below.
            unsafe { (*letter).next = newest };
            // Release: pairs with the Acquire of `take`, which sees the message, and those before it (a release
            // sequence). Acquire: pairs with the Release of `take`, for what the last taker did before it took.
            let publish = order(Point::InboxPush, Ordering::AcqRel);
            match self.newest.compare_exchange(newest, letter, publish, Ordering::Relaxed) {
                Ok(_) => return newest.is_null(),
                Err(other) => newest = other,
            }
        }
    }

    /// Takes all messages, oldest first. A push that comes after this shows its thread what the caller did before.
    pub fn take(&self) -> Letters<M> {
        // Acquire: pairs with the Release of `push`. Release: pairs with the Acquire of `push`.
        let mut at = self.newest.swap(core::ptr::null_mut(), order(Point::InboxTake, Ordering::AcqRel));
        let mut next = core::ptr::null_mut();
        while !at.is_null() {
            // SAFETY: a letter that was taken off the list is the taker's alone, and its message was published.
            let older = unsafe { core::mem::replace(&mut (*at).next, next) };
            next = at;
            at = older;
        }
        Letters { next }
    }

    /// As [`take`](Self::take) if there seems to be a message, and else without a write.
    #[inline]
    pub fn take_any(&self) -> Letters<M> {
        if self.is_empty() { Letters { next: core::ptr::null_mut() } } else { self.take() }
    }

    /// Whether there is none, as a hint: it may have changed by the time the caller looks.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        // Relaxed: a thread that must not miss a message is notified by other means (see `Owned`).
        self.newest.load(Ordering::Relaxed).is_null()
    }
}

impl<M> Default for Inbox<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M> Drop for Inbox<M> {
    fn drop(&mut self) {
        self.take().for_each(drop);
    }
}

/// Messages that were taken, oldest first.
pub struct Letters<M> {
    next: *mut Letter<M>,
}

// SAFETY: the letters are the taker's alone, and so are their messages.
unsafe impl<M: Send> Send for Letters<M> {}

impl<M> Letters<M> {
    /// Whether there are none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next.is_null()
    }
}

impl<M> Iterator for Letters<M> {
    type Item = M;

    #[inline]
    fn next(&mut self) -> Option<M> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: made by `Box::into_raw` in `push`, taken off the list once, and given back to a box once: here.
        let letter = unsafe { Box::from_raw(self.next) };
        self.next = letter.next;
        let message = letter.message.get_mut();
        // SAFETY: the cell is in a box of ours, and there is no other reference to its inside.
        let message = unsafe { message.deref() };
        message.take()
    }
}

impl<M> Drop for Letters<M> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn messages_come_in_order_and_once() {
        let inbox = Inbox::new();
        assert!(inbox.is_empty() && inbox.take().is_empty());
        assert!(inbox.push(1), "the first");
        assert!(!inbox.push(2), "not the first");
        assert_eq!(inbox.take().collect::<Vec<_>>(), [1, 2]);
        assert!(inbox.is_empty());
        assert!(inbox.push(3), "the first again");
        assert_eq!(inbox.take().next(), Some(3));
    }

    #[test]
    fn what_nobody_takes_is_dropped() {
        let message = Arc::new(());
        let inbox = Inbox::new();
        inbox.push(message.clone());
        inbox.push(message.clone());
        inbox.push(message.clone());
        let mut taken = inbox.take();
        drop(taken.next());
        assert_eq!(Arc::strong_count(&message), 3);
        drop(taken);
        assert_eq!(Arc::strong_count(&message), 1);
        inbox.push(message.clone());
        drop(inbox);
        assert_eq!(Arc::strong_count(&message), 1);
    }

    #[test]
    fn each_thread_keeps_its_order() {
        let inbox = Arc::new(Inbox::new());
        let threads: Vec<_> = (0..3_u32)
            .map(|thread| {
                let inbox = inbox.clone();
                std::thread::spawn(move || (0..200_u32).for_each(|at| _ = inbox.push((thread, at))))
            })
            .collect();
        let mut next = [0; 3];
        while next != [200; 3] {
            for (thread, at) in inbox.take() {
                assert_eq!(at, next[thread as usize]);
                next[thread as usize] += 1;
            }
        }
        threads.into_iter().for_each(|thread| thread.join().expect("pushes only"));
    }
}
