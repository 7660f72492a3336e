//! What the library calls of the C library and of Linux, with the types and numbers that both fix.

use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use core::mem::transmute;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Part {
    pub(crate) base: *const u8,
    pub(crate) len: usize,
}

/// `struct msghdr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MessageHead {
    pub(crate) name: *const c_void,
    pub(crate) name_len: c_uint,
    pub(crate) parts: *const Part,
    pub(crate) parts_len: usize,
    pub(crate) control: *const u8,
    pub(crate) control_len: usize,
    pub(crate) flags: c_int,
}

/// `struct mmsghdr`.
#[repr(C)]
pub struct CountedMessage {
    pub(crate) message: MessageHead,
    pub(crate) len: c_uint,
}

/// `struct cmsghdr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ControlHead {
    pub(crate) len: usize,
    pub(crate) level: c_int,
    pub(crate) kind: c_int,
}

pub(crate) const AF_UNIX: c_int = 1;
pub(crate) const AF_INET: c_int = 2;
pub(crate) const AF_INET6: c_int = 10;
pub(crate) const SOCK_DGRAM: c_int = 2;
/// Of a type, without `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
pub(crate) const KIND_BITS: c_int = 15;
pub(crate) const IPPROTO_UDP: c_int = 17;
pub(crate) const SHUT_RD: c_int = 0;
pub(crate) const SHUT_WR: c_int = 1;
pub(crate) const SHUT_RDWR: c_int = 2;
pub(crate) const SOL_IP: c_int = 0;
pub(crate) const IP_TOS: c_int = 1;
pub(crate) const IP_TTL: c_int = 2;
pub(crate) const IP_PKTINFO: c_int = 8;
pub(crate) const SOL_IPV6: c_int = 41;
pub(crate) const IPV6_PKTINFO: c_int = 50;
pub(crate) const IPV6_HOPLIMIT: c_int = 52;
pub(crate) const IPV6_TCLASS: c_int = 67;
pub(crate) const MSG_OOB: c_int = 1;
pub(crate) const MSG_PEEK: c_int = 2;
pub(crate) const MSG_CTRUNC: c_int = 8;
pub(crate) const MSG_TRUNC: c_int = 0x20;
pub(crate) const MSG_DONTWAIT: c_int = 0x40;
pub(crate) const MSG_ERRQUEUE: c_int = 0x2000;
pub(crate) const MSG_NOSIGNAL: c_int = 0x4000;
pub(crate) const MSG_MORE: c_int = 0x8000;
pub(crate) const MSG_WAITFORONE: c_int = 0x10000;
/// Of `preadv2`: those that mean something for files alone, and the one that does for sockets. Source: `include/uapi/linux/fs.h`.
pub(crate) const RWF_OF_FILES: c_int = 0x17;
pub(crate) const RWF_NOWAIT: c_int = 8;
pub(crate) const EPERM: c_int = 1;
pub(crate) const EIO: c_int = 5;
pub(crate) const EBADF: c_int = 9;
pub(crate) const EAGAIN: c_int = 11;
pub(crate) const EINVAL: c_int = 22;
pub(crate) const ENFILE: c_int = 23;
pub(crate) const EMFILE: c_int = 24;
pub(crate) const EPIPE: c_int = 32;
pub(crate) const ENOTSOCK: c_int = 88;
pub(crate) const EDESTADDRREQ: c_int = 89;
pub(crate) const EMSGSIZE: c_int = 90;
pub(crate) const ENOPROTOOPT: c_int = 92;
pub(crate) const EOPNOTSUPP: c_int = 95;
pub(crate) const EAFNOSUPPORT: c_int = 97;
pub(crate) const ENETDOWN: c_int = 100;
pub(crate) const ECONNRESET: c_int = 104;
pub(crate) const ENOTCONN: c_int = 107;
/// `F_SETFD`, and what it may say.
pub(crate) const SET_FLAGS: c_int = 2;
pub(crate) const FD_CLOEXEC: c_long = 1;
pub(crate) const FIONREAD: c_ulong = 0x541b;
pub(crate) const FIONCLEX: c_ulong = 0x5450;
/// Of interfaces, addresses and routes; `SIOCOUTQ` and its like are others.
pub(crate) const OF_INTERFACES: core::ops::RangeInclusive<c_ulong> = 0x890b..=0x89ff;

pub(crate) const SOL_SOCKET: c_int = 1;
pub(crate) const SCM_RIGHTS: c_int = 1;
pub(crate) const EINTR: c_int = 4;
pub(crate) const EINPROGRESS: c_int = 115;
pub(crate) const ENOSYS: c_int = 38;
/// `F_DUPFD`, `F_DUPFD_CLOEXEC`.
pub(crate) const DUPLICATES: [c_int; 2] = [0, 1030];
/// `SHUT_RD`.
pub(crate) const ONLY_READING: c_int = 0;
/// `CLOSE_RANGE_CLOEXEC`.
pub(crate) const ONLY_CLOEXEC: c_uint = 4;
/// `MSG_DONTWAIT`, `MSG_EOR`, `MSG_CONFIRM`, `MSG_NOSIGNAL`, `MSG_MORE`: what they ask for, a ring does too.
pub(crate) const PLAIN_FLAGS: c_int = 0x40 | 0x80 | 0x800 | 0x4000 | 0x8000;
/// Parts that the kernel takes at once. Source: `include/uapi/linux/uio.h UIO_MAXIOV`.
pub(crate) const PARTS_MAX: usize = 1024;
const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;
const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
/// `MADV_WIPEONFORK`, Linux 4.14.
const WIPE_ON_FORK: c_int = 18;

/// System calls that write to, close or copy the descriptor that is their first argument, and `splice`.
#[cfg(target_arch = "x86_64")]
pub(crate) const OF_DESCRIPTORS: [c_long; 13] = [1, 3, 20, 32, 33, 40, 44, 46, 72, 292, 307, 328, SPLICE];
#[cfg(target_arch = "x86_64")]
pub(crate) const SPLICE: c_long = 275;
#[cfg(target_arch = "aarch64")]
pub(crate) const OF_DESCRIPTORS: [c_long; 12] = [23, 24, 25, 57, 64, 66, 71, 206, 211, 269, 287, SPLICE];
#[cfg(target_arch = "aarch64")]
pub(crate) const SPLICE: c_long = 76;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn __errno_location() -> *mut c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut c_void) -> c_int;
    fn mmap(at: *mut c_void, len: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void;
    fn getpid() -> c_int;
    fn madvise(at: *mut c_void, len: usize, advice: c_int) -> c_int;
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
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

/// This process.
pub(crate) fn pid() -> u32 {
    // SAFETY: it takes nothing.
    unsafe { getpid() }.cast_unsigned()
}

/// Lets a descriptor be closed on exec.
pub(crate) fn close_on_exec(fd: c_int) {
    // SAFETY: the call takes numbers only.
    unsafe { fcntl(fd, SET_FLAGS, FD_CLOEXEC) };
}

/// Closes a descriptor that no other code knows of.
pub(crate) fn close_new(fd: c_int) {
    // SAFETY: it was just made.
    unsafe { close(fd) };
}

/// Asks the engine for something by a call that it holds; -1 where none does.
pub(crate) fn ask(fd: c_int, (level, name): (c_int, c_int), arguments: [usize; 2]) -> c_int {
    let [value, len] = arguments.map(core::ptr::without_provenance_mut);
    // SAFETY: no protocol has this level, so the kernel looks at neither pointer (`net/socket.c do_sock_getsockopt`).
    unsafe { getsockopt(fd, level, name, value, len) }
}

/// The domain of a socket, by its kernel.
pub(crate) fn domain(fd: c_int) -> Option<c_int> {
    /// `SO_DOMAIN`.
    const DOMAIN: c_int = 39;
    let (mut value, mut len) = (0 as c_int, size_of::<c_int>() as c_uint);
    let (value, len) = (&raw mut value, &raw mut len);
    // SAFETY: both places live through the call, which writes no more than an int to each.
    let failed = unsafe { getsockopt(fd, SOL_SOCKET, DOMAIN, value.cast(), len.cast()) };
    // SAFETY: it lives still, and has a value.
    (failed == 0).then(|| unsafe { value.read() })
}

/// Maps shared memory, from its first byte on.
pub(crate) fn map(fd: c_int, len: usize) -> Option<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the kernel's choice.
    let found = unsafe { mmap(null_mut(), len, PROT_READ_WRITE, MAP_SHARED, fd, 0) };
    mapped(found)
}

/// A page of zeros that is one of zeros again in each child that a fork makes.
pub(crate) fn page_of_this_process() -> Option<NonNull<u8>> {
    const PAGE: usize = 4096;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let found = unsafe { mmap(null_mut(), PAGE, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0) };
    let page = mapped(found)?;
    // SAFETY: it is the mapping that was just made.
    let failed = unsafe { madvise(page.as_ptr().cast(), PAGE, WIPE_ON_FORK) };
    (failed == 0).then_some(page)
}

fn mapped(found: *mut c_void) -> Option<NonNull<u8>> {
    // MAP_FAILED
    NonNull::new(found.cast::<u8>()).filter(|found| found.as_ptr().addr() != usize::MAX)
}

/// Lets a function be called before each fork.
pub(crate) fn before_forks(call: extern "C" fn()) -> bool {
    // SAFETY: the library is never unloaded, so the function stays.
    unsafe { pthread_atfork(Some(call), None, None) == 0 }
}

/// Lets a function be called in each child of a fork.
pub(crate) fn after_forks(call: extern "C" fn()) -> bool {
    // SAFETY: the library is never unloaded, so the function stays.
    unsafe { pthread_atfork(None, None, Some(call)) == 0 }
}

/// A function of the C library that this library takes the place of, asked for once.
pub(crate) struct NextFunction {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl NextFunction {
    /// By a name with a zero at its end.
    const fn new(name: &'static str) -> Self {
        let Ok(name) = CStr::from_bytes_with_nul(name.as_bytes()) else { panic!("a name ends with a zero") };
        Self { name, found: AtomicPtr::new(null_mut()) }
    }

    fn find(&self) -> Option<NonNull<c_void>> {
        /// `RTLD_NEXT`.
        const AFTER_THIS: *mut c_void = core::ptr::without_provenance_mut(usize::MAX);
        // Relaxed: each thread that looks finds the same.
        if let Some(found) = NonNull::new(self.found.load(Ordering::Relaxed)) {
            return Some(found);
        }
        // SAFETY: the name ends with a zero.
        let found = unsafe { dlsym(AFTER_THIS, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        if found.is_null() {
            set_errno(ENOSYS);
        }
        NonNull::new(found)
    }
}

pub(crate) static DPRINTF: NextFunction = NextFunction::new("dprintf\0");
pub(crate) static DPRINTF_CHK: NextFunction = NextFunction::new("__dprintf_chk\0");

impl NextFunction {
    /// Where it is, for a call whose arguments only its caller knows; else where it fails.
    pub(crate) fn place(&self) -> *const c_void {
        extern "C" fn fails() -> c_int {
            -1
        }
        self.find().map_or(fails as *const c_void, |found| found.as_ptr().cast_const())
    }
}

macro_rules! next {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// The C library's own.
        ///
        /// # Safety
        /// As there.
        #[allow(non_snake_case, reason = "the names are those there")]
        pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
            static NEXT: NextFunction = NextFunction::new(concat!(stringify!($name), "\0"));
            let Some(found) = NEXT.find() else { return -1 };
            // SAFETY: the C library declares it so; an argument that is one of a variable number goes the same way.
            let next = unsafe { transmute::<NonNull<c_void>, unsafe extern "C-unwind" fn($($type),*) -> $result>(found) };
            // SAFETY: as the caller promises.
            unsafe { next($($argument),*) }
        }
    )*};
}

next! {
    fn write(fd: c_int, bytes: *const c_void, len: usize) -> isize;
    fn writev(fd: c_int, parts: *const Part, count: c_int) -> isize;
    fn send(fd: c_int, bytes: *const c_void, len: usize, flags: c_int) -> isize;
    fn sendto(fd: c_int, bytes: *const c_void, len: usize, flags: c_int, to: *const c_void, to_len: c_uint) -> isize;
    fn sendmsg(fd: c_int, message: *const MessageHead, flags: c_int) -> isize;
    fn sendmmsg(fd: c_int, messages: *mut CountedMessage, count: c_uint, flags: c_int) -> c_int;
    fn sendfile(to: c_int, from: c_int, offset: *mut i64, count: usize) -> isize;
    fn sendfile64(to: c_int, from: c_int, offset: *mut i64, count: usize) -> isize;
    fn splice(from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, len: usize, flags: c_uint) -> isize;
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int;
    fn bind(fd: c_int, address: *const c_void, len: c_uint) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: c_uint) -> c_int;
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int;
    fn read(fd: c_int, bytes: *mut c_void, len: usize) -> isize;
    fn readv(fd: c_int, parts: *const Part, count: c_int) -> isize;
    fn preadv2(fd: c_int, parts: *const Part, count: c_int, offset: i64, flags: c_int) -> isize;
    fn recv(fd: c_int, bytes: *mut c_void, len: usize, flags: c_int) -> isize;
    fn recvfrom(fd: c_int, bytes: *mut c_void, len: usize, flags: c_int, from: *mut c_void, from_len: *mut c_uint) -> isize;
    fn recvmsg(fd: c_int, message: *mut MessageHead, flags: c_int) -> isize;
    fn recvmmsg(fd: c_int, messages: *mut CountedMessage, count: c_uint, flags: c_int, span: *mut c_void) -> c_int;
    fn __read_chk(fd: c_int, bytes: *mut c_void, len: usize, room: usize) -> isize;
    fn __recv_chk(fd: c_int, bytes: *mut c_void, len: usize, room: usize, flags: c_int) -> isize;
    fn __recvfrom_chk(fd: c_int, bytes: *mut c_void, len: usize, room: usize, flags: c_int, from: *mut c_void, from_len: *mut c_uint) -> isize;
    fn accept(fd: c_int, address: *mut c_void, len: *mut c_uint) -> c_int;
    fn accept4(fd: c_int, address: *mut c_void, len: *mut c_uint, flags: c_int) -> c_int;
    fn connect(fd: c_int, address: *const c_void, len: c_uint) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> c_int;
    fn closefrom(first: c_int) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup2(fd: c_int, to: c_int) -> c_int;
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int;
    fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int;
    fn fdopen(fd: c_int, mode: *const c_char) -> isize;
    fn _Fork() -> c_int;
    fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    fn pwritev2(fd: c_int, parts: *const Part, count: c_int, offset: i64, flags: c_int) -> isize;
    fn pwritev64v2(fd: c_int, parts: *const Part, count: c_int, offset: i64, flags: c_int) -> isize;
    fn posix_spawn(pid: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, argv: *const c_void, envp: *const c_void) -> c_int;
    fn posix_spawnp(pid: *mut c_int, file: *const c_char, actions: *const c_void, attributes: *const c_void, argv: *const c_void, envp: *const c_void) -> c_int;
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long;
}
