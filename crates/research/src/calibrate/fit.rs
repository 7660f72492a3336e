//! The search: one figure after the other is made larger and smaller, and what comes nearer is kept.

use std::sync::atomic::AtomicBool;

use super::{Depth, Determined, FITTED, Figure, Observed, Settled};
use napier_lab::advise::{Extent, Ran, ServerRun, Workload, simulate};
use napier_lab::loads::Load;
use napier_lab::machines::{ErrorRows, KnownError, MachineFile, percent, root_mean_square};
use napier_lab::parallel::in_parallel;

/// The first step of a figure is this factor, and each that finds nothing takes its root, until it is too small to matter.
const FIRST_STEP: f64 = 2.0;
const LAST_STEP: f64 = 1.06;
/// CPU below so much counts as so much: it is noise.
const CPU_LEAST_PCT: f64 = 2.0;
/// p99 counts half: the machine's own pauses are in it.
const WEIGHT_P99: f64 = 0.5;

/// It was told to stop.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted;

/// A row, measured and predicted.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// Measured.
    pub measured: Observed,
    /// Predicted.
    pub predicted: Observed,
}

impl Seen {
    /// Squared logarithms of predicted / measured, with their weights.
    fn errors(&self) -> Vec<(f64, f64)> {
        let (measured, predicted) = (&self.measured, &self.predicted);
        let ln = |one: f64, other: f64| (one.max(1e-3) / other.max(1e-3)).ln();
        let cpu = ln(predicted.cpu_pct.max(CPU_LEAST_PCT), measured.cpu_pct.max(CPU_LEAST_PCT));
        if measured.load == Load::Max {
            return vec![(ln(predicted.achieved_rps, measured.achieved_rps), 2.0)];
        }
        if !measured.is_sustained() {
            // The length of a queue that grows says nothing of a machine.
            return vec![(ln(predicted.achieved_rps, measured.achieved_rps), 1.0)];
        }
        vec![
            (cpu, 1.0),
            (ln(predicted.p50_us, measured.p50_us), 1.0),
            (ln(predicted.p99_us, measured.p99_us), if measured.tail_counts { WEIGHT_P99 } else { 0.0 }),
        ]
    }
}

/// Root of the weighted mean square of `ln(predicted / measured)`.
fn error(seen: &[Seen]) -> f64 {
    error_of(seen).unwrap_or(0.0)
}

fn error_of(seen: &[Seen]) -> Option<f64> {
    root_mean_square(&seen.iter().flat_map(Seen::errors).collect::<Vec<_>>())
}

/// How far a machine is off, by rows that it was fitted to and others: what is known of its predictions is what the others say, and of
/// what is left if there are none.
pub(super) fn known(fitted: &[Seen], held_back: &[Seen]) -> KnownError {
    let mut rows = ErrorRows::default();
    for seen in if held_back.is_empty() { fitted } else { held_back } {
        let Seen { measured, predicted } = seen;
        if measured.is_sustained() && measured.load != Load::Max {
            let p99 = measured.tail_counts.then_some(measured.p99_us / predicted.p99_us);
            rows.add(
                "all",
                measured.load,
                p99,
                measured.cpu_pct.max(CPU_LEAST_PCT) / predicted.cpu_pct.max(CPU_LEAST_PCT),
            );
        }
    }
    rows.known(error_of(fitted).map(percent), error_of(held_back).map(percent))
}

pub(super) struct Fitter<'a> {
    pub(super) workload: &'a Workload,
    pub(super) rows: &'a [Observed],
    /// What is not fitted, for it was measured.
    pub(super) settled: Option<Settled>,
    pub(super) depth: Depth,
    pub(super) jobs: usize,
    pub(super) stop: &'a AtomicBool,
}

impl Fitter<'_> {
    /// Rows as a machine has them.
    pub(super) fn look(&self, machine: &MachineFile, rows: &[Observed]) -> Result<Vec<Seen>, Interrupted> {
        let mut all = self.look_at_all(std::slice::from_ref(machine), rows)?;
        Ok(all.pop().expect("one machine"))
    }

    fn look_at_all(&self, machines: &[MachineFile], rows: &[Observed]) -> Result<Vec<Vec<Seen>>, Interrupted> {
        let runs: Vec<(&MachineFile, &Observed)> =
            machines.iter().flat_map(|machine| rows.iter().map(move |row| (machine, row))).collect();
        let seen = in_parallel(&runs, self.jobs, self.stop, &|_, _| (), |(machine, row)| {
            let extent = Extent::Requests(self.depth.requests);
            let run = simulate(machine, self.workload, row.load, row.mode, 1, extent, self.stop)?;
            Some(Seen { measured: (*row).clone(), predicted: observed(row, self.workload, &run) })
        });
        let seen: Option<Vec<Seen>> = seen.into_iter().map(Option::flatten).collect();
        let seen = seen.ok_or(Interrupted)?;
        if rows.is_empty() {
            return Ok(vec![Vec::new(); machines.len()]);
        }
        Ok(seen.chunks(rows.len()).map(<[Seen]>::to_vec).collect())
    }

    fn errors(&self, machines: &[MachineFile]) -> Result<Vec<f64>, Interrupted> {
        Ok(self.look_at_all(machines, self.rows)?.iter().map(|seen| error(seen)).collect())
    }

    /// The fitted machine, its error in percent, and how well each figure is determined.
    pub(super) fn fit(
        &self,
        start: &MachineFile,
        progress: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<(MachineFile, f64, Vec<Determined>), Interrupted> {
        let mut machine = self.settle(start.clone());
        let mut best = self.errors(std::slice::from_ref(&machine))?[0];
        let figures: Vec<_> = FITTED.iter().filter(|(figure, ..)| !self.is_settled(*figure)).collect();
        let mut steps = vec![FIRST_STEP; figures.len()];
        let rounds = self.depth.rounds;
        let all = rounds * figures.len();
        for round in 0..rounds {
            for (at, figure) in figures.iter().copied().enumerate() {
                progress(round * figures.len() + at, all);
                if steps[at] < LAST_STEP {
                    continue;
                }
                let tried = [self.scaled(&machine, figure, steps[at]), self.scaled(&machine, figure, 1.0 / steps[at])];
                let mut errors = self.errors(&tried)?;
                for (error, tried) in errors.iter_mut().zip(&tried) {
                    if self.over_ns(tried) > self.over_ns(&machine) {
                        *error = f64::INFINITY;
                    }
                }
                let nearer = usize::from(errors[1] < errors[0]);
                if errors[nearer] < best {
                    best = errors[nearer];
                    machine = tried.into_iter().nth(nearer).expect("one of two");
                } else {
                    steps[at] = steps[at].sqrt();
                }
            }
        }
        progress(all, all);
        let determined =
            figures.into_iter().map(|figure| self.determined(&machine, figure)).collect::<Result<_, _>>()?;
        Ok((machine, percent(best), determined))
    }

    fn determined(&self, machine: &MachineFile, figure: &(Figure, u64, u64)) -> Result<Determined, Interrupted> {
        let errors = self.errors(&[self.scaled(machine, figure, 0.5), self.scaled(machine, figure, 2.0)])?;
        Ok(Determined {
            name: figure.0.name(),
            value_ns: figure.0.get(machine),
            error_if_half_pct: percent(errors[0]),
            error_if_double_pct: percent(errors[1]),
        })
    }

    fn is_settled(&self, figure: Figure) -> bool {
        self.settled.is_some() && Settled::WORKS.iter().any(|work| figure == Figure::Cost(*work))
    }

    /// By how much the figures of a machine exceed what was measured of them together.
    fn over_ns(&self, machine: &MachineFile) -> u64 {
        self.settled.as_ref().map_or(0, |settled| settled.over_ns(machine))
    }

    /// The same with what was measured beside.
    fn settle(&self, mut machine: MachineFile) -> MachineFile {
        if let Some(settled) = &self.settled {
            settled.put_into(&mut machine);
        }
        machine
    }

    /// A machine with a figure times a factor, within its bounds.
    fn scaled(&self, machine: &MachineFile, (figure, least, most): &(Figure, u64, u64), factor: f64) -> MachineFile {
        let mut machine = machine.clone();
        let ns = (figure.get(&machine).max(1) as f64 * factor).round() as u64;
        figure.set(&mut machine, ns.clamp(*least, *most));
        self.settle(machine)
    }
}

fn observed(row: &Observed, workload: &Workload, run: &ServerRun) -> Observed {
    let Ran { achieved_rps, p50_us, p99_us, cpu_pct, .. } = Ran::of(run.queues(), workload.queues);
    Observed { mode: row.mode, load: row.load, achieved_rps, p50_us, p99_us, cpu_pct, tail_counts: true }
}
