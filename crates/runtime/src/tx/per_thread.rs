//! What a thread keeps of the transmit path from one call to the next.

use std::cell::RefCell;

use super::kicks::DeferredKicks;

/// Of one thread, for the devices of all engines.
pub(super) struct PerThread {
    /// Kicks that it owes.
    pub(super) kicks: RefCell<DeferredKicks>,
}

thread_local! {
    static THIS: PerThread = const { PerThread { kicks: RefCell::new(DeferredKicks::new()) } };
}

impl PerThread {
    /// Shows the calling thread's own; `None` if the thread ends and has let go of it.
    #[inline]
    pub(super) fn with<R>(f: impl FnOnce(&Self) -> R) -> Option<R> {
        THIS.try_with(f).ok()
    }
}
