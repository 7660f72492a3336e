//! What differs between two comparisons, in a few sentences: made of the same cells as the tables, and of nothing else.

use super::judge::{Against, DifferenceVerdict, Pair};
use super::{CellDifference, Differences};
use crate::loads::Load;

impl Differences<'_> {
    /// What differs, in a few sentences.
    #[must_use]
    pub fn summary(&self) -> String {
        let [a, b] = self.names();
        if self.cells.is_empty() {
            return format!(
                "{b} and {a} have no mode at the same load in common, so nothing can be held against each other: give both the same \
                 --load and --modes."
            );
        }
        let backends = self.among_backends();
        let (open, closed) = self.by_loop();
        let kept_up: Vec<&CellDifference> = open.iter().copied().filter(|cell| cell.sustains == [true, true]).collect();
        let mut parts = Vec::new();
        parts.extend(said("p99", &kept_up, backends, |cell| cell.p99_us));
        parts.extend(said("CPU", &kept_up, backends, |cell| cell.cpu_pct));
        parts.extend(said("closed-loop rate", &closed, backends, |cell| cell.achieved_rps));
        let failed: Vec<&CellDifference> = open.iter().copied().filter(|cell| cell.sustains != [true, true]).collect();
        let (open, decided): (Vec<&CellDifference>, Vec<&CellDifference>) =
            failed.iter().copied().partition(|cell| cell.against.is_some());
        let only = |which: [bool; 2]| {
            decided.iter().filter(|cell| cell.sustains == which).map(|cell| named(cell, backends)).collect::<Vec<_>>()
        };
        for (which, who) in [([true, false], a), ([false, true], b)] {
            let only = only(which);
            if !only.is_empty() {
                parts.push(format!("only {who} sustains {}", listed(&only)));
            }
        }
        if let Some(why) = open.iter().find_map(|cell| cell.against.as_ref()).map(Against::why) {
            let open: Vec<String> = open.iter().map(|cell| named(cell, backends)).collect();
            parts.push(format!("which sustains {} is not decided, for {why}", listed(&open)));
        }
        if parts.is_empty() {
            return format!(
                "{b} beside {a}: neither sustains any of these loads, so every latency is that of a queue."
            );
        }
        format!("{b} beside {a}: {}.", parts.join("; "))
    }
}

/// In how many cells a figure is lower, higher, or not decided.
fn said(what: &str, cells: &[&CellDifference], backends: bool, figure: fn(&CellDifference) -> Pair) -> Option<String> {
    let of = |verdict| cells.iter().filter(|cell| figure(cell).verdict() == verdict).copied().collect::<Vec<_>>();
    let each = |cells: &[&CellDifference]| {
        let texts: Vec<String> =
            cells.iter().map(|cell| format!("{} {}", named(cell, backends), figure(cell).times())).collect();
        listed(&texts)
    };
    if cells.is_empty() {
        return None;
    }
    let all = cells.len();
    let (lower, higher) = (of(DifferenceVerdict::Lower), of(DifferenceVerdict::Higher));
    let open: Vec<&CellDifference> =
        cells.iter().copied().filter(|cell| figure(cell).verdict().differs().is_none()).collect();
    let why = open.iter().find_map(|cell| cell.against.as_ref()).map(|against| format!(", for {}", against.why()));
    let why = why.unwrap_or_default();
    if open.len() == all {
        return Some(format!("{what} is not decided anywhere{why}"));
    }
    let but = if open.is_empty() { String::new() } else { format!(", and not decided in {}{why}", open.len()) };
    if lower.is_empty() && higher.is_empty() {
        return Some(format!("{what} differs nowhere by more than the runs do (of {all}){but}"));
    }
    let mut parts = Vec::new();
    for (which, cells) in [("lower", lower), ("higher", higher)] {
        if !cells.is_empty() {
            parts.push(format!("{which} in {} of {all} ({})", cells.len(), each(&cells)));
        }
    }
    Some(format!("{what} is {}{but}", parts.join(" and ")))
}

fn named(cell: &CellDifference, backends: bool) -> String {
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
