//! What goes to the kernel past the C library's functions, but by its `syscall`.

use core::ffi::{c_int, c_long, c_uint, c_void};
use core::ptr::{with_exposed_provenance as at, with_exposed_provenance_mut as at_mut};

use super::connections::WhyLeft;
use super::{abi, datagrams, forget, numbers, passes, reads, writes};

/// The numbers of calls on sockets, as the C library's functions of these names do them.
#[cfg(target_arch = "x86_64")]
mod call {
    use core::ffi::c_long;

    pub(super) const COPIES: [c_long; 3] = [32, 33, 292];
    pub(super) const FCNTL: c_long = 72;
    pub(super) const CLOSE_RANGE: c_long = 436;
    pub(super) const READ: c_long = 0;
    pub(super) const WRITE: c_long = 1;
    pub(super) const CLOSE: c_long = 3;
    pub(super) const READV: c_long = 19;
    pub(super) const WRITEV: c_long = 20;
    pub(super) const CONNECT: c_long = 42;
    pub(super) const SENDTO: c_long = 44;
    pub(super) const RECVFROM: c_long = 45;
    pub(super) const SENDMSG: c_long = 46;
    pub(super) const RECVMSG: c_long = 47;
    pub(super) const SHUTDOWN: c_long = 48;
    pub(super) const BIND: c_long = 49;
    pub(super) const SETSOCKOPT: c_long = 54;
    pub(super) const RECVMMSG: c_long = 299;
    pub(super) const SENDMMSG: c_long = 307;
    pub(super) const PREADV2: c_long = 327;
    pub(super) const PWRITEV2: c_long = 328;
}
#[cfg(target_arch = "aarch64")]
mod call {
    use core::ffi::c_long;

    pub(super) const COPIES: [c_long; 2] = [23, 24];
    pub(super) const FCNTL: c_long = 25;
    pub(super) const CLOSE_RANGE: c_long = 436;
    pub(super) const CLOSE: c_long = 57;
    pub(super) const READ: c_long = 63;
    pub(super) const WRITE: c_long = 64;
    pub(super) const READV: c_long = 65;
    pub(super) const WRITEV: c_long = 66;
    pub(super) const BIND: c_long = 200;
    pub(super) const CONNECT: c_long = 203;
    pub(super) const SENDTO: c_long = 206;
    pub(super) const RECVFROM: c_long = 207;
    pub(super) const SETSOCKOPT: c_long = 208;
    pub(super) const SHUTDOWN: c_long = 210;
    pub(super) const SENDMSG: c_long = 211;
    pub(super) const RECVMSG: c_long = 212;
    pub(super) const RECVMMSG: c_long = 243;
    pub(super) const SENDMMSG: c_long = 269;
    pub(super) const PREADV2: c_long = 286;
    pub(super) const PWRITEV2: c_long = 287;
}

/// What a call on a socket for datagrams comes to, done as the function of that name does it; `None`: it is another call.
///
/// # Safety
/// As the call.
#[allow(clippy::multiple_unsafe_ops_per_block, reason = "one of them is done, and each asks for the same")]
unsafe fn of_datagrams(number: c_long, [a, b, c, d, e, f]: [c_long; 6]) -> Option<c_long> {
    let (fd, flags) = (a as c_int, d as c_int);
    let (bytes, into, len) = (at::<c_void>(b as usize), at_mut::<c_void>(b as usize), c as usize);
    // SAFETY: as the caller promises, all.
    let done = unsafe {
        match number {
            call::READ => reads::read(fd, into, len),
            call::WRITE => writes::write(fd, bytes, len),
            call::READV => reads::readv(fd, bytes.cast(), c as c_int),
            call::WRITEV => writes::writev(fd, bytes.cast(), c as c_int),
            // The offset is one word, and the next one is not looked at (`fs/read_write.c pos_from_hilo`).
            call::PREADV2 => reads::preadv2(fd, bytes.cast(), c as c_int, d, f as c_int),
            call::PWRITEV2 => passes::pwritev2(fd, bytes.cast(), c as c_int, d, f as c_int),
            call::SENDTO => writes::sendto(fd, bytes, len, flags, at(e as usize), f as c_uint),
            call::RECVFROM => reads::recvfrom(fd, into, len, flags, at_mut(e as usize), at_mut(f as usize)),
            call::SENDMSG => writes::sendmsg(fd, bytes.cast(), c as c_int),
            call::RECVMSG => reads::recvmsg(fd, into.cast(), c as c_int),
            call::SENDMMSG => writes::sendmmsg(fd, into.cast(), c as c_uint, flags) as isize,
            call::RECVMMSG => reads::recvmmsg(fd, into.cast(), c as c_uint, flags, at_mut(e as usize)) as isize,
            call::CONNECT => numbers::connect(fd, bytes, c as c_uint) as isize,
            call::BIND => numbers::bind(fd, bytes, c as c_uint) as isize,
            call::SETSOCKOPT => numbers::setsockopt(fd, b as c_int, c as c_int, at(d as usize), e as c_uint) as isize,
            call::SHUTDOWN => numbers::shutdown(fd, b as c_int) as isize,
            call::CLOSE => numbers::close(fd) as isize,
            _ => return None,
        }
    };
    Some(done as c_long)
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
    if datagrams::is_one(a as c_int)
        // SAFETY: as the caller promises.
        && let Some(done) = unsafe { of_datagrams(number, [a, b, c, d, e, f]) }
    {
        return done;
    }
    // SAFETY: as the caller promises; what was not given is not read.
    let done = unsafe { abi::syscall(number, a, b, c, d, e, f) };
    let is_copy = call::COPIES.contains(&number) || number == call::FCNTL && abi::DUPLICATES.contains(&(b as c_int));
    if done >= 0 && is_copy && done != a {
        datagrams::copied(a as c_int, done as c_int);
    } else if done == 0 && number == call::CLOSE_RANGE && c as c_uint & abi::ONLY_CLOEXEC == 0 {
        numbers::forget_datagrams(a as c_uint, b as c_uint);
    }
    done
}
