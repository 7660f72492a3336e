//! What a cell of a plan is offered.

use std::fmt;

/// What a cell is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Load {
    /// Requests per second over all queues.
    Rate(u64),
    /// As many as are answered: a closed loop.
    Max,
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) if rate.is_multiple_of(1000) => write!(f, "{}K", rate / 1000),
            Self::Rate(rate) => rate.fmt(f),
            Self::Max => f.write_str("MAX"),
        }
    }
}
