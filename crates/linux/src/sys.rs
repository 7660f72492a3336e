//! Options of the kernel's sockets and epoll descriptors that no safe library offers. The only unsafe code of this crate.

#![allow(unsafe_code)]

pub(crate) mod held;
pub(crate) mod keeper;
pub(crate) mod ring;
pub(crate) mod rxnfc;
pub(crate) mod sched;
pub(crate) mod seccomp;
pub(crate) mod signals;
pub(crate) mod stats;
pub(crate) mod userns;
pub(crate) mod watch;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `_IOW(0x8A, 0x01, struct epoll_params)`. Source: `include/uapi/linux/eventpoll.h`, Linux 6.9.
const EPIOCSPARAMS: libc::Ioctl = 0x4008_8a01;
/// `_IOR(0x8A, 0x02, struct epoll_params)`.
const EPIOCGPARAMS: libc::Ioctl = 0x8008_8a02_u32 as libc::Ioctl;

/// `struct epoll_params` of `include/uapi/linux/eventpoll.h`.
#[repr(C)]
#[derive(Default)]
pub(crate) struct EpollParams {
    pub(crate) busy_poll_usecs: u32,
    pub(crate) busy_poll_budget: u16,
    pub(crate) prefer_busy_poll: u8,
    pub(crate) pad: u8,
}

const _: () = assert!(size_of::<EpollParams>() == 8, "the size is part of the requests' numbers");

/// An option of `SOL_SOCKET` that is an int.
pub(crate) fn socket_option(socket: BorrowedFd<'_>, option: libc::c_int) -> io::Result<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    let room = (&raw mut value).cast();
    // SAFETY: the descriptor is open while it is borrowed; `value` has `len` bytes, and both live through the call, which
    // writes no more than that. Any bytes are an int.
    let failed = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, room, &raw mut len) };
    checked(failed).map(|()| value)
}

/// An option of `SOL_SOCKET` that is a number of 64 bits: a cookie.
pub(crate) fn socket_cookie(socket: BorrowedFd<'_>, option: libc::c_int) -> io::Result<u64> {
    let mut value: u64 = 0;
    let mut len = size_of_val(&value) as libc::socklen_t;
    let room = (&raw mut value).cast();
    // SAFETY: the descriptor is open while it is borrowed; `value` has `len` bytes, and both live through the call, which
    // writes no more than that. Any bytes are a number.
    let failed = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, room, &raw mut len) };
    checked(failed).map(|()| value)
}

/// Process and user at the other end of a Unix socket, as they were when it began to listen; 0 for a process that is not to be seen from here.
pub(crate) fn peer(socket: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of_val(&found) as libc::socklen_t;
    let room = (&raw mut found).cast();
    // SAFETY: the descriptor is open while it is borrowed; `found` has `len` bytes, and both live through the call, which
    // writes no more than that. Any bytes are such numbers.
    let failed =
        unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, room, &raw mut len) };
    checked(failed).map(|()| (found.pid.cast_unsigned(), found.uid))
}

/// Whether two descriptors of two processes are one open file (`kcmp(2)`). Nothing is copied for that.
pub(crate) fn same_file(one: (u32, i32), other: (u32, i32)) -> io::Result<bool> {
    /// `include/uapi/linux/kcmp.h`.
    const KCMP_FILE: libc::c_int = 0;
    let number = |fd: i32| libc::c_ulong::from(fd.cast_unsigned());
    // SAFETY: the call takes numbers only.
    let order = unsafe {
        libc::syscall(
            libc::SYS_kcmp,
            one.0.cast_signed(),
            other.0.cast_signed(),
            KCMP_FILE,
            number(one.1),
            number(other.1),
        )
    };
    if order < 0 { Err(io::Error::last_os_error()) } else { Ok(order == 0) }
}

/// Sets an option of `SOL_SOCKET` that is an int.
pub(crate) fn set_socket_option(socket: BorrowedFd<'_>, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_option(socket, option, &value.to_ne_bytes())
}

/// `SO_BINDTODEVICE`.
pub(crate) fn bind_to_device(socket: BorrowedFd<'_>, interface: &str) -> io::Result<()> {
    set_option(socket, libc::SO_BINDTODEVICE, interface.as_bytes())
}

/// Switches on an option of a netlink socket that is an int.
pub(crate) fn set_netlink_option(socket: BorrowedFd<'_>, option: libc::c_int) -> io::Result<()> {
    set_option_of(libc::SOL_NETLINK, socket, option, &1_i32.to_ne_bytes())
}

/// Any option of `SOL_SOCKET`, with a value of any length.
pub(crate) fn set_option(socket: BorrowedFd<'_>, option: libc::c_int, bytes: &[u8]) -> io::Result<()> {
    set_option_of(libc::SOL_SOCKET, socket, option, bytes)
}

/// The same of any level.
pub(crate) fn set_option_of(
    level: libc::c_int,
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    bytes: &[u8],
) -> io::Result<()> {
    let len = libc::socklen_t::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let value = bytes.as_ptr().cast();
    // SAFETY: the descriptor is open while it is borrowed, and `value` has `len` bytes, which the call only reads.
    let failed = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, len) };
    checked(failed)
}

/// `SO_ATTACH_REUSEPORT_CBPF`: the program chooses a socket of the group.
pub(crate) fn attach_reuseport(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = libc::c_ushort::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let (option, bytes) = (libc::SO_ATTACH_REUSEPORT_CBPF, size_of_val(&program) as libc::socklen_t);
    let value = (&raw const program).cast();
    // SAFETY: the descriptor is open while it is borrowed; `program` has that size and names `len` instructions, and both live through
    // the call, which only reads them.
    let failed = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, bytes) };
    checked(failed)
}

/// `SO_DETACH_REUSEPORT_BPF`. `ENOENT` where the group has no program.
pub(crate) fn detach_reuseport(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_socket_option(socket, libc::SO_DETACH_REUSEPORT_BPF, 0)
}

/// `EPIOCSPARAMS`.
pub(crate) fn set_epoll_params(epoll: BorrowedFd<'_>, params: &EpollParams) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed, and `params` lives through the call, which only reads it.
    let failed = unsafe { libc::ioctl(epoll.as_raw_fd(), EPIOCSPARAMS, &raw const *params) };
    checked(failed)
}

/// `EPIOCGPARAMS`.
pub(crate) fn epoll_params(epoll: BorrowedFd<'_>) -> io::Result<EpollParams> {
    let mut params = EpollParams::default();
    // SAFETY: the descriptor is open while it is borrowed, and `params` lives through the call, which writes its 8 bytes.
    // Any bytes are parameters.
    let failed = unsafe { libc::ioctl(epoll.as_raw_fd(), EPIOCGPARAMS, &raw mut params) };
    checked(failed).map(|()| params)
}

/// The numbers of [`event_ioctl`]: type 0x8A, and `FIONBIO`.
pub(crate) const fn is_event_ioctl(number: u32) -> bool {
    (number >> 8) & 0xff == 0x8a || number == 0x5421
}

/// An ioctl of epoll's type by its number, on whatever descriptor, with room for the largest argument that a number can ask for.
///
/// # Panics
/// If the number is not one of [`is_event_ioctl`].
pub(crate) fn event_ioctl(on: BorrowedFd<'_>, number: u32) -> io::Result<()> {
    assert!(is_event_ioctl(number), "what another ioctl does with its argument is not known");
    /// `_IOC_SIZEBITS`.
    const SIZE_MAX: usize = 1 << 14;
    let mut argument = [0_u8; SIZE_MAX];
    let room = argument.as_mut_ptr();
    // SAFETY: the descriptor is open while it is borrowed. These ioctls read or write at most as many bytes as the number has in
    // its size, or an int, and `argument` has the most that fits there and lives through the call.
    let failed = unsafe { libc::ioctl(on.as_raw_fd(), number as libc::Ioctl, room) };
    checked(failed)
}

fn checked(failed: libc::c_int) -> io::Result<()> {
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
