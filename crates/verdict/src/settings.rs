//! What is fixed before looking.

use crate::Rule;

/// How sure a verdict has to be, and what it is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Which slices are left out.
    pub rule: Rule,
    /// How sure intervals are, and all verdicts of a comparison together: 0.95.
    pub level: f64,
    /// Resamples of the bootstrap.
    pub resamples: u32,
    /// The differences that "no different" may be said of, as shares, from the smallest. With 0.05 a ratio between 1/1.05 and 1.05 is none.
    pub within: [f64; 4],
    /// A difference of less than this share is never called better, however sure it is.
    pub least: f64,
    /// How often verdicts are looked for while slices still come; each look has its share of the error.
    pub looks: u32,
    /// Rounds that a verdict needs at least.
    pub rounds_min: u32,
}

impl Settings {
    /// Those in use: 95 %, one look.
    pub const DEFAULT: Self = Self {
        seed: 1,
        rule: Rule::DEFAULT,
        level: 0.95,
        resamples: 1000,
        within: [0.02, 0.05, 0.10, 0.15],
        least: 0.02,
        looks: 1,
        rounds_min: 5,
    };
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}
