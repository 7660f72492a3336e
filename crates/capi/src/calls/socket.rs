//! Sockets: how they are made, opened, set and closed.

use std::ffi::{c_int, c_void};

use libc::{sockaddr, socklen_t};

use crate::address;
use crate::error::Failure;
use crate::memory;
use crate::socket::{PosixSocket, SocketSetting};
use crate::table::{HANDLES, Object, on};

/// Makes a socket in an engine's first name space, or in another one (napier_netns). domain: AF_INET, AF_INET6; type: SOCK_DGRAM,
/// SOCK_STREAM, perhaps with SOCK_NONBLOCK; protocol: 0.
///
/// Threads: any. A socket may be used by several threads at once.
///
/// Gives its handle; -1 and EBADF, EINVAL, EAFNOSUPPORT, EPROTONOSUPPORT, EMFILE.
#[unsafe(no_mangle)]
pub extern "C" fn napier_socket(where_: c_int, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    on(where_, |object| {
        let (netns, options) = object.place()?;
        HANDLES.add(Object::Socket(PosixSocket::new(&netns, (domain, kind, protocol), options)?))
    })
}

/// As bind(2).
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, ENOTSOCK, EFAULT, EINVAL (it has an address), EAFNOSUPPORT, EADDRINUSE, EADDRNOTAVAIL, ESHUTDOWN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_bind(socket: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    on(socket, |object| {
        // SAFETY: the caller's address is as long as said.
        let address = unsafe { address::read(address, len) }?;
        object.socket()?.bind(address).map(|()| 0)
    })
}

/// As listen(2), but once. accept has no time limit (SO_RCVTIMEO). Other options than SO_REUSEPORT and IPV6_V6ONLY that were set before go to each connection that is accepted.
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, ENOTSOCK, EINVAL, EOPNOTSUPP (a socket of datagrams), EADDRINUSE, EADDRNOTAVAIL, EAGAIN, ESHUTDOWN.
#[unsafe(no_mangle)]
pub extern "C" fn napier_listen(socket: c_int, backlog: c_int) -> c_int {
    on(socket, |object| object.socket()?.listen(backlog).map(|()| 0))
}

/// As accept(2): waits for a connection unless the listener does not block. address may be NULL.
///
/// Threads: any; of several that wait one gets it.
///
/// Gives the handle of a socket that blocks; -1 and EBADF, ENOTSOCK, EINVAL (it does not listen), EFAULT, EAGAIN, EMFILE, ESHUTDOWN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_accept(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: as the caller of this has to keep.
    unsafe { napier_accept4(socket, address, len, 0) }
}

/// As accept4(2). flags: 0 or SOCK_NONBLOCK.
///
/// Threads: as napier_accept.
///
/// Gives the handle of a socket; -1 as napier_accept, and EINVAL for other flags.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_accept4(
    socket: c_int,
    address: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> c_int {
    on(socket, |object| {
        if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
            return Err(Failure::of(libc::EINVAL));
        }
        let (accepted, peer) = object.socket()?.accept(flags & libc::SOCK_NONBLOCK != 0)?;
        // SAFETY: the caller has as much room as its length says.
        unsafe { address::write(peer, address, len) }?;
        HANDLES.add(Object::Socket(accepted))
    })
}

/// As connect(2). A stream that does not block gives EINPROGRESS, and is writable when that has ended; SO_ERROR says how. One whose
/// connection failed is to be closed. A connect with AF_UNSPEC is refused. One that blocks ends after the time of SO_SNDTIMEO, with
/// ETIMEDOUT.
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, ENOTSOCK, EFAULT, EINVAL, EAFNOSUPPORT, EINPROGRESS, EALREADY, EISCONN, ECONNREFUSED, ECONNRESET, ETIMEDOUT,
/// EHOSTUNREACH, ENETUNREACH, EADDRINUSE, EADDRNOTAVAIL, EACCES, EAGAIN, ESHUTDOWN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_connect(socket: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    on(socket, |object| {
        // SAFETY: the caller's address is as long as said.
        let address = unsafe { address::read(address, len) }?;
        object.socket()?.connect(address).map(|()| 0)
    })
}

/// As shutdown(2), for streams.
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, ENOTSOCK, EINVAL, ENOTCONN, EOPNOTSUPP (a socket of datagrams).
#[unsafe(no_mangle)]
pub extern "C" fn napier_shutdown(socket: c_int, how: c_int) -> c_int {
    on(socket, |object| object.socket()?.shutdown(how).map(|()| 0))
}

/// As getsockname(2).
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, ENOTSOCK, EFAULT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_getsockname(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    on(socket, |object| {
        let own = object.socket()?.local_addr()?;
        // SAFETY: the caller has as much room as its length says.
        unsafe { address::write(own, address, len) }.map(|()| 0)
    })
}

/// As getpeername(2).
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, ENOTSOCK, EFAULT, ENOTCONN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_getpeername(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    on(socket, |object| {
        let peer = object.socket()?.peer_addr()?;
        // SAFETY: the caller has as much room as its length says.
        unsafe { address::write(peer, address, len) }.map(|()| 0)
    })
}

/// As setsockopt(2), by the numbers of the system's headers; napier_socket(3) lists what there is. What is set before the socket has an
/// address acts when it has one, and is refused then if it is to be refused.
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, ENOTSOCK, EFAULT, EINVAL, ENOPROTOOPT, EPERM, EDOM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_setsockopt(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    on(socket, |object| {
        let socket = object.socket()?;
        // SAFETY: the caller's value is as long as said.
        let value = unsafe { memory::bytes(value.cast(), len as usize) }?;
        socket.set(SocketSetting::read(level, name, value)?).map(|()| 0)
    })
}

/// As getsockopt(2), for options that are an int.
///
/// Threads: any.
///
/// Gives 0; -1 and EBADF, ENOTSOCK, EFAULT, EINVAL, ENOPROTOOPT, ENOTCONN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_getsockopt(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    on(socket, |object| {
        let socket = object.socket()?;
        if len.is_null() {
            return Err(Failure::new(libc::EFAULT, "the length of the value is NULL"));
        }
        // SAFETY: the caller's length is there.
        let room = unsafe { len.read_unaligned() };
        // As much of it as there is room for (net/core/sock.c sk_getsockopt).
        let bytes = (room as usize).min(size_of::<c_int>());
        // SAFETY: the caller's value has so much room.
        let room = unsafe { memory::bytes_mut(value.cast(), bytes) }?;
        room.copy_from_slice(&socket.get(level, name)?.to_ne_bytes()[..bytes]);
        // SAFETY: the caller's length is there.
        unsafe { len.write_unaligned(bytes as socklen_t) }; // at most 4
        Ok(0)
    })
}

/// As fcntl(2), with F_GETFL and F_SETFL and the flag O_NONBLOCK.
///
/// Threads: any; calls that wait already go on.
///
/// Gives 0, or the flags; -1 and EBADF, ENOTSOCK, EINVAL.
#[unsafe(no_mangle)]
pub extern "C" fn napier_fcntl(socket: c_int, command: c_int, flags: c_int) -> c_int {
    on(socket, |object| {
        let socket = object.socket()?;
        match command {
            libc::F_GETFL => Ok(libc::O_RDWR | if socket.is_nonblocking() { libc::O_NONBLOCK } else { 0 }),
            // Others cannot be set, and are not looked at, as in the kernel.
            libc::F_SETFL => socket.set_nonblocking(flags & libc::O_NONBLOCK != 0).map(|()| 0),
            _ => Err(Failure::invalid("there are F_GETFL and F_SETFL")),
        }
    })
}
