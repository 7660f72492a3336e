//! A keeper for calls whose filter another program has made, such as a runtime of containers.

use std::io;
use std::os::fd::AsFd;

use rustix::process::{PidfdFlags, getppid, pidfd_open};

use crate::sys::{held, keeper, seccomp};

/// Starts the process that lets held calls go on when the parent of this process, which answers them and has made `page`
/// ([`HeldPage`](super::HeldPage)), has ended. The keeper is a copy of this process without its descriptors: so this is for a process that has mapped little, for what an
/// engine has mapped of its devices would last as long as its copy. The calling thread has to be the only one.
///
/// # Errors
/// `NotFound`: the parent has ended; `InvalidInput`: it is no such page; no process can be started.
pub fn keep_for_parent(listener: impl AsFd, page: impl AsFd) -> io::Result<()> {
    let parent = getppid().ok_or(io::ErrorKind::NotFound)?;
    let supervisor = pidfd_open(parent, PidfdFlags::empty())?;
    // Had it ended before it was opened, its number might be another's, and this process that one's no child.
    if getppid() != Some(parent) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let keeper = keeper::start_for(&supervisor, &held::SeenUnanswered::map(page)?)?;
    seccomp::pass(keeper.as_fd(), listener.as_fd())
}
