//! What writes to a descriptor where the bytes are in files and pipes, or by calls that no ring has: by the pair, and counted.

use core::ffi::{c_int, c_uint};

use super::abi::{self, Part};
use super::datagrams;
use super::writes::counted;

/// What would write bytes without a head fails: true, and `errno` is set.
fn is_refused(fd: c_int) -> bool {
    let is_one = datagrams::is_one(fd);
    if is_one {
        abi::set_errno(abi::EINVAL);
    }
    is_one
}

/// As `sendfile(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile(to: c_int, from: c_int, offset: *mut i64, count: usize) -> isize {
    if is_refused(to) {
        return -1;
    }
    // SAFETY: as the caller promises.
    counted(to, || unsafe { abi::sendfile(to, from, offset, count) })
}

/// As `sendfile64(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendfile64(to: c_int, from: c_int, offset: *mut i64, count: usize) -> isize {
    if is_refused(to) {
        return -1;
    }
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
    if is_refused(to) || is_refused(from) {
        return -1;
    }
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
    if is_refused(fd) {
        return -1;
    }
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
    if is_refused(fd) {
        return -1;
    }
    // SAFETY: as the caller promises.
    counted(fd, || unsafe { abi::pwritev64v2(fd, parts, count, offset, flags) })
}
