//! How a figure of one comparison stands to that of another. Text, tables and pages all have their verdicts from here, and there is no
//! other way to make one: a [`Pair`] and a [`Standing`] are of two [`Side`]s, which know what speaks against a verdict.
//!
//! Where both have slices these decide. Where one has none, as in a file of an older version or what was predicted, all that is there are ranges
//! of runs, and a difference is one only if they lie apart.

use super::Line;
use super::rounds::SlicesSay;
use crate::loads::Load;
use crate::report::Row;
use crate::report::decided::Estimated;
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
    /// It has slices, and its range is an interval of all of them together; nothing else is known of how far runs lie apart.
    has_slices: bool,
}

/// A figure of one row, and how it stands to that of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standing {
    pub(crate) value: Value,
    /// It over that of the first; 1 in the first itself, `None` where that has none or 0.
    pub(crate) ratio: Option<f64>,
    /// The interval of that, where slices decided.
    pub(crate) interval: Option<(f64, f64)>,
    /// `None` in the first, and beside none.
    pub(crate) verdict: Option<DifferenceVerdict>,
}

/// A figure in both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    medians: [f64; 2],
    ranges: [(f64, f64); 2],
    verdict: DifferenceVerdict,
    /// More of it is better.
    higher_is_better: bool,
    /// What slices say of the ratio; `None` by ranges.
    by_slices: Option<Estimated>,
}

/// How a figure of the second stands to that of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceVerdict {
    /// It is lower: by its slices, or, without any, as its highest run is below the lowest of the first.
    Lower,
    /// It is higher, likewise.
    Higher,
    /// By their slices they are no different within so many percent.
    Alike {
        /// The bound, in percent.
        within_pct: u32,
    },
    /// By their slices it is not known.
    Undecided {
        /// Rounds more of each that would decide it, if that can be told.
        more_rounds: Option<u32>,
    },
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
            has_slices: line.has_slices[i],
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
        if !line.has_slices[i] && rows.iter().any(|row| row.figures().is_none_or(|figures| figures.runs < 2)) {
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
    /// How a figure stands to that of the first, if that has it; nothing is said of the first itself, nor by slices of a figure that they do not
    /// decide.
    pub(super) fn of(own: Side, first: Option<Side>, is_first: bool, say: Option<&SlicesSay>) -> Option<Self> {
        let pair = first.map(|first| Pair::of(first, own, false, say));
        let known = |pair: &Pair| !is_first && (say.is_some() || pair.verdict != NOT_COMPARED);
        let verdict = pair.filter(known).map(|pair| pair.verdict);
        let interval = pair.and_then(|pair| pair.by_slices).and_then(|ratio| ratio.low.zip(ratio.high));
        Some(Self { value: own.value, ratio: pair.and_then(|pair| pair.ratio()), interval, verdict })
    }
}

/// Of a figure that has slices, and on which these were not asked.
const NOT_COMPARED: DifferenceVerdict = DifferenceVerdict::Undecided { more_rounds: None };

impl Pair {
    /// The second beside the first, by what slices say if both have some.
    pub(super) fn of(first: Side, second: Side, higher_is_better: bool, say: Option<&SlicesSay>) -> Self {
        let (a, b) = (first.value, second.value);
        let verdict = if first.taken || second.taken {
            DifferenceVerdict::Taken
        } else if first.is_queue || second.is_queue {
            DifferenceVerdict::Queue
        } else if let Some(say) = say {
            say.verdict
        } else if [first, second].iter().any(|side| side.has_slices && side.value.range.0 >= side.value.range.1) {
            NOT_COMPARED
        } else if [first, second].iter().any(|side| !side.has_slices && side.value.runs < 2) {
            DifferenceVerdict::OneRun
        } else if b.range.1 < a.range.0 {
            DifferenceVerdict::Lower
        } else if b.range.0 > a.range.1 {
            DifferenceVerdict::Higher
        } else {
            DifferenceVerdict::Overlap
        };
        let by_slices = say.and_then(|say| say.ratio);
        Self { medians: [a.median, b.median], ranges: [a.range, b.range], verdict, higher_is_better, by_slices }
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

    /// The second over the first, of all that both have; `None` where the first is 0.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let of_medians = || (self.medians[0] > 0.0).then(|| rounded(self.medians[1] / self.medians[0]));
        self.by_slices.map(|ratio| ratio.value).or_else(of_medians)
    }

    /// The same as text has it, such as `0.83x`.
    #[must_use]
    pub fn times(&self) -> String {
        self.ratio().map_or_else(|| "?x".to_owned(), |ratio| format!("{ratio:.2}x"))
    }

    /// In words whether it is a difference to speak of.
    #[must_use]
    pub fn word(&self) -> String {
        let better = |is_lower: bool| if is_lower == self.higher_is_better { "worse" } else { "better" };
        match (self.verdict, self.by_slices) {
            (DifferenceVerdict::Lower, Some(_)) => better(true).to_owned(),
            (DifferenceVerdict::Higher, Some(_)) => better(false).to_owned(),
            (DifferenceVerdict::Lower, None) => "lower".to_owned(),
            (DifferenceVerdict::Higher, None) => "higher".to_owned(),
            (DifferenceVerdict::Alike { within_pct }, _) => format!("within {within_pct} %"),
            (DifferenceVerdict::Undecided { .. }, _) => "undecided".to_owned(),
            (DifferenceVerdict::Overlap, _) => "runs overlap".to_owned(),
            (DifferenceVerdict::OneRun, _) => "one run".to_owned(),
            (DifferenceVerdict::Queue, _) => "not sustained".to_owned(),
            (DifferenceVerdict::Taken, _) => "machine taken away".to_owned(),
        }
    }

    /// The ratio, and the word.
    #[must_use]
    pub fn judged(&self) -> String {
        format!("{} {}", self.times(), self.word())
    }
}

impl DifferenceVerdict {
    /// Whether there is a difference beyond that of the runs; `None` where that is not known.
    #[must_use]
    pub const fn differs(self) -> Option<bool> {
        match self {
            Self::Lower | Self::Higher => Some(true),
            Self::Overlap | Self::Alike { .. } => Some(false),
            Self::Undecided { .. } | Self::OneRun | Self::Queue | Self::Taken => None,
        }
    }

    /// The bound within which both are alike, in percent.
    #[must_use]
    pub const fn within_pct(self) -> Option<u32> {
        match self {
            Self::Alike { within_pct } => Some(within_pct),
            Self::Lower
            | Self::Higher
            | Self::Undecided { .. }
            | Self::Overlap
            | Self::OneRun
            | Self::Queue
            | Self::Taken => None,
        }
    }

    /// As JSON and CSV have it.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Alike { .. } => "no-different",
            Self::Undecided { .. } => "undecided",
            Self::Overlap => "overlap",
            Self::OneRun => "one-run",
            Self::Queue => "not-sustained",
            Self::Taken => "taken",
        }
    }
}
