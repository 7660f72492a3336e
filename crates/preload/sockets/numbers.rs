//! What makes, copies and closes descriptors, and what gives them away.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use super::abi;
use super::connections::{self, WhyLeft};
use super::{forget, guarded, note};

/// As `accept(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(fd: c_int, address: *mut c_void, len: *mut c_uint) -> c_int {
    // SAFETY: as the caller promises.
    let made = unsafe { abi::accept(fd, address, len) };
    note(made);
    made
}

/// As `accept4(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept4(fd: c_int, address: *mut c_void, len: *mut c_uint, flags: c_int) -> c_int {
    // SAFETY: as the caller promises.
    let made = unsafe { abi::accept4(fd, address, len, flags) };
    note(made);
    made
}

/// As `connect(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn connect(fd: c_int, address: *const c_void, len: c_uint) -> c_int {
    // SAFETY: as the caller promises.
    let failed = unsafe { abi::connect(fd, address, len) };
    if (failed == 0 || abi::errno() == abi::EINPROGRESS) && !connections::is_noted(fd) {
        note(fd);
    }
    failed
}

/// As `shutdown(2)`: what is written after it fails, as the kernel's call does.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if how != abi::ONLY_READING {
        forget(fd, None);
    }
    // SAFETY: as the caller promises.
    unsafe { abi::shutdown(fd, how) }
}

/// As `close(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    // Before: the number may be another file's as soon as it is free.
    forget(fd, None);
    // SAFETY: as the caller promises.
    unsafe { abi::close(fd) }
}

fn forget_from(first: c_uint, last: c_uint) {
    for fd in first..=last.min(c_uint::from(u16::MAX)) {
        forget(fd as c_int, None);
    }
}

/// As `close_range(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> c_int {
    if flags & abi::ONLY_CLOEXEC == 0 {
        forget_from(first, last);
    }
    // SAFETY: as the caller promises.
    unsafe { abi::close_range(first, last, flags) }
}

/// As `closefrom(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
    forget_from(c_uint::try_from(first).unwrap_or(0), c_uint::MAX);
    // SAFETY: as the caller promises; what it leaves where a result would be is not looked at.
    unsafe { abi::closefrom(first) };
}

/// As `dup(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    forget(fd, Some(WhyLeft::Dup));
    // SAFETY: as the caller promises.
    unsafe { abi::dup(fd) }
}

/// As `dup2(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup2(fd: c_int, to: c_int) -> c_int {
    if fd != to {
        forget(fd, Some(WhyLeft::Dup));
        forget(to, None);
    }
    // SAFETY: as the caller promises.
    unsafe { abi::dup2(fd, to) }
}

/// As `dup3(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    forget(fd, Some(WhyLeft::Dup));
    forget(to, None);
    // SAFETY: as the caller promises.
    unsafe { abi::dup3(fd, to, flags) }
}

/// As `fcntl(2)`.
///
/// # Safety
/// As there, which depends on the command.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    if abi::DUPLICATES.contains(&command) {
        forget(fd, Some(WhyLeft::Dup));
    }
    // SAFETY: as the caller promises; what was not given is not read.
    unsafe { abi::fcntl(fd, command, argument) }
}

/// As `fcntl64(2)`.
///
/// # Safety
/// As there, which depends on the command.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int {
    if abi::DUPLICATES.contains(&command) {
        forget(fd, Some(WhyLeft::Dup));
    }
    // SAFETY: as above.
    unsafe { abi::fcntl64(fd, command, argument) }
}

/// As `fdopen(3)`: what is written to the stream goes to the kernel by calls inside of the C library.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void {
    forget(fd, Some(WhyLeft::Fdopen));
    // SAFETY: as the caller promises.
    let stream = unsafe { abi::fdopen(fd, mode) };
    core::ptr::with_exposed_provenance_mut(stream.cast_unsigned())
}

/// As `_Fork(3)`, which tells no handler of forks.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name is the C library's")]
pub unsafe extern "C-unwind" fn _Fork() -> c_int {
    guarded((), || connections::forget_all(WhyLeft::Fork));
    // SAFETY: as the caller promises.
    unsafe { abi::_Fork() }
}

fn before_spawn(actions: *const c_void) {
    // They may give any descriptor to the child.
    if !actions.is_null() {
        guarded((), || connections::forget_all(WhyLeft::Spawn));
    }
}

/// As `posix_spawn(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawn(
    pid: *mut c_int,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: *const c_void,
    envp: *const c_void,
) -> c_int {
    before_spawn(actions);
    // SAFETY: as the caller promises.
    unsafe { abi::posix_spawn(pid, path, actions, attributes, argv, envp) }
}

/// As `posix_spawnp(3)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_spawnp(
    pid: *mut c_int,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    argv: *const c_void,
    envp: *const c_void,
) -> c_int {
    before_spawn(actions);
    // SAFETY: as the caller promises.
    unsafe { abi::posix_spawnp(pid, file, actions, attributes, argv, envp) }
}

/// As `syscall(2)`: what goes to the kernel past the C library's functions.
///
/// # Safety
/// As there, which depends on the number.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    if abi::OF_DESCRIPTORS.contains(&number) {
        let fd = if number == abi::SPLICE { c } else { a };
        forget(fd as c_int, Some(WhyLeft::Syscall));
    }
    // SAFETY: as the caller promises; what was not given is not read.
    unsafe { abi::syscall(number, a, b, c, d, e, f) }
}
