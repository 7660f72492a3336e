//! Offloads of an interface (`ethtool -k`, `-K`). Source: `net/ethtool/features.c`, `net/ethtool/bitset.c`.

use std::ffi::{CStr, CString};
use std::io;

use netlink_bindings::ethtool;
use netlink_socket2::NetlinkSocket;

use super::wire::{self, attributes, nested};
use super::{EthtoolError, refused};
use crate::link::plain;

/// `include/uapi/linux/ethtool_netlink_generated.h`.
const ETHTOOL_MSG_FEATURES_GET: u8 = 11;
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;

/// `ETHTOOL_A_FEATURES_*`.
const HW: u16 = 2;
const ACTIVE: u16 = 4;
/// `ETHTOOL_A_BITSET_BITS`, `ETHTOOL_A_BITSET_BITS_BIT`, and of a bit its name and that it is set.
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// One offload by the kernel's own name (`rx-gro`), which `ethtool -K` takes too.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Feature {
    /// The name.
    pub name: String,
    /// It is on.
    pub active: bool,
    /// The driver lets it be switched.
    pub changeable: bool,
}

/// All offloads of an interface.
///
/// # Errors
/// [`EthtoolError`].
pub fn features(ifindex: u32) -> Result<Vec<Feature>, EthtoolError> {
    let reply = wire::get(ETHTOOL_MSG_FEATURES_GET, ifindex)?.unwrap_or_default();
    let (mut hw, mut active) = (Vec::new(), Vec::new());
    for (kind, value) in attributes(&reply) {
        match kind {
            HW => hw = bits(value),
            ACTIVE => active = bits(value),
            _ => {}
        }
    }
    let is_active = |name: &str| active.iter().any(|(found, _)| found == name);
    Ok(hw.into_iter().map(|(name, changeable)| Feature { active: is_active(&name), name, changeable }).collect())
}

/// Switches one offload. It is not read back: the kernel may leave it as it is, for other offloads' sake.
///
/// # Errors
/// [`EthtoolError`]; [`EthtoolError::Unknown`] where the kernel has no such offload.
pub fn set_feature(ifindex: u32, name: &str, on: bool) -> Result<(), EthtoolError> {
    let unknown = || EthtoolError::Unknown(name.to_owned());
    let c_name = CString::new(name).map_err(|_| unknown())?;
    if !features(ifindex)?.iter().any(|feature| feature.name == name) {
        return Err(unknown());
    }
    set(ifindex, &[(&c_name, on)]).map_err(|error| refused(&error, error.to_string()))
}

/// Names of a bitset, and whether each is set. One without a mask lists only what is set.
fn bits(bitset: &[u8]) -> Vec<(String, bool)> {
    let Some(list) = nested(bitset, BITS) else { return Vec::new() };
    let bit = |value: &[u8]| {
        let (mut name, mut is_set) = (String::new(), false);
        for (kind, value) in attributes(value) {
            match kind {
                BIT_NAME => name = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned(),
                BIT_VALUE => is_set = true,
                _ => {}
            }
        }
        (name, is_set)
    };
    attributes(list).filter(|(kind, _)| *kind == BIT).map(|(_, value)| bit(value)).collect()
}

/// Switches several at once.
///
/// # Errors
/// As the kernel says it.
pub(crate) fn set(ifindex: u32, features: &[(&CStr, bool)]) -> io::Result<()> {
    let mut request = ethtool::Request::new().op_features_set_do();
    // The bindings of 0.3.5 number the requests of this family wrongly.
    request.header_mut().cmd = ETHTOOL_MSG_FEATURES_SET;
    let mut bits = request.encode().nested_header().push_dev_index(ifindex).end_nested().nested_wanted().nested_bits();
    for (name, on) in features {
        let bit = bits.nested_bit().push_name(name);
        bits = if *on { bit.push_value(()).end_nested() } else { bit.end_nested() };
    }
    drop(bits);
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&request)?;
    // The kernel answers with what it changed, then acknowledges.
    while let Some(reply) = replies.recv() {
        reply.map_err(plain)?;
    }
    Ok(())
}
