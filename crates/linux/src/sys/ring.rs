//! Busy polling of a ring of io_uring, by any descriptor of it. Source: `include/uapi/linux/io_uring.h`, Linux 6.9.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// `IORING_REGISTER_NAPI`.
const REGISTER: libc::c_uint = 27;
/// `IORING_UNREGISTER_NAPI`.
const UNREGISTER: libc::c_uint = 28;

/// `struct io_uring_napi`. Its zeros: register, and take the instances that sockets receive from (`IO_URING_NAPI_TRACKING_DYNAMIC`).
#[repr(C)]
#[derive(Default)]
struct Napi {
    busy_poll_to: u32,
    prefer_busy_poll: u8,
    opcode: u8,
    pad: [u8; 2],
    op_param: u32,
    resv: u32,
}

const _: () = assert!(size_of::<Napi>() == 16, "the kernel copies so many bytes");

/// Lets a ring busy poll for so many microseconds.
pub(crate) fn register(ring: BorrowedFd<'_>, usecs: u32, prefer: bool) -> io::Result<()> {
    call(ring, REGISTER, Napi { busy_poll_to: usecs, prefer_busy_poll: prefer.into(), ..Napi::default() })
}

/// Ends that.
pub(crate) fn unregister(ring: BorrowedFd<'_>) -> io::Result<()> {
    call(ring, UNREGISTER, Napi::default())
}

fn call(ring: BorrowedFd<'_>, what: libc::c_uint, mut napi: Napi) -> io::Result<()> {
    let argument = &raw mut napi;
    // SAFETY: the descriptor is open while it is borrowed, and `napi` lives through the call, which reads it and writes what was there
    // before, 16 bytes. Any bytes are such numbers.
    let failed = unsafe { libc::syscall(libc::SYS_io_uring_register, ring.as_raw_fd(), what, argument, 1) };
    if failed < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
