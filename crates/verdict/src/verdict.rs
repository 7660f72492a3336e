//! What may be said of two candidates.

use std::fmt;

use crate::{Estimate, Metric};

/// What is said of two candidates in a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// One is better, by [`Settings::least`](crate::Settings::least) or more.
    Better {
        /// The better candidate.
        which: usize,
    },
    /// They differ by less than this share: their ratio lies between `1 / (1 + within)` and `1 + within`.
    NoDifferent {
        /// The share.
        within: f64,
    },
    /// Neither can be said.
    Undecided {
        /// Why not.
        why: Why,
        /// About how many rounds more would decide it; `None` if that cannot be said.
        more_rounds: Option<u32>,
    },
}

/// Why nothing is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// There is nothing to compare: one of them has no slice that was kept beside one of the other, or no such figure.
    NoFigure,
    /// There are too few rounds for any verdict.
    FewRounds,
    /// What differs between rounds is as large as what differs between the two.
    Uncertain,
    /// Most rounds speak for one, all requests together for the other.
    Contrary,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFigure => "nothing to compare",
            Self::FewRounds => "too few rounds",
            Self::Uncertain => "the rounds differ as much as the two do",
            Self::Contrary => "most rounds speak for one, all requests together for the other",
        })
    }
}

/// Two candidates, a figure, and what is said of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// One candidate.
    pub a: usize,
    /// The other one.
    pub b: usize,
    /// The figure by which they are compared.
    pub metric: Metric,
    /// The figure of `a` divided by that of `b`, of the rounds that have both.
    pub ratio: Option<Estimate>,
    /// What is said of them.
    pub verdict: Verdict,
}

impl Verdict {
    /// Whether something is said.
    #[must_use]
    pub fn is_decided(&self) -> bool {
        match self {
            Self::Better { .. } | Self::NoDifferent { .. } => true,
            Self::Undecided { .. } => false,
        }
    }
}
