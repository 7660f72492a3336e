//! Whether calls on a socket wait.

use std::sync::atomic::{AtomicBool, Ordering};

/// A socket's `O_NONBLOCK`, beside the calling thread's `MSG_DONTWAIT`. Relaxed throughout: each call looks once, where it would wait.
#[derive(Default)]
pub(crate) struct Nonblocking(AtomicBool);

impl Nonblocking {
    /// `O_NONBLOCK`, for the calls that come.
    pub(crate) fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }

    /// Whether a call of this thread returns `EAGAIN` where it would wait. Asked there, not before.
    #[inline]
    pub(crate) fn now(&self) -> bool {
        self.0.load(Ordering::Relaxed) || napier_sys::current::waits_not()
    }
}
