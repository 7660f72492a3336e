//! The choice, from figures alone.

use crate::modes::Mode;

use super::predict::Predicted;

/// Without a target the cheapest mode is taken whose p99 is within so much of the lowest.
const NEAR_LOWEST: f64 = 1.25;
/// CPU that is no difference, in percent of a CPU.
const CPU_ALIKE_PCT: f64 = 1.0;

/// What is wanted.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct Goal {
    /// 99 % of the answers come within so many us of when they were due.
    pub p99_us: Option<f64>,
    /// The server takes at most so much, in % of one CPU per queue.
    pub cpu_pct: Option<f64>,
}

/// A mode, and whether it does what is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The mode.
    pub mode: Mode,
    /// What it does is what is wanted; else no mode does, and this is the nearest.
    pub reaches: bool,
    /// Modes that no other beats in both p99 and CPU, from the cheapest.
    pub frontier: Vec<Mode>,
    /// Modes that do not sustain the rate, or the peak.
    pub overloaded: Vec<Mode>,
}

impl Goal {
    fn is_met_by(&self, row: &Predicted) -> bool {
        self.p99_us.is_none_or(|target| row.p99_us <= target) && self.cpu_pct.is_none_or(|budget| row.cpu_pct <= budget)
    }

    /// By what factor a row misses the worse of both; at most 1: by none.
    fn missed_by(&self, row: &Predicted) -> f64 {
        let latency = self.p99_us.map_or(0.0, |target| row.p99_us / target);
        let cpu = self.cpu_pct.map_or(0.0, |budget| row.cpu_pct / budget);
        let overload = if row.sustained { 0.0 } else { row.load_rps as f64 / row.achieved_rps.max(1.0) };
        latency.max(cpu).max(overload)
    }

    /// The better of two rows that both do what is wanted; `lowest_us` is the lowest p99 of all such.
    fn prefers(&self, row: &Predicted, other: &Predicted, lowest_us: f64) -> bool {
        let cheaper = || {
            let saved = other.cpu_pct - row.cpu_pct;
            if saved.abs() <= CPU_ALIKE_PCT { row.p99_us < other.p99_us } else { saved > 0.0 }
        };
        match (self.p99_us, self.cpu_pct) {
            (Some(_), _) => cheaper(),
            (None, Some(_)) => row.p99_us < other.p99_us,
            (None, None) => {
                let near = |row: &Predicted| row.p99_us <= lowest_us * NEAR_LOWEST;
                if near(row) == near(other) { cheaper() } else { near(row) }
            }
        }
    }
}

/// The modes that no other beats in both p99 and CPU, from the cheapest, of those that sustain the rate.
#[must_use]
pub fn frontier(rows: &[Predicted]) -> Vec<Mode> {
    let able: Vec<&Predicted> = rows.iter().filter(|row| row.sustained).collect();
    let beats = |other: &Predicted, row: &Predicted| {
        other.p99_us <= row.p99_us
            && other.cpu_pct <= row.cpu_pct
            && (other.p99_us < row.p99_us || other.cpu_pct < row.cpu_pct)
    };
    let mut front: Vec<&&Predicted> = able.iter().filter(|row| !able.iter().any(|other| beats(other, row))).collect();
    front.sort_by(|one, other| one.cpu_pct.total_cmp(&other.cpu_pct));
    front.into_iter().map(|row| row.mode).collect()
}

/// Chooses; `at_peak` is empty or has the same modes in the same order.
///
/// With a target for p99: the cheapest mode that keeps it. With a bound for CPU alone: the lowest p99 within it. With neither: the
/// cheapest mode whose p99 is within a quarter of the lowest.
pub(super) fn choose(goal: &Goal, rows: &[Predicted], at_peak: &[Predicted]) -> Choice {
    let peak = |at: usize| at_peak.get(at);
    let is_able = |at: usize| rows[at].sustained && peak(at).is_none_or(|row| row.sustained);
    let is_met = |at: usize| is_able(at) && goal.is_met_by(&rows[at]) && peak(at).is_none_or(|row| goal.is_met_by(row));
    let met: Vec<usize> = (0..rows.len()).filter(|at| is_met(*at)).collect();
    let lowest_us = met.iter().map(|at| rows[*at].p99_us).fold(f64::INFINITY, f64::min);
    let best =
        met.iter().copied().reduce(|best, at| if goal.prefers(&rows[at], &rows[best], lowest_us) { at } else { best });
    let missed = |at: usize| goal.missed_by(&rows[at]).max(peak(at).map_or(0.0, |row| goal.missed_by(row)));
    let nearest = || (0..rows.len()).min_by(|one, other| missed(*one).total_cmp(&missed(*other)));
    let at = best.or_else(nearest).expect("a sweep has a mode at least");
    Choice {
        mode: rows[at].mode,
        reaches: best.is_some(),
        frontier: frontier(rows),
        overloaded: (0..rows.len()).filter(|at| !is_able(*at)).map(|at| rows[at].mode).collect(),
    }
}
