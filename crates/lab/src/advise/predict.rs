//! What a server does in a mode, in virtual time.

use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;

use napier_sim::machine::figures::Figures;
use napier_sim::machine::{Class, Work};
use serde::Serialize;

use super::chance::p99_within_pct;
use super::choose::may_be_chosen;
use super::queues::{Extent, OfQueue, Queues, Ran, ServerRun, seed_of, select_us, simulate_queue};
use super::{AdviseError, Effort, Goal, Workload};
use crate::loads::Load;
use crate::machines::{KnownError, MachineFile};
use crate::modes::Mode;
use crate::parallel::in_parallel;

/// What is swept if no modes are given: every mode of a server that waits in an event context, and their time-outs.
pub const MODES: &str = "base,defer10,defer20,defer50,defer100,defer200,napibusy,fullbusy,suspend0,suspend10,suspend20,\
                         suspend50,suspend100,suspend200,threaded,threaded-busy-poll";

/// Requests of one run, so that 99 % of them is a figure.
pub(crate) const REQUESTS: u64 = 20_000;

/// The modes of [`MODES`] for which there are CPUs.
#[must_use]
pub fn swept(workload: &Workload) -> Vec<Mode> {
    let all = Mode::parse_list(MODES).expect("a constant list");
    let (queues, cpus) = (workload.queues.into(), workload.cpus.into());
    all.into_iter().filter(|mode| mode.server_cpus(queues) <= cpus).collect()
}

/// Why a mode is not simulated; `None` if it is.
#[must_use]
pub fn why_not(mode: Mode) -> Option<String> {
    (!mode.is_simulated())
        .then(|| format!("{mode} is no mode of a server that waits in an event context, and no other is simulated"))
}

/// A mode at a rate. Latencies count from when a request was due; with several seeds they are of all requests together.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "the unit stands last in the name; docs/json.md describes them")]
pub struct Predicted {
    #[serde(serialize_with = "crate::advise::json::as_text")]
    pub mode: Mode,
    pub load_rps: u64,
    pub achieved_rps: f64,
    pub sustained: bool,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    /// Half of the interval that has p99 in 95 of 100 cases as far as chance goes, in percent of it; null: nothing says so.
    pub p99_within_pct: Option<f64>,
    /// Of one CPU per queue; a thread that polls for ever has another one, so that up to 200 is possible.
    pub cpu_pct: f64,
    pub spin_pct: f64,
    pub interrupts_per_s: f64,
    /// Requests that find the server's ring full, and are sent again.
    pub lost_per_s: f64,
    /// The same percentile of what a request takes without the way there and back and the client's machine.
    pub server_p99_us: f64,
    /// And of that way alone: no mode is below.
    pub way_p99_us: f64,
    /// From where to where p99 may be, as far as predictions on this machine were off; null: nothing says so.
    pub p99_range_us: Option<(f64, f64)>,
    /// The same of CPU.
    pub cpu_range_pct: Option<(f64, f64)>,
    /// What each kind of work takes at a CPU's full speed, in the order of [`Work::ALL`], as [`Self::cpu_pct`]; empty: nothing says so.
    #[serde(skip)]
    pub work_pct: Vec<f64>,
    /// By seed, in order: at least one.
    pub by_seed: Vec<BySeed>,
}

/// What one run says.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "as in `Predicted`, under the same names")]
pub struct BySeed {
    pub achieved_rps: f64,
    pub sustained: bool,
    pub p99_us: f64,
    pub cpu_pct: f64,
}

impl Predicted {
    /// The same with ranges: how far predictions of the mode were off, on a core that works for as much of the time.
    #[must_use]
    pub fn within(self, known: &KnownError) -> Self {
        let off = known.off(self.mode, self.working_pct()).unwrap_or_default();
        let range = |of: f64, span: Option<(f64, f64)>| span.map(|(low, high)| (of * low, of * high));
        let p99_range_us = range(self.p99_us, off.p99).filter(|_| self.p99_us.is_finite());
        // A CPU has no more time than all of it.
        let most_pct = self.cpu_pct.max(100.0);
        let cpu_range_pct = range(self.cpu_pct, off.cpu).map(|(low, high)| (low, high.min(most_pct)));
        Self { p99_range_us, cpu_range_pct, ..self }
    }

    /// CPU without what polls that find nothing take.
    pub(super) fn working_pct(&self) -> f64 {
        self.cpu_pct - self.spin_pct
    }

    /// The same as one seed has it; a row with fewer seeds has its last one for the others.
    pub(super) fn of_seed(&self, seed: usize) -> Self {
        let one = self.by_seed[seed.min(self.by_seed.len() - 1)];
        let times = |range: Option<(f64, f64)>, of: f64, was: f64| {
            range.filter(|_| was > 0.0 && was.is_finite()).map(|(low, high)| (low * of / was, high * of / was))
        };
        Self {
            p99_range_us: times(self.p99_range_us, one.p99_us, self.p99_us),
            cpu_range_pct: times(self.cpu_range_pct, one.cpu_pct, self.cpu_pct),
            sustained: one.sustained,
            achieved_rps: one.achieved_rps,
            p99_us: one.p99_us,
            cpu_pct: one.cpu_pct,
            by_seed: vec![one],
            ..self.clone()
        }
    }
}

/// Every mode at the workload's rate, and at its peak; without a peak those are none. As many as were done when it was told to stop.
///
/// Each mode is run once, and those that may be chosen then are run with the other seeds ([`may_be_chosen`]).
pub(super) fn at_rate_and_peak(
    machine: &MachineFile,
    (workload, goal): (&Workload, &Goal),
    modes: &[Mode],
    effort: Effort,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<(Vec<Predicted>, Vec<Predicted>), AdviseError> {
    let at = |rate_rps| AtRate { machine, workload, rate_rps, jobs: effort.jobs, stop, progress };
    let rates: Vec<AtRate<'_>> = [Some(workload.rate_rps), workload.peak_rps].into_iter().flatten().map(at).collect();
    let mut all = Vec::with_capacity(rates.len());
    for at in &rates {
        all.push(at.run(modes, 1..=1)?);
    }
    let rows = |all: &[Vec<ModeRuns>]| -> Vec<Vec<Predicted>> {
        rates.iter().zip(all).map(|(at, of)| of.iter().map(|(mode, runs)| at.row(*mode, runs)).collect()).collect()
    };
    let first = rows(&all);
    if first.iter().any(Vec::is_empty) {
        return Err(AdviseError::Interrupted);
    }
    let at_both = first.iter().map(Vec::len).min().unwrap_or(0);
    let at_peak = first.get(1).map_or(&[][..], |rows| &rows[..at_both]);
    let open: Vec<Mode> = may_be_chosen(goal, &first[0][..at_both], at_peak);
    for (at, known) in rates.iter().zip(&mut all) {
        for (mode, more) in at.run(&open, 2..=effort.seeds)? {
            let of_mode = known.iter_mut().find(|(known, _)| *known == mode);
            of_mode.expect("it was run before").1.extend(more);
        }
    }
    let mut rows = rows(&all).into_iter();
    Ok((rows.next().unwrap_or_default(), rows.next().unwrap_or_default()))
}

/// A mode and its runs, by seed.
type ModeRuns = (Mode, Vec<ServerRun>);

/// A server at a rate over all queues.
pub(super) struct AtRate<'a> {
    pub(super) machine: &'a MachineFile,
    pub(super) workload: &'a Workload,
    pub(super) rate_rps: u64,
    pub(super) jobs: usize,
    pub(super) stop: &'a AtomicBool,
    pub(super) progress: &'a (dyn Fn(usize, usize) + Sync),
}

impl AtRate<'_> {
    /// Runs modes with these seeds, in order; as many as were done when it was told to stop. Queues and what belongs to them are
    /// simulated.
    pub(super) fn run(&self, modes: &[Mode], seeds: RangeInclusive<u16>) -> Result<Vec<ModeRuns>, AdviseError> {
        let &Self { machine, workload, rate_rps, jobs, stop, progress } = self;
        let load = Load::Rps(rate_rps);
        let queues = Queues::of(workload, load);
        let extent = Extent::Requests(REQUESTS).of_each(workload, load, queues.looked_at.len());
        let of_seed = |mode: Mode, seed: u64| {
            queues.iter().enumerate().map(move |(nth, queue)| (mode, seed_of(seed, nth), queue))
        };
        let of_mode = |mode: &Mode| seeds.clone().flat_map(|seed| of_seed(*mode, seed.into())).collect::<Vec<_>>();
        let runs: Vec<(Mode, u64, OfQueue)> = modes.iter().flat_map(of_mode).collect();
        let one = |(mode, seed, queue): &(Mode, u64, OfQueue)| {
            simulate_queue(machine, (workload, load), *queue, *mode, *seed, extent, stop)
        };
        let results: Vec<Option<Figures>> =
            in_parallel(&runs, jobs, stop, progress, one).into_iter().map(Option::flatten).collect();
        let mut results = results.into_iter();
        let mut done = Vec::with_capacity(modes.len());
        for mode in modes {
            let of_seed = |_| {
                let runs = results.by_ref().take(queues.iter().count());
                runs.collect::<Option<Vec<Figures>>>().map(|runs| ServerRun::of(queues.clone(), runs))
            };
            let runs: Option<Vec<ServerRun>> = seeds.clone().map(of_seed).collect();
            let Some(runs) = runs else { break };
            if let Some(why) = runs.iter().find_map(ServerRun::broken) {
                return Err(AdviseError::Broken { mode: *mode, why });
            }
            done.push((*mode, runs));
        }
        Ok(done)
    }

    /// What the runs of a mode say together.
    pub(super) fn row(&self, mode: Mode, runs: &[ServerRun]) -> Predicted {
        together(mode, self.rate_rps, self.workload.queues, runs, &self.machine.known)
    }
}

/// What one run of a server with so many queues says.
fn by_seed(run: &ServerRun, queues: u16) -> BySeed {
    let Ran { achieved_rps, p99_us, cpu_pct, .. } = Ran::of(run.queues(), queues);
    BySeed { achieved_rps, sustained: ServerRun::keep_up(std::slice::from_ref(run)), p99_us, cpu_pct }
}

/// What runs of a server with so many queues say, one for each seed.
fn together(mode: Mode, load_rps: u64, queues: u16, all: &[ServerRun], known: &KnownError) -> Predicted {
    let runs: Vec<&Figures> = all.iter().flat_map(ServerRun::queues).collect();
    let mut way: Vec<u64> = runs.iter().flat_map(|run| run.way_ns.iter().copied()).collect();
    let of_server = |run: &&Figures| -> Vec<u64> {
        run.from_due_ns.iter().zip(&run.way_ns).map(|(all, way)| all.saturating_sub(*way)).collect()
    };
    let mut server: Vec<u64> = runs.iter().flat_map(of_server).collect();
    let ns: f64 = runs.iter().map(|run| run.measured.ns as f64).sum();
    let sum = |of: &dyn Fn(&Figures) -> u64| runs.iter().map(|run| of(run)).sum::<u64>() as f64;
    let Ran { achieved_rps, p50_us, p95_us, p99_us, cpu_pct } = Ran::of(runs.iter().copied(), queues);
    let spin_pct = sum(&|run| run.account.of(Class::Spin).ns) * 100.0 / ns;
    let row = Predicted {
        mode,
        load_rps,
        achieved_rps,
        sustained: ServerRun::keep_up(all),
        p50_us,
        p95_us,
        p99_us,
        p99_within_pct: p99_within_pct(&runs, |run| &run.from_due_ns),
        cpu_pct,
        spin_pct,
        lost_per_s: sum(&|run| run.lost) * 1e9 / ns * f64::from(queues),
        server_p99_us: select_us(&mut server, 99),
        way_p99_us: select_us(&mut way, 99),
        p99_range_us: None,
        cpu_range_pct: None,
        work_pct: Work::ALL.iter().map(|work| sum(&|run| run.works.get(*work).ns) * 100.0 / ns).collect(),
        interrupts_per_s: sum(&|run| run.interrupts) * 1e9 / ns * f64::from(queues),
        by_seed: all.iter().map(|run| by_seed(run, queues)).collect(),
    };
    row.within(known)
}
