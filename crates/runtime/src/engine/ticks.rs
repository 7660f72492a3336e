//! Ticks of the accounting counter as time.

use std::sync::OnceLock;
use std::time::Duration;

use napier_core::time::{Instant, Span};
use napier_sys::clock::Clock;
use napier_sys::tsc::ticks;

/// The rate of the counter, measured since the engine started.
pub(crate) struct TickRate {
    /// The counter and the clock at one time.
    started: (u64, Instant),
    /// Ticks per microsecond for figures that must never fall, once asked for.
    fixed: OnceLock<f64>,
}

impl TickRate {
    /// Measures from now on.
    pub(super) fn new(now: Instant) -> Self {
        Self { started: (ticks(), now), fixed: OnceLock::new() }
    }

    /// Ticks per microsecond, the better the longer the engine runs.
    pub(crate) fn per_us(&self) -> f64 {
        let (started_ticks, started) = self.started;
        let ns = Clock.now().ns - started.ns;
        #[expect(clippy::cast_precision_loss, reason = "a ratio for reports")]
        let ratio = ticks().wrapping_sub(started_ticks) as f64 * 1000.0 / ns.max(1) as f64;
        ratio
    }

    /// Ticks per microsecond for figures that must never fall: measured once, over 10 ms at least.
    pub(super) fn fixed_per_us(&self) -> f64 {
        const AGE_MIN: Span = Span::from_ms(10);
        *self.fixed.get_or_init(|| {
            let age = Clock.now() - self.started.1;
            std::thread::sleep(Duration::from_nanos(AGE_MIN.ns.saturating_sub(age.ns)));
            self.per_us()
        })
    }

    /// Ticks as ns that never fall.
    pub(super) fn to_ns(&self, ticks: u64) -> u64 {
        #[expect(clippy::cast_precision_loss, reason = "exact to 2^53 ticks, which are a month; beyond it to a few")]
        let ns = ticks as f64 * 1000.0 / self.fixed_per_us();
        ns as u64
    }
}
