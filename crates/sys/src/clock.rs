//! The engine's only clock: `CLOCK_MONOTONIC` in integer nanoseconds.

use napier_core::time::Instant;
use rustix::time::{ClockId, clock_gettime};

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
}
