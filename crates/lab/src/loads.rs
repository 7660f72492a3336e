//! What is offered: loads by name, the default ladder, and the search for what a mode sustains.

mod sustain;

pub(crate) use sustain::floored_pct;
pub use sustain::{Shortfall, SustainSearch, in_time_pct_by_rate, in_time_pct_of};

pub use napier_rng::load::{Load, LoadError};

#[cfg(test)]
mod tests;
