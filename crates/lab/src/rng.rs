//! Random numbers of the lab: the streams of [`napier_sim::rng`], and draws that repeat on every machine.

pub use napier_sim::rng::{Xoshiro256PlusPlus, mix, stream};
use rand::Rng;

/// A number drawn evenly from the open interval (0, 1); never 0 and never 1, so that its logarithm is finite.
pub fn open_unit(rng: &mut impl Rng) -> f64 {
    // 52 random bits and a half step: 53 bits are exact in a double, and neither end can be reached.
    ((rng.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
}

/// A number drawn evenly from `0..end`, by multiplication and shift.
///
/// # Panics
/// If `end` is 0.
pub fn below(rng: &mut impl Rng, end: u32) -> u32 {
    assert!(end > 0, "nothing to draw from");
    // The bias is at most end / 2^64, far below what any run can see.
    ((u128::from(rng.next_u64()) * u128::from(end)) >> 64) as u32
}

#[cfg(test)]
mod tests;
