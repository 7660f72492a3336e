//! Two comparisons side by side: what differs by more than the runs of each do, and how differently they ran.

mod text;

use std::fmt;

use serde_json::Value;

use super::{Report, Row};
use crate::loads::Load;
use crate::stats::{Figures, Measured};
use crate::subject::{Receive, Subject};

pub use text::text;

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

impl Pair {
    fn of(a: &Measured, b: &Measured, figure: fn(&Figures) -> f64) -> Self {
        let range = |of: &Measured| (figure(&of.spread.min), figure(&of.spread.max));
        let ranges = [range(a), range(b)];
        let verdict = if a.runs < 2 || b.runs < 2 {
            Verdict::OneRun
        } else if ranges[1].1 < ranges[0].0 {
            Verdict::Lower
        } else if ranges[1].0 > ranges[0].1 {
            Verdict::Higher
        } else {
            Verdict::Overlap
        };
        Self { medians: [figure(&a.median), figure(&b.median)], ranges, verdict }
    }

    /// The second over the first, such as `0.83x`.
    #[must_use]
    pub fn ratio(&self) -> String {
        if self.medians[0] > 0.0 { format!("{:.2}x", self.medians[1] / self.medians[0]) } else { "?x".to_owned() }
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

/// What two comparisons have in common, and what not.
#[derive(Clone, Debug)]
pub struct Differences {
    /// What both have.
    pub cells: Vec<Cell>,
    /// Rows that only the first has, and only the second.
    pub alone: [usize; 2],
    /// What ran differently: its name, and what it was in each.
    pub setups: Vec<(String, [String; 2])>,
    /// They have no backend in common, so modes are compared whatever the backend is.
    pub across_backends: bool,
}

/// Holds the second comparison against the first.
#[must_use]
pub fn differ(a: &Report, b: &Report) -> Differences {
    let has = |report: &Report, subject: Subject| report.rows.iter().any(|row| row.subject.backend == subject.backend);
    let across_backends = !a.rows.iter().any(|row| has(b, row.subject));
    let same = |a: &Row, b: &Row| {
        let stands_alone = |row: &Row| row.subject.receive == Receive::Device;
        let subject = if across_backends {
            a.subject.mode == b.subject.mode && stands_alone(a) && stands_alone(b)
        } else {
            a.subject == b.subject
        };
        subject && a.load == b.load
    };
    let partner = |row: &Row| b.rows.iter().find(|other| same(row, other) && other.figures().is_some());
    let with_figures = |report: &Report| report.rows.iter().filter(|row| row.figures().is_some()).count();
    let cells: Vec<Cell> = a.rows.iter().filter_map(|row| cell(row, partner(row)?)).collect();
    let alone = [with_figures(a) - cells.len(), with_figures(b).saturating_sub(cells.len())];
    Differences { cells, alone, setups: setups(a, b), across_backends }
}

fn cell(a: &Row, b: &Row) -> Option<Cell> {
    let (of_a, of_b) = (a.figures()?, b.figures()?);
    let pair = |figure| Pair::of(of_a, of_b, figure);
    Some(Cell {
        load: a.load,
        subjects: [a.subject, b.subject],
        p99_us: pair(|f| f.latency_us.p99),
        cpu_pct: pair(|f| f.cpu.total_pct),
        achieved_rps: pair(|f| f.achieved_rps),
        sustains: [a.sustains(), b.sustains()],
    })
}

/// Commit, machine and workload, where they are not the same.
fn setups(a: &Report, b: &Report) -> Vec<(String, [String; 2])> {
    let of = |report: &Report| {
        let mut all = vec![
            ("commit".to_owned(), report.commit.clone()),
            ("CPU".to_owned(), report.host.cpu_model.clone()),
            ("CPUs".to_owned(), report.host.cpus.to_string()),
            ("kernel".to_owned(), report.host.kernel.clone()),
        ];
        // What a request costs is found, not set.
        let workload = serde_json::to_value(&report.workload).expect("it is written as JSON elsewhere");
        let set = workload.as_object().into_iter().flatten().filter(|(key, _)| *key != "request_cost_us");
        all.extend(
            set.map(|(key, value)| (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))),
        );
        all.extend(report.host.in_force.iter().map(|(name, what)| (name.clone(), what.clone())));
        all
    };
    let (of_a, of_b) = (of(a), of(b));
    let missing = || Value::Null.to_string();
    let find = |all: &[(String, String)], name: &str| {
        all.iter().find(|(n, _)| n == name).map_or_else(missing, |(_, v)| v.clone())
    };
    let mut names: Vec<&String> = of_a.iter().map(|(name, _)| name).collect();
    names.extend(of_b.iter().map(|(name, _)| name).filter(|name| of_a.iter().all(|(other, _)| other != *name)));
    let both = names.into_iter().map(|name| (name.clone(), [find(&of_a, name), find(&of_b, name)]));
    both.filter(|(_, [a, b])| a != b).collect()
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
}

impl Differences {
    /// What differs, in a few sentences; `names` are those of the comparisons.
    #[must_use]
    pub fn summary(&self, names: [&str; 2]) -> String {
        let [a, b] = names;
        if self.cells.is_empty() {
            return format!(
                "{b} and {a} have no mode at the same load in common, so nothing can be held against each other: give both the same \
                 --load and --modes."
            );
        }
        let backends = self.cells.iter().any(|cell| cell.subjects[0].backend != self.cells[0].subjects[0].backend);
        let mut parts = Vec::new();
        let open: Vec<&Cell> = self.cells.iter().filter(|cell| cell.load != Load::Max).collect();
        let (kept_up, failed): (Vec<&Cell>, Vec<&Cell>) = open.iter().partition(|cell| cell.sustains == [true, true]);
        parts.extend(said("p99", &kept_up, backends, |cell| cell.p99_us));
        parts.extend(said("CPU", &kept_up, backends, |cell| cell.cpu_pct));
        let closed: Vec<&Cell> = self.cells.iter().filter(|cell| cell.load == Load::Max).collect();
        parts.extend(said("closed-loop rate", &closed, backends, |cell| cell.achieved_rps));
        let only = |which: [bool; 2]| {
            failed.iter().filter(|cell| cell.sustains == which).map(|cell| named(cell, backends)).collect::<Vec<_>>()
        };
        for (which, who) in [([true, false], a), ([false, true], b)] {
            let only = only(which);
            if !only.is_empty() {
                parts.push(format!("only {who} sustains {}", listed(&only)));
            }
        }
        format!("{b} beside {a}: {}.", parts.join("; "))
    }
}

/// In how many cells a figure is lower, higher, or not decided.
fn said(what: &str, cells: &[&Cell], backends: bool, figure: fn(&Cell) -> Pair) -> Option<String> {
    let of = |verdict| cells.iter().filter(|cell| figure(cell).verdict == verdict).copied().collect::<Vec<_>>();
    let each = |cells: &[&Cell]| {
        let texts: Vec<String> =
            cells.iter().map(|cell| format!("{} {}", named(cell, backends), figure(cell).ratio())).collect();
        listed(&texts)
    };
    if cells.is_empty() {
        return None;
    }
    let all = cells.len();
    let (lower, higher, one_run) = (of(Verdict::Lower), of(Verdict::Higher), of(Verdict::OneRun));
    if one_run.len() == all {
        return Some(format!("{what} is not decided anywhere, for of one run the spread is unknown"));
    }
    if lower.is_empty() && higher.is_empty() {
        return Some(format!("{what} differs nowhere by more than the runs do (of {all})"));
    }
    let mut parts = Vec::new();
    for (which, cells) in [("lower", lower), ("higher", higher)] {
        if !cells.is_empty() {
            parts.push(format!("{which} in {} of {all} ({})", cells.len(), each(&cells)));
        }
    }
    Some(format!("{what} is {}", parts.join(" and ")))
}

fn named(cell: &Cell, backends: bool) -> String {
    match cell.load {
        Load::Max => cell.name(backends),
        load @ Load::Rps(_) => format!("{} at {load}", cell.name(backends)),
    }
}

/// The first few of them.
fn listed(all: &[String]) -> String {
    const MOST: usize = 4;
    match all.len() {
        0..=MOST => all.join(", "),
        more => format!("{} and {} more", all[..MOST].join(", "), more - MOST),
    }
}

#[cfg(test)]
mod tests;
