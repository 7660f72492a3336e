//! Packet sockets (`packet(7)`): what comes in by an interface and goes on to the kernel's stack is heard as well.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An instruction of a socket filter. Source: `include/uapi/linux/filter.h` `struct sock_filter`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct FilterCode {
    /// Operation (`include/uapi/linux/bpf_common.h`).
    pub code: u16,
    /// Instructions that are passed over if a comparison holds.
    pub if_true: u8,
    /// And if it does not.
    pub if_false: u8,
    /// Constant.
    pub k: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct SockFprog {
    len: u16,
    codes: *const FilterCode,
}

/// A socket that hears the packets of one Ethernet type that come in by an interface of the calling thread's namespace, as far
/// as `filter` accepts them, from the Ethernet header on. It does not block.
///
/// # Errors
///
/// `EPERM` without `CAP_NET_RAW`; as `socket(2)`, `setsockopt(2)` and `bind(2)`.
pub fn listen(ifindex: u32, ethertype: u16, filter: &[FilterCode]) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is involved. Of protocol 0 nothing is heard yet.
    let socket = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let len = u16::try_from(filter.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    let program = SockFprog { len, codes: filter.as_ptr() };
    let (at, size) = ((&raw const program).cast(), size_of::<SockFprog>() as libc::socklen_t);
    // SAFETY: the program has the layout that the option wants, and its codes live through the call.
    let failed = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, at, size) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all of it is numbers, for which zero is legal.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = ifindex.cast_signed();
    let (at, size) = ((&raw const address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t);
    // SAFETY: the address is of the family of the socket and has this size.
    let failed = unsafe { libc::bind(socket.as_raw_fd(), at, size) };
    if failed == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}
