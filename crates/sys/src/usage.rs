//! CPU time of the calling thread, by where it was spent (`getrusage(2)`).

use std::time::Duration;

/// CPU time of a thread since it started. The sum is exact; how it is split is sampled by the kernel at its tick.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct ThreadUsage {
    /// In the program.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

/// CPU time of the calling thread.
#[must_use]
pub fn thread_usage() -> ThreadUsage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid place to write to.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert!(failed == 0, "getrusage refuses only an unknown `who`");
    // SAFETY: zeroed is a legal rusage, and the call has filled it in.
    let usage = unsafe { usage.assume_init() };
    ThreadUsage { user: duration(usage.ru_utime), system: duration(usage.ru_stime) }
}

fn duration(time: libc::timeval) -> Duration {
    // The kernel never reports negative times.
    Duration::from_secs(time.tv_sec.unsigned_abs()) + Duration::from_micros(time.tv_usec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_this_thread_is_counted_here() {
        let (before, begun) = (thread_usage(), std::time::Instant::now());
        let used = loop {
            let now = thread_usage();
            let used = (now.user + now.system).saturating_sub(before.user + before.system);
            if used >= Duration::from_millis(5) || begun.elapsed() > Duration::from_secs(20) {
                break used;
            }
        };
        assert!(used >= Duration::from_millis(5), "{used:?} of CPU time within {:?}", begun.elapsed());
        // A host may take the processor away from one that has just begun, and the system books that as its time.
        napier_testkit::eventually("threads are counted apart", || {
            let other = std::thread::spawn(thread_usage).join().expect("it does not panic");
            other.user + other.system < used + before.user + before.system
        });
    }
}
