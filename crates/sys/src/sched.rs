//! Scheduling class of the calling thread (`sched_setscheduler(2)`), where it may run, and how long a thread waits for a
//! processor.

use std::io::{self, Read as _};
use std::num::NonZeroU64;

use rustix::thread::{CpuSet, Pid};

/// Puts the calling thread into `SCHED_FIFO` at `priority` (1..=99).
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` or an `RLIMIT_RTPRIO` that allows it.
pub fn set_fifo(priority: i32) -> io::Result<()> {
    set_class(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// Puts thread `tid` of this process into `SCHED_FIFO` at `priority` (1..=99), or back into `SCHED_OTHER` for `None`.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` or an `RLIMIT_RTPRIO` that allows it, `ESRCH` if the thread is gone.
pub fn set_class_of(tid: u32, fifo: Option<i32>) -> io::Result<()> {
    let tid = libc::pid_t::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let class = if fifo.is_some() { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    set_class(tid, class | libc::SCHED_RESET_ON_FORK, fifo.unwrap_or(0))
}

/// As [`set_fifo`], and threads that this one starts inherit it.
///
/// # Errors
/// As [`set_fifo`].
pub fn set_fifo_for_children(priority: i32) -> io::Result<()> {
    set_class(0, libc::SCHED_FIFO, priority)
}

/// Puts the calling thread back into `SCHED_OTHER`.
///
/// # Errors
/// Whatever the kernel says; going down is always allowed.
pub fn set_other() -> io::Result<()> {
    set_class(0, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
}

/// From here on the system adds no slack to the time-outs of the calling thread (`prctl(2)`, `PR_SET_TIMERSLACK`): threads outside
/// the real-time classes have 50 us otherwise. One system call in the life of a thread.
#[inline]
pub fn exact_timers() {
    if !crate::current::with(|thread| thread.exact_timers.replace(true)) {
        // Where it is refused, timers come as late as before.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    }
}

/// How long thread `tid` of this process could have run and did not, in ns; `None` where the system does not tell.
pub fn run_delay_ns(tid: i32) -> Option<u64> {
    // Three numbers of 20 digits at most. It is asked for by scrapers: one read, and no more.
    let mut line = [0; 64];
    let count = std::fs::File::open(format!("/proc/self/task/{tid}/schedstat")).ok()?.read(&mut line).ok()?;
    std::str::from_utf8(&line[..count]).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// The processor that thread `tid` of this process runs or waits on; `None` where the system does not tell.
pub fn processor_of(tid: i32) -> Option<usize> {
    let line = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).ok()?;
    // `proc_pid_stat(5)`: field 39. The second one, in parentheses, may hold anything; the third follows it.
    line.rsplit_once(')')?.1.split_whitespace().nth(39 - 3)?.parse().ok()
}

/// Processors that this process may use: those of the calling thread and of the first one, for a thread that was pinned is no
/// measure of the process.
#[must_use]
pub fn available_cpus() -> Vec<usize> {
    let of = |pid| rustix::thread::sched_getaffinity(pid).ok();
    let sets: Vec<CpuSet> = [of(None), of(Some(rustix::process::getpid()))].into_iter().flatten().collect();
    if sets.is_empty() {
        return vec![0];
    }
    (0..CpuSet::MAX_CPU).filter(|cpu| sets.iter().any(|set| set.is_set(*cpu))).collect()
}

/// Pins the calling thread to one processor; where that is refused it stays where it may run.
pub fn pin_current_thread(cpu: usize) {
    if cpu >= CpuSet::MAX_CPU {
        return;
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Pins another thread of this process to one processor. Who starts a thread pins it from outside, once it runs: a thread that
/// pinned itself first would report in only when that processor has time for it. Where that is refused it stays where it may run.
pub fn pin_thread(tid: u32, cpu: usize) {
    if cpu < CpuSet::MAX_CPU {
        let mut set = CpuSet::new();
        set.set(cpu);
        set_affinity(tid, &set);
    }
}

/// Lets another thread of this process run wherever the process may: one that is waited for gets on though its own processor has
/// no time for it.
pub fn unpin_thread(tid: u32) {
    let mut set = CpuSet::new();
    available_cpus().into_iter().for_each(|cpu| set.set(cpu));
    set_affinity(tid, &set);
}

fn set_affinity(tid: u32, set: &CpuSet) {
    if let Some(thread) = i32::try_from(tid).ok().and_then(Pid::from_raw) {
        // Refused if the set has shrunk meanwhile, or the thread has just ended.
        let _ = rustix::thread::sched_setaffinity(Some(thread), set);
    }
}

/// Lets the calling thread run on all processors that the first thread of this process may use, but for these. Returns them;
/// `None`, and nothing is changed, if none is left or the system refuses.
#[must_use]
pub fn keep_off(cpus: &[usize]) -> Option<Vec<usize>> {
    let process = rustix::thread::sched_getaffinity(Some(rustix::process::getpid())).ok()?;
    let left: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| process.is_set(*cpu) && !cpus.contains(cpu)).collect();
    let mut set = CpuSet::new();
    left.iter().for_each(|cpu| set.set(*cpu));
    (!left.is_empty() && rustix::thread::sched_setaffinity(None, &set).is_ok()).then_some(left)
}

/// The niceness of threads that may wait: about a tenth of the share of a thread of niceness 0 (`kernel/sched/core.c sched_prio_to_weight`). The
/// lowest one has a seventieth, which beside a few busy threads is nothing for seconds.
pub const PATIENT_NICENESS: i32 = 10;

/// Gives the calling thread [`PATIENT_NICENESS`], if it has a lower one.
pub fn less_urgent() {
    // Going down is always allowed. In Linux a niceness is a thread's.
    let now = rustix::process::nice(0).unwrap_or(0);
    let _ = rustix::process::nice((PATIENT_NICENESS - now).max(0));
}

/// `tid` 0 is the calling thread.
fn set_class(tid: libc::pid_t, class: libc::c_int, priority: i32) -> io::Result<()> {
    // The kernel's own call: musl has none, and its structure is larger. Source: `include/uapi/linux/sched/types.h struct sched_param`.
    // SAFETY: a number that names no thread is refused, and `priority`, all that is read, lives through the call.
    let failed = unsafe { libc::syscall(libc::SYS_sched_setscheduler, tid, class, &raw const priority) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_keeps_off_processors() {
        let all = super::available_cpus();
        let kept = |cpus: &[usize]| {
            std::thread::scope(|scope| {
                scope
                    .spawn(|| {
                        super::less_urgent();
                        let kept = super::keep_off(cpus);
                        let set = rustix::thread::sched_getaffinity(None).expect("it is allowed");
                        let own: Vec<usize> = (0..super::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
                        (kept, own)
                    })
                    .join()
                    .expect("it ends")
            })
        };
        assert_eq!(kept(&[]), (Some(all.clone()), all.clone()));
        assert_eq!(kept(&all), (None, all.clone()));
        if let [first, rest @ ..] = all.as_slice()
            && !rest.is_empty()
        {
            assert_eq!(kept(&[*first]), (Some(rest.to_vec()), rest.to_vec()));
        }
    }

    #[test]
    fn the_processor_of_a_thread_is_found() {
        let cpu = super::available_cpus()[0];
        super::pin_current_thread(cpu);
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        assert_eq!(super::processor_of(tid), Some(cpu));
        assert_eq!(super::processor_of(0), None);
    }
}
