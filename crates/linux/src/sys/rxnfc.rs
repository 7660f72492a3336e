//! `SIOCETHTOOL` with `struct ethtool_rxnfc`: rules for which queue a flow goes to. Source: `include/uapi/linux/ethtool.h`,
//! `net/ethtool/ioctl.c ethtool_get_rxnfc`, `ethtool_set_rxnfc`.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};

/// `include/uapi/linux/sockios.h`.
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// Bytes of `struct ethtool_rxnfc` without locations, where they begin, and where their number is.
pub(crate) const BYTES: usize = 192;
const LOCATIONS: usize = 188;
const COUNT: usize = 184;

/// `ETHTOOL_GRXCLSRLCNT` and those after it: count, get, list, delete, insert.
pub(crate) const RULE_COUNT: u32 = 0x2e;
pub(crate) const RULE: u32 = 0x2f;
pub(crate) const RULES: u32 = 0x30;
pub(crate) const DELETE: u32 = 0x31;
pub(crate) const INSERT: u32 = 0x32;

/// `struct ifreq`, whose union holds a pointer here.
#[repr(C)]
struct IfReq {
    name: [u8; libc::IFNAMSIZ],
    data: *mut u8,
    rest: [u8; 16],
}

const _: () = assert!(size_of::<IfReq>() == size_of::<libc::ifreq>() || cfg!(target_pointer_width = "32"));

/// Room for an answer with so many locations.
pub(crate) fn room(locations: usize) -> Vec<u8> {
    let mut bytes = vec![0; BYTES.max(LOCATIONS + 4 * locations)];
    put(&mut bytes, COUNT, u32::try_from(locations).unwrap_or(u32::MAX));
    bytes
}

/// Asks the driver of an interface of the calling thread's namespace.
///
/// # Panics
/// If the request is none of those above, or has less room than it says.
pub(crate) fn ask(interface: &str, request: &mut [u8]) -> io::Result<()> {
    assert!((RULE_COUNT..=INSERT).contains(&number(request, 0)), "what another command writes is not known");
    assert!(
        request.len() >= BYTES && request.len() >= LOCATIONS + 4 * number(request, COUNT) as usize,
        "it says its room"
    );
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    let mut name = [0; libc::IFNAMSIZ];
    let fits = interface.len() < name.len();
    name.get_mut(..interface.len())
        .filter(|_| fits)
        .ok_or(io::ErrorKind::InvalidInput)?
        .copy_from_slice(interface.as_bytes());
    let mut ifreq = IfReq { name, data: request.as_mut_ptr(), rest: [0; 16] };
    let on = socket.as_fd().as_raw_fd();
    // SAFETY: the socket is open. The kernel reads and writes `ifreq`, and behind its pointer `BYTES` bytes and as many locations as the
    // request says that it has room for, which is checked above; both live through the call. Any bytes are such numbers.
    let failed = unsafe { libc::ioctl(on, SIOCETHTOOL, &raw mut ifreq) };
    super::checked(failed)
}

/// The locations of an answer.
pub(crate) fn locations(answer: &[u8]) -> Vec<u32> {
    let wanted = number(answer, COUNT) as usize;
    let all = answer.get(LOCATIONS..).unwrap_or_default().as_chunks::<4>().0;
    all.iter().take(wanted).map(|bytes| u32::from_ne_bytes(*bytes)).collect()
}

/// Number of an answer to [`RULE_COUNT`].
pub(crate) fn count(answer: &[u8]) -> usize {
    number(answer, COUNT) as usize
}

/// A number of the structure.
pub(crate) fn number(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// Writes a number into it.
pub(crate) fn put(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
}
