//! IP fragments: how a packet that is too long is cut, and how one is put together again (RFC 791, RFC 815, RFC 8200 section
//! 4.5).
//!
//! # Cutting
//! Who cuts is asked by [`MtuDiscovery`], where the cuts are is said by [`cuts`].
//!
//! # Putting together
//! [`Assembly`] knows what of a packet has come; the bytes are the caller's. Times and bounds are [`expires_after`] and
//! [`HELD_BYTES_MAX`].

use crate::time::Span;

/// `IP_MTU_DISCOVER`, `IPV6_MTU_DISCOVER`: what becomes of packets that are longer than the path takes.
///
/// | | a packet has at most | "don't fragment" | a longer one |
/// |---|---|---|---|
/// | [`Dont`](Self::Dont) | the path's MTU | no | is cut |
/// | [`Want`](Self::Want), the default | the path's MTU | yes, but for pieces | is cut |
/// | [`Do`](Self::Do) | the path's MTU | yes | `EMSGSIZE` |
/// | [`Probe`](Self::Probe) | the interface's MTU | yes | `EMSGSIZE` |
///
/// Source: `net/ipv4/ip_output.c ip_dont_fragment`, `__ip_append_data`, `include/net/ip.h ip_sk_use_pmtu`; ip(7).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum MtuDiscovery {
    /// `IP_PMTUDISC_DONT` (0).
    Dont = 0,
    /// `IP_PMTUDISC_WANT` (1).
    #[default]
    Want = 1,
    /// `IP_PMTUDISC_DO` (2).
    Do = 2,
    /// `IP_PMTUDISC_PROBE` (3).
    Probe = 3,
}

/// How packets are sent on a path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PathUse {
    /// Bytes that each has at most.
    pub mtu: usize,
    /// Routers must not cut them.
    pub dont_fragment: bool,
    /// Longer ones are cut here; else they are refused.
    pub cut: bool,
}

impl MtuDiscovery {
    /// The table above, for a path of `path` bytes by an interface of `interface` bytes.
    #[must_use]
    pub const fn sending(self, path: usize, interface: usize) -> PathUse {
        match self {
            Self::Dont => PathUse { mtu: path, dont_fragment: false, cut: true },
            Self::Want => PathUse { mtu: path, dont_fragment: true, cut: true },
            Self::Do => PathUse { mtu: path, dont_fragment: true, cut: false },
            Self::Probe => PathUse { mtu: interface, dont_fragment: true, cut: false },
        }
    }

    /// Whether a router's "too long" is an error of the socket. Source: `net/ipv4/udp.c __udp4_lib_err`.
    #[must_use]
    pub const fn hears_too_big(self) -> bool {
        !matches!(self, Self::Dont)
    }
}

/// A piece of what stands behind a packet's IP header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins.
    pub at: u32,
    /// How many bytes it has.
    pub len: u32,
    /// It is not the last.
    pub more: bool,
}

/// The pieces of `bytes` bytes, each with at most `room`: all but the last a multiple of eight, in order.
///
/// # Panics
/// If there is no room for eight bytes.
pub fn cuts(bytes: u32, room: u32) -> impl Iterator<Item = Piece> {
    let step = room & !7;
    assert!(step > 0, "a piece has eight bytes at least");
    let count = bytes.div_ceil(step).max(1);
    (0..count).map(move |number| {
        let at = number * step;
        let more = bytes - at > step;
        Piece { at, len: if more { step } else { bytes - at }, more }
    })
}

/// Bytes behind an IP header at most.
pub const BYTES_MAX: u32 = 65_535;
/// Stretches of a packet that may have come with gaps between them; a packet of more is given up. The kernel has no such
/// bound; fragments in order are one stretch.
const RUNS_MAX: usize = 32;
/// Bytes of packets that are not whole. When there are more the oldest is given up, where the kernel refuses new ones. Source:
/// `net/ipv4/ip_fragment.c`, `net.ipv4.ipfrag_high_thresh`.
pub const HELD_BYTES_MAX: usize = 4 << 20;

/// How long the rest of a packet is waited for. Source: `include/net/ip.h IP_FRAG_TIME`, `include/net/ipv6.h
/// IPV6_FRAG_TIMEOUT`.
#[must_use]
pub const fn expires_after(v4: bool) -> Span {
    Span::from_secs(if v4 { 30 } else { 60 })
}

/// What a fragment has brought.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Brought {
    /// Something that was not there.
    Kept,
    /// The packet is whole.
    Whole,
    /// Nothing: it was there.
    Again,
    /// The packet is given up: fragments overlap or contradict each other.
    Spoilt,
}

/// What of a packet has come.
///
/// | fragment | |
/// |---|---|
/// | empty | the packet is given up |
/// | not the last, and no multiple of eight | IPv4: cut off to one; IPv6: the packet is given up |
/// | ends behind the last, is a second last with another end, or ends behind [`BYTES_MAX`] | the packet is given up |
/// | lies within what has come | passed over |
/// | overlaps what has come | the packet is given up (RFC 5722, which the kernel follows for IPv4 too) |
///
/// Source: `net/ipv4/ip_fragment.c ip_frag_queue`, `net/ipv6/reassembly.c ip6_frag_queue`, `net/ipv4/inet_fragment.c
/// inet_frag_queue_insert`.
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    /// Begin and end of each stretch, in order, with gaps between them.
    runs: [(u32, u32); RUNS_MAX],
    count: usize,
    /// The highest end that was seen.
    end: u32,
    /// The last fragment has come.
    last: bool,
    /// Bit 1 << ECN of each fragment.
    ecn: u8,
}

impl Assembly {
    /// Takes a fragment. `ecn`: the two bits of its header.
    pub fn take(&mut self, v4: bool, piece: Piece, ecn: u8) -> Brought {
        let Piece { at, mut len, more } = piece;
        if more && len % 8 != 0 {
            if !v4 {
                return Brought::Spoilt;
            }
            len &= !7;
        }
        let end = at + len;
        let beyond = if more { self.last && end > self.end } else { end < self.end || self.last && end != self.end };
        if len == 0 || beyond || end > BYTES_MAX {
            return Brought::Spoilt;
        }
        // Before those from here on, behind those before.
        let place = self.runs[..self.count].partition_point(|(_, to)| *to <= at);
        let next = (place < self.count).then(|| self.runs[place]);
        match next {
            Some((from, to)) if from <= at && end <= to => return Brought::Again,
            Some((from, _)) if from < end => return Brought::Spoilt,
            Some(_) | None => {}
        }
        let joins_before = place > 0 && self.runs[place - 1].1 == at;
        let joins_next = next.is_some_and(|(from, _)| from == end);
        match (joins_before, joins_next) {
            (true, true) => {
                self.runs[place - 1].1 = self.runs[place].1;
                self.runs.copy_within(place + 1..self.count, place);
                self.count -= 1;
            }
            (true, false) => self.runs[place - 1].1 = end,
            (false, true) => self.runs[place].0 = at,
            (false, false) if self.count == RUNS_MAX => return Brought::Spoilt,
            (false, false) => {
                self.runs.copy_within(place..self.count, place + 1);
                self.runs[place] = (at, end);
                self.count += 1;
            }
        }
        self.end = self.end.max(end);
        self.last |= !more;
        self.ecn |= 1 << (ecn & 3);
        if self.last && self.count == 1 && self.runs[0] == (0, self.end) { Brought::Whole } else { Brought::Kept }
    }

    /// Bytes behind the IP header, if the packet is whole.
    #[must_use]
    pub const fn bytes(&self) -> u32 {
        self.end
    }

    /// The ECN bits of the packet; `None`: they do not fit together, and it is given up. `first`: those of its first fragment.
    /// Source: `net/ipv4/inet_fragment.c ip_frag_ecn_table` (RFC 3168 section 5.3).
    #[must_use]
    pub const fn ecn(&self, first: u8) -> Option<u8> {
        const NOT_CAPABLE: u8 = 1 << 0;
        const CONGESTED: u8 = 1 << 3;
        match self.ecn {
            NOT_CAPABLE => Some(0),
            mixed if mixed & NOT_CAPABLE != 0 => None,
            mixed if mixed & CONGESTED != 0 => Some(3),
            _ => Some(first & 3),
        }
    }
}

#[cfg(test)]
#[path = "fragments_tests.rs"]
mod tests;
