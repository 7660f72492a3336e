//! Sizes of keys and values as measured at Facebook.
//!
//! Source of the parameters: B. Atikoglu, Y. Xu, E. Frachtenberg, S. Jiang, M. Paleczny: Workload Analysis of a
//! Large-Scale Key-Value Store, SIGMETRICS 2012, section 5 (the ETC pool): key sizes follow a generalized extreme value
//! distribution, value sizes a generalized Pareto distribution except the smallest, which have their own
//! probabilities. They are also the `fb_key` and `fb_value` of the load generator mutilate.

use rand::Rng;

use napier_rng::open_unit;

/// A distribution of sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// Always this many bytes.
    Fixed(u16),
    /// Key sizes of the ETC pool: GEV(30.7984, 8.20449, 0.078688).
    FacebookKey,
    /// Value sizes of the ETC pool: own probabilities for 0 to 14 bytes, then GPD(15, 214.476, 0.348238).
    FacebookValue,
}

/// Location, scale and shape of the key sizes.
const KEY: (f64, f64, f64) = (30.7984, 8.20449, 0.078688);
/// Location, scale and shape of the value sizes from 15 bytes on.
const VALUE: (f64, f64, f64) = (15.0, 214.476, 0.348238);
/// Probability of a value of 0, 1, ... 14 bytes.
const SMALL_VALUE: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837, 0.08989,
    0.00092, 0.00326, 0.01980,
];

impl Sizes {
    /// Draws a size and bounds it to `min..=max` bytes: what lies outside becomes the nearer bound.
    pub fn draw(self, rng: &mut impl Rng, min: u16, max: u16) -> u16 {
        let size = match self {
            Self::Fixed(bytes) => f64::from(bytes),
            Self::FacebookKey => generalized_extreme(open_unit(rng), KEY),
            Self::FacebookValue => facebook_value(open_unit(rng), rng),
        };
        // Whole bytes by rounding down; `as` saturates, so even an endless tail is bounded.
        (size as u16).clamp(min, max)
    }

    /// As the report names it.
    pub fn name(self) -> String {
        match self {
            Self::Fixed(bytes) => format!("fixed:{bytes}"),
            Self::FacebookKey => "fb_key".to_owned(),
            Self::FacebookValue => "fb_value".to_owned(),
        }
    }
}

fn facebook_value(mut u: f64, rng: &mut impl Rng) -> f64 {
    for (bytes, probability) in SMALL_VALUE.iter().enumerate() {
        if u < *probability {
            return bytes as f64;
        }
        u -= probability;
    }
    generalized_pareto(open_unit(rng), VALUE)
}

/// Quantile `u` of the generalized extreme value distribution: the inverse of exp(-(1 + shape (x-location)/scale)^(-1/shape)).
fn generalized_extreme(u: f64, (location, scale, shape): (f64, f64, f64)) -> f64 {
    location + scale * ((-u.ln()).powf(-shape) - 1.0) / shape
}

/// Quantile `1 - u` of the generalized Pareto distribution: the inverse of (1 + shape (x-location)/scale)^(-1/shape).
fn generalized_pareto(u: f64, (location, scale, shape): (f64, f64, f64)) -> f64 {
    location + scale * (u.powf(-shape) - 1.0) / shape
}

#[cfg(test)]
mod tests;
