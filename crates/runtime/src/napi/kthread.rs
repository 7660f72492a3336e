//! The thread of an instance, as the instance has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::Napi;
use crate::threads::pass_on;

/// A running thread of one instance.
pub(crate) struct Kthread {
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) handle: JoinHandle<()>,
    /// Thread id of the operating system, as `napi-get` reports it.
    pub(crate) pid: u32,
}

impl Kthread {
    /// Stops the thread; the instance must not be scheduled to it any more.
    pub(crate) fn stop(self, napi: &Napi) {
        // Release: pairs with the Acquire of the waiting loop.
        self.stop.store(true, Ordering::Release);
        napi.thread_parker.wake();
        if !self.handle.is_finished() {
            napier_sys::sched::unpin_thread(self.pid);
        }
        if let Err(panic) = self.handle.join() {
            pass_on(panic);
        }
    }
}
