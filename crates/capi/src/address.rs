//! Addresses of sockets, as the system's headers have them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::error::Failure;

/// The address that C gives, by the rules of `net/ipv4/af_inet.c inet_bind` and `net/ipv6/af_inet6.c`: EINVAL if it is shorter than its
/// family's, EAFNOSUPPORT for another family.
///
/// # Safety
/// `from` has `len` bytes.
pub(crate) unsafe fn read(from: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Failure> {
    if from.is_null() {
        return Err(Failure::new(libc::EFAULT, "the address is NULL"));
    }
    if (len as usize) < size_of::<sa_family_t>() {
        return Err(Failure::invalid("the address is shorter than its family"));
    }
    // SAFETY: the family stands first, and is there.
    let family = unsafe { from.cast::<sa_family_t>().read_unaligned() };
    match i32::from(family) {
        libc::AF_INET if len as usize >= size_of::<sockaddr_in>() => {
            // SAFETY: so many bytes are there, and any are a value.
            let v4 = unsafe { from.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        // `SIN6_LEN_RFC2133`: without the scope.
        libc::AF_INET6 if len as usize >= size_of::<sockaddr_in6>() - size_of::<u32>() => {
            let mut v6 = empty_v6();
            let known = (len as usize).min(size_of::<sockaddr_in6>());
            // SAFETY: so many bytes are there, and as many in the struct here.
            unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut v6).cast::<u8>(), known) };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Ok(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        libc::AF_INET | libc::AF_INET6 => Err(Failure::invalid("the address is shorter than its family's struct")),
        other => Err(Failure::new(libc::EAFNOSUPPORT, format!("family {other}: addresses are of AF_INET or AF_INET6"))),
    }
}

/// Writes as much of an address as there is room for, and its whole length (`net/socket.c move_addr_to_user`). Nothing if `to` is NULL.
///
/// # Safety
/// `len` is NULL only if `to` is; `to` has as many bytes as `len` says.
pub(crate) unsafe fn write(address: SocketAddr, to: *mut sockaddr, len: *mut socklen_t) -> Result<(), Failure> {
    if to.is_null() {
        return Ok(());
    }
    if len.is_null() {
        return Err(Failure::new(libc::EFAULT, "the length of the address is NULL"));
    }
    // SAFETY: as the caller says.
    let room = unsafe { len.read_unaligned() };
    // SAFETY: `to` has so many bytes.
    let whole = unsafe { put(address, to, room) };
    // SAFETY: as the caller says.
    unsafe { len.write_unaligned(whole) };
    Ok(())
}

/// Writes as much of an address as there is room for; gives its length.
///
/// # Safety
/// `to` has `room` bytes, or is NULL.
pub(crate) unsafe fn put(address: SocketAddr, to: *mut sockaddr, room: socklen_t) -> socklen_t {
    if to.is_null() {
        return 0;
    }
    let to = to.cast::<u8>();
    match address {
        SocketAddr::V4(v4) => {
            let ip = libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() };
            let (family, port) = (libc::AF_INET as sa_family_t, v4.port().to_be());
            let from = sockaddr_in { sin_family: family, sin_port: port, sin_addr: ip, sin_zero: [0; 8] };
            let bytes = size_of::<sockaddr_in>().min(room as usize);
            // SAFETY: so many bytes are on both sides.
            unsafe { std::ptr::copy_nonoverlapping((&raw const from).cast::<u8>(), to, bytes) };
            size_of::<sockaddr_in>() as socklen_t // 16
        }
        SocketAddr::V6(v6) => {
            let from = sockaddr_in6 {
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
                ..empty_v6()
            };
            let bytes = size_of::<sockaddr_in6>().min(room as usize);
            // SAFETY: so many bytes are on both sides.
            unsafe { std::ptr::copy_nonoverlapping((&raw const from).cast::<u8>(), to, bytes) };
            size_of::<sockaddr_in6>() as socklen_t // 28
        }
    }
}

fn empty_v6() -> sockaddr_in6 {
    sockaddr_in6 {
        sin6_family: libc::AF_INET6 as sa_family_t,
        sin6_port: 0,
        sin6_flowinfo: 0,
        sin6_addr: libc::in6_addr { s6_addr: [0; 16] },
        sin6_scope_id: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(text: &str, room: socklen_t) -> (Result<SocketAddr, i32>, socklen_t) {
        // Not aligned.
        let mut space = [0xff_u8; 41];
        let (mut len, to) = (room, space[1..].as_mut_ptr().cast::<sockaddr>());
        // SAFETY: there are 40 bytes.
        unsafe { write(text.parse().expect("an address"), to, &raw mut len) }.expect("room for it");
        assert!(space[1 + room as usize..].iter().all(|byte| *byte == 0xff), "{text}: {room}");
        // SAFETY: as many bytes were written.
        (unsafe { read(to, room.min(len)) }.map_err(|failure| failure.number()), len)
    }

    #[test]
    fn addresses_go_there_and_back() {
        for text in ["10.0.0.1:7", "[::ffff:10.0.0.1]:65535", "[fe80::1%3]:80"] {
            let address: SocketAddr = text.parse().expect("an address");
            let len = if address.is_ipv4() { 16 } else { 28 };
            assert_eq!(there_and_back(text, 40), (Ok(address), len), "{text}");
            assert_eq!(there_and_back(text, 1).1, len, "{text}: the whole length is told");
            assert_eq!(there_and_back(text, 1).0, Err(libc::EINVAL), "{text}: no family");
            assert_eq!(there_and_back(text, 15).0, Err(libc::EINVAL), "{text}: cut");
        }
        assert_eq!(there_and_back("[fe80::1%3]:80", 24).0, Ok("[fe80::1]:80".parse().expect("an address")));
    }

    #[test]
    fn other_families_are_refused() {
        let unix = [libc::AF_UNIX as u16; 8];
        // SAFETY: 16 bytes.
        let refused = unsafe { read(unix.as_ptr().cast(), 16) };
        assert_eq!(refused.err().map(|failure| failure.number()), Some(libc::EAFNOSUPPORT));
        // SAFETY: nothing is read.
        let refused = unsafe { read(std::ptr::null(), 16) };
        assert_eq!(refused.err().map(|failure| failure.number()), Some(libc::EFAULT));
    }
}
