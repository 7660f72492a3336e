//! What the merge rules ask of a packet that the fast parse has found whole.

use napier_core::gro::flow::{Ip, Segment};

use super::Flow;
use crate::stack::addr::{Addr, End};
use crate::stack::wire::{ETH_LEN, IPV4_LEN, IPV6_LEN, Meta, PROTO_UDP, UDP_LEN};

/// A packet's flow, and its place in it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(in crate::stack) struct Headers {
    pub(super) flow: Flow,
    pub(super) segment: Segment,
    /// Others may join it and it may join others.
    pub(super) joins: bool,
}

/// The headers of a datagram in a frame of `frame.len()` bytes.
pub(in crate::stack) fn udp(frame: &[u8], meta: Meta) -> Headers {
    let ip = &frame[ETH_LEN..];
    let v4 = ip[0] >> 4 == 4;
    let std::ops::Range { start: at, end } = meta.payload();
    let (src, _) = meta.source(frame);
    let dst = if v4 {
        Addr::v4(*ip[16..].first_chunk().expect("an IPv4 header was parsed"))
    } else {
        Addr::v6(*ip[24..].first_chunk().expect("an IPv6 header was parsed"))
    };
    let plain = if v4 { IPV4_LEN } else { IPV6_LEN };
    let has_checksum = frame[at - 2..at] != [0, 0];
    let segment = Segment {
        ip: ip_facts(ip, v4),
        tcp: None,
        header_bytes: (plain + UDP_LEN) as u16,
        payload_bytes: (end - at) as u16, // as the field of the header
    };
    Headers {
        flow: Flow {
            src,
            dst: End { addr: dst, port: u16::from_be_bytes([frame[at - 6], frame[at - 5]]) },
            protocol: PROTO_UDP,
            label: if v4 { 0 } else { u32::from_be_bytes([0, ip[1] & 0x0f, ip[2], ip[3]]) },
            macs: *frame.first_chunk().expect("an Ethernet header was parsed"),
        },
        segment,
        joins: has_checksum && at == ETH_LEN + plain + UDP_LEN && end == frame.len(),
    }
}

/// `ip`: a packet that the parser accepted.
fn ip_facts(ip: &[u8], v4: bool) -> Ip {
    if v4 {
        let id = u16::from_be_bytes([ip[4], ip[5]]);
        Ip { hops: ip[8], class: ip[1], id: Some((id, ip[6] & 0x40 != 0)) }
    } else {
        Ip { hops: ip[7], class: ip[0] << 4 | ip[1] >> 4, id: None }
    }
}
