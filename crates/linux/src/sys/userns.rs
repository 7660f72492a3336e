//! Which user namespace a namespace belongs to. Source: `ioctl_ns(2)`, `include/uapi/linux/nsfs.h`.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// `_IO(NSIO, 0x1)`, Linux 4.9.
const NS_GET_USERNS: libc::Ioctl = 0xb701;
/// `_IO(NSIO, 0x2)`.
const NS_GET_PARENT: libc::Ioctl = 0xb702;
/// `_IO(NSIO, 0x4)`, Linux 4.11.
const NS_GET_OWNER_UID: libc::Ioctl = 0xb704;

/// The user namespace that owns a namespace; `EPERM` if it is outside of that of the one that asks.
pub(crate) fn owner(namespace: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    related(namespace, NS_GET_USERNS)
}

/// The user namespace in which one was made; `EPERM` if it is outside of that of the one that asks, or there is none.
pub(crate) fn parent(users: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    related(users, NS_GET_PARENT)
}

fn related(namespace: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open while it is borrowed, and the request has no argument.
    let fd = unsafe { libc::ioctl(namespace.as_raw_fd(), request) };
    super::checked(fd.min(0))?;
    // SAFETY: the descriptor is new, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The user that has made a user namespace.
pub(crate) fn maker(users: BorrowedFd<'_>) -> io::Result<u32> {
    let mut user: libc::uid_t = 0;
    // SAFETY: the descriptor is open while it is borrowed; `user` lives through the call, which writes a `uid_t` there.
    let failed = unsafe { libc::ioctl(users.as_raw_fd(), NS_GET_OWNER_UID, &raw mut user) };
    super::checked(failed).map(|()| user)
}
