//! Addresses of both ends of a link.

use std::net::Ipv4Addr;

/// Where packets come from.
pub(super) const PEER_PORT: u16 = 5000;

pub(super) fn mac(device: usize, end: u8) -> [u8; 6] {
    [2, 0, 0, 0x77, u8::try_from(device).expect("checked when the link was made"), end]
}

pub(super) fn addr(device: usize, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, u8::try_from(device).expect("checked when the link was made"), end)
}
