//! Counters of a driver by their names (`ethtool -S`), which only an ioctl tells. Source: `net/ethtool/ioctl.c ethtool_get_strings`,
//! `ethtool_get_stats`, `include/uapi/linux/ethtool.h`.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
/// `enum ethtool_stringset`.
const ETH_SS_STATS: u32 = 1;
const NAME_BYTES: usize = 32;
/// Counters that there is room for. The kernel writes as many as the driver has at that moment, whatever it said a moment before: a veth
/// has 7 for each receive queue, 2 for each transmit queue and a few more, and at most 4096 queues of each kind.
const COUNTERS_MAX: usize = 1 << 16;

/// `struct ifreq` with the pointer of its union.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut libc::c_void,
    rest: [u8; 16],
}

/// Names and values of a veth's own counters. For other drivers there may be no room, so they are not asked.
///
/// # Errors
/// No such interface, or it has no counters; another driver's.
pub(crate) fn veth_counters(socket: BorrowedFd<'_>, interface: &str) -> io::Result<Vec<(String, u64)>> {
    // `struct ethtool_sset_info`: command, reserved, mask, one count.
    let mut info = [0_u64; 3];
    info[0] = ETHTOOL_GSSET_INFO.into();
    info[1] = 1 << ETH_SS_STATS;
    ask(socket, interface, &mut info)?;
    let count = (info[2] & u64::from(u32::MAX)) as usize;
    if info[1] == 0 || count == 0 || count > COUNTERS_MAX {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // `struct ethtool_gstrings`: command, set, count, names. A count that is too large is room.
    let mut names = vec![0_u64; 2 + COUNTERS_MAX * NAME_BYTES / 8];
    names[0] = pair(ETHTOOL_GSTRINGS, ETH_SS_STATS);
    ask(socket, interface, &mut names)?;
    let bytes: Vec<u8> = names.iter().flat_map(|word| word.to_ne_bytes()).skip(12).take(count * NAME_BYTES).collect();
    // `struct ethtool_stats`: command, count, values.
    let mut values = vec![0_u64; 1 + COUNTERS_MAX];
    values[0] = pair(ETHTOOL_GSTATS, count as u32);
    ask(socket, interface, &mut values)?;
    let name = |name: &[u8]| {
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        String::from_utf8_lossy(&name[..end]).into_owned()
    };
    Ok(bytes.chunks(NAME_BYTES).map(name).zip(values.into_iter().skip(1)).collect())
}

/// Two 32-bit fields, as they lie in memory.
fn pair(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// `argument` has room for all that a veth can answer.
fn ask(socket: BorrowedFd<'_>, interface: &str, argument: &mut [u64]) -> io::Result<()> {
    let mut request = Request { name: [0; libc::IFNAMSIZ], data: argument.as_mut_ptr().cast(), rest: [0; 16] };
    let name = interface.as_bytes();
    if name.len() >= request.name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    request.name[..name.len()].copy_from_slice(name);
    // SAFETY: the descriptor is open while it is borrowed. `request` is as large as the kernel's `struct ifreq` at least and lives through
    // the call; it names `argument`, which lives as long, and of which the kernel writes no more than a veth's counters take.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
