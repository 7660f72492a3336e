//! Offloads of an interface (`ethtool -K`), in the namespace of the calling thread.

use std::ffi::CStr;
use std::io;

use netlink_bindings::ethtool;
use netlink_socket2::NetlinkSocket;

use crate::link::plain;

/// `include/uapi/linux/ethtool_netlink_generated.h`.
const ETHTOOL_MSG_FEATURES_SET: u8 = 12;

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
