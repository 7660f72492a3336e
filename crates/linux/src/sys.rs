//! Busy polling of the kernel's own sockets and event contexts (`socket(7)`, `ioctl_eventpoll(2)`), for programs that
//! run on the kernel's stack beside the engine's. No safe library offers these interfaces.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `_IOW(0x8A, 0x01, struct epoll_params)`. Source: `include/uapi/linux/eventpoll.h`, Linux 6.9.
const EPIOCSPARAMS: libc::Ioctl = 0x4008_8a01;

/// `struct epoll_params` of `include/uapi/linux/eventpoll.h`.
#[repr(C)]
struct Params {
    busy_poll_usecs: u32,
    busy_poll_budget: u16,
    prefer_busy_poll: u8,
    pad: u8,
}

/// Sets `SO_BUSY_POLL` (in us; 0 turns it off) and `SO_PREFER_BUSY_POLL` of a kernel socket.
///
/// # Errors
/// `EPERM` for a longer time than the socket has, without `CAP_NET_ADMIN`; `ENOPROTOOPT` where the kernel has no such
/// option.
pub fn set_kernel_busy_poll(socket: BorrowedFd<'_>, usecs: u32, prefer: bool) -> io::Result<()> {
    let usecs = libc::c_int::try_from(usecs).map_err(|_| io::ErrorKind::InvalidInput)?;
    set_option(socket, libc::SO_BUSY_POLL, usecs)?;
    set_option(socket, libc::SO_PREFER_BUSY_POLL, libc::c_int::from(prefer))
}

/// Lets a kernel socket receive from one interface only, and send there (`SO_BINDTODEVICE`).
///
/// # Errors
/// `ENODEV` if there is no such interface; `EPERM` without `CAP_NET_RAW` where the socket has one already.
pub fn bind_kernel_socket_to(socket: BorrowedFd<'_>, interface: &str) -> io::Result<()> {
    let len = libc::socklen_t::try_from(interface.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let name = interface.as_ptr();
    // SAFETY: the descriptor is open while it is borrowed, and `name` has `len` bytes, which the call only reads.
    let failed =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.cast(), len) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets the busy-polling parameters of an epoll descriptor (`EPIOCSPARAMS`).
///
/// # Errors
/// `ENOTTY` before Linux 6.9; `EPERM` for a budget above 64 without `CAP_NET_ADMIN`.
pub fn set_kernel_epoll_params(epoll: BorrowedFd<'_>, usecs: u32, budget: u16, prefer: bool) -> io::Result<()> {
    let params =
        Params { busy_poll_usecs: usecs, busy_poll_budget: budget, prefer_busy_poll: u8::from(prefer), pad: 0 };
    // SAFETY: the descriptor is open while it is borrowed, and `params` lives through the call, which only reads it.
    let failed = unsafe { libc::ioctl(epoll.as_raw_fd(), EPIOCSPARAMS, &raw const params) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_option(socket: BorrowedFd<'_>, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed, and `value` lives through the call, which reads `len` bytes.
    let failed =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const value).cast(), len) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn what_is_no_socket_and_no_epoll_is_refused() {
        let file = std::fs::File::open("/dev/null").expect("it is always there");
        let error = set_kernel_busy_poll(file.as_fd(), 0, false).expect_err("no socket");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
        let error = set_kernel_epoll_params(file.as_fd(), 0, 0, false).expect_err("no epoll");
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }

    #[test]
    fn a_socket_is_bound_to_an_interface_that_is_there() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        let error = bind_kernel_socket_to(socket.as_fd(), "no-such-if").expect_err("it is not there");
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        bind_kernel_socket_to(socket.as_fd(), "lo").expect("loopback is there");
    }

    #[test]
    fn a_socket_takes_its_knobs() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
        match set_kernel_busy_poll(socket.as_fd(), 50, true) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                napier_testkit::skip!("a_socket_takes_its_knobs", "needs CAP_NET_ADMIN");
            }
            Err(error) => panic!("{error}"),
        }
    }
}
