//! What the choice depends on: costs of the machine, each by itself, made smaller and larger until another mode is chosen.
//!
//! Changes are tried from the smallest on, of all costs: when as many have another choice as are told of, no larger one is tried. A run is
//! made only if it may decide ([`Bounds`]).

use std::sync::atomic::AtomicBool;

use napier_core::time::Span;
use napier_sim::machine::Work;
use serde::Serialize;

use super::bounds::{Bounds, as_changed};
use super::choose::{Choice, Goal, choose, choose_by_most, may_be_chosen_between};
use super::predict::{AtRate, Predicted};
use super::queues::ServerRun;
use super::{Advice, AdviseError, Effort};
use crate::machines::MachineFile;
use crate::modes::Mode;
use crate::parallel::in_parallel;

/// Modes beside the choice that are run again: those that would be chosen without it, one after the other.
const RIVALS: usize = 3;
/// A cost is made so many times smaller and larger.
const FACTOR: f64 = 4.0;
/// In so many steps, each of the same factor.
const STEPS: u32 = 8;
/// Steps that are tried one after the other; what lies between two of them is halved.
const TRIED: [u32; 4] = [1, 2, 4, STEPS];
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

/// Who may be chosen, and what is known of each.
struct Looked<'a> {
    machine: &'a MachineFile,
    advice: &'a Advice,
    modes: Vec<Mode>,
    /// At the rate, and at the peak if there is one; in the order of the modes.
    before: Vec<(u64, Vec<Predicted>)>,
    stop: &'a AtomicBool,
    progress: &'a (dyn Fn(usize, usize) + Sync),
    jobs: usize,
}

impl<'a> Looked<'a> {
    fn new(
        machine: &'a MachineFile,
        advice: &'a Advice,
        effort: Effort,
        stop: &'a AtomicBool,
        progress: &'a (dyn Fn(usize, usize) + Sync),
    ) -> Self {
        let modes = candidates(&advice.goal, &advice.rows, &advice.choice);
        let of = |rows: &[Predicted]| -> Vec<Predicted> {
            modes.iter().filter_map(|mode| rows.iter().find(|row| row.mode == *mode)).cloned().collect()
        };
        let rates =
            [Some((advice.workload.rate_rps, &advice.rows)), advice.workload.peak_rps.zip(Some(&advice.at_peak))];
        let before = rates.into_iter().flatten().map(|(rate_rps, rows)| (rate_rps, of(rows))).collect();
        Self { machine, advice, modes, before, stop, progress, jobs: effort.jobs }
    }

    /// The place of the choice of most seeds.
    fn chosen(&self, rows: &[Predicted], at_peak: &[Predicted]) -> usize {
        let mode = choose_by_most(&self.advice.goal, rows, at_peak, self.advice.agreeing.1).0.mode;
        self.modes.iter().position(|known| *known == mode).expect("a choice is one of the rows")
    }

    /// The same with the costs as they are.
    fn chosen_before(&self) -> usize {
        self.chosen(&self.before[0].1, self.before.get(1).map_or(&[], |(_, rows)| rows))
    }

    fn with(&self, cost: Work, factor: f64) -> Changed<'_> {
        let mut machine = self.machine.clone();
        let ns = (machine.costs.get(cost).ns as f64 * factor).round().max(1.0) as u64;
        machine.costs.set(cost, Span::from_ns(ns));
        let bounds = |row: &Predicted| Bounds::of(row, &self.machine.known, cost, factor);
        let at = self.before.iter().map(|(_, rows)| rows.iter().map(bounds).collect()).collect();
        Changed { looked: self, machine, at, runs: Vec::new() }
    }

    fn in_parallel<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> Result<R, AdviseError> + Sync,
    ) -> Result<Vec<R>, AdviseError> {
        let results = in_parallel(items, self.jobs, self.stop, self.progress, work);
        results.into_iter().map(|result| result.unwrap_or(Err(AdviseError::Interrupted))).collect()
    }

    /// What four times a cost does to the choice.
    fn effect(&self, cost: Work, flip: Option<Flip>) -> Result<Effect, AdviseError> {
        let mut dearer = self.with(cost, FACTOR);
        dearer.run(0, 0)?;
        let (before, after) = (&self.before[0].1[0], &dearer.at[0][0].best);
        let relative = |after: f64, before: f64| if before > 0.0 { (after / before - 1.0) * 100.0 } else { 0.0 };
        Ok(Effect {
            cost: cost.name().to_owned(),
            what: cost.what().to_owned(),
            value_ns: self.machine.costs.get(cost).ns,
            p99_pct: relative(after.p99_us, before.p99_us),
            cpu_points: after.cpu_pct - before.cpu_pct,
            flip,
        })
    }
}

/// The same modes with a cost that is changed.
struct Changed<'a> {
    looked: &'a Looked<'a>,
    machine: MachineFile,
    /// As [`Looked::before`].
    at: Vec<Vec<Bounds>>,
    /// Runs with the first seed, by load and place.
    runs: Vec<((usize, usize), Vec<ServerRun>)>,
}

impl Changed<'_> {
    /// The place of the choice. That it is another one has to be seen with every seed.
    fn chosen(&mut self, before: usize) -> Result<usize, AdviseError> {
        loop {
            let chosen = self.by_first_seed(before)?;
            if chosen == before {
                return Ok(chosen);
            }
            let of_both = |(_, place): &(usize, usize)| *place == before || *place == chosen;
            let Some(open) = self.runs.iter().position(|(at, _)| of_both(at)) else { return Ok(chosen) };
            let ((at, place), mut runs) = self.runs.swap_remove(open);
            let (mode, of) = (self.looked.modes[place], self.server(at));
            let (_, others) =
                of.run(&[mode], 2..=self.looked.advice.agreeing.1)?.pop().ok_or(AdviseError::Interrupted)?;
            runs.extend(others);
            let row = of.row(mode, &runs);
            self.at[at][place] = Bounds::known(row);
        }
    }

    /// The same by what the first seed says. As long as several may be chosen one of them is run, at the peak first: it decides more often.
    fn by_first_seed(&mut self, before: usize) -> Result<usize, AdviseError> {
        loop {
            let rows = |of: fn(&Bounds) -> &Predicted, at: usize| -> Vec<Predicted> {
                self.at.get(at).map_or_else(Vec::new, |all| all.iter().map(|bounds| of(bounds).clone()).collect())
            };
            let [best, worst]: [fn(&Bounds) -> &Predicted; 2] = [|bounds| &bounds.best, |bounds| &bounds.worst];
            let worst = (rows(worst, 0), rows(worst, 1));
            let goal = &self.looked.advice.goal;
            let may = may_be_chosen_between(goal, (&rows(best, 0), &rows(best, 1)), (&worst.0, &worst.1));
            let may = if may.is_empty() { (0..worst.0.len()).collect() } else { may };
            if let [only] = may[..] {
                return Ok(only);
            }
            let Some((at, place)) = self.open(before, &may) else { return Ok(self.looked.chosen(&worst.0, &worst.1)) };
            self.run(at, place)?;
        }
    }

    /// What is run next: of the choice before, of those that may be chosen, and where all are held against the lowest p99, of all.
    fn open(&self, before: usize, may: &[usize]) -> Option<(usize, usize)> {
        let Goal { p99_us, cpu_pct } = self.looked.advice.goal;
        let is_relative = p99_us.is_none() && cpu_pct.is_none();
        let others = (0..self.looked.modes.len()).filter(|place| is_relative || may.contains(place));
        let mut places = may.iter().copied().filter(|place| *place == before).chain(others);
        places.find_map(|place| (0..self.at.len()).rev().find(|at| !self.at[*at][place].is_known).map(|at| (at, place)))
    }

    fn run(&mut self, at: usize, place: usize) -> Result<(), AdviseError> {
        if self.at[at][place].is_known {
            return Ok(());
        }
        let of = self.server(at);
        let (mode, runs) = of.run(&[self.looked.modes[place]], 1..=1)?.pop().ok_or(AdviseError::Interrupted)?;
        let row = as_changed(&self.looked.before[at].1[place], &of.row(mode, &runs), &self.machine.known);
        self.at[at][place] = Bounds::known(row);
        if self.looked.advice.agreeing.1 > 1 {
            self.runs.push(((at, place), runs));
        }
        Ok(())
    }

    /// The server at the rate or at the peak.
    fn server(&self, at: usize) -> AtRate<'_> {
        let Looked { advice, before, stop, .. } = self.looked;
        let (machine, workload, rate_rps) = (&self.machine, &advice.workload, before[at].0);
        AtRate { machine, workload, rate_rps, jobs: 1, stop, progress: &|_, _| () }
    }
}

/// A cost in one direction, and between which steps the choice changes.
#[derive(Clone)]
struct Search {
    cost: Work,
    is_above: bool,
    keeps: u32,
    /// And the place of the mode that is chosen then.
    flips: Option<(u32, usize)>,
}

impl Search {
    fn factor(&self, step: u32) -> f64 {
        let by = FACTOR.powf(f64::from(step) / f64::from(STEPS));
        if self.is_above { by } else { 1.0 / by }
    }

    /// The least step that may change the choice.
    fn least(&self) -> u32 {
        if self.flips.is_some() { self.keeps + 1 } else { u32::MAX }
    }

    fn flip(&self, looked: &Looked<'_>) -> Option<Flip> {
        let (step, to) = self.flips?;
        let value_ns = looked.machine.costs.get(self.cost).ns;
        let at_ns = (value_ns as f64 * self.factor(step)).round() as u64;
        Some(Flip { at_ns, is_above: self.is_above, to: looked.modes[to] })
    }
}

/// Tries a step of each of these.
fn try_step(
    looked: &Looked<'_>,
    of: &mut [&mut Search],
    step: impl Fn(&Search) -> u32 + Sync,
) -> Result<(), AdviseError> {
    let before = looked.chosen_before();
    let all: Vec<Search> = of.iter().map(|search| (**search).clone()).collect();
    let chosen =
        looked.in_parallel(&all, |search| looked.with(search.cost, search.factor(step(search))).chosen(before))?;
    for (search, chosen) in of.iter_mut().zip(chosen) {
        let step = step(search);
        if chosen == before {
            search.keeps = step;
        } else {
            search.flips = Some((step, chosen));
        }
    }
    Ok(())
}

/// For every cost in both directions, from where on another mode is chosen, as far as that is needed for the nearest.
fn search(looked: &Looked<'_>) -> Result<Vec<[Search; 2]>, AdviseError> {
    let costs = Work::ALL.iter().copied().filter(|work| !looked.machine.costs.get(*work).is_zero());
    let both = |cost| [true, false].map(|is_above| Search { cost, is_above, keeps: 0, flips: None });
    let mut all: Vec<[Search; 2]> = costs.map(both).collect();
    let flips = |both: &[Search; 2]| both.iter().any(|search| search.flips.is_some());
    for step in TRIED {
        let mut open: Vec<&mut Search> = all.iter_mut().filter(|both| !flips(both)).flatten().collect();
        try_step(looked, &mut open, |_| step)?;
        if all.iter().filter(|both| flips(both)).count() >= TOLD {
            break;
        }
    }
    loop {
        // What is surely farther than as many others as are told of need not be known better.
        let nearest = |both: &[Search; 2]| both.iter().filter_map(|search| search.flips).map(|(step, _)| step).min();
        let mut known: Vec<u32> = all.iter().filter_map(nearest).collect();
        known.sort_unstable();
        let enough = known.get(TOLD - 1).copied().unwrap_or(STEPS);
        let is_open = |search: &&mut Search| {
            search.flips.is_some_and(|(step, _)| step > search.keeps + 1) && search.least() <= enough
        };
        let mut open: Vec<&mut Search> = all.iter_mut().flatten().filter(is_open).collect();
        if open.is_empty() {
            return Ok(all);
        }
        try_step(looked, &mut open, |search| (search.keeps + search.flips.map_or(search.keeps, |(step, _)| step)) / 2)?;
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
    let looked = Looked::new(machine, advice, effort, stop, progress);
    let distance = |flip: &Flip, cost: Work| (flip.at_ns.max(1) as f64 / machine.costs.get(cost).ns as f64).ln().abs();
    let (mut flip, mut keep) = (Vec::new(), Vec::new());
    for both in search(&looked)? {
        let cost = both[0].cost;
        let found = both.iter().filter_map(|search| Some((search.flips?.0, search.flip(&looked)?)));
        match found.min_by_key(|(step, _)| *step) {
            Some((_, nearest)) => flip.push((cost, nearest)),
            None => keep.push(cost),
        }
    }
    flip.sort_by(|(one, at), (other, other_at)| distance(at, *one).total_cmp(&distance(other_at, *other)));
    flip.truncate(TOLD);
    let mut effects = looked.in_parallel(&flip, |(cost, flip)| looked.effect(*cost, Some(*flip)))?;
    if effects.len() < TOLD {
        let mut others = looked.in_parallel(&keep, |cost| looked.effect(*cost, None))?;
        let change = |effect: &Effect| effect.p99_pct.abs().max(effect.cpu_points.abs());
        others.sort_by(|one, other| change(other).total_cmp(&change(one)));
        effects.extend(others);
    }
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
