//! What the library calls of the C library and of Linux, with the types and numbers that both fix.

use core::ffi::{c_char, c_int, c_long, c_void};
use core::ptr::null_mut;

use super::marks::OWN_CALL;

/// `sigset_t` of the C library; Linux reads the first [`SIGNALS_BYTES`] of it.
pub(crate) type Signals = [u64; 16];
const SIGNALS_BYTES: c_long = 8;

/// `struct timespec`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Timespec {
    pub(crate) sec: i64,
    pub(crate) nsec: i64,
}

/// `struct epoll_event`. Source: `include/uapi/linux/eventpoll.h`.
#[cfg_attr(target_arch = "x86_64", repr(C, packed))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
#[derive(Clone, Copy)]
pub struct Event {
    pub(crate) events: u32,
    pub(crate) data: u64,
}

/// `struct epoll_params`. Source: the same file, Linux 6.9.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Params {
    pub(crate) usecs: u32,
    pub(crate) budget: u16,
    pub(crate) prefer: u8,
    pub(crate) pad: u8,
}

pub(crate) const EINTR: c_int = 4;
pub(crate) const EPOLL_CTL_ADD: c_int = 1;
pub(crate) const EPOLL_CTL_DEL: c_int = 2;
const EPOLLET: u32 = 1 << 31;
const EPOLL_CLOEXEC: c_long = 0o2_000_000;
const EPIOCSPARAMS: c_long = 0x4008_8a01;
const EPIOCGPARAMS: c_long = 0x8008_8a02;
const SOL_SOCKET: c_long = 1;
const SO_INCOMING_NAPI_ID: c_long = 56;
const SIG_SETMASK: c_int = 2;
const CLOCK_MONOTONIC: c_int = 1;

#[cfg(target_arch = "x86_64")]
mod numbers {
    use core::ffi::c_long;
    pub(super) const CLOSE: c_long = 3;
    pub(super) const IOCTL: c_long = 16;
    pub(super) const GETSOCKOPT: c_long = 55;
    pub(super) const PRCTL: c_long = 157;
    pub(super) const EPOLL_CTL: c_long = 233;
    pub(super) const EPOLL_CREATE1: c_long = 291;
}
#[cfg(target_arch = "aarch64")]
mod numbers {
    use core::ffi::c_long;
    pub(super) const EPOLL_CREATE1: c_long = 20;
    pub(super) const EPOLL_CTL: c_long = 21;
    pub(super) const IOCTL: c_long = 29;
    pub(super) const CLOSE: c_long = 57;
    pub(super) const PRCTL: c_long = 167;
    pub(super) const GETSOCKOPT: c_long = 209;
}
const EPOLL_PWAIT2: c_long = 441;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn pthread_sigmask(how: c_int, set: *const Signals, before: *mut Signals) -> c_int;
    fn clock_gettime(clock: c_int, now: *mut Timespec) -> c_int;
    fn syscall(number: c_long, ...) -> c_long;
    fn __errno_location() -> *mut c_int;
}

pub(crate) fn errno() -> c_int {
    // SAFETY: it takes nothing and gives the place of the thread's own number.
    let place = unsafe { __errno_location() };
    // SAFETY: the place lives as long as the thread, and no other thread uses it.
    unsafe { *place }
}

pub(crate) fn set_errno(number: c_int) {
    // SAFETY: as above.
    let place = unsafe { __errno_location() };
    // SAFETY: as above.
    unsafe { *place = number };
}

/// Nanoseconds of the clock that only grows.
pub(crate) fn now() -> u64 {
    let mut now = Timespec { sec: 0, nsec: 0 };
    // SAFETY: `now` has room for a time.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut now) };
    (now.sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.nsec as u64)
}

/// Blocks all signals of the calling thread but those of the C library itself; what was blocked before.
pub(crate) fn block() -> Option<Signals> {
    let (all, mut before) = ([u64::MAX; 16], [0; 16]);
    // SAFETY: both are sets, and live through the call.
    let failed = unsafe { pthread_sigmask(SIG_SETMASK, &raw const all, &raw mut before) };
    (failed == 0).then_some(before)
}

/// Blocks these signals and no others.
pub(crate) fn unblock(before: &Signals) {
    // SAFETY: it is a set, which the call only reads.
    unsafe { pthread_sigmask(SIG_SETMASK, before, null_mut()) };
}

/// The parameters of an epoll instance; `None` before Linux 6.9, and of what is none.
pub(crate) fn params(epoll: c_int) -> Option<Params> {
    let mut found = Params { usecs: 0, budget: 0, prefer: 0, pad: 0 };
    // SAFETY: the request writes no more than `found` has room for.
    let failed = unsafe { syscall(numbers::IOCTL, epoll as c_long, EPIOCGPARAMS, &raw mut found) };
    (failed == 0).then_some(found)
}

/// Sets them.
pub(crate) fn set_params(epoll: c_int, wanted: Params) -> bool {
    // SAFETY: the request reads no more than `wanted` has.
    unsafe { syscall(numbers::IOCTL, epoll as c_long, EPIOCSPARAMS, &raw const wanted) == 0 }
}

/// A new epoll instance, made so that a filter of system calls (`napier run --strict`) lets it pass.
pub(crate) fn create() -> Option<c_int> {
    // SAFETY: it takes numbers only.
    let made = unsafe { syscall(numbers::EPOLL_CREATE1, EPOLL_CLOEXEC, OWN_CALL as c_long) };
    c_int::try_from(made).ok().filter(|fd| *fd >= 0)
}

/// Closes a descriptor of the library's own.
pub(crate) fn close(fd: c_int) {
    // SAFETY: it takes a number only; the caller made it and uses it no more.
    unsafe { syscall(numbers::CLOSE, fd as c_long) };
}

/// Adds a descriptor for no event, or removes it.
pub(crate) fn control(epoll: c_int, operation: c_int, fd: c_int) -> bool {
    let event = Event { events: EPOLLET, data: 0 };
    // SAFETY: the event lives through the call, which only reads it.
    unsafe { syscall(numbers::EPOLL_CTL, epoll as c_long, operation as c_long, fd as c_long, &raw const event) == 0 }
}

/// As `epoll_ctl(2)`.
///
/// # Safety
/// As there: `event` is null or an event.
pub(crate) unsafe fn control_as(epoll: c_int, operation: c_int, fd: c_int, event: *mut Event) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { syscall(numbers::EPOLL_CTL, epoll as c_long, operation as c_long, fd as c_long, event) as c_int }
}

/// As `prctl(2)`.
///
/// # Safety
/// As there, which depends on the operation.
pub(crate) unsafe fn prctl_as(operation: c_int, rest: [usize; 4]) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { syscall(numbers::PRCTL, operation as c_long, rest[0], rest[1], rest[2], rest[3]) as c_int }
}

/// The NAPI instance that a socket's packets come from; `None` for what is no socket, or has had none.
pub(crate) fn napi_id(fd: c_int) -> Option<u32> {
    let (mut id, mut len) = (0_u32, 4_u32);
    let (id_at, len_at) = (&raw mut id, &raw mut len);
    // SAFETY: `id` has the four bytes that `len` tells of, and both live through the call.
    let failed = unsafe { syscall(numbers::GETSOCKOPT, fd as c_long, SOL_SOCKET, SO_INCOMING_NAPI_ID, id_at, len_at) };
    (failed == 0 && id != 0).then_some(id)
}

/// As `epoll_pwait2(2)`, and no point at which a thread is cancelled.
///
/// # Safety
/// As there: `events` has room for `max` events, `mask` is null or a set.
pub(crate) unsafe fn pwait2(epoll: c_int, events: *mut Event, max: c_int, ns: u64, mask: *const Signals) -> c_int {
    let span = Timespec { sec: (ns / 1_000_000_000) as i64, nsec: (ns % 1_000_000_000) as i64 };
    // SAFETY: as the caller promises, and the time lives through the call.
    unsafe { pwait2_as(epoll, events, max, &raw const span, mask) }
}

/// The same with the time as it was given.
///
/// # Safety
/// As there; `span` is null or a time.
pub(crate) unsafe fn pwait2_as(
    epoll: c_int,
    events: *mut Event,
    max: c_int,
    span: *const Timespec,
    mask: *const Signals,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { syscall(EPOLL_PWAIT2, epoll as c_long, events, max as c_long, span, mask, SIGNALS_BYTES) as c_int }
}

/// `epoll_pwait` of the C library. A thread can be cancelled in it, which unwinds the stack.
pub(crate) type Pwait = unsafe extern "C-unwind" fn(c_int, *mut Event, c_int, c_int, *const Signals) -> c_int;

/// The next `epoll_pwait` after the library's own.
pub(crate) fn next_pwait() -> Option<Pwait> {
    /// `RTLD_NEXT`.
    const NEXT: *mut c_void = usize::MAX as *mut c_void;
    // SAFETY: the name ends with a zero.
    let found = unsafe { dlsym(NEXT, c"epoll_pwait".as_ptr()) };
    if found.is_null() {
        return None;
    }
    // SAFETY: the C library declares it so; `epoll_pwait(2)`.
    Some(unsafe { core::mem::transmute::<*mut c_void, Pwait>(found) })
}
