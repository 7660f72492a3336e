//! Taking a received frame apart: the fast parse for UDP, and which slow handler gets the rest.
//!
//! | bytes | checked | else |
//! |---|---|---|
//! | Ethernet destination | our address, or a group address | `RxOtherhostDropped` |
//! | IPv4 version, lengths, header checksum | RFC 791; options are skipped | `IpInHdrErrors`, `IpExtIn...` |
//! | IPv4 fragment offset and MF, IPv6 fragment header | none | goes to `tables::reassembly` |
//! | source address | no group; over IPv6 not IPv4-mapped | `IpInAddrErrors` |
//! | IPv6 version, length | RFC 8200; one hop-by-hop header is skipped | `Ip6In...` |
//! | UDP length | 8 ..= bytes left in the IP packet | `UdpInErrors` |
//! | UDP checksum | RFC 768; 0 is "none" over IPv4 and an error over IPv6 | `UdpInCsumErrors` |
//! | TCP header | whole, no port 0, data offset within the segment (RFC 9293) | `TcpInErrs` |
//! | TCP checksum | RFC 9293 section 3.1 | `TcpInCsumErrors` |
//!
//! TCP behind a hop-by-hop header is refused (`Ip6InUnknownProtos`).

pub(crate) mod addr;
pub(crate) mod checksum;
pub(crate) mod fragment;
pub(crate) mod headers;
pub(crate) mod quote;
pub(crate) mod template;
#[cfg(test)]
mod tests;
pub(crate) mod told;

use napier_core::time::Instant;

use crate::counters::Counter;
use addr::{Addr, End};
use checksum::Sum;

pub(crate) const ETH_LEN: usize = 14;
pub(crate) const UDP_LEN: usize = 8;
pub(crate) const IPV4_LEN: usize = 20;
pub(crate) const IPV6_LEN: usize = 40;
pub(crate) const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
pub(crate) const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
pub(crate) const PROTO_UDP: u8 = 17;
pub(crate) const PROTO_TCP: u8 = 6;
pub(crate) const TCP_LEN: usize = 20;
pub(crate) const PROTO_ICMP: u8 = 1;
pub(crate) const PROTO_ICMPV6: u8 = 58;
const PROTO_HOP_BY_HOP: u8 = 0;
const PROTO_FRAGMENT: u8 = 44;
/// Every hop-by-hop option of the one header that is skipped is at most this long (8-octet units above the first).
const HOP_BY_HOP_UNITS_MAX: usize = 32;

/// What a frame holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    /// A whole UDP datagram with a good checksum.
    Udp(Datagram),
    /// A whole TCP segment with a good checksum.
    Tcp(Segment),
    /// An ARP packet, from byte 14.
    Arp,
    /// An ICMP message for the IPv4 packet's destination, in these bytes of the frame.
    Icmp { src: Addr, dst: Addr, at: usize, end: usize },
    /// A piece of a packet, with the fragment header before it if it is IPv6, in these bytes of the frame.
    Fragment { at: usize, end: usize },
    /// As `Icmp`, for IPv6; neighbour discovery too.
    Icmpv6 { src: Addr, dst: Addr, hop_limit: u8, at: usize, end: usize },
}

/// A datagram: its two ends and where its payload lies in the frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) src: End,
    pub(crate) dst: End,
    pub(crate) payload_at: u16,
    pub(crate) payload_len: u16,
}

/// A TCP segment: its two ends, where its IP packet lies in the frame, and what the tables must know of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) src: End,
    pub(crate) dst: End,
    /// End of the IP packet, which begins after the Ethernet header.
    pub(crate) end: usize,
    /// The low six bits: URG, ACK, PSH, RST, SYN, FIN.
    pub(crate) flags: u8,
}

/// Flags of a TCP header (RFC 9293 section 3.1).
pub(crate) mod flag {
    pub(crate) const FIN: u8 = 0x01;
    pub(crate) const SYN: u8 = 0x02;
    pub(crate) const RST: u8 = 0x04;
    pub(crate) const PSH: u8 = 0x08;
    pub(crate) const ACK: u8 = 0x10;
}

/// Why a frame goes no further: the counters to add to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) Counter, pub(crate) Option<Counter>);

impl From<Counter> for Refused {
    fn from(counter: Counter) -> Self {
        Self(counter, None)
    }
}

/// Parses a frame that came to the station `mac`.
// Inlined to the end, so that the result stays in registers: it is too large to be returned in them.
#[inline(always)]
pub(crate) fn parse(frame: &[u8], mac: [u8; 6]) -> Result<Packet, Refused> {
    let Some((eth, rest)) = frame.split_first_chunk::<ETH_LEN>() else { return Err(Counter::RxLength.into()) };
    let to_group = eth[0] & 1 != 0;
    if eth[..6] != mac && !to_group {
        return Err(Counter::RxOtherhost.into());
    }
    match [eth[12], eth[13]] {
        ETHERTYPE_IPV4 => parse_ipv4(rest),
        ETHERTYPE_IPV6 => parse_ipv6(rest),
        ETHERTYPE_ARP => Ok(Packet::Arp),
        _ => Err(Counter::RxNohandler.into()),
    }
}

#[inline(always)]
fn parse_ipv4(packet: &[u8]) -> Result<Packet, Refused> {
    let Some(head) = packet.first_chunk::<IPV4_LEN>() else {
        return Err(Refused(Counter::IpInHdrErrors, Some(Counter::IpInTruncated)));
    };
    let header_len = usize::from(head[0] & 0x0f) * 4;
    if head[0] >> 4 != 4 || header_len < IPV4_LEN {
        return Err(Counter::IpInHdrErrors.into());
    }
    let total_len = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let sum = if header_len == IPV4_LEN {
        Sum::ZERO.ipv4_header(head)
    } else {
        let Some(header) = packet.get(..header_len) else {
            return Err(Refused(Counter::IpInHdrErrors, Some(Counter::IpInTruncated)));
        };
        Sum::ZERO.bytes(header)
    };
    if !sum.is_valid() {
        return Err(Refused(Counter::IpInHdrErrors, Some(Counter::IpInCsumErrors)));
    }
    if total_len < header_len {
        return Err(Counter::IpInHdrErrors.into());
    }
    // Ethernet pads short packets: what lies after `total_len` is not ours.
    let Some(body) = packet.get(header_len..total_len) else { return Err(Counter::IpInTruncated.into()) };
    if u16::from_be_bytes([head[6], head[7]]) & 0x3fff != 0 {
        return Ok(Packet::Fragment { at: ETH_LEN + header_len, end: ETH_LEN + total_len });
    }
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *head;
    let (src, dst) = (Addr::v4([s0, s1, s2, s3]), Addr::v4([d0, d1, d2, d3]));
    if s0 & 0xf0 == 0xe0 {
        // RFC 1122 section 3.2.1.3: a group sends nothing.
        return Err(Counter::IpInAddrErrors.into());
    }
    let at = ETH_LEN + header_len;
    match head[9] {
        PROTO_UDP => {
            let errors = UdpErrors { length: Counter::UdpInErrors, checksum: Counter::UdpInCsumErrors };
            parse_udp(body, &head[12..20], src, dst, at, &errors)
        }
        PROTO_TCP => parse_tcp(body, &head[12..20], src, dst, ETH_LEN + total_len),
        PROTO_ICMP => Ok(Packet::Icmp { src, dst, at, end: ETH_LEN + total_len }),
        _ => Err(Counter::IpInUnknownProtos.into()),
    }
}

#[inline(never)]
fn parse_ipv6(packet: &[u8]) -> Result<Packet, Refused> {
    let Some((head, rest)) = packet.split_first_chunk::<IPV6_LEN>() else {
        return Err(Counter::Ip6InTruncated.into());
    };
    if head[0] >> 4 != 6 {
        return Err(Counter::Ip6InHdrErrors.into());
    }
    let payload_len = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let Some(mut body) = rest.get(..payload_len) else { return Err(Counter::Ip6InTruncated.into()) };
    let mut next = head[6];
    let mut at = ETH_LEN + IPV6_LEN;
    if next == PROTO_HOP_BY_HOP {
        // RFC 8200 section 4.3: at most one, and it comes first.
        let &[after, units, ..] = body else { return Err(Counter::Ip6InHdrErrors.into()) };
        let skip = (usize::from(units) + 1) * 8;
        if skip > HOP_BY_HOP_UNITS_MAX * 8 || skip > body.len() {
            return Err(Counter::Ip6InHdrErrors.into());
        }
        (next, at, body) = (after, at + skip, &body[skip..]);
    }
    let mut src = [0; 16];
    src.copy_from_slice(&head[8..24]);
    let mut dst = [0; 16];
    dst.copy_from_slice(&head[24..40]);
    let (src, dst) = (Addr::v6(src), Addr::v6(dst));
    if src.is_v4() || dst.is_v4() || src.is_group() {
        // RFC 4942 section 2.2: mapped addresses have no business on the wire; RFC 4291 section 2.7 forbids the other.
        return Err(Counter::Ip6InAddrErrors.into());
    }
    match next {
        PROTO_UDP => {
            let errors = UdpErrors { length: Counter::Udp6InErrors, checksum: Counter::Udp6InCsumErrors };
            parse_udp(body, &head[8..40], src, dst, at, &errors)
        }
        PROTO_TCP if head[6] == PROTO_TCP => parse_tcp(body, &head[8..40], src, dst, at + body.len()),
        PROTO_ICMPV6 => Ok(Packet::Icmpv6 { src, dst, hop_limit: head[7], at, end: at + body.len() }),
        PROTO_FRAGMENT => Ok(Packet::Fragment { at, end: at + body.len() }),
        _ => Err(Counter::Ip6InUnknownProtos.into()),
    }
}

struct UdpErrors {
    length: Counter,
    checksum: Counter,
}

/// `addresses`: both IP addresses as they stand in the header; `at`: where the UDP header lies in the frame.
#[inline(always)]
fn parse_udp(
    body: &[u8],
    addresses: &[u8],
    src: Addr,
    dst: Addr,
    at: usize,
    errors: &UdpErrors,
) -> Result<Packet, Refused> {
    let Some(&[s0, s1, d0, d1, l0, l1, c0, c1]) = body.first_chunk::<UDP_LEN>() else {
        return Err(errors.length.into());
    };
    let len = u16::from_be_bytes([l0, l1]);
    let Some(udp) = body.get(..usize::from(len)).filter(|udp| udp.len() >= UDP_LEN) else {
        return Err(errors.length.into());
    };
    let no_checksum = [c0, c1] == [0, 0];
    let good = if no_checksum {
        src.is_v4()
    } else {
        Sum::ZERO.bytes(addresses).number(u16::from(PROTO_UDP)).number(len).bytes(udp).is_valid()
    };
    if !good {
        return Err(Refused(errors.checksum, Some(errors.length)));
    }
    let payload_at = u16::try_from(at + UDP_LEN).expect("at most 14 + 40 + 256 + 8 bytes of headers");
    Ok(Packet::Udp(Datagram {
        src: End { addr: src, port: u16::from_be_bytes([s0, s1]) },
        dst: End { addr: dst, port: u16::from_be_bytes([d0, d1]) },
        payload_at,
        payload_len: len - 8,
    }))
}

/// `addresses` as for `parse_udp`; `end`: where the packet ends in the frame.
#[inline(never)]
fn parse_tcp(body: &[u8], addresses: &[u8], src: Addr, dst: Addr, end: usize) -> Result<Packet, Refused> {
    let Some(head) = body.first_chunk::<TCP_LEN>() else { return Err(Counter::TcpInErrs.into()) };
    let (src_port, dst_port) = (u16::from_be_bytes([head[0], head[1]]), u16::from_be_bytes([head[2], head[3]]));
    let header_len = usize::from(head[12] >> 4) * 4;
    if header_len < TCP_LEN || header_len > body.len() || src_port == 0 || dst_port == 0 {
        return Err(Counter::TcpInErrs.into());
    }
    let Ok(len) = u16::try_from(body.len()) else { return Err(Counter::TcpInErrs.into()) };
    if !Sum::ZERO.bytes(addresses).number(u16::from(PROTO_TCP)).number(len).bytes(body).is_valid() {
        return Err(Refused(Counter::TcpInCsumErrors, Some(Counter::TcpInErrs)));
    }
    Ok(Packet::Tcp(Segment {
        src: End { addr: src, port: src_port },
        dst: End { addr: dst, port: dst_port },
        end,
        flags: head[13] & 0x3f,
    }))
}

/// What the IP header of a datagram says beside its sender.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    pub(crate) dst: Addr,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
}

/// What a frame in a receive queue says about itself, in its meta word, so that reading it needs no second parse.
///
/// bits 0..16 payload offset, 16..32 payload length, 32..46 truesize in 64-byte units, 46 the frame begins with when it came, 47
/// another datagram of the same merged one follows, 48 IPv6, 49..64 ifindex (0 if it does not fit).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta(u64);

const TRUESIZE_UNIT: usize = 64;
const TRUESIZE_UNITS_MAX: u64 = (1 << 14) - 1;

impl Meta {
    const MORE: u64 = 1 << 47;
    const STAMPED: u64 = 1 << 46;

    /// `truesize`: bytes that the frame occupies, rounded up to 64 and cut at 1 MiB.
    #[inline]
    pub(crate) fn new(d: &Datagram, truesize: usize, ifindex: u32) -> Self {
        let units = (truesize.div_ceil(TRUESIZE_UNIT) as u64).min(TRUESIZE_UNITS_MAX);
        let v6 = u64::from(!d.dst.addr.is_v4());
        let ifindex = if ifindex < 1 << 15 { u64::from(ifindex) } else { 0 };
        Self(u64::from(d.payload_at) | u64::from(d.payload_len) << 16 | units << 32 | v6 << 48 | ifindex << 49)
    }

    /// Of a TCP segment, while it is held for others.
    pub(crate) fn of_segment(payload: std::ops::Range<usize>, truesize: usize, v4: bool) -> Self {
        let units = (truesize.div_ceil(TRUESIZE_UNIT) as u64).min(TRUESIZE_UNITS_MAX);
        Self(payload.start as u64 | (payload.len() as u64) << 16 | units << 32 | u64::from(!v4) << 48)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn payload(self) -> std::ops::Range<usize> {
        let at = (self.0 & 0xffff) as usize;
        at..at + (self.0 >> 16 & 0xffff) as usize
    }

    pub(crate) fn truesize(self) -> usize {
        (self.0 >> 32 & TRUESIZE_UNITS_MAX) as usize * TRUESIZE_UNIT
    }

    /// The same of a datagram that is followed by another of the same merged one.
    pub(crate) fn with_more(self) -> Self {
        Self(self.0 | Self::MORE)
    }

    /// Whether another datagram of the same merged one follows.
    #[inline]
    pub(crate) fn more(self) -> bool {
        self.0 & Self::MORE != 0
    }

    /// Writes when it came over the Ethernet addresses, which no reader looks at; gives the word that says so.
    pub(crate) fn stamped(self, frame: &mut [u8], at: Instant) -> Self {
        frame[..8].copy_from_slice(&at.ns.to_ne_bytes());
        Self(self.0 | Self::STAMPED)
    }

    /// When it came, if that was written.
    pub(crate) fn stamp(self, frame: &[u8]) -> Option<Instant> {
        let ns = u64::from_ne_bytes(*frame.first_chunk()?);
        (self.0 & Self::STAMPED != 0).then_some(Instant { ns })
    }

    /// What the IP header says that still stands before the payload.
    pub(crate) fn control(self, frame: &[u8]) -> Control {
        let ip = &frame[ETH_LEN..];
        if self.0 >> 48 & 1 == 0 {
            let dst = Addr::v4(ip[16..20].try_into().expect("four bytes"));
            Control { dst, tos: ip[1], ttl: ip[8] }
        } else {
            let dst = Addr::v6(ip[24..40].try_into().expect("sixteen bytes"));
            Control { dst, tos: ip[0] << 4 | ip[1] >> 4, ttl: ip[7] }
        }
    }

    /// The sender, read from the headers that still stand before the payload.
    #[inline]
    pub(crate) fn source(self, frame: &[u8]) -> (End, u32) {
        let udp = self.payload().start - UDP_LEN;
        let port = u16::from_be_bytes([frame[udp], frame[udp + 1]]);
        let addr = if self.0 >> 48 & 1 == 0 {
            let at = ETH_LEN + 12;
            Addr::v4(frame[at..at + 4].try_into().expect("four bytes"))
        } else {
            let at = ETH_LEN + 8;
            Addr::v6(frame[at..at + 16].try_into().expect("sixteen bytes"))
        };
        let ifindex = (self.0 >> 49) as u32;
        (End { addr, port }, ifindex)
    }
}
