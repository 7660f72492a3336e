//! XDP programs: `bpf(2)` as far as a program, its map and its link to an interface need it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands of `bpf(2)`. Source: `include/uapi/linux/bpf.h` `enum bpf_cmd`.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_TEST_RUN: libc::c_int = 10;
const BPF_LINK_CREATE: libc::c_int = 28;
/// `BPF_MAP_TYPE_XSKMAP`, `BPF_PROG_TYPE_XDP` and `BPF_XDP` of the same file.
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// `include/uapi/linux/if_link.h`.
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// One instruction, as the kernel reads it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Instruction {
    /// Operation.
    pub code: u8,
    /// Destination in the low half, source in the high half.
    pub registers: u8,
    /// Of memory, in bytes, or of a jump, in instructions.
    pub offset: i16,
    /// Constant.
    pub immediate: i32,
}

/// Where the kernel calls the program.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the driver.
    Native,
    /// In the stack, on packets that the driver has handed up.
    Generic,
}

/// The attributes of each command; what a kernel does not know must be zero, and is left out here.
#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

#[repr(C)]
#[derive(Default)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    answer: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
}

/// Calls `bpf(2)`.
///
/// # Safety
///
/// `attributes` is what `command` expects, and every address in it is of memory that is good for what the command does
/// with it.
unsafe fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<libc::c_int> {
    let (at, size) = (&raw mut *attributes, size_of::<T>());
    // SAFETY: the attributes live through the call and have this size; the rest is this function's contract.
    let answer = unsafe { libc::syscall(libc::SYS_bpf, command, at, size) };
    // An error, or a descriptor.
    libc::c_int::try_from(answer).ok().filter(|&answer| answer >= 0).ok_or_else(io::Error::last_os_error)
}

fn number(fd: impl AsFd) -> u32 {
    fd.as_fd().as_raw_fd().cast_unsigned()
}

fn own(fd: libc::c_int) -> OwnedFd {
    // SAFETY: the kernel has just made this descriptor for us.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A map from queues to AF_XDP sockets.
pub struct XskMap(OwnedFd);

impl XskMap {
    /// Makes one, for `queues` queues.
    ///
    /// # Errors
    ///
    /// `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN`.
    pub fn new(queues: u32) -> io::Result<Self> {
        let mut attributes =
            MapCreate { map_type: MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: queues, map_flags: 0 };
        // SAFETY: no addresses in it.
        unsafe { bpf(BPF_MAP_CREATE, &mut attributes) }.map(|map| Self(own(map)))
    }

    /// Leads packets that the program redirects from `queue` to a socket.
    ///
    /// # Errors
    ///
    /// As `bpf(2)`.
    pub fn put_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = number(socket);
        let mut attributes = MapElement {
            map_fd: number(self),
            key: (&raw const queue).expose_provenance() as u64,
            value: (&raw const value).expose_provenance() as u64,
            ..MapElement::default()
        };
        // SAFETY: key and value are four bytes each, as the map was made, and live through the call.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &mut attributes) }.map(|_| ())
    }
}

impl AsFd for XskMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Loads an XDP program.
///
/// # Errors
///
/// `EPERM` without the capabilities, `EINVAL` or `EACCES` if the verifier refuses it.
pub fn load_xdp(program: &[Instruction]) -> io::Result<OwnedFd> {
    let mut prog_name = [0; 16];
    prog_name[..6].copy_from_slice(b"napier");
    let mut attributes = ProgLoad {
        prog_type: PROG_TYPE_XDP,
        instruction_count: u32::try_from(program.len()).map_err(io::Error::other)?,
        instructions: program.as_ptr().expose_provenance() as u64,
        license: c"Dual MIT/GPL".as_ptr().expose_provenance() as u64,
        prog_name,
        expected_attach_type: ATTACH_XDP,
        ..ProgLoad::default()
    };
    // SAFETY: the instructions and the licence live through the call, and their sizes are right.
    unsafe { bpf(BPF_PROG_LOAD, &mut attributes) }.map(own)
}

/// Attaches a program to an interface of the calling thread's namespace, until the descriptor is closed.
///
/// # Errors
///
/// `EBUSY` or `EEXIST` if a program is attached, `EOPNOTSUPP` if the driver has no native mode, `ERANGE` if the MTU is too
/// large for it, `ENODEV` if there is no such interface.
pub fn attach_xdp(program: impl AsFd, ifindex: u32, mode: Mode) -> io::Result<OwnedFd> {
    let mut attributes = LinkCreate {
        prog_fd: number(program),
        target_ifindex: ifindex,
        attach_type: ATTACH_XDP,
        flags: match mode {
            Mode::Native => XDP_FLAGS_DRV_MODE,
            Mode::Generic => XDP_FLAGS_SKB_MODE,
        },
    };
    // SAFETY: no addresses in it.
    unsafe { bpf(BPF_LINK_CREATE, &mut attributes) }.map(own)
}

/// Runs a program on a packet, as for an interface; returns its answer (`enum xdp_action`).
///
/// # Errors
///
/// As `bpf(2)`.
pub fn run_xdp(program: impl AsFd, packet: &[u8]) -> io::Result<u32> {
    let mut attributes = TestRun {
        prog_fd: number(program),
        data_size_in: u32::try_from(packet.len()).map_err(io::Error::other)?,
        data_in: packet.as_ptr().expose_provenance() as u64,
        repeat: 1,
        ..TestRun::default()
    };
    // SAFETY: the packet lives through the call, and its size is right.
    unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes) }?;
    Ok(attributes.answer)
}
