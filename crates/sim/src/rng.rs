//! Randomness: seeded, and split by name, so that a draw more in one place changes nothing in another.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// The stream of this name under this seed.
#[must_use]
pub fn named(seed: u64, name: &str) -> Xoshiro256PlusPlus {
    // FNV-1a: stable over versions of everything.
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    Xoshiro256PlusPlus::seed_from_u64(seed ^ hash)
}
