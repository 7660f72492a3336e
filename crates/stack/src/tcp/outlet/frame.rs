//! A frame around a packet of smoltcp.

use crate::wire::checksum::Sum;
use crate::wire::{ETH_LEN, ETHERTYPE_IPV4, ETHERTYPE_IPV6, IPV4_LEN, IPV6_LEN, PROTO_TCP};

/// What the header of a segment says.
pub(super) struct Head {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) payload: usize,
    /// Length of the whole IP packet.
    pub(super) len: usize,
}

/// Builds a frame outside of a ring.
#[cold]
pub(super) fn in_memory(len: usize, build: &mut dyn FnMut(&mut [u8])) -> Box<[u8]> {
    let mut frame = vec![0; len].into_boxed_slice();
    build(&mut frame);
    frame
}

/// Completes a frame around the IP packet that `fill` writes.
#[inline]
pub(super) fn build(frame: &mut [u8], from: [u8; 6], to: [u8; 6], fill: &mut dyn FnMut(&mut [u8])) -> Head {
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    let (eth, packet) = frame.split_at_mut(ETH_LEN);
    fill(packet);
    let v4 = packet[0] >> 4 == 4;
    eth[12..].copy_from_slice(if v4 { &ETHERTYPE_IPV4 } else { &ETHERTYPE_IPV6 });
    finish(packet, v4)
}

/// Writes the checksums that smoltcp left out.
///
/// # Panics
/// If smoltcp made something else than a TCP segment, which it has no reason to.
#[inline]
fn finish(packet: &mut [u8], v4: bool) -> Head {
    let (at, addresses) = if v4 { (IPV4_LEN, 12..20) } else { (IPV6_LEN, 8..40) };
    let protocol = if v4 { packet[9] } else { packet[6] };
    assert_eq!(protocol, PROTO_TCP, "only TCP leaves by here");
    if v4 {
        packet[10..12].fill(0);
        let header = packet.first_chunk::<IPV4_LEN>().expect("a whole header");
        let sum = Sum::ZERO.ipv4_header(header).field();
        packet[10..12].copy_from_slice(&sum);
    }
    let len = u16::try_from(packet.len() - at).expect("the MTU bounds a packet");
    packet[at + 16..at + 18].fill(0);
    let pseudo = Sum::ZERO.bytes(&packet[addresses]).number(u16::from(PROTO_TCP)).number(len);
    let sum = pseudo.bytes(&packet[at..]).field();
    let tcp = &mut packet[at..];
    tcp[16..18].copy_from_slice(&sum);
    let header_len = usize::from(tcp[12] >> 4) * 4;
    Head {
        seq: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
        ack: u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]),
        flags: tcp[13],
        payload: usize::from(len) - header_len,
        len: at + usize::from(len),
    }
}
