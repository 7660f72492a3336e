//! How an acknowledgement is put to smoltcp, so that it repairs losses better than it would ([`napier_core::loss`]).
//!
//! # Probes of a closed window that cross each other
//!
//! smoltcp probes with the next byte and does not count it as sent. So do both ends when both windows are closed, and when
//! programs have read, both take the other's byte. From then on each of its segments begins one byte before what the other
//! expects: old for that end, and smoltcp answers what is old without a look at what it acknowledges. Neither end would ever
//! learn that its byte has come and that the window is open.
//!
//! So an old segment that acknowledges all that was sent is put to smoltcp as if it began where it should, without what it
//! carries. The stack of BSD does the same: "keep on processing for RST or ACK". Source: `tcp_do_segment` of FreeBSD, RFC
//! 9293 section 3.10.7.4 (valid acknowledgements are taken also where no segment is acceptable).

use napier_core::loss::{Ack, Handing};
use napier_core::time::Instant;
use smoltcp::socket::tcp::State;

use crate::tables::Tables;
use crate::tcp::conn::Core;
use crate::wire::{IPV6_LEN, TCP_LEN, flag};

/// Longest packet that acknowledges and carries nothing: with IPv6, or the options of IPv4, and those of TCP.
pub(in crate::tcp) const BARE_MAX: usize = 60 + 60;

/// The TCP header in an IP packet that the parser has accepted.
pub(in crate::tcp) struct Header<'a> {
    packet: &'a [u8],
    /// Its place.
    at: usize,
    /// Its length.
    len: usize,
}

impl<'a> Header<'a> {
    #[inline]
    pub(in crate::tcp) fn of(packet: &'a [u8]) -> Option<Self> {
        let first = *packet.first()?;
        let at = if first >> 4 == 4 { usize::from(first & 0x0f) * 4 } else { IPV6_LEN };
        let len = usize::from(packet.get(at + 12)? >> 4) * 4;
        (len >= TCP_LEN && at + len <= packet.len()).then_some(Self { packet, at, len })
    }

    #[inline]
    fn word(&self, at: usize) -> u32 {
        let bytes = self.packet[self.at + at..].first_chunk().expect("within the header");
        u32::from_be_bytes(*bytes)
    }

    #[inline]
    pub(in crate::tcp) fn seq(&self) -> u32 {
        self.word(4)
    }

    #[inline]
    pub(in crate::tcp) fn ack(&self) -> u32 {
        self.word(8)
    }

    #[inline]
    fn window(&self) -> u16 {
        self.word(12) as u16 // its lower half
    }

    /// Bytes behind it.
    pub(in crate::tcp) fn payload(&self) -> u32 {
        u32::try_from(self.packet.len() - self.at - self.len).expect("a packet has at most 64 KiB")
    }

    /// A packet that begins at `seq`, and carries no byte and no flag but the acknowledgement. Its checksums are not looked at
    /// any more.
    pub(in crate::tcp) fn bare<'b>(&self, seq: u32, room: &'b mut [u8; BARE_MAX]) -> &'b [u8] {
        let packet = &mut room[..self.at + self.len];
        packet.copy_from_slice(&self.packet[..self.at + self.len]);
        let len = u16::try_from(packet.len()).expect("less than a page");
        if packet[0] >> 4 == 4 {
            packet[2..4].copy_from_slice(&len.to_be_bytes());
        } else {
            packet[4..6].copy_from_slice(&(len - IPV6_LEN as u16).to_be_bytes());
        }
        packet[self.at + 4..self.at + 8].copy_from_slice(&seq.to_be_bytes());
        packet[self.at + 13] = flag::ACK;
        packet
    }

    /// The packet ends with it.
    #[inline]
    fn is_bare(&self) -> bool {
        self.at + self.len == self.packet.len() && self.packet.len() <= BARE_MAX
    }

    /// Whether there are selective acknowledgements among its options (RFC 2018 section 3).
    fn is_selective(&self) -> bool {
        let mut options = &self.packet[self.at + TCP_LEN..self.at + self.len];
        loop {
            options = match options {
                [] | [0, ..] | [_] => return false,
                [1, rest @ ..] => rest,
                [5, ..] => return true,
                [_, len, ..] => options.get(usize::from(*len).max(2)..).unwrap_or_default(),
            };
        }
    }
}

impl Core {
    /// Lets smoltcp take the packet of a segment with `flags`, and send what there is to send.
    #[inline]
    pub(in crate::tcp) fn hand(&mut self, tables: &Tables, now: Instant, flags: u8, packet: &[u8]) {
        if self.is_out_of_place(packet) {
            self.take_crossed(tables, now, flags, packet);
        }
        if !self.controlled || !self.is_handed_with_care(tables, now, flags, packet) {
            self.drive(tables, now, Some(packet));
        }
    }

    /// Whether all is done.
    fn is_handed_with_care(&mut self, tables: &Tables, now: Instant, flags: u8, packet: &[u8]) -> bool {
        let (Some(header), Some(sent_to)) = (Header::of(packet), self.outlet.sent_to()) else { return false };
        if flags & (flag::ACK | flag::RST) != flag::ACK {
            return false;
        }
        match self.state() {
            State::Closed | State::Listen => return false,
            State::SynSent | State::SynReceived if header.ack() != sent_to => return false,
            State::SynSent | State::SynReceived => {}
            // smoltcp answers what is out of place, each time.
            _ if self.expected().is_none_or(|expected| header.seq() != expected.next) => return false,
            _ if flags & flag::FIN == 0 && header.is_bare() => {
                return self.hand_bare(tables, now, &header, sent_to);
            }
            _ => {}
        }
        self.losses.carried(header.ack(), header.window(), sent_to);
        false
    }

    fn hand_bare(&mut self, tables: &Tables, now: Instant, header: &Header<'_>, sent_to: u32) -> bool {
        let ack = Ack {
            number: header.ack(),
            window: header.window(),
            selective: header.is_selective(),
            sent_to,
            longest: self.outlet.longest(),
        };
        match self.losses.acknowledged(&ack) {
            Handing::Once => {}
            Handing::Never => return true,
            Handing::Parts { first, parts } => self.hand_parts(tables, now, header, (first, parts)),
            Handing::Times(times) => (1..times).for_each(|_| self.hear(tables, now, header.packet)),
        }
        // A fault ends it.
        self.dead
    }

    /// Hands on copies that acknowledge a segment more each. Their checksums are not looked at any more.
    fn hand_parts(&mut self, tables: &Tables, now: Instant, header: &Header<'_>, (first, parts): (u32, u32)) {
        let mut copy = [0; BARE_MAX];
        let copy = &mut copy[..header.packet.len()];
        copy.copy_from_slice(header.packet);
        for part in 0..parts {
            let number = first.wrapping_add(part * self.outlet.longest());
            copy[header.at + 8..header.at + 12].copy_from_slice(&number.to_be_bytes());
            self.hear(tables, now, copy);
        }
    }

    pub(in crate::tcp) fn hear(&mut self, tables: &Tables, now: Instant, packet: &[u8]) {
        if !self.dead {
            self.with_poll(tables, now, |poll| poll.hear(packet));
        }
    }

    /// Takes the acknowledgement of an old segment. smoltcp gets the segment as well, and answers it.
    #[cold]
    pub(in crate::tcp) fn take_crossed(&mut self, tables: &Tables, now: Instant, flags: u8, packet: &[u8]) {
        let (Some(header), Some(sent_to)) = (Header::of(packet), self.outlet.sent_to()) else { return };
        if flags & (flag::ACK | flag::SYN | flag::RST) != flag::ACK
            || matches!(
                self.state(),
                State::Closed | State::Listen | State::SynSent | State::SynReceived | State::TimeWait
            )
        {
            return;
        }
        let Some(expected) = self.expected() else { return };
        if !is_crossed(&header, flags, expected.next, sent_to) {
            return;
        }
        let mut copy = [0; BARE_MAX];
        let copy = header.bare(expected.next, &mut copy);
        self.hear(tables, now, copy);
    }

    /// Whether the segment in a packet does not begin where the next one should.
    #[inline]
    pub(in crate::tcp) fn is_out_of_place(&self, packet: &[u8]) -> bool {
        let seq = Header::of(packet).map(|header| header.seq());
        self.expected().is_some_and(|expected| seq.is_some_and(|seq| seq != expected.next))
    }
}

/// What of an old segment is worth a look.
fn is_crossed(header: &Header<'_>, flags: u8, next: u32, sent_to: u32) -> bool {
    let behind = next.wrapping_sub(header.seq());
    let occupied = header.payload() + u32::from(flags & flag::FIN != 0);
    // Not more than a window behind: else it is from another life.
    (1..=u32::from(u16::MAX)).contains(&behind) && occupied <= behind && header.ack() == sent_to
}
