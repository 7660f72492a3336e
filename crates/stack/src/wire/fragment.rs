//! Fragments on the wire: RFC 791 section 3.1, RFC 8200 section 4.5.

use napier_core::fragments::Piece;

use crate::wire::addr::Addr;
use crate::wire::checksum::Sum;
use crate::wire::{ETH_LEN, IPV4_LEN, IPV6_LEN, PROTO_FRAGMENT, PROTO_HOP_BY_HOP, PROTO_ICMPV6};

/// Bytes of the header that IPv6 has for it.
pub(crate) const HEADER_LEN_V6: usize = 8;
/// What errors quote of a piece at most: a whole message is no longer than this.
const QUOTED_MAX: usize = 1280;
/// "More fragments" of IPv4, in the upper byte of its word; "don't fragment" is the bit above.
const MORE_V4: u8 = 0x20;

/// The packets of which a fragment is one: those of one packet agree in this.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PacketKey {
    pub(crate) src: Addr,
    pub(crate) dst: Addr,
    pub(crate) id: u32,
    /// IPv6 does not ask for it (RFC 8200 section 4.5): 0.
    protocol: u8,
    /// Of a link-local sender, else 0.
    pub(crate) ifindex: u32,
}

/// A fragment in a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) key: PacketKey,
    pub(crate) piece: Piece,
    pub(crate) ecn: u8,
    /// The interface that it came in by.
    pub(crate) ifindex: u32,
    /// What stands in the frame before the piece, without the fragment header of IPv6.
    pub(crate) head: usize,
    /// Where the piece begins in the frame.
    pub(crate) at: usize,
}

impl Fragment {
    /// Of a frame that the parser has found to be a fragment, whose piece it says lies at these bytes. `None`: it is cut.
    pub(crate) fn read(frame: &[u8], at: usize, end: usize, ifindex: u32) -> Option<Self> {
        let ip = &frame[ETH_LEN..];
        let len = (end - at) as u32; // a packet has 65535 bytes at most
        if ip[0] >> 4 == 4 {
            let (src, dst) = (Addr::v4(*ip[12..].first_chunk()?), Addr::v4(*ip[16..].first_chunk()?));
            let id = u32::from(u16::from_be_bytes([ip[4], ip[5]]));
            let offset = u32::from(u16::from_be_bytes([ip[6] & 0x1f, ip[7]])) * 8;
            let piece = Piece { at: offset, len, more: ip[6] & MORE_V4 != 0 };
            let key = PacketKey { src, dst, id, protocol: ip[9], ifindex: 0 };
            return Some(Self { key, piece, ecn: ip[1] & 3, ifindex, head: at, at });
        }
        let (src, dst) = (Addr::v6(*ip[8..].first_chunk()?), Addr::v6(*ip[24..].first_chunk()?));
        let &[_, _, o0, o1, i0, i1, i2, i3] = frame.get(at..end)?.first_chunk::<HEADER_LEN_V6>()?;
        let word = u16::from_be_bytes([o0, o1]);
        let (offset, len) = (u32::from(word & !7), len - HEADER_LEN_V6 as u32);
        let key = PacketKey {
            src,
            dst,
            id: u32::from_be_bytes([i0, i1, i2, i3]),
            protocol: 0,
            ifindex: if src.is_link_local_v6() { ifindex } else { 0 },
        };
        let piece = Piece { at: offset, len, more: word & 1 != 0 };
        Some(Self { key, piece, ecn: (ip[1] >> 4) & 3, ifindex, head: at, at: at + HEADER_LEN_V6 })
    }

    /// It is all of its packet (RFC 6946).
    pub(crate) fn is_whole(&self) -> bool {
        self.piece.at == 0 && !self.piece.more
    }
}

/// What stands before the first piece of a packet: the headers of the frame, and for IPv6 the next header's number, which
/// the fragment header has.
pub(crate) fn head(frame: &[u8], fragment: &Fragment) -> (Vec<u8>, u8) {
    (frame[..fragment.head].to_vec(), frame.get(fragment.head).copied().unwrap_or(0))
}

/// The protocol of an IP packet that begins with its first byte, and what stands behind its IP headers. `None`: it is cut, or a later piece.
pub(crate) fn protocol_of(packet: &[u8]) -> Option<(u8, &[u8])> {
    if packet.first()? >> 4 == 4 {
        let head = packet.first_chunk::<IPV4_LEN>()?;
        let begins = u16::from_be_bytes([head[6], head[7]]) & 0x1fff == 0;
        return begins.then_some((head[9], packet.get(usize::from(head[0] & 0x0f) * 4..)?));
    }
    let (head, mut rest) = packet.split_first_chunk::<IPV6_LEN>()?;
    let mut next = head[6];
    if next == PROTO_HOP_BY_HOP {
        let units = *rest.get(1)?;
        (next, rest) = (rest[0], rest.get((usize::from(units) + 1) * 8..)?);
    }
    if next == PROTO_FRAGMENT {
        let (header, behind) = rest.split_first_chunk::<HEADER_LEN_V6>()?;
        let begins = u16::from_be_bytes([header[2], header[3]]) & !7 == 0;
        return begins.then_some((header[0], behind));
    }
    Some((next, rest))
}

/// The first piece of a packet as it came, as far as errors quote it: `head` and `next` are what [`head`] gave.
pub(crate) fn first_as_it_came((head, next): (&[u8], u8), id: u32, piece: &[u8]) -> Vec<u8> {
    let mut frame = head.to_vec();
    if head[ETH_LEN] >> 4 != 4 {
        // Of all first pieces: it begins the packet, and there is more.
        frame.extend([next, 0, 0, 1]);
        frame.extend(id.to_be_bytes());
    }
    frame.extend(&piece[..piece.len().min(QUOTED_MAX)]);
    frame
}

/// Makes the head of a fragment that of a packet with `bytes` behind its IPv4 header, or its IPv6 header and what follows it.
/// False: it would be too long, or be in fragments again (`net/ipv6/reassembly.c ipv6_frag_rcv`, `IP6SKB_FRAGMENTED`).
pub(crate) fn mend(head: &mut [u8], next: u8, bytes: u32, ecn: u8) -> bool {
    let ip = &mut head[ETH_LEN..];
    if ip[0] >> 4 == 4 {
        let Ok(total) = u16::try_from(ip.len() as u32 + bytes) else { return false };
        ip[1] = ip[1] & !3 | ecn;
        ip[2..4].copy_from_slice(&total.to_be_bytes());
        // "Don't fragment" may stand: who reads the packet sees how it was sent.
        ip[6] &= 0x40;
        ip[7] = 0;
        ip[10..12].fill(0);
        let sum = Sum::ZERO.bytes(ip).field();
        ip[10..12].copy_from_slice(&sum);
        return true;
    }
    if [PROTO_FRAGMENT, PROTO_HOP_BY_HOP].contains(&next) {
        return false;
    }
    let Ok(payload) = u16::try_from((ip.len() - IPV6_LEN) as u32 + bytes) else { return false };
    ip[1] = ip[1] & !0x30 | ecn << 4;
    ip[4..6].copy_from_slice(&payload.to_be_bytes());
    let names_next = if ip[6] == PROTO_HOP_BY_HOP { IPV6_LEN } else { 6 };
    ip[names_next] = next;
    true
}

/// Whether a packet of which this stands before the first piece, `bytes`, is neighbour discovery: that may not come in
/// fragments (RFC 6980).
pub(crate) fn is_discovery(head: &[u8], next: u8, bytes: &[u8]) -> bool {
    head[ETH_LEN] >> 4 == 6 && next == PROTO_ICMPV6 && matches!(bytes, [133..=137, ..])
}

/// Bytes before a piece of a packet that begins with `frame`, which has no options.
pub(crate) fn head_len(v4: bool) -> usize {
    ETH_LEN + if v4 { IPV4_LEN } else { IPV6_LEN + HEADER_LEN_V6 }
}

/// Writes a piece of the packet in `whole`, as [`head_len`] has it: a frame; gives its length.
pub(crate) fn write(slot: &mut [u8], whole: &[u8], piece: Piece, id: u32) -> usize {
    let v4 = whole[ETH_LEN] >> 4 == 4;
    let ip_len = if v4 { IPV4_LEN } else { IPV6_LEN };
    let from = ETH_LEN + ip_len + piece.at as usize;
    let (head, len) = (head_len(v4), piece.len as usize);
    slot[..ETH_LEN + ip_len].copy_from_slice(&whole[..ETH_LEN + ip_len]);
    slot[head..head + len].copy_from_slice(&whole[from..from + len]);
    let ip = &mut slot[ETH_LEN..head];
    let bytes = |header: usize| u16::try_from(header + len).expect("shorter than an MTU").to_be_bytes();
    if v4 {
        ip[2..4].copy_from_slice(&bytes(IPV4_LEN));
        ip[4..6].copy_from_slice(&(id as u16).to_be_bytes()); // as many bits as the field has
        let offset = (piece.at / 8) as u16; // 13 bits of it
        ip[6..8].copy_from_slice(&offset.to_be_bytes());
        ip[6] |= if piece.more { MORE_V4 } else { 0 };
        ip[10..12].fill(0);
        let sum = Sum::ZERO.bytes(ip).field();
        ip[10..12].copy_from_slice(&sum);
    } else {
        let next = std::mem::replace(&mut ip[6], PROTO_FRAGMENT);
        ip[4..6].copy_from_slice(&bytes(HEADER_LEN_V6));
        let offset = piece.at as u16 | u16::from(piece.more); // a multiple of eight
        ip[IPV6_LEN..IPV6_LEN + 4].copy_from_slice(&[next, 0, offset.to_be_bytes()[0], offset.to_be_bytes()[1]]);
        ip[IPV6_LEN + 4..].copy_from_slice(&id.to_be_bytes());
    }
    head + len
}
