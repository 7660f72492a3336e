//! Who never waits for a program's thread.
//!
//! A program's thread can lose its processor anywhere, also with a lock in hand. Who works for others (a softirq, a timer,
//! the owner of an instance, whoever it is) finds such a lock taken and leaves what it wants to the holder. Two programs
//! wait for each other.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// How many reasons the thread has to wait for nobody.
    static REASONS: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread works for others from here on: it never waits for a program.
#[inline]
pub fn this_thread() {
    // `with`, here and below: the shorter `set` and `get` of a key are calls, and there are two in each poll.
    REASONS.with(|reasons| reasons.set(reasons.get() + 1));
}

/// Whether the calling thread may wait for a lock that a program has.
#[inline]
pub fn may_wait() -> bool {
    REASONS.with(|reasons| reasons.get() == 0)
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
        REASONS.with(|reasons| reasons.set(reasons.get() - 1));
    }
}
