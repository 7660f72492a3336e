//! What reads from a descriptor: datagrams of the engine, with their heads taken off. All else is the kernel's own.

use core::ffi::{c_int, c_uint, c_void};
use core::slice;

use super::abi::{self, CountedMessage, MessageHead, Part};
use super::control;
use super::datagram_io::{self, Received};
use super::datagrams;

/// Receives one datagram into a buffer, and says from where.
///
/// # Safety
/// The buffer can be written, and so can the address, as long as it says.
unsafe fn received(
    fd: c_int,
    part: Part,
    flags: c_int,
    (from, len): (*mut c_void, *mut c_uint),
    kernels: impl FnOnce() -> isize,
) -> isize {
    // SAFETY: as the caller promises.
    let Ok(Received { count, head, .. }) = (unsafe { datagram_io::receive(fd, &[part], flags) }) else {
        return kernels();
    };
    if count >= 0 && !from.is_null() && !len.is_null() {
        // SAFETY: as the caller promises.
        let room = unsafe { len.read() };
        // SAFETY: as the caller promises.
        let whole = unsafe { control::write_address(head.as_ref(), from, room) };
        // SAFETY: as the caller promises.
        unsafe { len.write(whole) };
    }
    count
}

const NOBODY: (*mut c_void, *mut c_uint) = (core::ptr::null_mut(), core::ptr::null_mut());

/// As `read(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, bytes: *mut c_void, len: usize) -> isize {
    // SAFETY: as the caller promises.
    let kernels = || unsafe { abi::read(fd, bytes, len) };
    // `read` of nothing asks for nothing (`net/socket.c sock_read_iter`).
    if !datagrams::is_one(fd) || len == 0 {
        return kernels();
    }
    // SAFETY: as the caller promises.
    unsafe { received(fd, Part { base: bytes.cast(), len }, 0, NOBODY, kernels) }
}

/// As `readv(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, parts: *const Part, count: c_int) -> isize {
    // SAFETY: as the caller promises.
    let kernels = || unsafe { abi::readv(fd, parts, count) };
    let Some(len) =
        usize::try_from(count).ok().filter(|len| (1..=abi::PARTS_MAX).contains(len) && datagrams::is_one(fd))
    else {
        return kernels();
    };
    // SAFETY: as the caller promises.
    let all = unsafe { slice::from_raw_parts(parts, len) };
    // SAFETY: as the caller promises.
    unsafe { into_parts(fd, all, 0) }.unwrap_or_else(kernels)
}

/// Receives one datagram into parts; those without room ask for nothing (`fs/read_write.c vfs_readv`). `None`: the kernel's own call is to do it.
///
/// # Safety
/// The parts can be written.
unsafe fn into_parts(fd: c_int, parts: &[Part], flags: c_int) -> Option<isize> {
    if parts.iter().all(|part| part.len == 0) {
        return Some(0);
    }
    // SAFETY: as the caller promises.
    unsafe { datagram_io::receive(fd, parts, flags) }.ok().map(|received| received.count)
}

/// The flags of `recvmsg` for those of `preadv2`; `None`: no socket has them.
const fn flags_of(flags: c_int) -> Option<c_int> {
    match flags & !abi::RWF_OF_FILES {
        0 => Some(0),
        abi::RWF_NOWAIT => Some(abi::MSG_DONTWAIT),
        _ => None,
    }
}

/// As `preadv2(2)`, which is `readv` where the offset is -1.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    parts: *const Part,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> isize {
    // SAFETY: as the caller promises.
    let kernels = || unsafe { abi::preadv2(fd, parts, count, offset, flags) };
    let len = usize::try_from(count).ok().filter(|len| (1..=abi::PARTS_MAX).contains(len));
    let Some(len) = len.filter(|_| offset == -1 && datagrams::is_one(fd)) else { return kernels() };
    let Some(flags) = flags_of(flags) else {
        abi::set_errno(abi::EOPNOTSUPP);
        return -1;
    };
    // SAFETY: as the caller promises.
    let all = unsafe { slice::from_raw_parts(parts, len) };
    // SAFETY: as the caller promises.
    unsafe { into_parts(fd, all, flags) }.unwrap_or_else(kernels)
}

/// As `preadv64v2(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    parts: *const Part,
    count: c_int,
    offset: i64,
    flags: c_int,
) -> isize {
    // SAFETY: as the caller promises; an offset has 64 bits there too.
    unsafe { preadv2(fd, parts, count, offset, flags) }
}

/// As `recv(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recv(fd: c_int, bytes: *mut c_void, len: usize, flags: c_int) -> isize {
    // SAFETY: as the caller promises.
    let kernels = || unsafe { abi::recv(fd, bytes, len, flags) };
    if !datagrams::is_one(fd) {
        return kernels();
    }
    // SAFETY: as the caller promises.
    unsafe { received(fd, Part { base: bytes.cast(), len }, flags, NOBODY, kernels) }
}

/// As `recvfrom(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    bytes: *mut c_void,
    len: usize,
    flags: c_int,
    from: *mut c_void,
    from_len: *mut c_uint,
) -> isize {
    // SAFETY: as the caller promises.
    let kernels = || unsafe { abi::recvfrom(fd, bytes, len, flags, from, from_len) };
    if !datagrams::is_one(fd) {
        return kernels();
    }
    // SAFETY: as the caller promises.
    unsafe { received(fd, Part { base: bytes.cast(), len }, flags, (from, from_len), kernels) }
}

/// The same as programs call it that are compiled with `_FORTIFY_SOURCE`; what is wrong ends the program in the C library.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(fd: c_int, bytes: *mut c_void, len: usize, room: usize) -> isize {
    if datagrams::is_one(fd) && len <= room {
        // SAFETY: as the caller promises.
        return unsafe { read(fd, bytes, len) };
    }
    // SAFETY: as the caller promises.
    unsafe { abi::__read_chk(fd, bytes, len, room) }
}

/// As `__read_chk`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    bytes: *mut c_void,
    len: usize,
    room: usize,
    flags: c_int,
) -> isize {
    if datagrams::is_one(fd) && len <= room {
        // SAFETY: as the caller promises.
        return unsafe { recv(fd, bytes, len, flags) };
    }
    // SAFETY: as the caller promises.
    unsafe { abi::__recv_chk(fd, bytes, len, room, flags) }
}

/// As `__read_chk`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    bytes: *mut c_void,
    len: usize,
    room: usize,
    flags: c_int,
    from: *mut c_void,
    from_len: *mut c_uint,
) -> isize {
    if datagrams::is_one(fd) && len <= room {
        // SAFETY: as the caller promises.
        return unsafe { recvfrom(fd, bytes, len, flags, from, from_len) };
    }
    // SAFETY: as the caller promises.
    unsafe { abi::__recvfrom_chk(fd, bytes, len, room, flags, from, from_len) }
}

/// As `recvmsg(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut MessageHead, flags: c_int) -> isize {
    if datagrams::is_one(fd) && !message.is_null() {
        // SAFETY: as the caller promises.
        if let Some(count) = unsafe { one_message(fd, message, flags) } {
            return count;
        }
    }
    // SAFETY: as the caller promises.
    unsafe { abi::recvmsg(fd, message, flags) }
}

/// Receives one datagram into a message; `None`: the kernel's own call is to do it.
///
/// # Safety
/// As `recvmsg(2)`.
unsafe fn one_message(fd: c_int, message: *mut MessageHead, flags: c_int) -> Option<isize> {
    // SAFETY: the caller promises that it is one, which no other thread uses now.
    let message = unsafe { &mut *message };
    if message.parts_len > abi::PARTS_MAX {
        abi::set_errno(abi::EMSGSIZE);
        return Some(-1);
    }
    let parts = if message.parts_len == 0 {
        &[]
    } else {
        // SAFETY: as the caller promises.
        unsafe { slice::from_raw_parts(message.parts, message.parts_len) }
    };
    // SAFETY: as the caller promises.
    let received = unsafe { datagram_io::receive(fd, parts, flags) }.ok()?;
    if received.count >= 0 {
        // SAFETY: as the caller promises.
        unsafe { control::fill(message, received.head.as_ref(), received.flags) };
    }
    Some(received.count)
}

/// As `recvmmsg(2)`. The time is looked at only after a datagram has come, there too; here one that is given does not wait for a second one.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut CountedMessage,
    count: c_uint,
    flags: c_int,
    span: *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    let kernels = || unsafe { abi::recvmmsg(fd, messages, count, flags, span) };
    if !datagrams::is_one(fd) || messages.is_null() {
        return kernels();
    }
    let mut flags = if span.is_null() { flags } else { flags | abi::MSG_WAITFORONE };
    let count = count.min(abi::PARTS_MAX as c_uint) as usize;
    for nth in 0..count {
        // What goes wrong after the first is for the next call (`net/socket.c do_recvmmsg`).
        if nth > 0 && !datagrams::is_deaf(fd) && !datagram_io::is_next(fd, flags).is_ok_and(|is_next| is_next) {
            return nth as c_int;
        }
        // SAFETY: the caller promises that there are so many.
        let one = unsafe { &mut *messages.wrapping_add(nth) };
        // SAFETY: as the caller promises.
        let got = match unsafe { one_message(fd, &raw mut one.message, flags & !abi::MSG_WAITFORONE) } {
            Some(got) => got,
            None if nth == 0 => return kernels(),
            None => return nth as c_int,
        };
        let Ok(len) = c_uint::try_from(got) else {
            // What was received before counts.
            return if nth > 0 { nth as c_int } else { -1 };
        };
        one.len = len;
        if flags & abi::MSG_WAITFORONE != 0 {
            flags |= abi::MSG_DONTWAIT;
        }
    }
    count as c_int
}
