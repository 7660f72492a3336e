//! What a cost can do to a prediction: between which figures those of a run with it lie, from those of runs without. A run that cannot
//! change the choice whatever it says within them is not made.

use napier_sim::machine::Work;

use super::predict::{BySeed, Predicted};
use crate::machines::KnownError;

/// A change of so small a part of what a core works for is none.
const NO_CHANGE: f64 = 0.005;
/// Work is slower after an interrupt by up to this, so that a cost takes more than it says.
const SLOWER: f64 = 1.3;
/// What follows from it, such as fewer sleeps of a core that works more, takes back at most two thirds of a change of CPU, or adds a half.
const CPU_FOLLOWS: (f64, f64) = (1.0 / 3.0, 1.5);
/// Waits grow and fall at most as the square of those in a queue with one server.
const WAITS_POWER: i32 = 2;
/// A core that works for more of the time may be overloaded.
const FULL_PCT: f64 = 90.0;
/// By what part figures of the same requests differ that no cost explains: p99, at most, and CPU.
const P99_CHANCE: (f64, f64) = (0.03, 0.9);
const CPU_CHANCE: f64 = 0.01;
/// A mode that spins for more takes what is left, whatever work costs.
const SPINS_PCT: f64 = 1.0;

/// Figures of a mode with a cost that is changed.
#[derive(Clone)]
pub(super) struct Bounds {
    pub(super) best: Predicted,
    pub(super) worst: Predicted,
    /// Nothing is left to be run.
    pub(super) is_known: bool,
}

impl Bounds {
    /// Figures that are known.
    pub(super) fn known(row: Predicted) -> Self {
        Self { best: row.clone(), worst: row, is_known: true }
    }

    /// Between which figures a row lies if a cost is `factor` times what it was.
    pub(super) fn of(row: &Predicted, known: &KnownError, cost: Work, factor: f64) -> Self {
        let working_pct = row.working_pct().max(1.0);
        let work_pct = row.work_pct.get(cost as usize).copied();
        let change_pct = work_pct.unwrap_or(working_pct) * (factor - 1.0) * SLOWER;
        let part = change_pct / working_pct;
        if part.abs() < NO_CHANGE {
            return Self::known(row.clone());
        }
        let chance = row.p99_within_pct.map_or(P99_CHANCE.1, |pct| (pct / 100.0).clamp(P99_CHANCE.0, P99_CHANCE.1));
        let way_us = row.way_p99_us;
        let after_pct = (working_pct + change_pct * CPU_FOLLOWS.1).max(0.0);
        let waits_us = |after_pct: f64| {
            let wait = |pct: f64| pct / (100.0 - pct).max(0.1);
            way_us + (row.p99_us - way_us).max(0.0) * (wait(after_pct) / wait(working_pct)).powi(WAITS_POWER)
        };
        // Time until a thread runs, or a core is awake, is nothing that the core works for.
        let is_idle = matches!(cost, Work::Wake | Work::IdleExit | Work::DeepIdleExit) || row.spin_pct > SPINS_PCT;
        let least_pct = row.cpu_pct + if is_idle { 0.0 } else { change_pct * CPU_FOLLOWS.0 };
        let most_pct = (row.cpu_pct + change_pct * CPU_FOLLOWS.1).max(0.0);
        let is_full = working_pct.max(after_pct) >= FULL_PCT;
        let (best, worst) = if change_pct > 0.0 {
            // More work may also mean that a program is busy when a packet comes, and need not be woken.
            let best = figures(row, (row.p99_us / (1.0 + part)).max(way_us), least_pct, row.sustained);
            let p99_us = if is_full { f64::INFINITY } else { waits_us(after_pct) };
            (best, figures(row, p99_us, most_pct.min(row.cpu_pct.max(100.0)), row.sustained && !is_full))
        } else {
            let p99_us = if is_full { way_us } else { waits_us(after_pct) };
            let worst_us = row.p99_us / (1.0 + part.max(-0.9));
            (figures(row, p99_us, most_pct, true), figures(row, worst_us, least_pct, row.sustained))
        };
        let best = by_chance(&best, 1.0 - chance, 1.0 - CPU_CHANCE);
        let worst = by_chance(&worst, 1.0 + chance, 1.0 + CPU_CHANCE);
        let at = [working_pct, after_pct];
        Self { best: ranged(best, known, at, f64::min), worst: ranged(worst, known, at, f64::max), is_known: false }
    }
}

/// A row with other figures.
fn figures(row: &Predicted, p99_us: f64, cpu_pct: f64, sustained: bool) -> Predicted {
    let achieved_rps = match (sustained, row.sustained) {
        (true, false) => row.load_rps as f64,
        (false, true) => 0.0,
        _ => row.achieved_rps,
    };
    let of_seed = |_: &BySeed| BySeed { achieved_rps, sustained, p99_us, cpu_pct };
    Predicted {
        achieved_rps,
        sustained,
        p99_us,
        cpu_pct,
        by_seed: row.by_seed.iter().map(of_seed).collect(),
        ..row.clone()
    }
}

fn by_chance(row: &Predicted, p99: f64, cpu: f64) -> Predicted {
    figures(row, row.p99_us * p99, row.cpu_pct * cpu, row.sustained)
}

/// With ranges of a core that works for one or the other of these, whichever is the lower or the higher.
fn ranged(row: Predicted, known: &KnownError, at_pct: [f64; 2], either: fn(f64, f64) -> f64) -> Predicted {
    let offs = at_pct.map(|pct| known.off(row.mode, pct).unwrap_or_default());
    let range = |of: f64, [one, other]: [Option<(f64, f64)>; 2]| {
        one.zip(other).map(|(one, other)| (of * either(one.0, other.0), of * either(one.1, other.1)))
    };
    let p99_range_us = range(row.p99_us, offs.map(|off| off.p99)).filter(|_| row.p99_us.is_finite());
    let most_pct = row.cpu_pct.max(100.0);
    let cpu_range_pct = range(row.cpu_pct, offs.map(|off| off.cpu)).map(|(low, high)| (low, high.min(most_pct)));
    Predicted { p99_range_us, cpu_range_pct, ..row }
}

/// What runs with every seed would say with a cost that is changed: those without it, and what the cost changes for the requests of the
/// first seed.
pub(super) fn as_changed(before: &Predicted, now: &Predicted, known: &KnownError) -> Predicted {
    let (was, is) = (before.by_seed[0], now.by_seed[0]);
    let times = |before: f64, was: f64, is: f64| {
        let is_measure = was > 0.0 && was.is_finite() && before.is_finite();
        if is_measure { before * (is / was) } else { is }
    };
    let sustained = |before: bool| if is.sustained == was.sustained { before } else { is.sustained };
    let of = |before: &BySeed| BySeed {
        achieved_rps: times(before.achieved_rps, was.achieved_rps, is.achieved_rps),
        sustained: sustained(before.sustained),
        p99_us: times(before.p99_us, was.p99_us, is.p99_us),
        cpu_pct: times(before.cpu_pct, was.cpu_pct, is.cpu_pct),
    };
    let BySeed { achieved_rps, p99_us, cpu_pct, .. } = of(&BySeed {
        achieved_rps: before.achieved_rps,
        sustained: before.sustained,
        p99_us: before.p99_us,
        cpu_pct: before.cpu_pct,
    });
    let all = Predicted {
        achieved_rps,
        sustained: sustained(before.sustained),
        p99_us,
        cpu_pct,
        by_seed: before.by_seed.iter().map(of).collect(),
        ..now.clone()
    };
    all.within(known)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use napier_core::time::Span;

    use super::super::predict::AtRate;
    use super::super::tests::small;
    use super::*;
    use crate::machines::{MachineFile, server_named};
    use crate::modes::Mode;

    fn row(machine: &MachineFile, mode: &str) -> Predicted {
        let ((workload, _), stop) = (small(), AtomicBool::new(false));
        let rate_rps = workload.rate_rps;
        let at = AtRate { machine, workload: &workload, rate_rps, jobs: 1, stop: &stop, progress: &|_, _| () };
        let mode = Mode::parse(mode).expect("a mode");
        let runs = at.run(&[mode], 1..=1).expect("no rule breaks");
        at.row(mode, &runs[0].1)
    }

    #[test]
    fn a_run_with_another_cost_lies_within_its_bounds() {
        let machine = server_named("epyc-7662-cx5").expect("it comes along");
        let suspended = row(&machine, "suspend20");
        let deferred = row(&machine, "defer50");
        for (before, cost, factor) in [
            (&suspended, Work::Answer, 1.5),
            (&suspended, Work::Request, 0.25),
            (&deferred, Work::TimerIrq, 4.0),
            (&deferred, Work::IdleExit, 0.25),
        ] {
            let bounds = Bounds::of(before, &machine.known, cost, factor);
            let mut changed = machine.clone();
            changed.costs.set(cost, Span::from_ns((machine.costs.get(cost).ns as f64 * factor) as u64));
            let now = row(&changed, &before.mode.to_string());
            let is = as_changed(before, &now, &machine.known);
            let alike = |one: f64, other: f64| (one - other).abs() <= 1e-9 * other;
            let of_one_seed =
                alike(is.p99_us, now.p99_us) && alike(is.cpu_pct, now.cpu_pct) && is.sustained == now.sustained;
            assert!(of_one_seed, "one seed is all: {is:?} {now:?}");
            let Bounds { best, worst, is_known } = &bounds;
            assert!(
                !is_known && best.p99_us <= is.p99_us && is.p99_us <= worst.p99_us,
                "{cost:?}: {best:?} {is:?} {worst:?}"
            );
            assert!(best.cpu_pct <= is.cpu_pct && is.cpu_pct <= worst.cpu_pct, "{cost:?}: {best:?} {is:?} {worst:?}");
        }
        // No program is woken up from a busy loop that another context ends, so that nothing pauses.
        let bounds = Bounds::of(&suspended, &machine.known, Work::SpinPause, FACTOR);
        assert!(bounds.is_known && bounds.best == suspended && bounds.worst == suspended);
    }

    const FACTOR: f64 = 4.0;

    #[test]
    fn a_core_that_is_nearly_full_may_be_overloaded_or_not() {
        let machine = server_named("epyc-7662-cx5").expect("it comes along");
        let full = Predicted { cpu_pct: 95.0, work_pct: vec![10.0; Work::ALL.len()], ..row(&machine, "defer50") };
        let dearer = Bounds::of(&full, &machine.known, Work::Answer, 1.2);
        assert!(dearer.best.sustained && !dearer.worst.sustained && dearer.worst.p99_us.is_infinite());
        let cheaper = Bounds::of(&Predicted { sustained: false, ..full }, &machine.known, Work::Answer, 0.8);
        assert!(cheaper.best.sustained && !cheaper.worst.sustained);
        assert!(cheaper.best.p99_us <= cheaper.best.way_p99_us, "{:?}", cheaper.best);
    }
}
