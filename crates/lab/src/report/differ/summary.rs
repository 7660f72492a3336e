//! What differs between two comparisons, in a few sentences: made of the same cells as the tables, and of nothing else.

use super::judge::{Against, Pair};
use super::{CellDifference, Differences};
use crate::loads::Load;
use crate::report::verdict::and;

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
        let how = self.minutes().map_or_else(String::new, |minutes| {
            format!(" Both with --minutes {minutes:.0} would decide the rest, as it looks.")
        });
        format!("{b} beside {a}: {}.{how}", parts.join("; "))
    }
}

/// In how many cells a figure is better or worse, no different, or not decided.
fn said(what: &str, cells: &[&CellDifference], backends: bool, figure: fn(&CellDifference) -> Pair) -> Option<String> {
    if cells.is_empty() {
        return None;
    }
    let all = cells.len();
    let each = |cells: &[&CellDifference]| {
        let texts: Vec<String> =
            cells.iter().map(|cell| format!("{} {}", named(cell, backends), figure(cell).times())).collect();
        listed(&texts)
    };
    let differs = |differs: Option<bool>| {
        cells.iter().copied().filter(move |cell| figure(cell).verdict().differs() == differs).collect::<Vec<_>>()
    };
    let (apart, alike, open) = (differs(Some(true)), differs(Some(false)), differs(None));
    let why = open.iter().find_map(|cell| cell.against.as_ref()).map(|against| format!(", for {}", against.why()));
    let why = why.unwrap_or_default();
    if open.len() == all {
        return Some(format!("{what} is not decided anywhere{why}"));
    }
    let mut parts = Vec::new();
    for word in ["better", "worse", "lower", "higher"] {
        let such: Vec<&CellDifference> = apart.iter().copied().filter(|cell| figure(cell).word() == word).collect();
        if !such.is_empty() {
            parts.push(format!("{word} in {} of {all} ({})", such.len(), each(&such)));
        }
    }
    let within = alike.iter().filter_map(|cell| figure(cell).verdict().within_pct()).max();
    let alike = match (alike.len(), within) {
        (0, _) => None,
        (count, Some(within)) => Some(format!("no different within {within} % in {count} of {all}")),
        (_, None) if parts.is_empty() => {
            return Some(undecided_in(
                format!("{what} differs nowhere by more than the runs do (of {all})"),
                open.len(),
                &why,
            ));
        }
        (_, None) => None,
    };
    parts.extend(alike);
    Some(undecided_in(format!("{what} is {}", and(&parts)), open.len(), &why))
}

fn undecided_in(said: String, cells: usize, why: &str) -> String {
    if cells == 0 { said } else { format!("{said}, and not decided in {cells}{why}") }
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
