//! Scheduling class of the calling thread (`sched_setscheduler(2)`).

use std::io;

/// Puts the calling thread into `SCHED_FIFO` at `priority` (1..=99).
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` or an `RLIMIT_RTPRIO` that allows it.
pub(crate) fn set_fifo(priority: i32) -> io::Result<()> {
    set_class(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// As [`set_fifo`], and threads that this one starts inherit it.
///
/// # Errors
/// As [`set_fifo`].
pub(crate) fn set_fifo_for_children(priority: i32) -> io::Result<()> {
    set_class(libc::SCHED_FIFO, priority)
}

/// Puts the calling thread back into `SCHED_OTHER`.
///
/// # Errors
/// Whatever the kernel says; going down is always allowed.
pub(crate) fn set_other() -> io::Result<()> {
    set_class(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
}

fn set_class(class: libc::c_int, priority: i32) -> io::Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 names the calling thread and `param` lives through the call.
    let failed = unsafe { libc::sched_setscheduler(0, class, &raw const param) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
