//! CPU time of a thread, readable from any other thread of the process.

use std::time::Duration;

/// Names the CPU clock of one thread (`pthread_getcpuclockid(3)`).
#[derive(Copy, Clone, Debug)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of the calling thread, or `None` where the system refuses it.
    pub fn current() -> Option<Self> {
        let mut id: libc::clockid_t = 0;
        // SAFETY: takes nothing and only names the calling thread.
        let this_thread = unsafe { libc::pthread_self() };
        // SAFETY: the calling thread is alive and `id` is a valid place to write to.
        let failed = unsafe { libc::pthread_getcpuclockid(this_thread, &raw mut id) };
        (failed == 0).then_some(Self(id))
    }

    /// CPU time that the thread has used; `None` once the thread is gone.
    pub fn read(self) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid place to write to; an id of a dead thread is refused with EINVAL.
        let failed = unsafe { libc::clock_gettime(self.0, &raw mut time) };
        if failed != 0 {
            return None;
        }
        Some(Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).ok()?))
    }
}
