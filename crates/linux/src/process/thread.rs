//! A thread of another program by its number, which may be another's by the time that it is looked at.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// `PIDFD_THREAD` (Linux 6.9): a thread that has descriptors of its own is asked for those. Source: `include/uapi/linux/pidfd.h`.
const PIDFD_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL.cast_unsigned());

/// A copy of one of its descriptors.
pub(super) fn copy_of(tid: u32, number: i32) -> io::Result<OwnedFd> {
    let pid = |id: u32| i32::try_from(id).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound);
    let process = match pidfd_open(pid(tid)?, PIDFD_THREAD) {
        Err(rustix::io::Errno::INVAL) => {
            let leader = process_of(tid).ok_or(io::ErrorKind::NotFound)?;
            pidfd_open(pid(leader)?, PidfdFlags::empty())?
        }
        opened => opened?,
    };
    Ok(pidfd_getfd(process, number, PidfdGetfdFlags::empty())?)
}

/// The process that it belongs to; `None` if it has ended.
pub(super) fn process_of(tid: u32) -> Option<u32> {
    number(&status(tid)?, "Tgid:", 0)
}

pub(super) fn status(tid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{tid}/status")).ok()
}

/// A number of a line of `/proc/PID/status`.
pub(super) fn number(status: &str, name: &str, nth: usize) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().nth(nth)?.parse().ok()
}
