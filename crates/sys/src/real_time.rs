//! Real-time scheduling for a while.

use std::marker::PhantomData;

use crate::sched;

/// While it lives the calling thread runs as `SCHED_FIFO`, and so do the threads that it starts, which keep it. For
/// measurements and checks whose times must hold on a machine that does other things too.
///
/// It belongs to the thread that made it.
#[derive(Debug)]
pub struct RealTime {
    here: PhantomData<*const ()>,
}

impl RealTime {
    /// Begins, at `priority` (1..=99); softirq threads have 50.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_NICE` or an `RLIMIT_RTPRIO` that allows it; `EINVAL` for another priority.
    pub fn begin(priority: i32) -> std::io::Result<Self> {
        sched::set_fifo_for_children(priority)?;
        Ok(Self { here: PhantomData })
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // Going down is always allowed.
        let _ = sched::set_other();
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// Scheduling policy of the calling thread: field 41 of its `stat`, see proc_pid_stat(5).
    fn policy() -> u32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("procfs");
        let after_name = stat.rsplit_once(')').expect("a name in parentheses").1;
        after_name.split_whitespace().nth(38).expect("field 41").parse().expect("a number")
    }

    #[test]
    fn threads_inherit_it_and_it_ends() {
        let inside = std::thread::spawn(|| {
            let real_time = RealTime::begin(1).ok()?;
            let child = std::thread::spawn(policy).join().expect("no panic");
            let own = policy();
            drop(real_time);
            Some((own, child, policy()))
        });
        match inside.join().expect("no panic") {
            Some(policies) => assert_eq!(policies, (1, 1, 0)),
            None => napier_testkit::skip!("threads_inherit_it_and_it_ends", "real-time scheduling is not allowed here"),
        }
        assert!(RealTime::begin(0).is_err());
        assert_eq!(policy(), 0);
    }
}
