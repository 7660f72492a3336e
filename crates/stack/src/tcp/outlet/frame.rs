//! A frame around a segment: what stays the same from one to the next is written once per path.

use crate::tcp::machine::Departure;
use crate::wire::addr::End;
use crate::wire::checksum::Sum;
use crate::wire::template::TTL;
use crate::wire::{ETH_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, PROTO_TCP};

const HEADS_V4: usize = ETH_LEN + IPV4_LEN;
const HEADS_V6: usize = ETH_LEN + IPV6_LEN;

/// The Ethernet and IP headers of one path.
#[derive(Clone)]
pub(super) struct Heads {
    bytes: [u8; HEADS_V6],
    len: u8,
    ports: (u16, u16),
    /// IPv4: sum of the IP header without length and checksum.
    ip: Sum,
    /// Sum of the pseudo-header without the length.
    pseudo: Sum,
}

impl Heads {
    /// # Panics
    /// If the ends are of different families.
    pub(super) fn new(src_mac: [u8; 6], dst_mac: [u8; 6], src: End, dst: End) -> Self {
        let mut bytes = [0; HEADS_V6];
        bytes[..6].copy_from_slice(&dst_mac);
        bytes[6..12].copy_from_slice(&src_mac);
        let (eth, ip) = bytes.split_at_mut(ETH_LEN);
        let (len, addresses) = match (src.addr.ip(), dst.addr.ip()) {
            (std::net::IpAddr::V4(s), std::net::IpAddr::V4(d)) => {
                ip[0] = 0x45;
                ip[6] = 0x40; // DF
                ip[8] = TTL;
                ip[9] = PROTO_TCP;
                ip[12..16].copy_from_slice(&s.octets());
                ip[16..20].copy_from_slice(&d.octets());
                eth[12..].copy_from_slice(&ETHERTYPE_IPV4);
                (HEADS_V4, 12..20)
            }
            (std::net::IpAddr::V6(s), std::net::IpAddr::V6(d)) => {
                ip[0] = 0x60;
                ip[6] = PROTO_TCP;
                ip[7] = TTL;
                ip[8..24].copy_from_slice(&s.octets());
                ip[24..40].copy_from_slice(&d.octets());
                eth[12..].copy_from_slice(&ETHERTYPE_IPV6);
                (HEADS_V6, 8..40)
            }
            _ => unreachable!("both ends are of one family"),
        };
        let ip_sum = Sum::ZERO.bytes(&ip[..IPV4_LEN]);
        let pseudo = Sum::ZERO.bytes(&ip[addresses]).number(u16::from(PROTO_TCP));
        Self { bytes, len: len as u8, ports: (src.port, dst.port), ip: ip_sum, pseudo }
    }

    /// Bytes of the IP header.
    pub(super) fn ip_len(&self) -> usize {
        usize::from(self.len) - ETH_LEN
    }

    /// Bytes of the frame around a segment.
    #[inline]
    pub(super) fn frame_bytes(&self, departure: &Departure) -> usize {
        usize::from(self.len) + departure.bytes()
    }

    /// Writes a frame, all of it, and its checksums.
    #[inline]
    pub(super) fn write(&self, departure: &Departure, data: (&[u8], &[u8]), frame: &mut [u8]) {
        let tcp_bytes = departure.bytes() as u16; // the MTU bounds a packet
        let tcp = if usize::from(self.len) == HEADS_V4 {
            let (head, tcp) =
                frame.split_first_chunk_mut::<HEADS_V4>().expect("the caller gives as much as is asked for");
            head.copy_from_slice(&self.bytes[..HEADS_V4]);
            let total = tcp_bytes + IPV4_LEN as u16;
            head[16..18].copy_from_slice(&total.to_be_bytes());
            head[24..26].copy_from_slice(&self.ip.number(total).field());
            tcp
        } else {
            let (head, tcp) =
                frame.split_first_chunk_mut::<HEADS_V6>().expect("the caller gives as much as is asked for");
            *head = self.bytes;
            head[18..20].copy_from_slice(&tcp_bytes.to_be_bytes());
            tcp
        };
        departure.write(self.ports, data, tcp);
        let sum = self.pseudo.number(tcp_bytes).bytes(tcp).field();
        tcp[16..18].copy_from_slice(&sum);
    }
}
