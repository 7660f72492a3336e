//! What was measured, block by block.

use std::time::Duration;

use napier_linux::observe::{Acts, Observation};

use crate::Block;

/// Values of all figures, of all judges in turn.
pub type Values = Vec<Option<f64>>;

/// A block that was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Whose turn it was.
    pub block: Block,
    /// When it began, since the trial did.
    pub at: Duration,
    /// Of its two halves.
    pub halves: [Values; 2],
    /// Who polled in it, and whether what was applied acted; `None` where that was not looked at.
    pub seen: Option<Observation>,
}

/// Blocks of a candidate that all did not act before nothing more is expected of it.
const IDLE_MIN: usize = 3;

/// Candidates but the reference that never acted: three blocks and more were looked at, and of each it was seen that it did not.
#[must_use]
pub fn never_acted(blocks: &[Measured], candidates: usize, reference: usize) -> Vec<usize> {
    let is_idle = |candidate: &usize| {
        let is_own = |one: &&Measured| one.block.candidate == *candidate && one.seen.is_some();
        let own: Vec<&Measured> = blocks.iter().filter(is_own).collect();
        own.len() >= IDLE_MIN && own.iter().all(|one| !one.acted())
    };
    (0..candidates).filter(|candidate| *candidate != reference).filter(is_idle).collect()
}

impl Measured {
    /// Whether it was not seen that what was applied did not act. A block that did not act says nothing of its candidate.
    #[must_use]
    pub fn acted(&self) -> bool {
        self.seen.as_ref().is_none_or(|seen| seen.acts != Acts::No)
    }

    /// A figure of the whole block: the mean of its halves, or that which is known.
    #[must_use]
    pub fn value(&self, figure: usize) -> Option<f64> {
        match (self.half(0, figure), self.half(1, figure)) {
            (Some(first), Some(second)) => Some(f64::midpoint(first, second)),
            (one, other) => one.or(other),
        }
    }

    /// A figure of the first or the second half.
    #[must_use]
    pub fn half(&self, half: usize, figure: usize) -> Option<f64> {
        self.halves[half].get(figure).copied().flatten().filter(|value| value.is_finite() && *value >= 0.0)
    }
}
