//! What belongs to the calling thread, as `current` does in the kernel (`include/linux/sched.h`, `struct task_struct`).
//!
//! Plain words, and nothing that ends with the thread: so it can be read while a thread ends, and access is one load. What
//! a word means is said where it is used.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// The words of a thread.
pub(crate) struct Current {
    /// How many reasons the thread has to wait for no program ([`crate::nowait`]).
    pub(crate) for_others: Cell<u32>,
    /// Its time-outs have no slack ([`crate::sched::exact_timers`]).
    pub(crate) exact_timers: Cell<bool>,
    /// See [`number`]; 0 as long as nothing has asked for it.
    number: Cell<u32>,
    /// See [`context`].
    context: Cell<u64>,
    /// See [`sender`].
    sender: Cell<usize>,
    /// See [`wakeups`].
    wakeups: Cell<u64>,
    /// See [`waits_not`].
    waits_not: Cell<bool>,
    /// See [`deferral`].
    deferrals: [Deferral; DEFERRALS],
}

/// Kinds of work that a thread may defer.
pub const DEFERRALS: usize = 4;

/// Work of one kind that the thread has deferred.
pub struct Deferral {
    /// How many reasons it has to defer more.
    pub held: Cell<u32>,
    /// What does all of it; `None`: there is none.
    pub due: Cell<Option<fn()>>,
}

thread_local! {
    // The one thread-local of plain words: a program's thread calls the engine without a parameter that could carry them.
    static CURRENT: Current = const {
        Current {
            for_others: Cell::new(0),
            exact_timers: Cell::new(false),
            number: Cell::new(0),
            context: Cell::new(0),
            sender: Cell::new(NO_SENDER),
            wakeups: Cell::new(0),
            waits_not: Cell::new(false),
            deferrals: [const { Deferral { held: Cell::new(0), due: Cell::new(None) } }; DEFERRALS],
        }
    };
}

/// `with`, not the shorter `get` and `set` of a key, which are calls; there are several in each poll.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&Current) -> R) -> R {
    CURRENT.with(f)
}

/// In which context the thread runs; 0 at first. The engine knows what the bits mean.
#[inline]
#[must_use]
pub fn context() -> u64 {
    with(|current| current.context.get())
}

/// The thread runs in this context from here on.
#[inline]
pub fn set_context(context: u64) {
    with(|current| current.context.set(context));
}

/// As [`sender`]: the thread has not sent yet.
pub const NO_SENDER: usize = usize::MAX;

/// The place in which the thread sent last, as a hint where a free one is; [`NO_SENDER`] if it has not sent.
#[inline]
#[must_use]
pub fn sender() -> usize {
    with(|current| current.sender.get())
}

/// The thread has sent in place `at`.
#[inline]
pub fn set_sender(at: usize) {
    with(|current| current.sender.set(at));
}

/// How many sleepers the thread has woken since it began, whatever they slept on.
#[inline]
#[must_use]
pub fn wakeups() -> u64 {
    with(|current| current.wakeups.get())
}

/// The thread wakes a sleeper.
#[inline]
pub fn count_wakeup() {
    with(|current| current.wakeups.set(current.wakeups.get() + 1));
}

/// Whether calls of the thread on sockets wait for nothing, whatever the socket's setting (`MSG_DONTWAIT`). Asked where a call would wait.
#[inline]
#[must_use]
pub fn waits_not() -> bool {
    with(|current| current.waits_not.get())
}

/// Calls of the thread wait for nothing while `call` runs.
pub fn without_waiting<R>(call: impl FnOnce() -> R) -> R {
    /// Also by a panic.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            with(|current| current.waits_not.set(self.0));
        }
    }
    let _before = Before(with(|current| current.waits_not.replace(true)));
    call()
}

/// Shows work of kind `at` that the thread has deferred. What the kinds are, who uses it knows.
///
/// # Panics
/// If there is no such kind.
#[inline]
pub fn deferral<R>(at: usize, f: impl FnOnce(&Deferral) -> R) -> R {
    with(|current| f(&current.deferrals[at]))
}

/// A number for the thread, from 1 on; the system may give a new thread the id of one that is gone.
#[inline]
#[must_use]
pub fn number() -> u32 {
    match with(|current| current.number.get()) {
        0 => next_number(),
        number => number,
    }
}

#[cold]
fn next_number() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    // Relaxed: a number orders nothing.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    with(|current| current.number.set(number));
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_number_of_its_own() {
        let here = number();
        assert_eq!(number(), here);
        let there = std::thread::spawn(number).join().unwrap();
        assert!(here != 0 && there != 0 && here != there);
    }

    #[test]
    fn words_belong_to_a_thread() {
        set_context(7);
        set_sender(3);
        count_wakeup();
        let there = std::thread::spawn(|| (context(), sender(), wakeups())).join().unwrap();
        assert_eq!((context(), sender(), wakeups()), (7, 3, 1));
        assert_eq!(there, (0, NO_SENDER, 0));
    }
}
