//! Who never waits for a program's thread.
//!
//! A program's thread can lose its processor anywhere, also with a lock in hand. Who works for others (a softirq, a timer,
//! the owner of an instance, whichever thread that is) finds such a lock taken and leaves what it wants to the holder. Two programs
//! wait for each other.

use std::marker::PhantomData;

use crate::current;

/// The calling thread works for others from here on: it never waits for a program.
#[inline]
pub fn this_thread() {
    current::with(|thread| thread.for_others.set(thread.for_others.get() + 1));
}

/// Whether the calling thread may wait for a lock that a program has.
#[inline]
pub fn may_wait() -> bool {
    current::with(|thread| thread.for_others.get() == 0)
}

/// While it lives the calling thread, perhaps a program's, works for others.
#[must_use]
pub struct ForOthers {
    /// Ends on the thread where it began.
    here_only: PhantomData<*const ()>,
}

impl ForOthers {
    /// Begins, on the calling thread.
    #[inline]
    pub fn begin() -> Self {
        this_thread();
        Self { here_only: PhantomData }
    }
}

impl Drop for ForOthers {
    #[inline]
    fn drop(&mut self) {
        current::with(|thread| thread.for_others.set(thread.for_others.get() - 1));
    }
}
