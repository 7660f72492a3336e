//! How a figure of one comparison stands to that of another. Text, tables and pages all have their verdicts from here, and there is no
//! other way to make one: a [`Pair`] and a [`Standing`] are of two [`Side`]s, which know what speaks against a verdict.

use std::fmt;

use super::Line;
use crate::loads::Load;
use crate::report::Row;
use crate::report::verdict::sustains_for_sure;
use crate::stats::{Figures, rounded};

/// A figure of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Median over the runs.
    pub median: f64,
    /// Lowest and highest run.
    pub range: (f64, f64),
    /// Number of runs.
    pub runs: u32,
}

/// A figure of a file, and what speaks against holding it against another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    value: Value,
    taken: bool,
    /// The load was not sustained, so that latency and CPU time are those of a queue.
    is_queue: bool,
}

/// A figure of one row, and how it stands to that of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standing {
    pub(crate) value: Value,
    /// It over that of the first; 1 in the first itself, `None` where that has none or 0.
    pub(crate) ratio: Option<f64>,
    /// `None` in the first, and beside none.
    pub(crate) verdict: Option<DifferenceVerdict>,
}

/// A figure in both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    medians: [f64; 2],
    ranges: [(f64, f64); 2],
    verdict: DifferenceVerdict,
}

/// How a figure of the second stands to that of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceVerdict {
    /// Its highest run is below the lowest of the first.
    Lower,
    /// Its lowest run is above the highest of the first.
    Higher,
    /// The ranges of the runs overlap: there is no difference to claim.
    Overlap,
    /// One of them has one run, so how far runs lie apart is not known.
    OneRun,
    /// One of them does not sustain the load, so its figures are those of a queue.
    Queue,
    /// Others had the machine during one of them.
    Taken,
}

/// Why it is not decided which of two sustains a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Against {
    /// Others had the machine, in words.
    Taken(String),
    /// Of one run nothing is known.
    OneRun,
    /// One kept up in some of its runs only.
    Sometimes,
}

impl Side {
    /// `None` where the file has no such figure.
    pub(super) fn of(line: &Line<'_>, i: usize, figure: fn(&Figures) -> Option<f64>) -> Option<Self> {
        let row = line.rows[i]?;
        let measured = row.figures()?;
        let range = (figure(&measured.spread.min)?, figure(&measured.spread.max)?);
        Some(Self {
            value: Value { median: figure(&measured.median)?, range, runs: measured.runs },
            taken: line.taken[i].is_some(),
            is_queue: row.load != Load::Max && !row.sustains(),
        })
    }
}

impl Against {
    /// `None` if it is decided.
    pub(super) fn of(line: &Line<'_>, i: usize) -> Option<Self> {
        let rows: Vec<&Row> = [0, i].into_iter().filter_map(|i| line.rows[i]).collect();
        if let Some(taken) = [0, i].into_iter().find_map(|i| line.taken[i].clone()) {
            return Some(Self::Taken(taken));
        }
        if rows.iter().any(|row| row.figures().is_none_or(|figures| figures.runs < 2)) {
            return Some(Self::OneRun);
        }
        rows.iter().any(|row| sustains_for_sure(row).is_none()).then_some(Self::Sometimes)
    }

    /// In words.
    pub(super) fn why(&self) -> String {
        match self {
            Self::Taken(taken) => format!("the machine was taken away ({taken})"),
            Self::OneRun => "of one run the spread is unknown".to_owned(),
            Self::Sometimes => "a mode kept up in some runs only".to_owned(),
        }
    }
}

impl Standing {
    /// How a figure stands to that of the first, if that has it; nothing is said of the first itself.
    pub(super) fn of(own: Side, first: Option<Side>, is_first: bool) -> Option<Self> {
        let pair = first.map(|first| Pair::of(first, own));
        let verdict = pair.filter(|_| !is_first).map(|pair| pair.verdict);
        Some(Self { value: own.value, ratio: pair.and_then(|pair| pair.ratio()), verdict })
    }
}

impl Pair {
    /// The second beside the first.
    pub(super) fn of(first: Side, second: Side) -> Self {
        let (a, b) = (first.value, second.value);
        let verdict = if first.taken || second.taken {
            DifferenceVerdict::Taken
        } else if first.is_queue || second.is_queue {
            DifferenceVerdict::Queue
        } else if a.runs < 2 || b.runs < 2 {
            DifferenceVerdict::OneRun
        } else if b.range.1 < a.range.0 {
            DifferenceVerdict::Lower
        } else if b.range.0 > a.range.1 {
            DifferenceVerdict::Higher
        } else {
            DifferenceVerdict::Overlap
        };
        Self { medians: [a.median, b.median], ranges: [a.range, b.range], verdict }
    }

    /// Median over the runs, of each.
    #[must_use]
    pub const fn medians(&self) -> [f64; 2] {
        self.medians
    }

    /// Lowest and highest run, of each.
    #[must_use]
    pub const fn ranges(&self) -> [(f64, f64); 2] {
        self.ranges
    }

    /// How they stand.
    #[must_use]
    pub const fn verdict(&self) -> DifferenceVerdict {
        self.verdict
    }

    /// The second over the first; `None` where the first is 0.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.medians[0] > 0.0).then(|| rounded(self.medians[1] / self.medians[0]))
    }

    /// The same as text has it, such as `0.83x`.
    #[must_use]
    pub fn times(&self) -> String {
        self.ratio().map_or_else(|| "?x".to_owned(), |ratio| format!("{ratio:.2}x"))
    }

    /// The ratio, and in words whether it is one to speak of.
    #[must_use]
    pub fn judged(&self) -> String {
        let words = match self.verdict {
            DifferenceVerdict::Lower => "lower",
            DifferenceVerdict::Higher => "higher",
            DifferenceVerdict::Overlap => "runs overlap",
            DifferenceVerdict::OneRun => "one run",
            DifferenceVerdict::Queue => "not sustained",
            DifferenceVerdict::Taken => "machine taken away",
        };
        format!("{} {words}", self.times())
    }
}

impl DifferenceVerdict {
    /// Whether there is a difference beyond that of the runs; `None` where that is not known.
    #[must_use]
    pub const fn differs(self) -> Option<bool> {
        match self {
            Self::Lower | Self::Higher => Some(true),
            Self::Overlap => Some(false),
            Self::OneRun | Self::Queue | Self::Taken => None,
        }
    }

    /// As JSON and CSV have it.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Overlap => "overlap",
            Self::OneRun => "one-run",
            Self::Queue => "not-sustained",
            Self::Taken => "taken",
        }
    }
}

/// One sign, as tables have it.
impl fmt::Display for DifferenceVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Lower => "<",
            Self::Higher => ">",
            Self::Overlap => "~",
            Self::OneRun | Self::Queue | Self::Taken => "?",
        })
    }
}
