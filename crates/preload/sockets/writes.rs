//! What writes to a descriptor: by the ring of its connection, or counted by its pair; datagrams with their heads.

use core::ffi::{c_int, c_uint, c_void};
use core::slice;

use super::abi::{self, CountedMessage, MessageHead, Part};
use super::connections::{self, WhyLeft, WriteSent};
use super::control::ControlMessages;
use super::{datagram_io, datagrams};
use super::{forget, guarded};

/// Sends parts by a ring, or else by `by_pair`, which is told whether it is a connection of the engine for certain.
///
/// # Safety
/// The parts can be read.
unsafe fn sent(fd: c_int, parts: &[Part], by_pair: impl FnOnce(bool) -> isize) -> isize {
    let len = parts.iter().fold(0_usize, |len, part| len.saturating_add(part.len));
    let bytes = parts.iter().filter(|part| part.len > 0).map(|part| {
        // SAFETY: the caller promises that it can be read; the program writes nothing there while it sends.
        unsafe { slice::from_raw_parts(part.base, part.len) }
    });
    match guarded(WriteSent::Elsewhere, || connections::send(fd, len, Some(bytes))) {
        WriteSent::ByRing => isize::try_from(len).unwrap_or(isize::MAX),
        WriteSent::Elsewhere => by_pair(false),
        WriteSent::ByPair(inside) => {
            let count = by_pair(true);
            guarded((), || connections::was_sent(inside, count));
            count
        }
    }
}

/// Sends by the pair, and counts what was sent.
pub(crate) fn counted(fd: c_int, by_pair: impl FnOnce() -> isize) -> isize {
    if !connections::is_noted(fd) {
        return by_pair();
    }
    let none: Option<core::iter::Empty<&[u8]>> = None;
    match guarded(WriteSent::Elsewhere, || connections::send(fd, 0, none)) {
        WriteSent::ByRing | WriteSent::Elsewhere => by_pair(),
        WriteSent::ByPair(inside) => {
            let count = by_pair();
            guarded((), || connections::was_sent(inside, count));
            count
        }
    }
}

/// Sends parts as one datagram of the engine; `None`: it is no socket for such.
///
/// # Safety
/// As `sendmsg(2)`.
unsafe fn datagram(
    fd: c_int,
    to: (*const c_void, c_uint),
    control: (*const u8, usize),
    parts: &[Part],
    flags: c_int,
) -> Option<isize> {
    if !datagrams::is_one(fd) {
        return None;
    }
    // SAFETY: as the caller promises.
    unsafe { datagram_io::send(fd, to, control, parts, flags) }.ok()
}

const TO_PEER: (*const c_void, c_uint) = (core::ptr::null(), 0);
const NO_CONTROL: (*const u8, usize) = (core::ptr::null(), 0);

/// As `write(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, bytes: *const c_void, len: usize) -> isize {
    // SAFETY: as the caller promises.
    let by_pair = |_| unsafe { abi::write(fd, bytes, len) };
    // SAFETY: as the caller promises.
    if let Some(sent) = unsafe { datagram(fd, TO_PEER, NO_CONTROL, &[Part { base: bytes.cast(), len }], 0) } {
        return sent;
    }
    if !connections::is_noted(fd) {
        return by_pair(false);
    }
    // SAFETY: as the caller promises.
    unsafe { sent(fd, &[Part { base: bytes.cast(), len }], by_pair) }
}

/// As `writev(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, parts: *const Part, count: c_int) -> isize {
    // SAFETY: as the caller promises.
    let by_pair = |_| unsafe { abi::writev(fd, parts, count) };
    let Some(len) = usize::try_from(count)
        .ok()
        .filter(|len| (1..=abi::PARTS_MAX).contains(len) && (connections::is_noted(fd) || datagrams::is_one(fd)))
    else {
        return counted(fd, || by_pair(false));
    };
    // SAFETY: as the caller promises.
    let all = unsafe { slice::from_raw_parts(parts, len) };
    // SAFETY: as the caller promises.
    if let Some(sent) = unsafe { datagram(fd, TO_PEER, NO_CONTROL, all, 0) } {
        return sent;
    }
    // SAFETY: as the caller promises.
    unsafe { sent(fd, all, by_pair) }
}

/// As `send(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn send(fd: c_int, bytes: *const c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: as the caller promises.
    let by_pair = |_| unsafe { abi::send(fd, bytes, len, flags) };
    // SAFETY: as the caller promises.
    if let Some(sent) = unsafe { datagram(fd, TO_PEER, NO_CONTROL, &[Part { base: bytes.cast(), len }], flags) } {
        return sent;
    }
    if !is_plain(fd, flags) {
        return by_pair(false);
    }
    // SAFETY: as the caller promises.
    unsafe { sent(fd, &[Part { base: bytes.cast(), len }], by_pair) }
}

/// Whether a call with these flags is one that a ring may have; a connection for which it may not goes on by its pair.
fn is_plain(fd: c_int, flags: c_int) -> bool {
    if !connections::is_noted(fd) {
        return false;
    }
    let is_plain = flags & !abi::PLAIN_FLAGS == 0;
    if !is_plain {
        forget(fd, Some(WhyLeft::Flag));
    }
    is_plain
}

/// As `sendto(2)`. On a connection of the engine an address is ignored, as TCP does it (`net/ipv4/tcp.c tcp_sendmsg_locked`).
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    bytes: *const c_void,
    len: usize,
    flags: c_int,
    to: *const c_void,
    to_len: c_uint,
) -> isize {
    let by_pair = |is_ours: bool| {
        if is_ours {
            // SAFETY: as the caller promises.
            return unsafe { abi::send(fd, bytes, len, flags) };
        }
        // SAFETY: as the caller promises.
        unsafe { abi::sendto(fd, bytes, len, flags, to, to_len) }
    };
    // SAFETY: as the caller promises.
    if let Some(sent) = unsafe { datagram(fd, (to, to_len), NO_CONTROL, &[Part { base: bytes.cast(), len }], flags) } {
        return sent;
    }
    if !is_plain(fd, flags) {
        return by_pair(false);
    }
    if !to.is_null() {
        guarded((), || connections::hurry(fd));
    }
    // SAFETY: as the caller promises.
    unsafe { sent(fd, &[Part { base: bytes.cast(), len }], by_pair) }
}

/// As `sendmsg(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const MessageHead, flags: c_int) -> isize {
    // SAFETY: the caller promises that it is null, which Linux tells, or a message.
    let Some(what) = (unsafe { message.as_ref() }) else {
        // SAFETY: as the caller promises.
        return unsafe { abi::sendmsg(fd, message, flags) };
    };
    let by_pair = |is_ours: bool| {
        let plain = MessageHead { name: core::ptr::null(), name_len: 0, ..*what };
        let message = if is_ours && !what.name.is_null() { &raw const plain } else { message };
        // SAFETY: as the caller promises; `plain` lives through the call.
        unsafe { abi::sendmsg(fd, message, flags) }
    };
    // SAFETY: as the caller promises.
    if let Some(sent) = unsafe { datagram_of(fd, what, flags) } {
        return sent;
    }
    // SAFETY: as the caller promises.
    let has_control = match unsafe { gives_away(what) } {
        Ok(has_control) => has_control,
        Err(Refused) => return -1,
    };
    if has_control {
        forget(fd, Some(WhyLeft::Flag));
    }
    if has_control || !is_plain(fd, flags) || !(1..=abi::PARTS_MAX).contains(&what.parts_len) {
        return counted(fd, || by_pair(false));
    }
    if !what.name.is_null() {
        guarded((), || connections::hurry(fd));
    }
    // SAFETY: as the caller promises.
    let parts = unsafe { slice::from_raw_parts(what.parts, what.parts_len) };
    // SAFETY: as the caller promises.
    unsafe { sent(fd, parts, by_pair) }
}

/// Sends a message as a datagram of the engine; `None`: it is no socket for such.
///
/// # Safety
/// As `sendmsg(2)`.
unsafe fn datagram_of(fd: c_int, message: &MessageHead, flags: c_int) -> Option<isize> {
    if !datagrams::is_one(fd) {
        return None;
    }
    let MessageHead { name, name_len, parts, parts_len, control, control_len, .. } = *message;
    if parts_len > abi::PARTS_MAX {
        abi::set_errno(abi::EMSGSIZE);
        return Some(-1);
    }
    // SAFETY: as the caller promises.
    let parts = if parts_len == 0 { &[] } else { unsafe { slice::from_raw_parts(parts, parts_len) } };
    // SAFETY: as the caller promises.
    unsafe { datagram(fd, (name, name_len), (control, control_len), parts, flags) }
}

/// A socket for datagrams cannot be given away: no other program takes heads off. `errno` says `EPERM`.
struct Refused;

/// Whether a message has control data. Descriptors in it go to another process, so connections among them go on by their pairs.
///
/// # Safety
/// The control data can be read.
unsafe fn gives_away(message: &MessageHead) -> Result<bool, Refused> {
    /// More descriptors than this go with no message (`include/net/scm.h SCM_MAX_FD`); so many heads are looked at, too.
    const MAX: usize = 253;
    if message.control.is_null() || message.control_len == 0 {
        return Ok(false);
    }
    // SAFETY: as the caller promises.
    let all = unsafe { ControlMessages::of(message.control, message.control_len) };
    for one in all.take(MAX).map_while(Result::ok).filter(|one| one.what == (abi::SOL_SOCKET, abi::SCM_RIGHTS)) {
        for nth in 0..(one.len / size_of::<c_int>()).min(MAX) {
            // SAFETY: it lies in the control data, which the caller promises can be read.
            let fd = unsafe { one.value.cast::<c_int>().wrapping_add(nth).read_unaligned() };
            if datagrams::is_one(fd) {
                abi::set_errno(abi::EPERM);
                return Err(Refused);
            }
            forget(fd, Some(WhyLeft::Rights));
        }
    }
    Ok(true)
}

/// Sends messages as datagrams of the engine, one after the other; how many went, or `None`: it is no socket for such.
///
/// # Safety
/// As `sendmmsg(2)`.
unsafe fn datagrams_of(fd: c_int, messages: *mut CountedMessage, count: usize, flags: c_int) -> Option<c_int> {
    for nth in 0..count {
        // SAFETY: the caller promises that there are so many, which no other thread uses now.
        let one = unsafe { &mut *messages.wrapping_add(nth) };
        // SAFETY: as the caller promises.
        let sent = match unsafe { datagram_of(fd, &one.message, flags) } {
            Some(sent) => sent,
            None if nth == 0 => return None,
            None => return Some(nth as c_int),
        };
        let Ok(len) = c_uint::try_from(sent) else {
            // What was sent before counts (`net/socket.c __sys_sendmmsg`).
            return Some(if nth > 0 { nth as c_int } else { -1 });
        };
        one.len = len;
    }
    Some(count as c_int)
}

/// As `sendmmsg(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut CountedMessage,
    count: c_uint,
    flags: c_int,
) -> c_int {
    let all = count.min(abi::PARTS_MAX as c_uint) as usize;
    if datagrams::is_one(fd) && !messages.is_null() {
        // SAFETY: as the caller promises.
        if let Some(sent) = unsafe { datagrams_of(fd, messages, all, flags) } {
            return sent;
        }
    }
    for nth in 0..if messages.is_null() { 0 } else { all } {
        // SAFETY: the caller promises that there are so many.
        let one = unsafe { &(*messages.wrapping_add(nth)).message };
        // SAFETY: as the caller promises.
        match unsafe { gives_away(one) } {
            Ok(true) => forget(fd, Some(WhyLeft::Flag)),
            Ok(false) => {}
            Err(Refused) => return -1,
        }
    }
    let _ = is_plain(fd, flags);
    let mut sent = 0;
    counted(fd, || {
        // SAFETY: as the caller promises.
        sent = unsafe { abi::sendmmsg(fd, messages, count, flags) };
        let lens = (0..usize::try_from(sent).unwrap_or(0)).map(|nth| {
            // SAFETY: the kernel has sent so many of them.
            unsafe { (*messages.wrapping_add(nth)).len as isize }
        });
        lens.sum()
    });
    sent
}
