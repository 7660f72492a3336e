//! The headers of a datagram, written once per path and copied in front of each payload.
//!
//! IPv4 packets have identification 0 (RFC 6864 section 4.1), so that from one datagram to the next only lengths and
//! checksums change. Those that are cut get one (`wire::fragment`).

use crate::wire::addr::End;
use crate::wire::checksum::Sum;
use crate::wire::{ETH_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, PROTO_UDP, UDP_LEN};

/// Source: `net/ipv4/af_inet.c sysctl_ip_default_ttl`, RFC 1700 "IP TIME TO LIVE".
pub(crate) const TTL: u8 = 64;
const HEADERS_V4: usize = ETH_LEN + IPV4_LEN + UDP_LEN;
const HEADERS_V6: usize = ETH_LEN + IPV6_LEN + UDP_LEN;

/// What a sender may choose in an IP header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Service or class.
    pub(crate) tos: u8,
    pub(crate) hops: u8,
    /// IPv4: routers must not cut it.
    pub(crate) dont_fragment: bool,
}

impl Default for Marks {
    fn default() -> Self {
        Self { tos: 0, hops: TTL, dont_fragment: true }
    }
}

/// The Ethernet, IP and UDP headers of one path.
#[derive(Clone)]
pub(crate) struct Template {
    bytes: [u8; HEADERS_V6],
    len: usize,
    /// IPv4: sum of the IP header without length and checksum.
    ip: Sum,
    /// Sum of the pseudo-header and the UDP ports, without the two lengths.
    udp: Sum,
}

impl Template {
    /// # Panics
    /// If the ends are of different families.
    pub(crate) fn new(src_mac: [u8; 6], dst_mac: [u8; 6], (src, dst): (End, End), marks: Marks) -> Self {
        assert_eq!(src.addr.is_v4(), dst.addr.is_v4(), "both ends are of one family");
        let mut bytes = [0; HEADERS_V6];
        bytes[..6].copy_from_slice(&dst_mac);
        bytes[6..12].copy_from_slice(&src_mac);
        let ip = &mut bytes[ETH_LEN..];
        let (len, addresses) = match (src.addr.ip(), dst.addr.ip()) {
            (std::net::IpAddr::V4(s), std::net::IpAddr::V4(d)) => {
                ip[0] = 0x45;
                ip[1] = marks.tos;
                ip[6] = if marks.dont_fragment { 0x40 } else { 0 };
                ip[8] = marks.hops;
                ip[9] = PROTO_UDP;
                ip[12..16].copy_from_slice(&s.octets());
                ip[16..20].copy_from_slice(&d.octets());
                bytes[12..14].copy_from_slice(&ETHERTYPE_IPV4);
                (HEADERS_V4, ETH_LEN + 12..ETH_LEN + 20)
            }
            (s, d) => {
                let (s, d) = (v6_octets(s), v6_octets(d));
                ip[0] = 0x60 | marks.tos >> 4;
                ip[1] = marks.tos << 4;
                ip[6] = PROTO_UDP;
                ip[7] = marks.hops;
                ip[8..24].copy_from_slice(&s);
                ip[24..40].copy_from_slice(&d);
                bytes[12..14].copy_from_slice(&ETHERTYPE_IPV6);
                (HEADERS_V6, ETH_LEN + 8..ETH_LEN + 40)
            }
        };
        let udp = len - UDP_LEN;
        bytes[udp..udp + 2].copy_from_slice(&src.port.to_be_bytes());
        bytes[udp + 2..udp + 4].copy_from_slice(&dst.port.to_be_bytes());
        let ip_sum = Sum::ZERO.bytes(&bytes[ETH_LEN..ETH_LEN + IPV4_LEN]);
        let udp_sum = Sum::ZERO.bytes(&bytes[addresses]).number(u16::from(PROTO_UDP)).bytes(&bytes[udp..udp + 4]);
        Self { bytes, len, ip: ip_sum, udp: udp_sum }
    }

    /// Bytes before the payload.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Completes a frame whose payload already stands at `self.len()`; gives the length of the frame.
    ///
    /// # Panics
    /// If the frame is shorter than that, or the payload longer than a UDP length can say.
    #[inline]
    pub(crate) fn finish(&self, frame: &mut [u8], payload_len: usize) -> usize {
        let end = self.len + payload_len;
        let (head, payload) = frame[..end].split_at_mut(self.len);
        let udp_len = u16::try_from(UDP_LEN + payload_len).expect("the caller bounds the payload by the MTU");
        let sum = self.udp.number(udp_len).number(udp_len).bytes(payload);
        // Two constant lengths, so that each copy is a handful of moves.
        let udp = if self.len == HEADERS_V4 {
            let head = head.first_chunk_mut::<HEADERS_V4>().expect("as long as the template");
            head.copy_from_slice(&self.bytes[..HEADERS_V4]);
            let total = udp_len + IPV4_LEN as u16;
            head[16..18].copy_from_slice(&total.to_be_bytes());
            head[24..26].copy_from_slice(&self.ip.number(total).field());
            &mut head[HEADERS_V4 - UDP_LEN..]
        } else {
            let head = head.first_chunk_mut::<HEADERS_V6>().expect("as long as the template");
            *head = self.bytes;
            head[18..20].copy_from_slice(&udp_len.to_be_bytes());
            &mut head[HEADERS_V6 - UDP_LEN..]
        };
        udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
        udp[6..8].copy_from_slice(&sum.udp_field());
        end
    }
}

fn v6_octets(ip: std::net::IpAddr) -> [u8; 16] {
    match ip {
        std::net::IpAddr::V6(ip) => ip.octets(),
        std::net::IpAddr::V4(_) => unreachable!("the families were compared"),
    }
}

#[cfg(test)]
mod tests;
