//! Datagrams of the engine's sockets, with the heads of their messages put on and taken off.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr::null;

use super::abi::{self, MessageHead, Part};
use super::control;
use super::datagrams::{self, Lost};
use super::parts::{Way, with_head};
use super::record::{HAS_PEER, HEAD_BYTES, PAYLOAD_BYTES_MAX, RecordHead, RecordKind};

/// What the caller does when it gets this: the kernel's own call, on what is no socket of the engine's.
pub(crate) struct Kernels;

fn message_of(parts: &[Part]) -> MessageHead {
    MessageHead {
        name: null(),
        name_len: 0,
        parts: parts.as_ptr(),
        parts_len: parts.len(),
        control: null(),
        control_len: 0,
        flags: 0,
    }
}

/// What the kernel says of the pair, as it would say it of a socket for datagrams.
fn failed(fd: c_int) -> Result<isize, Kernels> {
    match abi::errno() {
        abi::ENOTSOCK => {
            datagrams::forget(fd);
            return Err(Kernels);
        }
        // The engine has ended.
        abi::EPIPE | abi::ECONNRESET | abi::ENOTCONN => abi::set_errno(abi::ENETDOWN),
        _ => {}
    }
    Ok(-1)
}

/// Sends parts as one datagram, to an address or to the peer.
///
/// # Safety
/// The address and the control data can be read, and the parts, if the system finds that they can.
pub(crate) unsafe fn send(
    fd: c_int,
    (to, to_len): (*const c_void, c_uint),
    control: (*const u8, usize),
    parts: &[Part],
    flags: c_int,
) -> Result<isize, Kernels> {
    let len = parts.iter().fold(0_usize, |len, part| len.saturating_add(part.len));
    match datagrams::may_send(fd, to, to_len) {
        Ok(()) => {}
        Err(Lost::Failed) => return Ok(-1),
        Err(Lost::Kernels) => return Err(Kernels),
    }
    let mut head = RecordHead::new(RecordKind::Datagram);
    // A datagram that is put together by several calls is not one message.
    let is_refused = flags & (abi::MSG_OOB | abi::MSG_MORE) != 0;
    let mut error = if is_refused { Some(abi::EOPNOTSUPP) } else { None };
    if error.is_none() && len > PAYLOAD_BYTES_MAX {
        error = Some(abi::EMSGSIZE);
    }
    if error.is_none() && !to.is_null() && to_len > 0 {
        // SAFETY: as the caller promises.
        match unsafe { control::read_address(to, to_len) } {
            Ok(peer) if peer.port == 0 => error = Some(abi::EINVAL),
            Ok(peer) => (head.flags, head.peer) = (HAS_PEER, peer),
            Err(found) => error = Some(found),
        }
    }
    // SAFETY: as the caller promises.
    error = error.or_else(|| unsafe { control::read(control, &mut head) }.err());
    if let Some(error) = error {
        abi::set_errno(error);
        return Ok(-1);
    }
    let bytes = head.to_bytes();
    let flags = flags & abi::MSG_DONTWAIT | abi::MSG_NOSIGNAL;
    let call = |all: &[Part]| {
        let message = message_of(all);
        // SAFETY: the message and its parts live through the call; the system looks whether what they name can be read.
        unsafe { abi::sendmsg(fd, &raw const message, flags) }
    };
    // SAFETY: as the caller promises.
    let sent = unsafe { with_head(bytes.as_ptr(), parts, Way::Out, call) };
    if sent < 0 { failed(fd) } else { Ok(sent.saturating_sub(HEAD_BYTES as isize).max(0)) }
}

/// A datagram that was received.
pub(crate) struct Received {
    /// Bytes, or -1 with `errno`.
    pub(crate) count: isize,
    /// What came before them; none if the call has failed, or the program reads no more.
    pub(crate) head: Option<RecordHead>,
    /// Flags of the message, such as `MSG_TRUNC`.
    pub(crate) flags: c_int,
}

const fn only(count: isize) -> Received {
    Received { count, head: None, flags: 0 }
}

/// Receives one datagram into parts.
///
/// # Safety
/// The parts can be written, if the system finds that they can.
pub(crate) unsafe fn receive(fd: c_int, parts: &[Part], flags: c_int) -> Result<Received, Kernels> {
    if flags & abi::MSG_ERRQUEUE != 0 {
        // Errors come by the calls themselves.
        abi::set_errno(abi::EAGAIN);
        return Ok(only(-1));
    }
    let flags = flags & (abi::MSG_DONTWAIT | abi::MSG_PEEK | abi::MSG_TRUNC);
    let mut bytes = [0_u8; HEAD_BYTES];
    let mut said = 0;
    let call = |all: &[Part]| {
        let mut message = message_of(all);
        // SAFETY: the message and its parts live through the call; the system looks whether what they name can be written.
        let count = unsafe { abi::recvmsg(fd, &raw mut message, flags) };
        said = message.flags;
        count
    };
    // SAFETY: as the caller promises.
    let count = unsafe { with_head(bytes.as_mut_ptr(), parts, Way::In, call) };
    if count < 0 {
        return failed(fd).map(only);
    }
    if count == 0 {
        if datagrams::is_deaf(fd) {
            return Ok(only(0));
        }
        // The engine has ended: a socket that reads nothing at once for ever would keep programs busy.
        abi::set_errno(abi::ENETDOWN);
        return Ok(only(-1));
    }
    let whole = usize::try_from(count).unwrap_or(0);
    let Some(head) = RecordHead::from_bytes(&bytes).filter(|_| whole >= HEAD_BYTES) else {
        // Another process has written there.
        abi::set_errno(abi::EIO);
        return Ok(only(-1));
    };
    if head.kind == RecordKind::Error {
        if flags & abi::MSG_PEEK != 0 {
            // An error is told once, to one that only looks, too (`net/ipv4/udp.c __skb_recv_udp`, `include/net/sock.h sock_error`).
            // SAFETY: there are no parts.
            let _ = unsafe { receive(fd, &[], abi::MSG_DONTWAIT) };
        }
        abi::set_errno(c_int::from(head.errno));
        return Ok(only(-1));
    }
    let count = isize::try_from(whole - HEAD_BYTES).unwrap_or(0);
    Ok(Received { count, head: Some(head), flags: said & abi::MSG_TRUNC })
}

/// The message that comes next, and stays there: its head, and how long it is with that; `None`: there is none, or a call that receives says why.
fn next(fd: c_int, flags: c_int) -> Result<Option<(RecordHead, usize)>, Kernels> {
    let mut bytes = [0_u8; HEAD_BYTES];
    let part = [Part { base: bytes.as_mut_ptr(), len: HEAD_BYTES }];
    let mut message = message_of(&part);
    let flags = flags & abi::MSG_DONTWAIT | abi::MSG_PEEK | abi::MSG_TRUNC;
    // SAFETY: the message, its part and the bytes live through the call.
    let count = unsafe { abi::recvmsg(fd, &raw mut message, flags) };
    if count < 0 {
        return failed(fd).map(|_| None);
    }
    let whole = usize::try_from(count).unwrap_or(0);
    Ok(RecordHead::from_bytes(&bytes).filter(|_| whole >= HEAD_BYTES).map(|head| (head, whole)))
}

/// Whether a datagram comes next, after a wait if the flags let it be; an error stays where it is.
pub(crate) fn is_next(fd: c_int, flags: c_int) -> Result<bool, Kernels> {
    Ok(next(fd, flags)?.is_some_and(|(head, _)| head.kind == RecordKind::Datagram))
}

/// As `FIONREAD`: the bytes of the next datagram. An error stays where it is (`net/ipv4/udp.c first_packet_length`).
pub(crate) fn next_len(fd: c_int) -> Result<c_int, Kernels> {
    let datagram = next(fd, abi::MSG_DONTWAIT)?.filter(|(head, _)| head.kind == RecordKind::Datagram);
    Ok(datagram.map_or(0, |(_, whole)| c_int::try_from(whole - HEAD_BYTES).unwrap_or(c_int::MAX)))
}
