//! What the merge rules ask of a packet that the fast parse has found whole.

use napier_core::gro::flow::{Ip, Segment};

use super::Flow;
use crate::stack::wire::{Datagram, ETH_LEN, IPV4_LEN, IPV6_LEN, PROTO_UDP, UDP_LEN};

/// A packet's flow, and its place in it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(in crate::stack) struct Headers {
    pub(super) flow: Flow,
    pub(super) segment: Segment,
    /// Others may join it and it may join others.
    pub(super) joins: bool,
}

/// The headers of a datagram in a frame of `frame.len()` bytes.
pub(in crate::stack) fn udp(frame: &[u8], datagram: &Datagram) -> Headers {
    let v4 = datagram.dst.addr.is_v4();
    let ip = &frame[ETH_LEN..];
    let (at, end) = (usize::from(datagram.payload_at), usize::from(datagram.payload_at + datagram.payload_len));
    let plain = if v4 { IPV4_LEN } else { IPV6_LEN };
    let has_checksum = frame[at - 2..at] != [0, 0];
    let segment = Segment {
        ip: ip_facts(ip, v4),
        tcp: None,
        header_bytes: (plain + UDP_LEN) as u16,
        payload_bytes: datagram.payload_len,
    };
    Headers {
        flow: Flow {
            src: datagram.src,
            dst: datagram.dst,
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
