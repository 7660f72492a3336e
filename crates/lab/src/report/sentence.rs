//! The sentence below each load: which mode buys what, from the figures alone.
//!
//! At a fixed load the question is what a lower p99 costs in CPU. The answer names the lowest p99, the cheapest mode
//! that comes near it, and what `base` and the cheapest mode of all have instead. Modes that do not sustain the load
//! are named as such and not compared: their latency is the length of their queue. Where the runs of two modes
//! overlap, the sentence says that they cannot be told apart.

use super::Row;
use crate::loads::Load;
use crate::modes::Mode;
use crate::stats::{Figures, Measured};

/// "Near" the lowest p99: up to a quarter above it.
const NEAR: f64 = 1.25;
/// Worth naming: at least a tenth less CPU.
const CHEAPER: f64 = 0.9;

type Figure = fn(&Figures) -> f64;
const P99: Figure = |figures| figures.latency_us.p99;
const CPU: Figure = |figures| figures.cpu.total_pct;
const RPS: Figure = |figures| figures.achieved_rps;

/// The sentence for the rows of one load and one backend; empty if nothing was measured.
pub(super) fn sentence(load: Load, rows: &[&Row]) -> String {
    let measured: Vec<Candidate<'_>> = rows
        .iter()
        .filter_map(|row| {
            Some(Candidate { mode: row.subject.mode, measured: row.measured()?, sustains: row.sustains() })
        })
        .collect();
    let [first, rest @ ..] = measured.as_slice() else {
        return String::new();
    };
    if rest.is_empty() {
        return format!("Only {} was measured: nothing to compare it with.", first.mode);
    }
    let mut parts = match load {
        Load::Max => closed_loop(&measured),
        Load::Rps(_) => open_loop(&measured),
    };
    if measured.iter().all(|candidate| candidate.measured.runs == 1) {
        parts.push("one run each, so the spread is unknown".to_owned());
    }
    parts.join("; ") + "."
}

#[derive(Clone, Copy)]
struct Candidate<'a> {
    mode: Mode,
    measured: &'a Measured,
    sustains: bool,
}

impl Candidate<'_> {
    fn median(&self, figure: Figure) -> f64 {
        figure(&self.measured.median)
    }

    /// "1.02x base's p99", or that the two cannot be told apart.
    fn times(&self, other: &Self, figure: Figure, name: &str) -> String {
        let overlap = self.measured.runs > 1 && self.overlaps(other, figure);
        let note = if overlap { " (runs overlap)" } else { "" };
        format!("{} {}'s {name}{note}", ratio(self.median(figure), other.median(figure)), other.mode)
    }

    fn overlaps(&self, other: &Self, figure: Figure) -> bool {
        let (a, b) = (&self.measured.spread, &other.measured.spread);
        figure(&a.min) <= figure(&b.max) && figure(&b.min) <= figure(&a.max)
    }
}

fn open_loop(all: &[Candidate<'_>]) -> Vec<String> {
    let (sustaining, failing): (Vec<_>, Vec<_>) = all.iter().copied().partition(|candidate| candidate.sustains);
    let mut parts = Vec::new();
    if let Some(fastest) = least(&sustaining, P99) {
        latency_parts(&sustaining, fastest, &mut parts);
    }
    if sustaining.is_empty() {
        parts.push("No mode sustains this load (99 % of it answered), so every latency is that of a queue".to_owned());
    } else if !failing.is_empty() {
        let names: Vec<String> = failing.iter().map(|candidate| candidate.mode.to_string()).collect();
        let verb = if names.len() == 1 { "does" } else { "do" };
        parts.push(format!("{} {verb} not sustain this load", listed(&names)));
    }
    parts
}

fn latency_parts(sustaining: &[Candidate<'_>], fastest: Candidate<'_>, parts: &mut Vec<String>) {
    let near: Vec<_> = sustaining.iter().copied().filter(|c| c.median(P99) <= NEAR * fastest.median(P99)).collect();
    let thrifty = least(&near, CPU).unwrap_or(fastest);
    let cpu = |candidate: &Candidate<'_>| share(candidate.median(CPU), fastest.median(CPU));
    let mut named = vec![fastest.mode];
    if thrifty.mode != fastest.mode && thrifty.median(CPU) <= CHEAPER * fastest.median(CPU) {
        named.push(thrifty.mode);
        parts.push(format!(
            "{} has {} at {} of its CPU",
            thrifty.mode,
            thrifty.times(&fastest, P99, "p99"),
            cpu(&thrifty)
        ));
    } else {
        let figures = format!("{} us at {:.0} % CPU", us(fastest.median(P99)), fastest.median(CPU));
        parts.push(format!("{} has the lowest p99 ({figures}), and no mode near it takes less CPU", fastest.mode));
    }
    for other in
        [sustaining.iter().copied().find(|c| c.mode == Mode::Base), least(sustaining, CPU)].into_iter().flatten()
    {
        if named.contains(&other.mode) {
            continue;
        }
        named.push(other.mode);
        let factor = ratio(other.median(P99), fastest.median(P99));
        let overlap = if other.measured.runs > 1 && other.overlaps(&fastest, P99) { " (runs overlap)" } else { "" };
        parts.push(format!("{} {factor}{overlap} at {}", other.mode, cpu(&other)));
    }
}

fn closed_loop(all: &[Candidate<'_>]) -> Vec<String> {
    let Some(fastest) = most(all, RPS) else {
        return Vec::new();
    };
    let mut parts = vec![format!("{} answers most", fastest.mode)];
    let base = all.iter().copied().find(|candidate| candidate.mode == Mode::Base);
    match base {
        Some(base) if base.mode != fastest.mode => {
            parts[0] += &format!(", {}", fastest.times(&base, RPS, "rate"));
        }
        _ => {}
    }
    let others: Vec<_> = all.iter().copied().filter(|c| c.mode != fastest.mode && c.mode != Mode::Base).collect();
    if let Some(second) = most(&others, RPS) {
        parts.push(format!("next is {} with {}", second.mode, second.times(&fastest, RPS, "rate")));
    }
    let tail = least(all, P99).filter(|candidate| candidate.mode != fastest.mode);
    if let Some(tail) = tail {
        parts.push(format!("{} has the lowest p99, {}", tail.mode, tail.times(&fastest, P99, "p99")));
    }
    parts
}

fn least<'a>(all: &[Candidate<'a>], figure: Figure) -> Option<Candidate<'a>> {
    all.iter().copied().min_by(|a, b| a.median(figure).total_cmp(&b.median(figure)))
}

fn most<'a>(all: &[Candidate<'a>], figure: Figure) -> Option<Candidate<'a>> {
    // min_by keeps the first of equals, as `least` does; max_by would keep the last.
    all.iter().copied().min_by(|a, b| b.median(figure).total_cmp(&a.median(figure)))
}

fn ratio(number: f64, of: f64) -> String {
    if of > 0.0 { format!("{:.2}x", number / of) } else { "?x".to_owned() }
}

fn share(number: f64, of: f64) -> String {
    if of > 0.0 { format!("{:.0} %", 100.0 * number / of) } else { "? %".to_owned() }
}

fn us(us: f64) -> String {
    if us < 100.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [firsts @ .., last] => format!("{} and {last}", firsts.join(", ")),
    }
}

#[cfg(test)]
mod tests;
