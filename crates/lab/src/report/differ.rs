//! Comparisons side by side: what differs, by the slices of each, and how differently they ran.
//!
//! There is one [`SideBySide`]. Text, JSON, CSV, Markdown and the page are all made from it, so they cannot say different things.

mod export;
mod json;
mod judge;
mod markdown;
mod rounds;
mod setups;
mod summary;
mod text;

use napier_verdict::Metric;

use super::columns::{Column, us};
use super::read::Saved;
use super::verdict::and;
use super::{Report, Row};
use crate::loads::Load;
use crate::stats::Figures;
use crate::subject::{Receive, Subject};

pub use export::csv;
pub use json::json;
pub(crate) use judge::Standing;
use judge::{Against, Side};
pub use judge::{DifferenceVerdict, Pair, Value};
pub use markdown::markdown;
use rounds::SlicesSay;
pub(crate) use text::READ;
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
    /// In the same order: what took the machine away there, so that nothing is decided by it.
    pub taken: Vec<Option<String>>,
    /// In the same order: whether there are slices of it.
    has_slices: Vec<bool>,
    /// In the same order: what these say of it beside the first.
    slices_say: Vec<Vec<SlicesSay>>,
}

/// Something that is set or found before a comparison runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// What it is.
    pub name: String,
    /// What it was, in the order of the files; `None` where one does not have it.
    pub values: Vec<Option<String>>,
}

/// What two comparisons say of the same mode at the same load.
#[derive(Clone, Debug)]
pub struct CellDifference {
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
    /// Whether each sustained the load, by its median.
    pub sustains: [bool; 2],
    /// What speaks against a verdict on which of them does.
    against: Option<Against>,
}

/// One comparison beside the first: what they have in common, and what not.
#[derive(Clone, Debug)]
pub struct Differences<'a> {
    /// The first, and the other.
    pub files: [&'a Saved; 2],
    /// What both have.
    pub cells: Vec<CellDifference>,
    /// Rows that only the first has, and only the other.
    pub alone: [usize; 2],
    /// What ran differently: its name, and what it was in each.
    pub setups: Vec<(&'a str, [&'a str; 2])>,
    /// They have no backend in common, so modes are compared whatever the backend is.
    pub across_backends: bool,
    /// Names of those that have no slices, so that only ranges can be compared.
    pub only_ranges: Vec<&'a str>,
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
                    let slices_say = vec![Vec::new(); files.len()];
                    lines.push(Line { load: row.load, rows, taken: Vec::new(), has_slices: Vec::new(), slices_say });
                }
            }
        }
        for line in &mut lines {
            line.taken = files.iter().zip(&line.rows).map(|(file, row)| taken_from(file, (*row)?)).collect();
            let has = |file: &Saved, row: &Row| file.report.slices_of(row.subject, row.load).is_some();
            line.has_slices =
                files.iter().zip(&line.rows).map(|(file, row)| row.is_some_and(|row| has(file, row))).collect();
        }
        let mut all = Self { setups: setups::of(&files), files, lines, across_backends };
        all.ask_slices();
        all
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
            only_ranges: [0, i]
                .into_iter()
                .filter(|i| self.lacks_slices(*i))
                .map(|i| self.files[i].name.as_str())
                .collect(),
        }
    }

    /// Whether rows of it were measured, and none has slices.
    fn lacks_slices(&self, i: usize) -> bool {
        let rows = &self.files[i].report.rows;
        rows.iter().any(|row| row.measured().is_some()) && self.files[i].report.slices.is_empty()
    }
}

/// What took the machine away from a row; in virtual time nothing does.
fn taken_from(file: &Saved, row: &Row) -> Option<String> {
    file.report.taken_at(row.load).filter(|_| row.measured().is_some())
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
                own.subject.is_row_of(&row.subject) && both_stand_alone
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
        let side = |i: usize| Side::of(self, i, column.figure);
        Standing::of(side(i)?, side(0), i == 0, self.say(i, metric_of(column.key)))
    }

    /// What slices say of a figure.
    fn say(&self, i: usize, metric: Option<Metric>) -> Option<&SlicesSay> {
        self.slices_say[i].iter().find(|say| Some(say.metric) == metric)
    }

    fn cell(&self, i: usize) -> Option<CellDifference> {
        let (a, b) = (self.rows[0]?, self.rows[i]?);
        let pair = |metric: Metric, figure: fn(&Figures) -> Option<f64>| {
            let sides = (Side::of(self, 0, figure)?, Side::of(self, i, figure)?);
            Some(Pair::of(sides.0, sides.1, metric.higher_is_better(), self.say(i, Some(metric))))
        };
        Some(CellDifference {
            load: self.load,
            subjects: [a.subject, b.subject],
            p99_us: pair(Metric::P99, |f| Some(f.latency_us.p99))?,
            cpu_pct: pair(Metric::Cpu, |f| Some(f.cpu.total_pct))?,
            achieved_rps: pair(Metric::Throughput, |f| Some(f.achieved_rps))?,
            sustains: [a.sustains(), b.sustains()],
            against: Against::of(self, i),
        })
    }
}

/// The figure of a column that slices decide.
fn metric_of(key: &str) -> Option<Metric> {
    match key {
        "latency_us.p99" => Some(Metric::P99),
        "cpu.total_pct" => Some(Metric::Cpu),
        "achieved_rps" => Some(Metric::Throughput),
        _ => None,
    }
}

impl Setup {
    /// What it was in a file, in words.
    pub(super) fn shown(&self, i: usize) -> &str {
        self.values[i].as_deref().unwrap_or("null")
    }
}

impl CellDifference {
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
        let [a, b] = self.asked().medians();
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
    pub(crate) fn by_loop(&self) -> (Vec<&CellDifference>, Vec<&CellDifference>) {
        self.cells.iter().partition(|cell| cell.load != Load::Max)
    }

    /// How modes of different backends came to stand beside each other; `None` where they do not.
    pub(crate) fn about_backends(&self) -> Option<&'static str> {
        const WORDS: &str =
            "They have no backend in common: a mode of the one stands beside the same mode of the other.";
        (self.across_backends && !self.cells.is_empty()).then_some(WORDS)
    }

    /// What can be compared at all, where one of them has no slices.
    pub(crate) fn about_ranges(&self) -> Option<String> {
        let names = and(&self.only_ranges.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let (has, it) = if self.only_ranges.len() > 1 { ("have", "them") } else { ("has", "it") };
        (!self.only_ranges.is_empty()).then(|| {
            format!(
                "ONLY RANGES can be compared: {names} {has} no slices, for an older version wrote {it}. A figure is called lower or higher \
                 where all runs lie apart, which is no verdict; measure again for one."
            )
        })
    }

    /// Minutes that both comparisons would take in all, each with as many rounds more as would decide what is undecided; `None` if nothing is, or
    /// if it cannot be told.
    pub(crate) fn minutes(&self) -> Option<f64> {
        let verdicts = self.cells.iter().flat_map(|cell| [(cell, cell.asked()), (cell, cell.cpu_pct)]);
        let times = verdicts.filter_map(|(cell, pair)| match pair.verdict() {
            DifferenceVerdict::Undecided { more_rounds: Some(more) } => {
                let decided = self.files.iter().filter_map(|file| file.report.decided_at(cell.load));
                let rounds = decided.map(|decided| decided.rounds).min()?.max(1);
                Some(1.0 + f64::from(more) / f64::from(rounds))
            }
            _ => None,
        });
        let took = self.files.iter().filter_map(|file| file.report.took_minutes).reduce(f64::max)?;
        Some((times.reduce(f64::max)? * took).ceil())
    }

    /// How many rows are not compared; `None` if all are.
    pub(crate) fn about_alone(&self) -> Option<String> {
        let ([a, b], [of_a, of_b]) = (self.alone, self.names());
        (a + b > 0).then(|| format!("Rows without a partner: {a} of {of_a}, {b} of {of_b}."))
    }
}

#[cfg(test)]
mod tests;
