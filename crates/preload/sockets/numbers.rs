//! What makes, copies and closes descriptors, and what gives them away.

use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use super::abi;
use super::connections::{self, WhyLeft};
use super::{datagram_io, datagrams, forget, guarded, note};

/// As `socket(2)`: one for datagrams is the engine's, if there is one.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    if let Some(made) = datagrams::make(domain, kind, protocol) {
        forget(made, None);
        return made;
    }
    // SAFETY: as the caller promises.
    let made = unsafe { abi::socket(domain, kind, protocol) };
    datagrams::forget(made);
    made
}

/// As `socketpair(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
    // SAFETY: as the caller promises.
    let failed = unsafe { abi::socketpair(domain, kind, protocol, pair) };
    for nth in 0..if failed == 0 { 2 } else { 0 } {
        // SAFETY: the call has written both.
        datagrams::forget(unsafe { pair.wrapping_add(nth).read() });
    }
    failed
}

/// As `bind(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn bind(fd: c_int, address: *const c_void, len: c_uint) -> c_int {
    // SAFETY: as the caller promises.
    let failed = unsafe { abi::bind(fd, address, len) };
    datagrams::may_have_changed(fd);
    failed
}

/// As `setsockopt(2)`: some options are the kernel's alone, and so is the socket then.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: c_uint,
) -> c_int {
    // SAFETY: as the caller promises.
    let failed = unsafe { abi::setsockopt(fd, level, name, value, len) };
    datagrams::may_have_changed(fd);
    failed
}

/// As `ioctl(2)`. What is asked about interfaces is asked of a socket of the kernel.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if datagrams::is_one(fd) {
        match request {
            abi::FIONREAD => {
                if let Ok(bytes) = datagram_io::next_len(fd) {
                    // SAFETY: the caller promises an int there.
                    unsafe { argument.cast::<c_int>().write(bytes) };
                    return 0;
                }
            }
            abi::FIONCLEX => {
                abi::set_errno(abi::EPERM);
                return -1;
            }
            of if abi::OF_INTERFACES.contains(&of) => {
                // SAFETY: the call takes numbers only.
                let stand_in = unsafe { abi::socket(abi::AF_INET, abi::SOCK_DGRAM, 0) };
                if stand_in >= 0 {
                    // SAFETY: as the caller promises.
                    let answer = unsafe { abi::ioctl(stand_in, request, argument) };
                    let error = abi::errno();
                    abi::close_new(stand_in);
                    abi::set_errno(error);
                    return answer;
                }
            }
            _ => {}
        }
    }
    // SAFETY: as the caller promises; what was not given is not read.
    unsafe { abi::ioctl(fd, request, argument) }
}

/// As `accept(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn accept(fd: c_int, address: *mut c_void, len: *mut c_uint) -> c_int {
    // SAFETY: as the caller promises.
    let made = unsafe { abi::accept(fd, address, len) };
    datagrams::forget(made);
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
    datagrams::forget(made);
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
    if datagrams::is_one(fd) {
        datagrams::may_have_changed(fd);
        return failed;
    }
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
    if datagrams::is_one(fd) {
        return datagrams::shut_down(fd, how);
    }
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
    datagrams::forget(fd);
    // SAFETY: as the caller promises.
    unsafe { abi::close(fd) }
}

pub(crate) fn forget_datagrams(first: c_uint, last: c_uint) {
    (first..=last.min(c_uint::from(u16::MAX))).for_each(|fd| datagrams::forget(fd as c_int));
}

fn forget_from(first: c_uint, last: c_uint) {
    (first..=last.min(c_uint::from(u16::MAX))).for_each(|fd| forget(fd as c_int, None));
    forget_datagrams(first, last);
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

/// The C library's streams write to these by calls inside of it, and programs that are executed have them: no socket for datagrams is among them.
fn is_for_streams(fd: c_int, to: c_int) -> bool {
    let is_refused = datagrams::is_one(fd) && fd != to && (0..3).contains(&to);
    if is_refused {
        abi::set_errno(abi::EPERM);
    }
    is_refused
}

/// No program that is executed takes heads off.
fn keeps_over_exec(fd: c_int, command: c_int, argument: c_long) -> bool {
    let is_refused = command == abi::SET_FLAGS && argument & abi::FD_CLOEXEC == 0 && datagrams::is_one(fd);
    if is_refused {
        abi::set_errno(abi::EPERM);
    }
    is_refused
}

/// As `dup(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    forget(fd, Some(WhyLeft::Dup));
    // SAFETY: as the caller promises.
    let made = unsafe { abi::dup(fd) };
    datagrams::copied(fd, made);
    made
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
    if is_for_streams(fd, to) {
        return -1;
    }
    // SAFETY: as the caller promises.
    let made = unsafe { abi::dup2(fd, to) };
    if fd != to {
        datagrams::copied(fd, made);
    }
    made
}

/// As `dup3(2)`.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    forget(fd, Some(WhyLeft::Dup));
    forget(to, None);
    if is_for_streams(fd, to) {
        return -1;
    }
    // SAFETY: as the caller promises.
    let made = unsafe { abi::dup3(fd, to, flags) };
    datagrams::copied(fd, made);
    made
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
    if keeps_over_exec(fd, command, argument) {
        return -1;
    }
    // SAFETY: as the caller promises; what was not given is not read.
    let made = unsafe { abi::fcntl(fd, command, argument) };
    if abi::DUPLICATES.contains(&command) {
        datagrams::copied(fd, made);
    }
    made
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
    if keeps_over_exec(fd, command, argument) {
        return -1;
    }
    // SAFETY: as above.
    let made = unsafe { abi::fcntl64(fd, command, argument) };
    if abi::DUPLICATES.contains(&command) {
        datagrams::copied(fd, made);
    }
    made
}

/// As `fdopen(3)`: what is written to the stream goes to the kernel by calls inside of the C library.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut c_void {
    if datagrams::is_one(fd) {
        abi::set_errno(abi::EINVAL);
        return core::ptr::null_mut();
    }
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
    let pid = unsafe { abi::_Fork() };
    if pid == 0 {
        datagrams::claim();
    }
    pid
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
