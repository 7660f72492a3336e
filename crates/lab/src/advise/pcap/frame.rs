//! A captured frame's ends, and whether it brings data.

use std::net::IpAddr;

use super::PcapError;

/// What a frame begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    Ethernet,
    /// IP without anything before it.
    Raw,
    /// A number of a family of addresses before it.
    Null,
    /// Of the interface `any`, in two versions.
    Cooked,
    Cooked2,
}

impl Link {
    pub(super) fn of(number: u32) -> Result<Self, PcapError> {
        Ok(match number {
            1 => Self::Ethernet,
            0 | 108 => Self::Null,
            12 | 14 | 101 | 228 | 229 => Self::Raw,
            113 => Self::Cooked,
            276 => Self::Cooked2,
            other => return Err(PcapError::Link(other)),
        })
    }
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Endpoint {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    pub(super) is_tcp: bool,
}

/// A packet of TCP or UDP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub(super) from: Endpoint,
    pub(super) to: Endpoint,
    /// Bytes of data.
    pub(super) data: usize,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

impl Segment {
    /// Of a frame that had `length` bytes, of which these were captured. `None` for another packet, a part of one, and one of which too little was
    /// captured.
    pub(super) fn parse(link: Link, bytes: &[u8], length: usize) -> Option<Self> {
        let u16_at = |at: usize| bytes.get(at..)?.first_chunk().map(|two| u16::from_be_bytes(*two));
        let (begin, kind) = match link {
            Link::Ethernet => {
                let mut at = 12;
                // VLANs, at most two of them.
                while at < 20 && matches!(u16_at(at)?, 0x8100 | 0x88a8 | 0x9100) {
                    at += 4;
                }
                (at + 2, Some(u16_at(at)?))
            }
            Link::Raw => (0, None),
            Link::Null => (4, None),
            Link::Cooked => (16, Some(u16_at(14)?)),
            Link::Cooked2 => (20, Some(u16_at(0)?)),
        };
        let packet = bytes.get(begin..)?;
        let on_wire = length.saturating_sub(begin);
        match (packet.first()? >> 4, kind) {
            (4, None | Some(0x0800)) => Self::ipv4(packet, on_wire),
            (6, None | Some(0x86dd)) => Self::ipv6(packet, on_wire),
            _ => None,
        }
    }

    fn ipv4(packet: &[u8], on_wire: usize) -> Option<Self> {
        let head = usize::from(packet.first()? & 0xf) * 4;
        let u16_at = |at: usize| packet.get(at..)?.first_chunk().map(|two| u16::from_be_bytes(*two));
        // More of a packet, which has no ports.
        if u16_at(6)? & 0x1fff != 0 {
            return None;
        }
        let address = |at: usize| Some(IpAddr::from(*packet.get(at..)?.first_chunk::<4>()?));
        // What a card is to cut into segments has no length.
        let total = match usize::from(u16_at(2)?) {
            0 => on_wire,
            total => total,
        };
        Self::of(*packet.get(9)?, (address(12)?, address(16)?), packet.get(head..)?, total.checked_sub(head)?)
    }

    fn ipv6(packet: &[u8], on_wire: usize) -> Option<Self> {
        const HEAD: usize = 40;
        let address = |at: usize| Some(IpAddr::from(*packet.get(at..)?.first_chunk::<16>()?));
        let ends = (address(8)?, address(24)?);
        let mut total = match usize::from(u16::from_be_bytes(*packet.get(4..)?.first_chunk()?)) {
            0 => on_wire.checked_sub(HEAD)?,
            total => total,
        };
        let (mut kind, mut rest) = (*packet.get(6)?, packet.get(HEAD..)?);
        // Hop-by-hop options, routing, options of the destination.
        for _ in 0..8 {
            if !matches!(kind, 0 | 43 | 60) {
                break;
            }
            let length = 8 + usize::from(*rest.get(1)?) * 8;
            (kind, rest, total) = (*rest.first()?, rest.get(length..)?, total.checked_sub(length)?);
        }
        Self::of(kind, ends, rest, total)
    }

    fn of(kind: u8, (from, to): (IpAddr, IpAddr), segment: &[u8], length: usize) -> Option<Self> {
        let head = match kind {
            TCP => usize::from(segment.get(12)? >> 4) * 4,
            UDP => 8,
            _ => return None,
        };
        let port = |at: usize| segment.get(at..)?.first_chunk().map(|two| u16::from_be_bytes(*two));
        let end = |address, port| Endpoint { address, port, is_tcp: kind == TCP };
        Some(Self { from: end(from, port(0)?), to: end(to, port(2)?), data: length.checked_sub(head)? })
    }
}
