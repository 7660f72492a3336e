//! What writes to a descriptor: by the ring of its connection, or counted by its pair.

use core::ffi::{c_int, c_uint, c_void};
use core::slice;

use super::abi::{self, CountedMessage, MessageHead, Part};
use super::connections::{self, WhyLeft, WriteSent};
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
fn counted(fd: c_int, by_pair: impl FnOnce() -> isize) -> isize {
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

/// As `write(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, bytes: *const c_void, len: usize) -> isize {
    // SAFETY: as the caller promises.
    let by_pair = |_| unsafe { abi::write(fd, bytes, len) };
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
    let Some(len) =
        usize::try_from(count).ok().filter(|len| (1..=abi::PARTS_MAX).contains(len) && connections::is_noted(fd))
    else {
        return counted(fd, || by_pair(false));
    };
    // SAFETY: as the caller promises.
    let all = unsafe { slice::from_raw_parts(parts, len) };
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
    let has_control = unsafe { gives_away(what) };
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

/// Whether a message has control data. Descriptors in it go to another process, so connections among them go on by their pairs.
///
/// # Safety
/// The control data can be read.
unsafe fn gives_away(message: &MessageHead) -> bool {
    const HEAD: usize = size_of::<abi::ControlHead>();
    /// More descriptors than this go with no message (`include/net/scm.h SCM_MAX_FD`); so many heads are looked at, too.
    const MAX: usize = 253;
    if message.control.is_null() || message.control_len == 0 {
        return false;
    }
    let mut at = 0;
    for _ in 0..MAX {
        if at + HEAD > message.control_len {
            break;
        }
        // SAFETY: the head lies in the control data, which the caller promises can be read; its place need not be aligned.
        let head = unsafe { message.control.wrapping_add(at).cast::<abi::ControlHead>().read_unaligned() };
        if head.len < HEAD || head.len > message.control_len - at {
            break;
        }
        if (head.level, head.kind) == (abi::SOL_SOCKET, abi::SCM_RIGHTS) {
            for nth in 0..((head.len - HEAD) / size_of::<c_int>()).min(MAX) {
                let place = message.control.wrapping_add(at + HEAD).cast::<c_int>().wrapping_add(nth);
                // SAFETY: it lies in the control data, as above.
                let fd = unsafe { place.read_unaligned() };
                forget(fd, Some(WhyLeft::Rights));
            }
        }
        at += head.len.next_multiple_of(size_of::<usize>());
    }
    true
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
    for nth in 0..if messages.is_null() { 0 } else { all } {
        // SAFETY: the caller promises that there are so many.
        let one = unsafe { &(*messages.wrapping_add(nth)).message };
        // SAFETY: as the caller promises.
        if unsafe { gives_away(one) } {
            forget(fd, Some(WhyLeft::Flag));
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

/// As `sendfile(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(to: c_int, from: c_int, offset: *mut i64, count: usize) -> isize {
    // SAFETY: as the caller promises.
    counted(to, || unsafe { abi::sendfile(to, from, offset, count) })
}

/// As `sendfile64(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(to: c_int, from: c_int, offset: *mut i64, count: usize) -> isize {
    // SAFETY: as the caller promises.
    counted(to, || unsafe { abi::sendfile64(to, from, offset, count) })
}

/// As `splice(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_at: *mut i64,
    to: c_int,
    to_at: *mut i64,
    len: usize,
    flags: c_uint,
) -> isize {
    // SAFETY: as the caller promises.
    counted(to, || unsafe { abi::splice(from, from_at, to, to_at, len, flags) })
}

/// As `pwritev2(2)`, which writes to a socket where the offset is -1.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    parts: *const Part,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> isize {
    // SAFETY: as the caller promises.
    counted(fd, || unsafe { abi::pwritev2(fd, parts, count, offset, flags) })
}

/// As `pwritev64v2(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    parts: *const Part,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> isize {
    // SAFETY: as the caller promises.
    counted(fd, || unsafe { abi::pwritev64v2(fd, parts, count, offset, flags) })
}
