//! How much room a peer is offered, and how much is kept for sending.
//!
//! # Receiving
//! A program that takes what comes within a round trip gets room for twice as much, so that a sender's window can double
//! each round trip; more if it took more than the last time. Source: `net/ipv4/tcp_input.c tcp_rcv_space_adjust`.
//!
//! Under pressure ([`crate::tcp::memory`]) it grows no further; where memory was refused it is no more than what there is, until that is over.
//!
//! The right edge of the offer never moves back, and not by little steps: by a segment, or half of the room (RFC 9293 section 3.8.6.2.2).
//!
//! # Sending
//! Twice what may be under way is kept: what is not acknowledged, and what the program writes meanwhile. Source: `net/ipv4/tcp_input.c
//! tcp_sndbuf_expand`.

use crate::tcp::memory::LEAST;
use crate::tcp::seq::Seq;
use crate::time::{Instant, Span};

/// Room for what a peer sends at the beginning: what a window without scale can say. Source: half of `net.ipv4.tcp_rmem[1]`.
pub const RECEIVE_FIRST: u32 = 65_535;
/// Most room that grows by itself. Source: `net.ipv4.tcp_rmem[2]`.
pub const RECEIVE_MAX: u32 = 6 << 20;
/// What is kept for sending at the beginning. Source: `net.ipv4.tcp_wmem[1]`, as it grows with the first window.
pub const SEND_FIRST: u32 = 64 << 10;
/// Most that is kept for sending. Source: `net.ipv4.tcp_wmem[2]`.
pub const SEND_MAX: u32 = 4 << 20;
/// Segments of slack beside twice what a program took.
const SLACK_SEGMENTS: u32 = 16;

/// Room for what a peer sends.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Space {
    limit: u32,
    /// Grows no further; `limit` if a program has said how much it is.
    max: u32,
    /// When the program's taking was looked at last, and where it was.
    since: Instant,
    taken: Seq,
    /// Bytes that it took in a round trip.
    per_round: u32,
    /// What `limit` was before memory was refused; 0: it was not.
    uncut: u32,
}

impl Space {
    /// So much, and no more than `max`. `taken`: the peer's first byte.
    #[must_use]
    pub const fn new(limit: u32, max: u32, taken: Seq, now: Instant) -> Self {
        Self { limit, max, since: now, taken, per_round: limit / 2, uncut: 0 }
    }

    /// Bytes that there is room for.
    #[inline]
    #[must_use]
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// As much as a program wants from now on.
    pub fn fix(&mut self, limit: u32) {
        (self.limit, self.max, self.uncut) = (limit, limit, 0);
    }

    /// Memory was refused: no more than `limit` until that is over, but [`LEAST`] in any case, so that the peer goes on.
    #[cold]
    pub fn cut(&mut self, limit: u32) {
        let limit = limit.max(LEAST as u32);
        if limit < self.limit {
            self.uncut = self.uncut.max(self.limit);
            self.limit = limit;
        }
    }

    /// The program has taken everything before `taken`. Whether there is more room now. `rtt` zero: not known. `may_grow` is asked only
    /// where it would.
    #[inline]
    pub fn took(&mut self, now: Instant, taken: Seq, rtt: Span, segment: u32, may_grow: impl FnOnce() -> bool) -> bool {
        if self.limit >= self.max || now - self.since < rtt {
            return false;
        }
        if self.uncut != 0 {
            return self.heal(now, taken, may_grow());
        }
        if rtt.is_zero() {
            return false;
        }
        let copied = taken - self.taken;
        let before = self.per_round;
        (self.since, self.taken) = (now, taken);
        if copied <= before {
            return false;
        }
        let twice = u64::from(copied) * 2 + u64::from(SLACK_SEGMENTS * segment.min(u32::from(u16::MAX)));
        // What it took more than the last time, the sender will do again.
        let grown = twice.saturating_mul(u64::from(copied - before)) / u64::from(before.max(1));
        let wanted = u32::try_from(twice.saturating_add(grown.saturating_mul(2))).unwrap_or(u32::MAX).min(self.max);
        let more = wanted > self.limit;
        if more && !may_grow() {
            // It is asked again after a round trip as good as this one.
            return false;
        }
        self.per_round = copied;
        self.limit = self.limit.max(wanted);
        more
    }

    /// What was cut is as it was, if memory is not short any more.
    #[cold]
    fn heal(&mut self, now: Instant, taken: Seq, calm: bool) -> bool {
        (self.since, self.taken) = (now, taken);
        if calm {
            self.limit = core::mem::take(&mut self.uncut);
        }
        calm
    }
}

/// The right edge of what is offered to the peer: `next` is expected, `queued` bytes before it wait for the program, and `edge` was offered.
#[inline]
#[must_use]
pub fn offer(next: Seq, edge: Seq, queued: u32, limit: u32, segment: u32) -> Seq {
    let wanted = next + limit.saturating_sub(queued);
    if wanted.beyond(edge) >= segment.min(limit / 2).max(1) { wanted } else { edge }
}

/// The window field that offers it, for a header with this scale.
#[inline]
#[must_use]
pub fn field(next: Seq, edge: Seq, scale: u8) -> u16 {
    u16::try_from(edge.beyond(next) >> scale).unwrap_or(u16::MAX)
}

/// The scale with which a window of `max` bytes can be said (RFC 7323 section 2.2).
#[must_use]
pub const fn scale_for(max: u32) -> u8 {
    let mut scale = 0;
    while scale < crate::tcp::options::SCALE_MAX && max >> scale > u16::MAX as u32 {
        scale += 1;
    }
    scale
}

/// Bytes that are kept for sending when `window` may be under way.
#[inline]
#[must_use]
pub fn send_limit(limit: u32, window: u32) -> u32 {
    limit.max(window.saturating_mul(2).min(SEND_MAX))
}

#[cfg(test)]
#[path = "space_tests.rs"]
mod tests;
