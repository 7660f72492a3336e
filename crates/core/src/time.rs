//! Time as integer nanoseconds, in three types that cannot be mixed up.
//!
//! The caller owns the clock; every rule that depends on time is handed an [`Instant`].

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// Largest value that the kernel's signed time type can hold, in ns. Source: `include/linux/ktime.h KTIME_MAX`.
const SIGNED_NS_MAX: u64 = i64::MAX as u64;

/// A point on the caller's monotonic clock.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant {
    /// Nanoseconds since the clock's zero.
    pub ns: u64,
}

/// A length of time.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// Nanoseconds.
    pub ns: u64,
}

impl Instant {
    /// The clock's zero.
    pub const ZERO: Self = Self { ns: 0 };

    /// The instant `ns` nanoseconds after the clock's zero.
    #[inline]
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }
}

impl Span {
    /// No time at all. As a time-out of the kernel's vocabulary it means "off".
    pub const ZERO: Self = Self { ns: 0 };

    /// `ns` nanoseconds.
    #[inline]
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self { ns }
    }

    /// `us` microseconds (saturating).
    #[inline]
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self { ns: us.saturating_mul(1_000) }
    }

    /// `ms` milliseconds (saturating).
    #[inline]
    #[must_use]
    pub const fn from_ms(ms: u64) -> Self {
        Self { ns: ms.saturating_mul(1_000_000) }
    }

    /// `s` seconds (saturating).
    #[inline]
    #[must_use]
    pub const fn from_secs(s: u64) -> Self {
        Self { ns: s.saturating_mul(1_000_000_000) }
    }

    /// True for [`Span::ZERO`].
    #[inline]
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.ns == 0
    }
}

impl From<Span> for core::time::Duration {
    fn from(span: Span) -> Self {
        Self::from_nanos(span.ns)
    }
}

impl Add<Span> for Instant {
    type Output = Self;
    /// Saturates at the end of the clock.
    #[inline]
    fn add(self, span: Span) -> Self {
        Self { ns: self.ns.saturating_add(span.ns) }
    }
}

impl AddAssign<Span> for Instant {
    #[inline]
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub for Instant {
    type Output = Span;
    /// The time from `earlier` to `self`; zero when `earlier` is later (a clock read on another CPU may be ahead).
    #[inline]
    fn sub(self, earlier: Self) -> Span {
        Span { ns: self.ns.saturating_sub(earlier.ns) }
    }
}

impl Add for Span {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self { ns: self.ns.saturating_add(other.ns) }
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}ns", self.ns)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ns", self.ns)
    }
}

/// A point in time by which something has to happen, or never. Two deadlines are joined with [`Deadline::earliest`];
/// there is no `Option` that could be compared the wrong way round.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deadline(u64);

impl Deadline {
    /// Not due at any instant.
    pub const NEVER: Self = Self(u64::MAX);

    /// Due from `instant` on.
    #[inline]
    #[must_use]
    pub const fn at(instant: Instant) -> Self {
        Self(instant.ns)
    }

    /// Due `span` after `now`. A sum outside the signed 64-bit range is [`Deadline::NEVER`]: the kernel saturates such
    /// expiries to the end of its clock (`kernel/time/hrtimer.c ktime_add_safe`), about 292 years after boot.
    #[inline]
    #[must_use]
    pub const fn after(now: Instant, span: Span) -> Self {
        match now.ns.checked_add(span.ns) {
            Some(ns) if ns < SIGNED_NS_MAX => Self(ns),
            _ => Self::NEVER,
        }
    }

    /// The earlier of two deadlines.
    #[inline]
    #[must_use]
    pub const fn earliest(self, other: Self) -> Self {
        if self.0 <= other.0 { self } else { other }
    }

    /// True from the deadline's instant on; always false for [`Deadline::NEVER`].
    #[inline]
    #[must_use]
    pub const fn is_due(self, now: Instant) -> bool {
        self.0 != u64::MAX && self.0 <= now.ns
    }

    /// True for [`Deadline::NEVER`].
    #[inline]
    #[must_use]
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }

    /// The instant, or `None` for [`Deadline::NEVER`].
    #[inline]
    #[must_use]
    pub const fn instant(self) -> Option<Instant> {
        if self.is_never() { None } else { Some(Instant { ns: self.0 }) }
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Self::NEVER
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.instant() {
            Some(instant) => write!(f, "Deadline({instant:?})"),
            None => f.write_str("Deadline(never)"),
        }
    }
}

#[cfg(test)]
#[path = "time_tests.rs"]
mod tests;
