//! Signals as a descriptor (`signalfd(2)`).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Signals that a thread has blocked.
#[derive(Clone, Copy)]
pub(crate) struct Mask(libc::sigset_t);

impl std::fmt::Debug for Mask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Mask")
    }
}

/// Whether this process ignores a signal, as it does from the start if the process that started it did.
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: nothing is set; what is in force is written to `now`, which has room for it.
    if unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) } != 0 {
        return false;
    }
    // SAFETY: the call has succeeded, so it is written.
    unsafe { now.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Blocks signals for the calling thread and those that it starts, and makes the descriptor that they come through. With what was
/// blocked before.
pub(crate) fn take(signals: &[libc::c_int]) -> io::Result<(OwnedFd, Mask)> {
    // Where the process that started this one ignores the end of children, the kernel tells of none.
    // SAFETY: the default is no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` has room for a set, which the call fills.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: `set` is a set since the call above.
        if unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    let mut before = set;
    // SAFETY: both are sets; the call reads the first and writes the second.
    let failed = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(failed));
    }
    // SAFETY: `set` is a set, which the call only reads.
    let fd = unsafe { libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: it was a set before the call wrote one to it.
    Ok((fd, Mask(unsafe { before.assume_init() })))
}

/// Lets a command begin with these signals blocked, and no others, and with one ignored.
pub(crate) fn begin_with(command: &mut Command, mask: Mask, ignored: Option<libc::c_int>) {
    let set = move || {
        if let Some(signal) = ignored {
            // SAFETY: it installs no handler.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        // SAFETY: the mask is a set, which the call only reads.
        let failed = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask.0, std::ptr::null_mut()) };
        if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
    };
    // SAFETY: what runs between fork and exec calls the system only: no allocation, no lock.
    unsafe { command.pre_exec(set) };
}
