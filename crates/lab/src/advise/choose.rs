//! The choice, from figures alone.

use serde::Serialize;

use crate::modes::Mode;

use super::predict::Predicted;

/// Without a target the cheapest mode is taken whose p99 is within so much of the lowest.
const NEAR_LOWEST: f64 = 1.25;
/// CPU that is no difference, in percent of a CPU.
const CPU_ALIKE_PCT: f64 = 1.0;
/// By what part chance makes p99 of a run better or worse, if the run itself says that it is less, and at most.
const P99_CHANCE: (f64, f64) = (0.1, 0.9);
/// CPU likewise.
const CPU_CHANCE: f64 = 0.03;
/// By chance a run may answer no more than this part of a rate that is sustained.
const RATE_CHANCE: f64 = 0.97;

/// What is wanted.
#[derive(Copy, Clone, PartialEq, Debug, Default)]
pub struct Goal {
    /// 99 % of the answers come within so many us of when they were due.
    pub p99_us: Option<f64>,
    /// The server takes at most so much, in % of one CPU per queue.
    pub cpu_pct: Option<f64>,
}

/// Whether a mode does what is wanted.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does, also if the prediction is as far off as such predictions were.
    Reaches,
    /// It may or may not: what is wanted lies within what the prediction may be off.
    TooNear,
    /// It does not; no mode does.
    Misses,
}

/// A mode, and whether it does what is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The mode.
    pub mode: Mode,
    /// Whether it does what is wanted; if it does not no mode does, and this is the nearest.
    pub verdict: Verdict,
    /// Modes that differ from it by less than predictions are off, in both p99 and CPU.
    pub near: Vec<Mode>,
    /// Modes that no other is known to beat in both p99 and CPU, from the cheapest.
    pub frontier: Vec<Mode>,
    /// Modes that do not sustain the rate, or the peak.
    pub overloaded: Vec<Mode>,
}

impl Goal {
    /// Whether a row does what is wanted: as it is predicted, or however far off that may be.
    fn is_met_by(&self, row: &Predicted, how: Sure) -> bool {
        let of = |figure: f64, range: Option<(f64, f64)>| match (how, range) {
            (Sure::AsPredicted, _) | (_, None) => figure,
            (Sure::Surely, Some((_, high))) => high,
            (Sure::AtBest, Some((low, _))) => low,
        };
        self.p99_us.is_none_or(|target| of(row.p99_us, row.p99_range_us) <= target)
            && self.cpu_pct.is_none_or(|budget| of(row.cpu_pct, row.cpu_range_pct) <= budget)
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

/// How a prediction is taken.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Sure {
    AsPredicted,
    Surely,
    AtBest,
}

/// Neither p99 nor CPU differs by more than predictions of these modes are off, as far as that is known.
fn is_near(one: &Predicted, other: &Predicted) -> bool {
    let meet = |one: Option<(f64, f64)>, other: Option<(f64, f64)>| {
        one.zip(other).is_some_and(|(one, other)| one.0 <= other.1 && other.0 <= one.1)
    };
    meet(one.p99_range_us, other.p99_range_us) && meet(one.cpu_range_pct, other.cpu_range_pct)
}

/// The modes that no other is known to beat in both p99 and CPU, from the cheapest, of those that sustain the rate.
#[must_use]
pub fn frontier(rows: &[Predicted]) -> Vec<Mode> {
    let able: Vec<&Predicted> = rows.iter().filter(|row| row.sustained).collect();
    let beats = |other: &Predicted, row: &Predicted| {
        other.p99_us <= row.p99_us
            && other.cpu_pct <= row.cpu_pct
            && (other.p99_us < row.p99_us || other.cpu_pct < row.cpu_pct)
            && !is_near(other, row)
    };
    let mut front: Vec<&&Predicted> = able.iter().filter(|row| !able.iter().any(|other| beats(other, row))).collect();
    front.sort_by(|one, other| one.cpu_pct.total_cmp(&other.cpu_pct));
    front.into_iter().map(|row| row.mode).collect()
}

/// Rows of modes at the rate and at the peak, which are none or of the same modes in the same order.
struct Rows<'a> {
    goal: &'a Goal,
    rows: &'a [Predicted],
    at_peak: &'a [Predicted],
}

impl Rows<'_> {
    fn is_able(&self, at: usize) -> bool {
        self.rows[at].sustained && self.at_peak.get(at).is_none_or(|row| row.sustained)
    }

    fn is_met(&self, at: usize, how: Sure) -> bool {
        self.is_able(at)
            && self.goal.is_met_by(&self.rows[at], how)
            && self.at_peak.get(at).is_none_or(|row| self.goal.is_met_by(row, how))
    }

    fn verdict(&self, at: usize) -> Verdict {
        if self.is_met(at, Sure::Surely) {
            Verdict::Reaches
        } else if self.is_met(at, Sure::AtBest) {
            Verdict::TooNear
        } else {
            Verdict::Misses
        }
    }

    /// The best of those that do what is wanted in a way.
    fn best(&self, how: Sure) -> Option<usize> {
        let met: Vec<usize> = (0..self.rows.len()).filter(|at| self.is_met(*at, how)).collect();
        let lowest_us = met.iter().map(|at| self.rows[*at].p99_us).fold(f64::INFINITY, f64::min);
        let better = |best: usize, at: usize| {
            if self.goal.prefers(&self.rows[at], &self.rows[best], lowest_us) { at } else { best }
        };
        met.into_iter().reduce(better)
    }

    /// The one that misses what is wanted by least.
    fn nearest(&self) -> usize {
        let missed = |at: usize| {
            let at_peak = self.at_peak.get(at).map_or(0.0, |row| self.goal.missed_by(row));
            self.goal.missed_by(&self.rows[at]).max(at_peak)
        };
        let nearest = (0..self.rows.len()).min_by(|one, other| missed(*one).total_cmp(&missed(*other)));
        nearest.expect("a sweep has a mode at least")
    }

    /// The place of the choice if a setting cost nothing.
    fn best_or_nearest(&self) -> usize {
        self.best(Sure::Surely).or_else(|| self.best(Sure::AsPredicted)).unwrap_or_else(|| self.nearest())
    }

    /// The place of the choice.
    fn chosen(&self) -> usize {
        let at = self.best_or_nearest();
        // What needs no setting is taken if nothing says that another is better.
        let base = self.rows.iter().position(|row| row.mode == Mode::Base);
        base.filter(|base| self.verdict(*base) == self.verdict(at) && is_near(&self.rows[*base], &self.rows[at]))
            .unwrap_or(at)
    }

    fn choice(&self, at: usize) -> Choice {
        let others = (0..self.rows.len()).filter(|other| *other != at && self.is_able(*other) && self.is_able(at));
        let near = others.filter(|other| is_near(&self.rows[*other], &self.rows[at]));
        Choice {
            mode: self.rows[at].mode,
            verdict: self.verdict(at),
            near: near.map(|other| self.rows[other].mode).collect(),
            frontier: frontier(self.rows),
            overloaded: (0..self.rows.len()).filter(|at| !self.is_able(*at)).map(|at| self.rows[at].mode).collect(),
        }
    }
}

/// Chooses; `at_peak` is empty or has the same modes in the same order.
///
/// With a target for p99: the cheapest mode that keeps it. With a bound for CPU alone: the lowest p99 within it. With neither: the
/// cheapest mode whose p99 is within a quarter of the lowest. A mode that does what is wanted however far predictions are off goes
/// before others; `base` goes before what differs from it by less than that.
#[must_use]
pub fn choose(goal: &Goal, rows: &[Predicted], at_peak: &[Predicted]) -> Choice {
    let rows = Rows { goal, rows, at_peak };
    rows.choice(rows.chosen())
}

/// The same if chance had made it as much worse as it may have, or as much better.
fn by_chance(row: &Predicted, better: bool) -> Predicted {
    let factor = |part: f64| if better { 1.0 - part } else { 1.0 + part };
    let p99 = factor(row.p99_within_pct.map_or(P99_CHANCE.1, |pct| (pct / 100.0).clamp(P99_CHANCE.0, P99_CHANCE.1)));
    let cpu = factor(CPU_CHANCE);
    let times = |range: Option<(f64, f64)>, by: f64| range.map(|(low, high)| (low * by, high * by));
    Predicted {
        p99_us: row.p99_us * p99,
        p99_range_us: times(row.p99_range_us, p99),
        cpu_pct: row.cpu_pct * cpu,
        cpu_range_pct: times(row.cpu_range_pct, cpu),
        sustained: row.sustained || better && row.achieved_rps >= row.load_rps as f64 * RATE_CHANCE,
        ..row.clone()
    }
}

/// The modes that may be chosen if one run of each says this: chance may have made that mode worse than it is and all others better.
/// `base`, which the choice is held against, is always among them; `at_peak` as in [`choose`].
pub(super) fn may_be_chosen(goal: &Goal, rows: &[Predicted], at_peak: &[Predicted]) -> Vec<Mode> {
    let all = |rows: &[Predicted], better: bool| rows.iter().map(|row| by_chance(row, better)).collect::<Vec<_>>();
    let better = (&all(rows, true)[..], &all(at_peak, true)[..]);
    let worse = (&all(rows, false)[..], &all(at_peak, false)[..]);
    let is_chosen_as_it_is = Rows { goal, rows, at_peak }.chosen();
    let may = |at: &usize| {
        let is_chosen = alone_at_best(goal, better, worse, *at, |rows| rows.chosen()) == *at;
        is_chosen || is_chosen_as_it_is == *at || rows[*at].mode == Mode::Base
    };
    (0..rows.len()).filter(may).map(|at| rows[at].mode).collect()
}

/// Rows at the rate, and at the peak.
type AtBoth<'a> = (&'a [Predicted], &'a [Predicted]);

/// Which place a rule says if one mode has its best figures, and all others have their worst.
fn alone_at_best(goal: &Goal, best: AtBoth<'_>, worst: AtBoth<'_>, at: usize, rule: fn(&Rows<'_>) -> usize) -> usize {
    let with = |best: &[Predicted], worst: &[Predicted]| {
        worst
            .iter()
            .enumerate()
            .map(|(other, row)| if other == at { &best[at] } else { row })
            .cloned()
            .collect::<Vec<_>>()
    };
    rule(&Rows { goal, rows: &with(best.0, worst.0), at_peak: &with(best.1, worst.1) })
}

/// The places of those that may be chosen if the figures of each lie between its best and its worst.
pub(super) fn may_be_chosen_between(goal: &Goal, best: AtBoth<'_>, worst: AtBoth<'_>) -> Vec<usize> {
    let rules: [fn(&Rows<'_>) -> usize; 2] = [|rows| rows.best_or_nearest(), |rows| rows.chosen()];
    let may = |at: &usize| rules.iter().any(|rule| alone_at_best(goal, best, worst, *at, *rule) == *at);
    (0..best.0.len()).filter(may).collect()
}

/// The choice of most of `seeds` runs, each by itself, and how many have it; if several have as many, the one of all runs together.
pub(super) fn choose_by_most(goal: &Goal, rows: &[Predicted], at_peak: &[Predicted], seeds: u16) -> (Choice, u16) {
    let all = Rows { goal, rows, at_peak };
    let mut votes = vec![0_u16; rows.len()];
    for seed in 0..usize::from(seeds) {
        let of = |rows: &[Predicted]| rows.iter().map(|row| row.of_seed(seed)).collect::<Vec<_>>();
        votes[Rows { goal, rows: &of(rows), at_peak: &of(at_peak) }.chosen()] += 1;
    }
    let together = all.chosen();
    let most = votes.iter().copied().max().unwrap_or(0);
    let first = votes.iter().position(|votes| *votes == most).unwrap_or(together);
    let at = if votes[together] == most { together } else { first };
    (all.choice(at), votes[at])
}
