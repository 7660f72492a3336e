//! What the merge rules ask of a packet that the fast parse has found whole.

use napier_core::gro::flow::{Ip, Segment, TCP_OPTIONS_MAX, Tcp};

use crate::wire::addr::{Addr, End};
use crate::wire::{self, ETH_LEN, IPV4_LEN, IPV6_LEN, Meta, PROTO_TCP, PROTO_UDP, TCP_LEN, UDP_LEN};

/// Packets that are one flow: whatever must be alike for them to be compared at all.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct FlowKey {
    pub(crate) src: End,
    pub(crate) dst: End,
    pub(crate) protocol: u8,
    /// IPv6: the flow label.
    pub(crate) label: u32,
    /// Both Ethernet addresses.
    pub(crate) macs: [u8; 12],
}

/// A packet's flow, and its place in it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Headers {
    pub(crate) flow: FlowKey,
    pub(crate) segment: Segment,
    /// Others may join it and it may join others.
    pub(crate) joins: bool,
}

impl Headers {
    /// Whether others may join it.
    pub(crate) const fn may_be_held(&self) -> bool {
        self.joins && self.segment.may_be_held()
    }
}

/// The headers of a datagram in a frame of `frame.len()` bytes.
pub(crate) fn udp(frame: &[u8], meta: Meta) -> Headers {
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
    let dst = End { addr: dst, port: u16::from_be_bytes([frame[at - 6], frame[at - 5]]) };
    Headers {
        flow: flow(frame, v4, src, dst, PROTO_UDP),
        segment,
        joins: has_checksum && at == ETH_LEN + plain + UDP_LEN && end == frame.len(),
    }
}

/// The headers of a segment in a frame of `frame.len()` bytes, and where its payload is.
pub(crate) fn tcp(frame: &[u8], segment: &wire::Segment) -> (Headers, std::ops::Range<usize>) {
    let v4 = segment.dst.addr.is_v4();
    let ip = &frame[ETH_LEN..];
    // With IPv4 options the header is longer; extension headers the parser refuses.
    let ip_len = if v4 { usize::from(ip[0] & 0x0f) * 4 } else { IPV6_LEN };
    let header = &frame[ETH_LEN + ip_len..segment.end];
    let number = |at: usize| u32::from_be_bytes(*header[at..].first_chunk().expect("a TCP header was parsed"));
    let header_len = usize::from(header[12] >> 4) * 4;
    let mut options = [0; TCP_OPTIONS_MAX];
    options[..header_len - TCP_LEN].copy_from_slice(&header[TCP_LEN..header_len]);
    let payload = ETH_LEN + ip_len + header_len..segment.end;
    let facts = Segment {
        ip: ip_facts(ip, v4),
        tcp: Some(Tcp { seq: number(4), ack: number(8), word: number(12), options }),
        header_bytes: (ip_len + header_len) as u16,
        payload_bytes: payload.len() as u16, // the parser bounds a segment by 16 bits
    };
    let flow = flow(frame, v4, segment.src, segment.dst, PROTO_TCP);
    let joins = (!v4 || ip_len == IPV4_LEN) && segment.end == frame.len();
    (Headers { flow, segment: facts, joins }, payload)
}

fn flow(frame: &[u8], v4: bool, src: End, dst: End, protocol: u8) -> FlowKey {
    let label = if v4 { 0 } else { u32::from_be_bytes([0, frame[15] & 0x0f, frame[16], frame[17]]) };
    let macs = *frame.first_chunk().expect("an Ethernet header was parsed");
    FlowKey { src, dst, protocol, label, macs }
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
