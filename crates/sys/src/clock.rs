//! The engine's only clock: `CLOCK_MONOTONIC` in integer nanoseconds.

use std::time::{Duration, SystemTime};

use napier_core::time::Instant;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// A time or a length of `ns` as calls of the system take it.
#[inline]
#[must_use]
pub const fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000).cast_signed(), tv_nsec: (ns % 1_000_000_000).cast_signed() }
}

/// Reads `CLOCK_MONOTONIC`. Absolute values may be handed to timer descriptors and futexes as they are.
#[derive(Copy, Clone, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The current monotonic time.
    #[inline]
    #[must_use]
    pub fn now(self) -> Instant {
        let now = clock_gettime(ClockId::Monotonic);
        // The kernel never returns a negative monotonic time.
        Instant { ns: now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned() }
    }

    /// What the time of day was at a time that has passed; a clock that was set since shows the new reckoning.
    #[must_use]
    pub fn system_time(self, at: Instant) -> SystemTime {
        let ago = Duration::from_nanos(self.now().ns.saturating_sub(at.ns));
        let now = SystemTime::now();
        now.checked_sub(ago).unwrap_or(now)
    }
}
