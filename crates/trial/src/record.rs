//! What was measured, block by block.

use std::time::Duration;

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
}

impl Measured {
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
