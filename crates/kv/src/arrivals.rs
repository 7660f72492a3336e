//! When requests leave: a Poisson process in integer nanoseconds (open loop).
//!
//! An open-loop client sends at the drawn instants whatever the server does; a request that leaves late is still
//! measured from the instant it should have left. That keeps a slow server from hiding its own queue.

use napier_rng::{self as rng, Xoshiro256PlusPlus};

/// The instants of a Poisson process, in ns since the start of the process; endless, never going back.
///
/// The same seed, name and rate give the same instants.
#[derive(Clone, Debug)]
pub struct Poisson {
    rng: Xoshiro256PlusPlus,
    mean_gap_ns: f64,
    at_ns: u64,
    /// Part of a nanosecond left over by rounding down; carried on, or the rate would be too high.
    carry_ns: f64,
}

impl Poisson {
    /// A process of `rate_rps` arrivals per second, fed by the stream `name` of `seed`.
    ///
    /// # Panics
    /// If the rate is 0.
    pub fn new(rate_rps: u64, seed: u64, name: &str) -> Self {
        assert!(rate_rps > 0, "a rate of 0 has no arrivals");
        Self { rng: rng::stream(seed, name), mean_gap_ns: 1e9 / rate_rps as f64, at_ns: 0, carry_ns: 0.0 }
    }
}

/// Each arrival, in ns since the start. Two arrivals may share a nanosecond.
impl Iterator for Poisson {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let gap = -rng::open_unit(&mut self.rng).ln() * self.mean_gap_ns + self.carry_ns;
        let whole = gap.floor();
        self.carry_ns = gap - whole;
        self.at_ns = self.at_ns.saturating_add(whole as u64);
        Some(self.at_ns)
    }
}

#[cfg(test)]
mod tests;
