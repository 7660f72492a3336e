//! Which of two is better: slices of measurement in, verdicts out.
//!
//! Something is measured in several ways, the *candidates*: modes of one machine, or two runs. It is measured in short
//! *slices*, and a *round* has one slice of every candidate in random order, next to each other in time. [`Slices`] has those of
//! one load; it leaves out the slices in which the machine was taken away ([`Rule`]), and answers with an [`Estimate`] of each
//! candidate and a [`Verdict`] of each pair. [`sustain`] finds the rate up to which a candidate keeps up.
//!
//! Nothing here reads a clock, does I/O or starts a thread: who measures, feeds it. The same slices and the same seed give the
//! same answers, in whatever order the slices come.

mod beside;
mod estimate;
mod histogram;
mod judge;
mod look;
mod metric;
mod numbers;
mod rank;
mod settings;
mod slice;
mod slices;
pub mod sustain;
mod table;
mod verdict;

pub use beside::{Beside, Cause, Rule};
pub use estimate::{Estimate, Interval};
pub use histogram::Histogram;
pub use metric::Metric;
pub use numbers::student_bound;
pub use settings::Settings;
pub use slice::Slice;
pub use slices::{LeftOut, Slices};
pub use verdict::{Pair, Verdict, Why};

#[cfg(test)]
mod tests;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
