//! Comparisons side by side: what differs by more than the runs of each do, and how differently they ran.
//!
//! There is one [`SideBySide`]. Text, JSON, CSV, Markdown and the page are all made from it, so they cannot say different things.

mod export;
mod json;
mod markdown;
mod setups;
mod summary;
mod text;

use std::fmt;

use super::columns::{Column, us};
use super::read::Saved;
use super::{Report, Row};
use crate::loads::Load;
use crate::stats::{Figures, Measured, rounded};
use crate::subject::{Receive, Subject};

pub use export::csv;
pub use json::json;
pub use markdown::markdown;
pub use text::text;

/// Comparisons, each to be held against the first.
#[derive(Clone, Debug)]
pub struct SideBySide<'a> {
    /// All of them; the one that the others are held against stands first.
    pub files: Vec<&'a Saved>,
    /// Every mode at every load of which any has figures: in the order of the first, then what only others have.
    pub lines: Vec<Line<'a>>,
    /// What ran differently.
    pub setups: Vec<Setup>,
    /// Which have no backend in common with the first, so that modes are compared whatever the backend is.
    across_backends: Vec<bool>,
}

/// A mode at a load, and the row of it that each file has.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// The load.
    pub load: Load,
    /// In the order of the files; `None` where one has no figures of it.
    pub rows: Vec<Option<&'a Row>>,
}

/// Something that is set or found before a comparison runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What it is.
    pub name: String,
    /// What it was, in the order of the files; `None` where one does not have it.
    pub values: Vec<Option<String>>,
}

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

/// A figure of one row, and how it stands to that of the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standing {
    pub(crate) value: Value,
    /// It over that of the first; 1 in the first itself, `None` where that has none or 0.
    pub(crate) ratio: Option<f64>,
    /// `None` in the first, and beside none.
    pub(crate) verdict: Option<Verdict>,
}

/// What two comparisons say of the same mode at the same load.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The load.
    pub load: Load,
    /// Whose row it is, in each.
    pub subjects: [Subject; 2],
    /// 99th percentile, in µs.
    pub p99_us: Pair,
    /// CPU time, in percent.
    pub cpu_pct: Pair,
    /// Requests answered per second.
    pub achieved_rps: Pair,
    /// Whether each sustained the load.
    pub sustains: [bool; 2],
}

/// A figure in both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Median over the runs, of each.
    pub medians: [f64; 2],
    /// Lowest and highest run, of each.
    pub ranges: [(f64, f64); 2],
    /// How they stand.
    pub verdict: Verdict,
}

/// How a figure of the second stands to that of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Its highest run is below the lowest of the first.
    Lower,
    /// Its lowest run is above the highest of the first.
    Higher,
    /// The ranges of the runs overlap: there is no difference to claim.
    Overlap,
    /// One of them has one run, so how far runs lie apart is not known.
    OneRun,
}

/// One comparison beside the first: what they have in common, and what not.
#[derive(Clone, Debug)]
pub struct Differences<'a> {
    /// The first, and the other.
    pub files: [&'a Saved; 2],
    /// What both have.
    pub cells: Vec<Cell>,
    /// Rows that only the first has, and only the other.
    pub alone: [usize; 2],
    /// What ran differently: its name, and what it was in each.
    pub setups: Vec<(&'a str, [&'a str; 2])>,
    /// They have no backend in common, so modes are compared whatever the backend is.
    pub across_backends: bool,
}

impl<'a> SideBySide<'a> {
    /// Sets the others beside the first.
    #[must_use]
    pub fn of(first: &'a Saved, others: &'a [Saved]) -> Self {
        let files: Vec<&Saved> = std::iter::once(first).chain(others).collect();
        let across_backends: Vec<bool> =
            files.iter().map(|file| !have_common_backend(&first.report, &file.report)).collect();
        let mut lines: Vec<Line<'a>> = Vec::new();
        for (i, file) in files.iter().enumerate() {
            for row in file.report.rows.iter().filter(|row| row.figures().is_some()) {
                let fits = |line: &&mut Line<'_>| line.rows[i].is_none() && line.takes(row, across_backends[i]);
                if let Some(line) = lines.iter_mut().find(fits) {
                    line.rows[i] = Some(row);
                } else {
                    let rows = (0..files.len()).map(|j| (j == i).then_some(row)).collect();
                    lines.push(Line { load: row.load, rows });
                }
            }
        }
        Self { setups: setups::of(&files), files, lines, across_backends }
    }

    /// Each of the others beside the first.
    #[must_use]
    pub fn each(&self) -> Vec<Differences<'_>> {
        (1..self.files.len()).map(|i| self.beside_first(i)).collect()
    }

    fn beside_first(&self, i: usize) -> Differences<'_> {
        let only = |this: usize, other: usize| {
            self.lines.iter().filter(|line| line.rows[this].is_some() && line.rows[other].is_none()).count()
        };
        let setups = self.setups.iter().filter(|setup| setup.values[0] != setup.values[i]);
        Differences {
            files: [self.files[0], self.files[i]],
            cells: self.lines.iter().filter_map(|line| line.cell(i)).collect(),
            alone: [only(0, i), only(i, 0)],
            setups: setups.map(|setup| (setup.name.as_str(), [setup.shown(0), setup.shown(i)])).collect(),
            across_backends: self.across_backends[i],
        }
    }
}

fn have_common_backend(a: &Report, b: &Report) -> bool {
    a.rows.iter().any(|row| b.rows.iter().any(|other| other.subject.backend == row.subject.backend))
}

impl Line<'_> {
    /// Whether a row belongs here. A mode of another backend belongs beside that of the first, and there only.
    fn takes(&self, row: &Row, across_backends: bool) -> bool {
        let stands_alone = |subject: Subject| subject.receive == Receive::Device;
        let same = |own: &Row| match (across_backends, self.rows[0]) {
            (true, Some(_)) => {
                let both_stand_alone = stands_alone(own.subject) && stands_alone(row.subject);
                own.subject.mode == row.subject.mode && both_stand_alone
            }
            (false, _) | (true, None) => own.subject == row.subject,
        };
        self.load == row.load && self.rows.iter().flatten().next().is_some_and(|own| same(own))
    }

    /// Whose line it is: the first file's subject, or that of the first file that has any.
    #[must_use]
    pub fn subject(&self) -> Subject {
        self.rows.iter().flatten().next().expect("a line is made of a row").subject
    }

    /// Whether a file sustained the load; `None` without figures, and in a closed loop.
    pub(crate) fn sustains(&self, i: usize) -> Option<bool> {
        self.rows[i].filter(|row| row.load != Load::Max).map(Row::sustains)
    }

    /// A figure of a file, and how it stands to that of the first; `None` where it does not have it.
    pub(crate) fn standing(&self, i: usize, column: &Column) -> Option<Standing> {
        let value = |i: usize| Value::of(self.rows[i]?.figures()?, column.figure);
        let own = value(i)?;
        let pair = value(0).map(|first| own.beside(first));
        let verdict = pair.filter(|_| i > 0).map(|pair| pair.verdict);
        Some(Standing { value: own, ratio: pair.and_then(|pair| pair.ratio()), verdict })
    }

    fn cell(&self, i: usize) -> Option<Cell> {
        let (a, b) = (self.rows[0]?, self.rows[i]?);
        let pair = |figure: fn(&Figures) -> Option<f64>| {
            Some(Value::of(b.figures()?, figure)?.beside(Value::of(a.figures()?, figure)?))
        };
        Some(Cell {
            load: self.load,
            subjects: [a.subject, b.subject],
            p99_us: pair(|f| Some(f.latency_us.p99))?,
            cpu_pct: pair(|f| Some(f.cpu.total_pct))?,
            achieved_rps: pair(|f| Some(f.achieved_rps))?,
            sustains: [a.sustains(), b.sustains()],
        })
    }
}

impl Setup {
    /// What it was in a file, in words.
    pub(super) fn shown(&self, i: usize) -> &str {
        self.values[i].as_deref().unwrap_or("null")
    }
}

impl Value {
    fn of(measured: &Measured, figure: fn(&Figures) -> Option<f64>) -> Option<Self> {
        let range = (figure(&measured.spread.min)?, figure(&measured.spread.max)?);
        Some(Self { median: figure(&measured.median)?, range, runs: measured.runs })
    }

    /// How it stands to that of the first.
    pub(crate) fn beside(self, first: Self) -> Pair {
        let verdict = if first.runs < 2 || self.runs < 2 {
            Verdict::OneRun
        } else if self.range.1 < first.range.0 {
            Verdict::Lower
        } else if self.range.0 > first.range.1 {
            Verdict::Higher
        } else {
            Verdict::Overlap
        };
        Pair { medians: [first.median, self.median], ranges: [first.range, self.range], verdict }
    }
}

impl Pair {
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
            Verdict::Lower => "lower",
            Verdict::Higher => "higher",
            Verdict::Overlap => "runs overlap",
            Verdict::OneRun => "one run",
        };
        format!("{} {words}", self.times())
    }
}

impl Verdict {
    /// Whether there is a difference beyond that of the runs; `None` where that is not known.
    #[must_use]
    pub const fn differs(self) -> Option<bool> {
        match self {
            Self::Lower | Self::Higher => Some(true),
            Self::Overlap => Some(false),
            Self::OneRun => None,
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
        }
    }
}

/// One sign, as tables have it.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Lower => "<",
            Self::Higher => ">",
            Self::Overlap => "~",
            Self::OneRun => "?",
        })
    }
}

impl Cell {
    /// Whose row it is; where two backends are held against each other, the mode.
    #[must_use]
    pub fn name(&self, among_backends: bool) -> String {
        let [a, b] = self.subjects;
        a.name(among_backends && a.backend == b.backend)
    }

    /// What this load asks: the rate in a closed loop, else p99.
    #[must_use]
    pub fn asked(&self) -> Pair {
        if self.load == Load::Max { self.achieved_rps } else { self.p99_us }
    }

    /// A figure of that as tables have it: with a decimal where one of the medians needs it.
    pub(crate) fn shown(&self, figure: f64) -> String {
        let [a, b] = self.asked().medians;
        if self.load == Load::Max { format!("{figure:.0}") } else { us(figure, a.min(b)) }
    }
}

impl Differences<'_> {
    /// The names of both.
    pub(crate) fn names(&self) -> [&str; 2] {
        self.files.map(|file| file.name.as_str())
    }

    /// Whether names of cells have to say the backend.
    pub(crate) fn among_backends(&self) -> bool {
        self.cells.iter().any(|cell| cell.subjects[0].backend != self.cells[0].subjects[0].backend)
    }

    /// Cells in open loop, and in closed loop.
    pub(crate) fn by_loop(&self) -> (Vec<&Cell>, Vec<&Cell>) {
        self.cells.iter().partition(|cell| cell.load != Load::Max)
    }

    /// How modes of different backends came to stand beside each other; `None` where they do not.
    pub(crate) fn about_backends(&self) -> Option<&'static str> {
        const WORDS: &str =
            "They have no backend in common: a mode of the one stands beside the same mode of the other.";
        (self.across_backends && !self.cells.is_empty()).then_some(WORDS)
    }

    /// How many rows are not compared; `None` if all are.
    pub(crate) fn about_alone(&self) -> Option<String> {
        let ([a, b], [of_a, of_b]) = (self.alone, self.names());
        (a + b > 0).then(|| format!("Rows without a partner: {a} of {of_a}, {b} of {of_b}."))
    }
}

#[cfg(test)]
mod tests;
