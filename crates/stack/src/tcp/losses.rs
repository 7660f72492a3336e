//! How an acknowledgement is put to smoltcp, so that it repairs losses better than it would ([`napier_core::loss`]).

use napier_core::loss::{Ack, Handing};
use napier_core::time::Instant;
use smoltcp::socket::tcp::State;

use super::super::netns::Inner;
use super::super::wire::{IPV6_LEN, TCP_LEN, flag};
use super::conn::Core;

/// Longest packet that acknowledges and carries nothing: with IPv6, or the options of IPv4, and those of TCP.
pub(super) const BARE_MAX: usize = 60 + 60;

/// The TCP header in an IP packet that the parser has accepted.
pub(super) struct Header<'a> {
    packet: &'a [u8],
    /// Its place.
    at: usize,
    /// Its length.
    len: usize,
}

impl<'a> Header<'a> {
    #[inline]
    pub(super) fn of(packet: &'a [u8]) -> Option<Self> {
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
    pub(super) fn seq(&self) -> u32 {
        self.word(4)
    }

    #[inline]
    pub(super) fn ack(&self) -> u32 {
        self.word(8)
    }

    #[inline]
    fn window(&self) -> u16 {
        self.word(12) as u16 // its lower half
    }

    /// Bytes behind it.
    pub(super) fn payload(&self) -> u32 {
        u32::try_from(self.packet.len() - self.at - self.len).expect("a packet has at most 64 KiB")
    }

    /// A packet that begins at `seq`, and carries no byte and no flag but the acknowledgement. Nobody looks at its checksums
    /// any more.
    pub(super) fn bare<'b>(&self, seq: u32, room: &'b mut [u8; BARE_MAX]) -> &'b [u8] {
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
    pub(super) fn hand(&mut self, ns: &Inner, now: Instant, flags: u8, packet: &[u8]) {
        if self.is_out_of_place(packet) {
            self.take_crossed(ns, now, flags, packet);
        }
        if !self.controlled || !self.is_handed_with_care(ns, now, flags, packet) {
            self.drive(ns, now, Some(packet));
        }
    }

    /// Whether all is done.
    fn is_handed_with_care(&mut self, ns: &Inner, now: Instant, flags: u8, packet: &[u8]) -> bool {
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
                return self.hand_bare(ns, now, &header, sent_to);
            }
            _ => {}
        }
        self.losses.carried(header.ack(), header.window(), sent_to);
        false
    }

    fn hand_bare(&mut self, ns: &Inner, now: Instant, header: &Header<'_>, sent_to: u32) -> bool {
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
            Handing::Parts { first, parts } => self.hand_parts(ns, now, header, (first, parts)),
            Handing::Times(times) => (1..times).for_each(|_| self.hear(ns, now, header.packet)),
        }
        // A fault ends it.
        self.dead
    }

    /// Hands on copies that acknowledge a segment more each. Nobody looks at their checksums any more.
    fn hand_parts(&mut self, ns: &Inner, now: Instant, header: &Header<'_>, (first, parts): (u32, u32)) {
        let mut copy = [0; BARE_MAX];
        let copy = &mut copy[..header.packet.len()];
        copy.copy_from_slice(header.packet);
        for part in 0..parts {
            let number = first.wrapping_add(part * self.outlet.longest());
            copy[header.at + 8..header.at + 12].copy_from_slice(&number.to_be_bytes());
            self.hear(ns, now, copy);
        }
    }

    pub(super) fn hear(&mut self, ns: &Inner, now: Instant, packet: &[u8]) {
        if !self.dead {
            self.with_poll(ns, now, |poll| poll.hear(packet));
        }
    }
}
