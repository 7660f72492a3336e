//! Work that a thread puts off: the engine says what is to be done, sockets, event contexts and parkers say when.

use std::marker::PhantomData;

use napier_sys::current::{Deferral, deferral};

/// What is put off.
#[derive(Copy, Clone)]
pub enum Work {
    /// Telling peers of packets, which is a system call: until what the thread owns is free.
    Kicks,
    /// Setting kernel timers, late at most: until the last word on an instance's timer is said.
    Timers,
    /// Setting them exactly: until the thread sleeps.
    ExactTimers,
    /// Calling sleepers that a poll of the thread has told something: until the poll is over (`napier_core::waking`).
    Calls,
}

#[inline]
fn of<R>(work: Work, f: impl FnOnce(&Deferral) -> R) -> R {
    deferral(work as usize, f)
}

/// While it lives, the calling thread puts such work off.
#[must_use]
pub struct Deferring {
    work: Work,
    /// Ends on the thread where it began.
    here_only: PhantomData<*const ()>,
}

/// The name that it had.
#[doc(hidden)]
#[deprecated(note = "it is `Deferring`")]
pub type Held = Deferring;

impl Deferring {
    /// Begins.
    #[inline]
    pub fn begin(work: Work) -> Self {
        hold(work);
        Self { work, here_only: PhantomData }
    }
}

impl Drop for Deferring {
    #[inline]
    fn drop(&mut self) {
        release(self.work);
    }
}

/// As [`Deferring::begin`], for a caller that sees to it itself that the same thread calls [`release`].
#[inline]
pub fn hold(work: Work) {
    of(work, |put_off| put_off.held.set(put_off.held.get() + 1));
}

/// Ends a [`hold`]; after the last one the work is done.
#[inline]
pub fn release(work: Work) {
    let left = of(work, |put_off| {
        let left = put_off.held.get() - 1;
        put_off.held.set(left);
        left
    });
    if left == 0 {
        settle(work);
    }
}

/// Does what was put off.
#[inline]
pub fn settle(work: Work) {
    if let Some(due) = of(work, |put_off| put_off.due.take()) {
        due();
    }
}

/// The work need not be done: what it was for has been seen to.
#[inline]
pub fn forget(work: Work) {
    of(work, |put_off| put_off.due.set(None));
}

/// How many holds the calling thread has.
#[inline]
pub fn held(work: Work) -> u32 {
    of(work, |put_off| put_off.held.get())
}

/// The calling thread puts `due` off, which does all such work that it owes.
#[inline]
pub fn owe(work: Work, due: fn()) {
    of(work, |put_off| put_off.due.set(Some(due)));
}
