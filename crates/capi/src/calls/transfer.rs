//! Sending and receiving, one buffer at a time.

use std::ffi::{c_int, c_void};
use std::net::SocketAddr;

use libc::{sockaddr, socklen_t};
use napier_runtime::socket::{TcpStream, UdpSocket, without_waiting};

use crate::address;
use crate::error::Failure;
use crate::memory;
use crate::socket::{Live, PosixSocket};
use crate::table::on;

/// As send(2). flags: MSG_NOSIGNAL, which is so in any case, and MSG_DONTWAIT.
///
/// Threads: any. The bytes are not to be written meanwhile.
///
/// Gives how many bytes were sent; -1 and EBADF, ENOTSOCK, EFAULT, EOPNOTSUPP (another flag), EAGAIN, EDESTADDRREQ, ENOTCONN, EPIPE, EMSGSIZE,
/// ENOBUFS, ENETDOWN, ENETUNREACH, EHOSTUNREACH, ECONNREFUSED, ECONNRESET, ETIMEDOUT, ESHUTDOWN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_send(socket: c_int, data: *const c_void, len: usize, flags: c_int) -> isize {
    on(socket, |object| {
        // SAFETY: the caller's buffer is as long as said.
        let data = unsafe { memory::bytes(data.cast(), len) }?;
        send(object.socket()?, data, flags, None)
    })
}

/// As sendto(2). address: NULL for the peer; of a stream it is not looked at.
///
/// Threads: as napier_send.
///
/// Gives as napier_send; -1 as there, and EAFNOSUPPORT, EINVAL, EACCES.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_sendto(
    socket: c_int,
    data: *const c_void,
    len: usize,
    flags: c_int,
    address: *const sockaddr,
    address_len: socklen_t,
) -> isize {
    on(socket, |object| {
        // SAFETY: the caller's buffer is as long as said.
        let data = unsafe { memory::bytes(data.cast(), len) }?;
        // SAFETY: the caller's address is as long as said.
        let to = if address.is_null() { None } else { Some(unsafe { address::read(address, address_len) }?) };
        send(object.socket()?, data, flags, to)
    })
}

/// As recv(2). flags: MSG_PEEK, MSG_TRUNC of datagrams, and MSG_DONTWAIT.
///
/// Threads: any; of several that wait each gets what the others do not.
///
/// Gives how many bytes were received, 0 at the end of a stream; -1 and EBADF, ENOTSOCK, EFAULT, EOPNOTSUPP (another flag), EAGAIN, ENOTCONN,
/// ECONNREFUSED, ECONNRESET, ETIMEDOUT, EHOSTUNREACH, ENETRESET, ESHUTDOWN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_recv(socket: c_int, data: *mut c_void, len: usize, flags: c_int) -> isize {
    on(socket, |object| {
        // SAFETY: the caller's buffer is as long as said.
        let data = unsafe { memory::bytes_mut(data.cast(), len) }?;
        receive(object.socket()?, data, flags).map(|(bytes, _)| bytes)
    })
}

/// As recvfrom(2). address may be NULL; of a stream nothing is written to it.
///
/// Threads: as napier_recv.
///
/// Gives as napier_recv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_recvfrom(
    socket: c_int,
    data: *mut c_void,
    len: usize,
    flags: c_int,
    address: *mut sockaddr,
    address_len: *mut socklen_t,
) -> isize {
    on(socket, |object| {
        // SAFETY: the caller's buffer is as long as said.
        let data = unsafe { memory::bytes_mut(data.cast(), len) }?;
        let (bytes, from) = receive(object.socket()?, data, flags)?;
        match from {
            // SAFETY: the caller has as much room as its length says.
            Some(from) => unsafe { address::write(from, address, address_len) }?,
            // SAFETY: the caller's length is there, if it is not NULL.
            None if !address_len.is_null() => unsafe { address_len.write_unaligned(0) },
            None => {}
        }
        Ok(bytes)
    })
}

/// Makes a call whose flags can be these, and which does not wait if they say so.
pub(super) fn with_flags<R>(
    flags: c_int,
    known: c_int,
    call: impl FnOnce() -> Result<R, Failure>,
) -> Result<R, Failure> {
    if flags & !(known | libc::MSG_DONTWAIT) != 0 {
        return Err(Failure::new(libc::EOPNOTSUPP, format!("flags {flags:#x}: some are not there")));
    }
    if flags & libc::MSG_DONTWAIT == 0 { call() } else { without_waiting(call) }
}

fn send(socket: &PosixSocket, data: &[u8], flags: c_int, to: Option<SocketAddr>) -> Result<isize, Failure> {
    with_flags(flags, libc::MSG_NOSIGNAL, || {
        let sent = match socket.live() {
            Some(Live::Stream(stream)) => stream.send(data)?,
            Some(Live::Datagrams(datagrams)) => send_datagram(datagrams, data, to)?,
            _ => send_datagram(datagrams_of(socket, libc::EPIPE)?, data, to)?,
        };
        Ok(sent as isize) // no buffer is longer
    })
}

fn send_datagram(socket: &UdpSocket, data: &[u8], to: Option<SocketAddr>) -> Result<usize, Failure> {
    Ok(match to {
        Some(to) => socket.send_to(data, to)?,
        None => socket.send(data)?,
    })
}

/// The socket of one that carries datagrams; it gets an address if it has none. A stream that is not connected is `errno`.
pub(super) fn datagrams_of(socket: &PosixSocket, errno: c_int) -> Result<&UdpSocket, Failure> {
    match socket.live_or_bound() {
        Ok(Live::Datagrams(datagrams)) => Ok(datagrams),
        Ok(Live::Listener(_) | Live::Stream(_)) => Err(Failure::of(errno)),
        Err(_) if socket.carries() == crate::socket::Carries::Stream => Err(Failure::of(errno)),
        Err(failure) => Err(failure),
    }
}

fn receive(socket: &PosixSocket, data: &mut [u8], flags: c_int) -> Result<(isize, Option<SocketAddr>), Failure> {
    with_flags(flags, libc::MSG_PEEK | libc::MSG_TRUNC, || {
        let (bytes, from) = match socket.live() {
            Some(Live::Stream(stream)) => (receive_bytes(stream, data, flags)?, None),
            Some(Live::Datagrams(datagrams)) => receive_datagram(datagrams, data, flags)?,
            _ => receive_datagram(datagrams_of(socket, libc::ENOTCONN)?, data, flags)?,
        };
        Ok((bytes as isize, from)) // no buffer is longer, nor is a datagram
    })
}

fn receive_bytes(stream: &TcpStream, data: &mut [u8], flags: c_int) -> Result<usize, Failure> {
    if flags & libc::MSG_TRUNC != 0 {
        return Err(Failure::new(libc::EOPNOTSUPP, "MSG_TRUNC of a stream"));
    }
    Ok(if flags & libc::MSG_PEEK != 0 { stream.peek(data)? } else { stream.recv(data)? })
}

fn receive_datagram(socket: &UdpSocket, data: &mut [u8], flags: c_int) -> Result<(usize, Option<SocketAddr>), Failure> {
    if flags & (libc::MSG_PEEK | libc::MSG_TRUNC) == 0 {
        let (bytes, from) = socket.recv_from(data)?;
        return Ok((bytes, Some(from)));
    }
    let meta = if flags & libc::MSG_PEEK != 0 { socket.peek_msg(data)? } else { socket.recv_msg(data)? };
    let bytes = if flags & libc::MSG_TRUNC != 0 { meta.whole_len } else { meta.len };
    Ok((bytes, Some(meta.from)))
}
