//! What comes to a machine and what leaves it.

use napier_core::tcp::options::{Options, Written};
use napier_core::tcp::seq::Seq;
use napier_core::tcp::time_wait::LateSegment;

use crate::wire::{IPV6_LEN, TCP_LEN, flag};

/// A segment that came: its header, taken apart, and its bytes.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Inbound<'a> {
    pub(in crate::tcp) seq: Seq,
    pub(in crate::tcp) ack: Seq,
    pub(in crate::tcp) flags: u8,
    /// As it stands in the header.
    pub(in crate::tcp) window: u16,
    pub(in crate::tcp) options: Options,
    pub(in crate::tcp) payload: &'a [u8],
}

impl<'a> Inbound<'a> {
    /// Of an IP packet that the parser has accepted; `None` if it is none.
    #[inline]
    pub(in crate::tcp) fn of_packet(packet: &'a [u8]) -> Option<Self> {
        let first = *packet.first()?;
        let at = if first >> 4 == 4 { usize::from(first & 0x0f) * 4 } else { IPV6_LEN };
        Self::of_segment(packet.get(at..)?)
    }

    /// The same without the IP header.
    #[inline]
    pub(in crate::tcp) fn of_segment(segment: &'a [u8]) -> Option<Self> {
        let head = segment.first_chunk::<TCP_LEN>()?;
        let len = usize::from(head[12] >> 4) * 4;
        let options = segment.get(TCP_LEN..len)?;
        let flags = head[13] & 0x3f;
        Some(Self {
            seq: Seq(u32::from_be_bytes([head[4], head[5], head[6], head[7]])),
            ack: Seq(u32::from_be_bytes([head[8], head[9], head[10], head[11]])),
            flags,
            window: u16::from_be_bytes([head[14], head[15]]),
            options: Options::read(options, flags & flag::SYN != 0),
            payload: &segment[len..],
        })
    }

    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// As one that comes for a connection which is over.
    pub(in crate::tcp) fn as_late(&self) -> LateSegment {
        LateSegment {
            seq: self.seq,
            end: self.end(),
            opens: self.flags & (flag::SYN | flag::ACK) == flag::SYN,
            ends: self.has(flag::FIN),
            resets: self.has(flag::RST),
            stamps: self.options.stamps,
        }
    }

    /// Bytes of data. A packet has at most 64 KiB.
    #[inline]
    pub(super) fn bytes(&self) -> u32 {
        self.payload.len() as u32
    }

    /// Behind its last number: SYN and FIN have one each.
    #[inline]
    pub(super) fn end(&self) -> Seq {
        self.seq + self.bytes() + u32::from(self.has(flag::SYN)) + u32::from(self.has(flag::FIN))
    }
}

/// A segment that leaves: its header, and which bytes of the send queue.
#[derive(Copy, Clone, Debug)]
pub(in crate::tcp) struct Departure {
    pub(in crate::tcp) seq: Seq,
    pub(in crate::tcp) ack: Seq,
    pub(in crate::tcp) flags: u8,
    pub(in crate::tcp) window: u16,
    pub(in crate::tcp) options: Written,
    /// Where its bytes are in the queue.
    pub(in crate::tcp) at: usize,
    pub(in crate::tcp) len: usize,
    /// It was sent before.
    pub(in crate::tcp) again: bool,
}

impl Departure {
    /// The reset that answers a segment which belongs to no connection (RFC 9293 section 3.10.7.1).
    pub(in crate::tcp) fn refusal(seg: &Inbound<'_>) -> Self {
        let (seq, ack, flags) =
            if seg.has(flag::ACK) { (seg.ack, Seq(0), flag::RST) } else { (Seq(0), seg.end(), flag::RST | flag::ACK) };
        Self { seq, ack, flags, window: 0, options: Written::default(), at: 0, len: 0, again: false }
    }

    /// Bytes of header and data.
    #[inline]
    pub(in crate::tcp) fn bytes(&self) -> usize {
        TCP_LEN + self.options.len() + self.len
    }

    /// It acknowledges and does nothing else.
    #[inline]
    pub(in crate::tcp) fn is_bare(&self) -> bool {
        self.len == 0 && self.flags == flag::ACK
    }

    /// Writes the header of a segment between these ports, and its bytes; all but the checksum, which is left 0.
    #[inline]
    pub(in crate::tcp) fn write(&self, ports: (u16, u16), data: (&[u8], &[u8]), to: &mut [u8]) {
        let head_len = TCP_LEN + self.options.len();
        let (head, body) = to.split_at_mut(head_len);
        head[..2].copy_from_slice(&ports.0.to_be_bytes());
        head[2..4].copy_from_slice(&ports.1.to_be_bytes());
        head[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        head[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        head[12] = (head_len as u8 / 4) << 4;
        head[13] = self.flags;
        head[14..16].copy_from_slice(&self.window.to_be_bytes());
        head[16..20].fill(0);
        head[TCP_LEN..].copy_from_slice(self.options.bytes());
        let (first, second) = data;
        body[..first.len()].copy_from_slice(first);
        body[first.len()..].copy_from_slice(second);
    }
}
