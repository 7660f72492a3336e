//! Seeded random streams, split by name, and what load is offered by them.
//!
//! Every consumer of randomness takes its own stream from the one seed of a run, under its own name. A draw added to
//! one stream then leaves all the others as they were, and a run repeats from its seed alone.

pub mod load;

use rand::{Rng, SeedableRng};
pub use rand_xoshiro::Xoshiro256PlusPlus;

/// The stream called `name` of the run with this `seed`.
///
/// The same pair always gives the same stream, on every machine; different names give unrelated streams.
#[must_use]
pub fn stream(seed: u64, name: &str) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(mixed(mix(seed), name))
}

/// A seed out of any text.
#[must_use]
pub fn seed_of(text: &str) -> u64 {
    mixed(0, text)
}

fn mixed(seed: u64, text: &str) -> u64 {
    text.bytes().fold(seed, |mixed, byte| mix(mixed ^ u64::from(byte)))
}

/// Finalizer of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
#[must_use]
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

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

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
