//! Sending and receiving by messages, several at a time.

use std::ffi::c_int;
use std::net::SocketAddr;

use libc::{iovec, mmsghdr, msghdr, socklen_t};
use napier_runtime::socket::RecvMeta;

use super::transfer::{datagrams_of, with_flags};
use crate::address;
use crate::control::{self, ControlKinds};
use crate::error::Failure;
use crate::memory;
use crate::socket::{Live, PosixSocket};
use crate::table::on;

/// Messages that one call takes, at most.
const MESSAGES_MAX: usize = 1024;
/// Messages that are received at once (`UdpSocket::recv_batch`).
const RECEIVED_MAX: usize = 32;
/// Parts of a message (`include/uapi/linux/uio.h UIO_MAXIOV`).
const PARTS_MAX: usize = 1024;
/// Longest datagram over IP.
const DATAGRAM_BYTES_MAX: usize = 65535;

/// As sendmsg(2). flags as napier_send. With a datagram go the control messages that napier_socket(3) lists.
///
/// Threads: as napier_send.
///
/// Gives how many bytes were sent; -1 as napier_sendto, and EMSGSIZE (more than 1024 parts), EOPNOTSUPP (control messages to a stream), EINVAL
/// (one that cannot be).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_sendmsg(socket: c_int, message: *const msghdr, flags: c_int) -> isize {
    on(socket, |object| {
        let socket = object.socket()?;
        // SAFETY: the caller's message is there.
        let message = unsafe { memory::array(message, 1, "the message") }?;
        // SAFETY: the caller's message has what it says.
        let sent = with_flags(flags, libc::MSG_NOSIGNAL, || unsafe { send(socket, &message[0]) })?;
        Ok(sent as isize) // no message is longer
    })
}

/// As sendmmsg(2), for sockets of datagrams. Each message's msg_len is what was sent of it.
///
/// Threads: as napier_send.
///
/// Gives how many messages were sent, fewer where there was no room for more; -1 as napier_sendmsg, if it was none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_sendmmsg(socket: c_int, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    on(socket, |object| {
        let socket = object.socket()?;
        datagrams_of(socket, libc::EOPNOTSUPP)?;
        let count = (count as usize).min(MESSAGES_MAX);
        // SAFETY: the caller has so many messages.
        let messages = unsafe { memory::array_mut(messages, count, "the messages") }?;
        with_flags(flags, libc::MSG_NOSIGNAL, || {
            let mut sent = 0;
            for message in messages {
                // SAFETY: the caller's message has what it says.
                match unsafe { send(socket, &message.msg_hdr) } {
                    Ok(bytes) => message.msg_len = bytes as u32, // a datagram
                    Err(failure) if sent == 0 => return Err(failure),
                    Err(_) => break,
                }
                sent += 1;
            }
            Ok(sent)
        })
    })
}

/// As recvmsg(2). MSG_TRUNC in msg_flags: the datagram was longer; MSG_CTRUNC: there was no room for a control message. Which there are is
/// asked for by options: napier_socket(3). With UDP_GRO it receives all of what was merged.
///
/// Threads: as napier_recv.
///
/// Gives how many bytes were received; -1 as napier_recv, and EMSGSIZE (more than 1024 parts).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> isize {
    on(socket, |object| {
        let socket = object.socket()?;
        // SAFETY: the caller's message is there.
        let message = unsafe { memory::array_mut(message, 1, "the message") }?;
        // SAFETY: the caller's message has what it says.
        with_flags(flags, 0, || unsafe { receive_one(socket, &mut message[0]) })
    })
}

/// Receives datagrams as recvmmsg(2) does with MSG_WAITFORONE: waits for the first, unless the socket does not block, and takes as many as
/// are there, 32 at most, which costs less than as many calls. Control messages as napier_recvmsg, but what UDP_GRO has merged comes one by one.
/// Each message's msg_len is what was received of it.
///
/// Threads: as napier_recv.
///
/// Gives how many were received, 0 only for count 0; -1 as napier_recvmsg, and EOPNOTSUPP (a stream).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn napier_recvmmsg(socket: c_int, messages: *mut mmsghdr, count: u32, flags: c_int) -> c_int {
    on(socket, |object| {
        let socket = object.socket()?;
        let count = (count as usize).min(RECEIVED_MAX);
        // SAFETY: the caller has so many messages.
        let messages = unsafe { memory::array_mut(messages, count, "the messages") }?;
        let mut lens = [0; RECEIVED_MAX];
        let received = with_flags(flags, libc::MSG_WAITFORONE, || {
            // SAFETY: the caller's messages have what they say.
            unsafe { receive(socket, count, |at| &raw mut messages[at].msg_hdr, |at, bytes| lens[at] = bytes) }
        })?;
        for (message, bytes) in messages.iter_mut().zip(lens).take(received) {
            message.msg_len = bytes as u32; // a datagram
        }
        Ok(received as c_int) // at most 32
    })
}

/// # Safety
/// The message has what it says.
unsafe fn receive_one(socket: &PosixSocket, message: &mut msghdr) -> Result<isize, Failure> {
    if let Some(Live::Stream(stream)) = socket.live() {
        // SAFETY: as the caller says.
        let parts = unsafe { parts_of(message) }?;
        (message.msg_flags, message.msg_controllen, message.msg_namelen) = (0, 0, 0);
        // Into the first that takes any: a stream may give less than there is room for.
        let Some(first) = parts.iter().find(|part| part.iov_len > 0) else { return Ok(0) };
        // SAFETY: the caller's buffer is as long as said.
        let room = unsafe { memory::bytes_mut(first.iov_base.cast(), first.iov_len) }?;
        return Ok(stream.recv(room)? as isize); // no buffer is longer
    }
    if socket.told().has(ControlKinds::MERGED) {
        // SAFETY: as the caller says.
        return unsafe { receive_merged(socket, message) };
    }
    let mut bytes = 0;
    // SAFETY: as the caller says.
    unsafe {
        receive(socket, 1, |_| &raw mut *message, |_, got| bytes = got)?;
    }
    Ok(bytes as isize) // a datagram
}

/// All of what was merged, one behind the other.
///
/// # Safety
/// The message has what it says.
unsafe fn receive_merged(socket: &PosixSocket, message: &mut msghdr) -> Result<isize, Failure> {
    let datagrams = datagrams_of(socket, libc::EOPNOTSUPP)?;
    // SAFETY: as the caller says.
    unsafe { check(message) }?;
    // SAFETY: as the caller says.
    let parts = unsafe { parts_of(message) }?;
    let meta = if let [only] = parts {
        // SAFETY: as the caller says.
        datagrams.recv_msg(unsafe { memory::bytes_mut(only.iov_base.cast(), only.iov_len) }?)?
    } else {
        let room = parts.iter().fold(0_usize, |room, part| room.saturating_add(part.iov_len));
        let mut whole = vec![0; room.min(DATAGRAM_BYTES_MAX)];
        let meta = datagrams.recv_msg(&mut whole)?;
        // SAFETY: it was looked at above.
        unsafe { scatter(message, &whole[..meta.len]) };
        meta
    };
    // SAFETY: as the caller says.
    unsafe { name(message, meta.from) };
    message.msg_flags = if meta.is_truncated() { libc::MSG_TRUNC } else { 0 };
    // SAFETY: as the caller says.
    unsafe { add_control(message, socket.told(), &meta) };
    Ok(meta.len as isize) // a datagram
}

/// # Safety
/// The message has what it says.
unsafe fn parts_of<'a>(message: &msghdr) -> Result<&'a [iovec], Failure> {
    if message.msg_iovlen > PARTS_MAX {
        return Err(Failure::new(libc::EMSGSIZE, "a message has at most 1024 parts"));
    }
    // SAFETY: as the caller says.
    unsafe { memory::array(message.msg_iov, message.msg_iovlen, "the parts of the message") }
}

/// # Safety
/// The message has what it says.
unsafe fn send(socket: &PosixSocket, message: &msghdr) -> Result<usize, Failure> {
    // SAFETY: as the caller says.
    let parts = unsafe { parts_of(message) }?;
    if let Some(Live::Stream(stream)) = socket.live() {
        if message.msg_controllen != 0 {
            return Err(Failure::new(
                libc::EOPNOTSUPP,
                "no control message goes with a stream: set msg_controllen to 0",
            ));
        }
        let mut sent = 0;
        for part in parts {
            // SAFETY: as the caller says.
            let bytes = unsafe { memory::bytes(part.iov_base.cast(), part.iov_len) }?;
            match stream.send(bytes) {
                Ok(some) => sent += some,
                Err(error) if sent == 0 => return Err(error.into()),
                Err(_) => break,
            }
            // What did not fit goes before what follows.
            if sent < bytes.len() {
                break;
            }
        }
        return Ok(sent);
    }
    let datagrams = datagrams_of(socket, libc::EPIPE)?;
    let name = message.msg_name.cast();
    // SAFETY: as the caller says.
    let to = if message.msg_name.is_null() { None } else { Some(unsafe { address::read(name, message.msg_namelen) }?) };
    let mut total = 0_usize;
    for part in parts {
        // SAFETY: as the caller says; looked at here, so that nothing can be wrong where it is copied.
        total = total.saturating_add(unsafe { memory::bytes(part.iov_base.cast(), part.iov_len) }?.len());
    }
    if total > DATAGRAM_BYTES_MAX {
        return Err(Failure::of(libc::EMSGSIZE));
    }
    if message.msg_controllen != 0 {
        // SAFETY: as the caller says.
        let control = unsafe { memory::bytes(message.msg_control.cast(), message.msg_controllen) }?;
        let meta = control::wishes(control, to)?;
        if let [only] = parts {
            // SAFETY: as the caller says.
            return Ok(datagrams.send_msg(unsafe { memory::bytes(only.iov_base.cast(), only.iov_len) }?, &meta)?);
        }
        let mut whole = Vec::with_capacity(total);
        for part in parts {
            // SAFETY: as the caller says.
            whole.extend_from_slice(unsafe { memory::bytes(part.iov_base.cast(), part.iov_len) }?);
        }
        return Ok(datagrams.send_msg(&whole, &meta)?);
    }
    Ok(datagrams.send_with(to, total, |room| {
        let mut at = 0;
        for part in parts {
            // SAFETY: as the caller says; it was looked at above.
            let Ok(bytes) = (unsafe { memory::bytes(part.iov_base.cast(), part.iov_len) }) else { break };
            // Should the program write the parts meanwhile: the ring is claimed, and no place for a panic.
            let Some(place) = room.get_mut(at..at + bytes.len()) else { break };
            place.copy_from_slice(bytes);
            at += bytes.len();
        }
        at
    })?)
}

/// Receives datagrams into messages: `message` gives the nth, `told` learns how many bytes it got.
///
/// # Safety
/// Each message is there and has what it says.
unsafe fn receive(
    socket: &PosixSocket,
    max: usize,
    mut message: impl FnMut(usize) -> *mut msghdr,
    mut told: impl FnMut(usize, usize),
) -> Result<usize, Failure> {
    let datagrams = datagrams_of(socket, libc::EOPNOTSUPP)?;
    let mut mapped = [std::ptr::null_mut(); RECEIVED_MAX];
    for (at, place) in mapped.iter_mut().enumerate().take(max) {
        *place = message(at);
        // SAFETY: as the caller says; each can be written, which is looked at before a datagram is taken.
        unsafe { check(*place) }?;
    }
    let (mut received, wanted) = (0, socket.told());
    let mut take = |payload: &[u8], from: SocketAddr, meta: Option<&RecvMeta>| {
        let Some(message) = mapped[..max].get(received) else { return };
        // SAFETY: as the caller says, and each is written once.
        let message = unsafe { &mut **message };
        // SAFETY: it was looked at above.
        let bytes = unsafe { fill(message, payload, from) };
        match meta {
            // SAFETY: as the caller says.
            Some(meta) => unsafe { add_control(message, wanted, meta) },
            None => message.msg_controllen = 0,
        }
        told(received, bytes);
        received += 1;
    };
    if wanted.is_nothing() {
        datagrams.recv_batch(max, &mut |payload, from| take(payload, from, None))?;
    } else {
        datagrams.recv_batch_msg(max, &mut |payload, meta| take(payload, meta.from, Some(meta)))?;
    }
    Ok(received)
}

/// Writes what goes with a datagram into the message's room for it, which [`fill`] has left as it was.
///
/// # Safety
/// The message has what it says.
unsafe fn add_control(message: &mut msghdr, wanted: ControlKinds, meta: &RecvMeta) {
    let len = if message.msg_control.is_null() { 0 } else { message.msg_controllen };
    // SAFETY: as the caller says; nothing is written where there is nothing.
    let room = unsafe { memory::bytes_mut(message.msg_control.cast(), len) }.unwrap_or(&mut []);
    let (used, cut) = control::tell(room, wanted, meta);
    message.msg_controllen = used;
    if cut {
        message.msg_flags |= libc::MSG_CTRUNC;
    }
}

/// # Safety
/// The message is there and has what it says.
unsafe fn check(message: *const msghdr) -> Result<(), Failure> {
    // SAFETY: as the caller says.
    let message = unsafe { &*message };
    // SAFETY: as the caller says.
    for part in unsafe { parts_of(message) }? {
        // SAFETY: as the caller says.
        unsafe { memory::bytes_mut(part.iov_base.cast(), part.iov_len) }?;
    }
    Ok(())
}

/// Writes a datagram into a message; gives how many bytes fitted.
///
/// # Safety
/// The message has what it says, and was looked at.
unsafe fn fill(message: &mut msghdr, payload: &[u8], from: SocketAddr) -> usize {
    // SAFETY: as the caller says.
    let bytes = unsafe { scatter(message, payload) };
    // SAFETY: as the caller says.
    unsafe { name(message, from) };
    message.msg_flags = if bytes == payload.len() { 0 } else { libc::MSG_TRUNC };
    bytes
}

/// Writes bytes into the parts of a message; gives how many fitted.
///
/// # Safety
/// The message has what it says, and was looked at.
unsafe fn scatter(message: &msghdr, payload: &[u8]) -> usize {
    let mut rest = payload;
    // SAFETY: as the caller says.
    for part in unsafe { parts_of(message) }.unwrap_or(&[]) {
        // SAFETY: as the caller says.
        let Ok(room) = (unsafe { memory::bytes_mut(part.iov_base.cast(), part.iov_len) }) else { break };
        let (now, later) = rest.split_at(room.len().min(rest.len()));
        room[..now.len()].copy_from_slice(now);
        rest = later;
    }
    payload.len() - rest.len()
}

/// Writes who a datagram is from.
///
/// # Safety
/// The message's name has as much room as it says.
unsafe fn name(message: &mut msghdr, from: SocketAddr) {
    // SAFETY: as the caller says.
    message.msg_namelen = unsafe { address::put(from, message.msg_name.cast(), message.msg_namelen) } as socklen_t;
}
