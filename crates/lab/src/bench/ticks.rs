//! Short times by the tick counter, in ns, and what reading it costs.

use std::time::{Duration, Instant};

use napier_sys::tsc::{ticks, ticks_after};

/// How long the counter is compared with the clock: its rate is then right to about 2 parts in a million.
const CALIBRATION: Duration = Duration::from_millis(50);

/// Readings of which the median is taken.
const READINGS: usize = 4097;

/// Of short calls, every so many is timed: two clock readings around each would take longer than many a call. A prime,
/// so that every place of a batch has its turn.
pub const TIMED_EVERY: u32 = 17;

/// Turns ticks into ns.
#[derive(Copy, Clone, Debug)]
pub(super) struct TickClock {
    /// ns per tick, times 2^32.
    scale: u64,
}

impl TickClock {
    /// Finds out how fast the counter runs; takes 50 ms.
    pub(super) fn calibrate() -> Self {
        let (from, from_ticks) = both();
        while from.elapsed() < CALIBRATION {
            std::hint::spin_loop();
        }
        let (to, to_ticks) = both();
        let passed_ticks = to_ticks - from_ticks;
        let scale = (to.duration_since(from).as_nanos() << 32) / u128::from(passed_ticks.max(1));
        Self { scale: scale.try_into().expect("a tick is shorter than 4 s") }
    }

    /// ns of a number of ticks.
    #[inline]
    pub(super) fn ns(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }

    /// Ticks of a number of ns.
    pub(super) fn ticks(self, ns: u64) -> u64 {
        ((u128::from(ns) << 32) / u128::from(self.scale.max(1))) as u64
    }

    /// What a measurement of nothing shows: the part of every measured time that is the reading itself. Median, in ns.
    pub(super) fn cost_ns(self) -> u64 {
        let mut empty: Vec<u64> = (0..READINGS)
            .map(|_| {
                let before = ticks();
                ticks_after() - before
            })
            .collect();
        empty.sort_unstable();
        self.ns(empty[READINGS / 2])
    }
}

/// Clock and counter at one moment: of some tries the one that took least, for the thread may lose its processor between the two.
fn both() -> (Instant, u64) {
    const TRIES: usize = 16;
    let one = |_| {
        let (clock, counter) = (Instant::now(), ticks());
        (clock.elapsed(), clock, counter)
    };
    let (_, clock, counter) = (0..TRIES).map(one).min_by_key(|(took, ..)| *took).expect("some");
    (clock, counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_clock_agree() {
        let clock = TickClock::calibrate();
        // The thread may lose its processor between any two readings: what lies between those of ticks is at least the time between
        // those of the clock within, and at most that between those around. A wrong scale would be off by far more than half.
        let (before, from_ticks, after) = (Instant::now(), ticks(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let (inner, to_ticks, outer) = (after.elapsed(), ticks(), before.elapsed());
        let by_ticks = Duration::from_nanos(clock.ns(to_ticks - from_ticks));
        assert!(
            by_ticks > inner / 2 && by_ticks < outer * 3 / 2,
            "{inner:?} to {outer:?} by the clock, {by_ticks:?} by ticks"
        );
        assert!(clock.ns(clock.ticks(1_000_000)).abs_diff(1_000_000) < 10);
    }
}
