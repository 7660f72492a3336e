//! Lets a test take from a thread what the system may refuse: watches of a softirq CPU.

use std::cell::Cell;

use rustix::io::Errno;

thread_local! {
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Runs `f`, in which the calling thread gets so many watches and no more.
pub(crate) fn with_watches<R>(count: u32, f: impl FnOnce() -> R) -> R {
    LEFT.set(Some(count));
    let answer = f();
    LEFT.set(None);
    answer
}

/// The calling thread wants one.
pub(super) fn take() -> Result<(), Errno> {
    let Some(left) = LEFT.get() else { return Ok(()) };
    LEFT.set(Some(left.saturating_sub(1)));
    if left == 0 { Err(Errno::NOSPC) } else { Ok(()) }
}
