//! Sequence numbers: 32 bits that begin anew (RFC 9293 section 3.4).
//!
//! Two numbers are compared by their distance, which is less than 2^31 for all that a connection compares: windows are at most
//! 2^30 bytes (RFC 7323 section 2.3). So there is an order between two of them, but none among many, and no `Ord`.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

use crate::time::Instant;

/// Nanoseconds of a tick of first numbers. RFC 6528 section 3 has 4 us, which a connection of more than 250 KB/s overtakes; this goes round in 274
/// s, more than twice the life of a segment. Source: `net/core/secure_seq.c seq_scale`.
const TICK_NS: u64 = 64;

/// The first number of a connection (RFC 6528 section 3): `of_ends` is a number that both ends and a secret give, and no other station knows.
/// What two connections with these ends have one after the other grows.
#[must_use]
pub const fn first_number(of_ends: u32, now: Instant) -> Seq {
    // Modulo 2^32.
    Seq(of_ends.wrapping_add((now.ns / TICK_NS) as u32))
}

/// A sequence number.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// Whether it comes before the other.
    #[inline]
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() < 0
    }

    /// Whether it comes after the other.
    #[inline]
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        other.is_before(self)
    }

    /// The later of two.
    #[inline]
    #[must_use]
    pub const fn later(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier of two.
    #[inline]
    #[must_use]
    pub const fn earlier(self, other: Self) -> Self {
        if self.is_before(other) { self } else { other }
    }

    /// Whether it lies from `start` to `end`, both included.
    #[inline]
    #[must_use]
    pub const fn is_within(self, start: Self, end: Self) -> bool {
        self.0.wrapping_sub(start.0) <= end.0.wrapping_sub(start.0)
    }

    /// How far it is behind `start`; 0 if it comes before it.
    #[inline]
    #[must_use]
    pub const fn beyond(self, start: Self) -> u32 {
        if self.is_before(start) { 0 } else { self.0.wrapping_sub(start.0) }
    }
}

impl Add<u32> for Seq {
    type Output = Self;
    #[inline]
    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Seq {
    #[inline]
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for Seq {
    type Output = Self;
    #[inline]
    fn sub(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl Sub for Seq {
    type Output = u32;
    /// The distance from `other` up to here, modulo 2^32.
    #[inline]
    fn sub(self, other: Self) -> u32 {
        self.0.wrapping_sub(other.0)
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
#[path = "seq_tests.rs"]
mod tests;
