//! Wakes the one thread that guards.

use std::sync::atomic::Ordering;

use napier_ring::Doorbell;
use napier_sys::current;
use rustix::io::Errno;
use rustix::thread::futex;

/// Value of the bell's word while the sleeper is announced.
const ARMED: u32 = 1;

/// A bell with one sleeper. To ring it costs a system call only if that one sleeps.
#[derive(Default)]
pub(crate) struct GuardBell(Doorbell);

impl GuardBell {
    /// Wakes the sleeper, if it sleeps. What it is to find is published before.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.0.ring() {
            self.call();
        }
    }

    #[cold]
    fn call(&self) {
        current::count_wakeup();
        futex::wake(self.0.word(), futex::Flags::PRIVATE, 1).expect("the bell's word is valid memory");
    }

    /// Sleeps until the bell is rung, unless there is work. One thread at a time.
    pub(crate) fn sleep(&self, has_work: impl FnOnce() -> bool) {
        if !self.0.arm(has_work) {
            return;
        }
        // Relaxed: the thread that rings takes the announcement away, and the futex sleeps only while it is there.
        while self.0.word().load(Ordering::Relaxed) == ARMED {
            match futex::wait(self.0.word(), futex::Flags::PRIVATE, ARMED, None) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => panic!("futex refused a sleeper: {error}"),
            }
        }
    }
}
