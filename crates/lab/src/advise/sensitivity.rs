//! What the choice depends on: costs of the machine, each by itself, made smaller and larger until another mode is chosen.

use std::sync::atomic::AtomicBool;

use napier_core::time::Span;
use napier_sim::machine::Work;
use serde::Serialize;

use super::choose::{Choice, Goal, choose, choose_by_most};
use super::predict::{Predicted, at_rate_and_peak};
use super::{Advice, AdviseError, Effort};
use crate::machines::MachineFile;
use crate::modes::Mode;
use crate::parallel::in_parallel;

/// Modes beside the choice that are run again: those that would be chosen without it, one after the other.
const RIVALS: usize = 3;
/// A cost is made so many times smaller and larger.
const FACTOR: f64 = 4.0;
/// Halvings of what lies between a cost that flips the choice and one that does not.
const HALVINGS: usize = 3;
/// How many costs are told of.
const TOLD: usize = 3;

/// What a cost does to the choice.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Effect {
    /// The cost, as machine files call it.
    pub cost: String,
    /// What it is.
    pub what: String,
    /// The machine's value.
    pub value_ns: u64,
    /// p99 of the choice with four times the cost, relative to that without, in percent more.
    pub p99_pct: f64,
    /// Its CPU likewise, in points.
    pub cpu_points: f64,
    /// Where another mode is chosen, if a factor of four changes that.
    pub flip: Option<Flip>,
}

/// From where on another mode is chosen.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
pub struct Flip {
    /// So much or more, or so little or less.
    pub at_ns: u64,
    /// It is more.
    pub is_above: bool,
    /// The mode that is chosen then.
    #[serde(serialize_with = "super::json::as_text")]
    pub to: Mode,
}

struct Looked<'a> {
    machine: &'a MachineFile,
    advice: &'a Advice,
    modes: Vec<Mode>,
    stop: &'a AtomicBool,
}

impl Looked<'_> {
    /// The choice, and the row of the mode that is chosen now, with a cost times a factor.
    fn with(&self, cost: Work, factor: f64) -> Result<(Mode, Predicted), AdviseError> {
        let mut machine = self.machine.clone();
        let ns = (machine.costs.get(cost).ns as f64 * factor).round().max(1.0) as u64;
        machine.costs.set(cost, Span::from_ns(ns));
        let effort = Effort { seeds: self.advice.agreeing.1, jobs: 1, sensitivity: false };
        let workload = &self.advice.workload;
        let asked = (workload, &self.advice.goal);
        let (rows, at_peak) = at_rate_and_peak(&machine, asked, &self.modes, effort, self.stop, &|_, _| ())?;
        if rows.len() < self.modes.len() || workload.peak_rps.is_some() && at_peak.len() < self.modes.len() {
            return Err(AdviseError::Interrupted);
        }
        Ok(self.chosen(rows, &at_peak))
    }

    /// The same of rows of these modes.
    fn chosen(&self, rows: Vec<Predicted>, at_peak: &[Predicted]) -> (Mode, Predicted) {
        let mode = choose_by_most(&self.advice.goal, &rows, at_peak, self.advice.agreeing.1).0.mode;
        (mode, rows.into_iter().next().expect("the choice comes first"))
    }

    /// The same with the costs as they are, of which all is known.
    fn before(&self) -> (Mode, Predicted) {
        let of = |rows: &[Predicted]| -> Vec<Predicted> {
            self.modes.iter().filter_map(|mode| rows.iter().find(|row| row.mode == *mode)).cloned().collect()
        };
        self.chosen(of(&self.advice.rows), &of(&self.advice.at_peak))
    }

    fn effect(&self, cost: Work, before: &(Mode, Predicted)) -> Result<Effect, AdviseError> {
        let value_ns = self.machine.costs.get(cost).ns;
        let dearer = self.with(cost, FACTOR)?;
        let cheaper = self.with(cost, 1.0 / FACTOR)?;
        let mut flips = Vec::new();
        for (factor, seen) in [(FACTOR, dearer.0), (1.0 / FACTOR, cheaper.0)] {
            if seen != before.0 {
                flips.push(self.narrow(cost, before.0, factor, seen)?);
            }
        }
        let nearest = flips.into_iter().min_by(|one, other| one.0.ln().abs().total_cmp(&other.0.ln().abs()));
        let flip = nearest.map(|(factor, to)| Flip {
            at_ns: (value_ns as f64 * factor).round() as u64,
            is_above: factor > 1.0,
            to,
        });
        let relative = |after: f64, before: f64| if before > 0.0 { (after / before - 1.0) * 100.0 } else { 0.0 };
        Ok(Effect {
            cost: cost.name().to_owned(),
            what: cost.what().to_owned(),
            value_ns,
            p99_pct: relative(dearer.1.p99_us, before.1.p99_us),
            cpu_points: dearer.1.cpu_pct - before.1.cpu_pct,
            flip,
        })
    }

    /// The factor nearest to 1 that was seen to flip the choice, and to which mode.
    fn narrow(&self, cost: Work, before: Mode, factor: f64, to: Mode) -> Result<(f64, Mode), AdviseError> {
        let (mut keeps, mut flips, mut to) = (1.0_f64, factor, to);
        for _ in 0..HALVINGS {
            let middle = (keeps * flips).sqrt();
            let seen = self.with(cost, middle)?.0;
            if seen == before {
                keeps = middle;
            } else {
                (flips, to) = (middle, seen);
            }
        }
        Ok((flips, to))
    }
}

/// The costs to which the choice is most sensitive: those that flip it first, then those that change its figures most.
/// The slow part of advice, for those who want to see the choice first.
///
/// # Errors
/// [`AdviseError`].
pub fn look_for_flips(
    machine: &MachineFile,
    advice: &Advice,
    effort: Effort,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Effect>, AdviseError> {
    let looked = Looked { machine, advice, modes: candidates(&advice.goal, &advice.rows, &advice.choice), stop };
    let before = looked.before();
    let costs: Vec<Work> = Work::ALL.iter().copied().filter(|work| !machine.costs.get(*work).is_zero()).collect();
    let effects = in_parallel(&costs, effort.jobs, stop, progress, |cost| looked.effect(*cost, &before));
    let effects: Option<Result<Vec<Effect>, AdviseError>> = effects.into_iter().collect();
    let mut effects = effects.unwrap_or(Err(AdviseError::Interrupted))?;
    let distance = |effect: &Effect| {
        effect.flip.map_or(f64::INFINITY, |flip| (flip.at_ns.max(1) as f64 / effect.value_ns as f64).ln().abs())
    };
    let change = |effect: &Effect| effect.p99_pct.abs().max(effect.cpu_points.abs());
    effects.sort_by(|one, other| distance(one).total_cmp(&distance(other)).then(change(other).total_cmp(&change(one))));
    effects.truncate(TOLD);
    Ok(effects)
}

/// The choice, what would be chosen without it, and without that, and so on; and who has the lowest p99, for it is what others are
/// held against.
fn candidates(goal: &Goal, rows: &[Predicted], choice: &Choice) -> Vec<Mode> {
    let mut left: Vec<Predicted> = rows.to_vec();
    let mut chosen = vec![choice.mode];
    left.retain(|row| row.mode != choice.mode);
    while chosen.len() <= RIVALS && !left.is_empty() {
        let next = choose(goal, &left, &[]).mode;
        left.retain(|row| row.mode != next);
        chosen.push(next);
    }
    if let Some(lowest) = choice.frontier.last().filter(|lowest| !chosen.contains(lowest)) {
        chosen.push(*lowest);
    }
    chosen
}
