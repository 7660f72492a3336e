//! The clock of a run.

use std::time::Duration;

use napier_core::time::{Instant, Span};

/// From the start of the threads to time zero.
pub(crate) const HEAD_START: Span = Span::from_ms(10);
/// The last part of a wait is spun: a sleeper wakes up late.
const SPIN: Span = Span::from_us(100);
/// Calls without end return this long after the end of the log.
const GRACE: Span = Span::from_ms(1);
pub(crate) const NS_PER_US: u64 = 1000;

/// Time zero and the end, by the executor's clock.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct RunWindow {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

impl RunWindow {
    /// A time in the window as the scenario counts it.
    pub(crate) fn place(self, at_ns: u64) -> Option<Instant> {
        (self.start_ns..=self.end_ns).contains(&at_ns).then(|| Instant::from_ns(at_ns - self.start_ns))
    }

    /// The same of a time in whole microseconds, cut off.
    pub(crate) fn place_us(self, at_us: u64) -> Option<Instant> {
        self.place((at_us * NS_PER_US).max(self.start_ns)).filter(|_| (at_us + 1) * NS_PER_US > self.start_ns)
    }
}

/// How a thread keeps to the times of a scenario.
#[derive(Copy, Clone)]
pub(crate) struct RunPace<'c> {
    pub(crate) window: RunWindow,
    now_ns: &'c (dyn Fn() -> u64 + Sync),
}

impl<'c> RunPace<'c> {
    /// By a clock, in nanoseconds.
    pub(crate) fn new(window: RunWindow, now_ns: &'c (dyn Fn() -> u64 + Sync)) -> Self {
        Self { window, now_ns }
    }

    pub(crate) fn now_ns(self) -> u64 {
        (self.now_ns)()
    }

    /// Until the end of the log and a little, from now.
    fn left(self) -> Duration {
        Duration::from_nanos((self.window.end_ns + GRACE.ns).saturating_sub(self.now_ns()).max(1))
    }

    /// How long a call may take that ends after `timeout`, or never: one that outlasts the log returns into nothing.
    pub(crate) fn limit(self, timeout: Option<Span>) -> Duration {
        timeout.map_or(self.left(), |span| Duration::from_nanos(span.ns).min(self.left()))
    }

    /// Waits for a time of the scenario; how late it is then. A thread that comes too late to wait was busy with what came before, and
    /// that is not late.
    pub(crate) fn wait_for(self, at: Instant) -> Span {
        let until_ns = self.window.start_ns + at.ns;
        if self.now_ns() >= until_ns {
            return Span::ZERO;
        }
        self.wait_until(until_ns);
        Span::from_ns(self.now_ns() - until_ns)
    }

    pub(crate) fn wait_until(self, until_ns: u64) {
        loop {
            let left = until_ns.saturating_sub(self.now_ns());
            if left == 0 {
                return;
            }
            if left > SPIN.ns {
                std::thread::sleep(Duration::from_nanos(left - SPIN.ns));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}
