//! What an ICMP error says, and the packet of ours that it quotes (RFC 792, RFC 4443).
//!
//! Only the format: whether the packet was really sent, its protocol knows.

use napier_core::icmp::{Message, Told};

use crate::wire::addr::{Addr, End};
use crate::wire::{IPV4_LEN, IPV6_LEN, PROTO_FRAGMENT};

/// Ports and sequence number: what is quoted of a packet behind its IP header at least (RFC 792).
const QUOTED_LEN: usize = 8;

/// What a message says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// The packet is too long for the router's next link, which takes so many bytes; 0: it does not say.
    TooBig(u32),
    /// It did not get there.
    Error(Told),
}

/// The packet that a message is about.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quoted {
    /// Ours.
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) protocol: u8,
    /// Bytes of the whole IP packet.
    pub(crate) packet_bytes: u32,
    /// The sequence number, if it is a TCP segment.
    pub(crate) seq: u32,
    /// Who speaks of it, and the type and code of the message.
    pub(crate) said: Option<(Addr, u8, u8)>,
}

impl Quoted {
    pub(crate) fn parse_v4(packet: &[u8]) -> Option<Self> {
        let head = packet.first_chunk::<IPV4_LEN>()?;
        let header_len = usize::from(head[0] & 0x0f) * 4;
        // Only the first fragment has ports.
        if head[0] >> 4 != 4 || header_len < IPV4_LEN || u16::from_be_bytes([head[6], head[7]]) & 0x1fff != 0 {
            return None;
        }
        let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *head;
        let ends = (Addr::v4([s0, s1, s2, s3]), Addr::v4([d0, d1, d2, d3]));
        let packet_bytes = u32::from(u16::from_be_bytes([head[2], head[3]]));
        Self::of(ends, head[9], packet_bytes, packet.get(header_len..)?)
    }

    pub(crate) fn parse_v6(packet: &[u8]) -> Option<Self> {
        let (head, rest) = packet.split_first_chunk::<IPV6_LEN>()?;
        if head[0] >> 4 != 6 {
            return None;
        }
        // What is sent here has no header in between but that of a fragment, of which only the first has ports.
        let (protocol, rest) = match (head[6], rest) {
            (PROTO_FRAGMENT, &[next, _, o0, o1, _, _, _, _, ref rest @ ..]) if [o0, o1 & !7] == [0, 0] => (next, rest),
            (PROTO_FRAGMENT, _) => return None,
            (protocol, rest) => (protocol, rest),
        };
        let address = |at: usize| Some(Addr::v6(*head[at..].first_chunk()?));
        let packet_bytes = IPV6_LEN as u32 + u32::from(u16::from_be_bytes([head[4], head[5]]));
        Self::of((address(8)?, address(24)?), protocol, packet_bytes, rest)
    }

    fn of((from, to): (Addr, Addr), protocol: u8, packet_bytes: u32, rest: &[u8]) -> Option<Self> {
        let &[s0, s1, d0, d1, q0, q1, q2, q3] = rest.first_chunk::<QUOTED_LEN>()?;
        let end = |addr, port| End { addr, port: u16::from_be_bytes(port) };
        Some(Self {
            from: end(from, [s0, s1]),
            to: end(to, [d0, d1]),
            protocol,
            packet_bytes,
            seq: u32::from_be_bytes([q0, q1, q2, q3]),
            said: None,
        })
    }
}

/// What an ICMP message is about; `None`: it is no error, or of an unknown code.
pub(crate) fn about_v4(kind: u8, code: u8, rest: [u8; 4]) -> Option<About> {
    let message = match (kind, code) {
        (3, 4) => return Some(About::TooBig(u32::from(u16::from_be_bytes([rest[2], rest[3]])))),
        (3, code) => Message::Unreachable(code),
        (11, _) => Message::TimeExceeded,
        (12, _) => Message::Parameter,
        _ => return None,
    };
    message.told_v4().map(About::Error)
}

/// As [`about_v4`] for ICMPv6.
pub(crate) fn about_v6(kind: u8, code: u8, rest: [u8; 4]) -> Option<About> {
    let message = match kind {
        1 => Message::Unreachable(code),
        2 => return Some(About::TooBig(u32::from_be_bytes(rest))),
        3 => Message::TimeExceeded,
        4 => Message::Parameter,
        _ => return None,
    };
    Some(About::Error(message.told_v6()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is quoted comes from outside, and may end anywhere.
    #[test]
    fn a_quote_that_is_cut_or_of_a_later_fragment_names_nobody() {
        let mut v4 = vec![0x46, 0, 5, 220, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 1, 1, 1];
        v4.extend([0, 80, 19, 136, 0, 0, 0, 9]);
        let whole = Quoted::parse_v4(&v4).expect("options are passed over");
        assert_eq!((whole.from.port, whole.to.port, whole.seq, whole.packet_bytes), (80, 5000, 9, 1500));
        assert!((0..v4.len()).all(|len| Quoted::parse_v4(&v4[..len]).is_none()));
        v4[7] = 1;
        assert_eq!(Quoted::parse_v4(&v4), None);
        let mut v6 = vec![0x60, 0, 0, 0, 5, 180, 17, 64];
        v6.extend([
            0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
        ]);
        v6.extend([0, 9, 0, 7, 0, 0, 0, 0]);
        let whole = Quoted::parse_v6(&v6).expect("whole");
        assert_eq!((whole.from.port, whole.to.port, whole.packet_bytes), (9, 7, 1500));
        assert!((0..v6.len()).all(|len| Quoted::parse_v6(&v6[..len]).is_none()));
        // The first fragment of a datagram, and a later one.
        v6[6] = 44;
        v6.splice(40..40, [17, 0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(Quoted::parse_v6(&v6), Some(whole));
        assert!((0..v6.len()).all(|len| Quoted::parse_v6(&v6[..len]).is_none()));
        v6[43] = 9;
        assert_eq!(Quoted::parse_v6(&v6), None);
    }
}
