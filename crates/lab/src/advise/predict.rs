//! What a server does in a mode, in virtual time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use napier_core::time::Span;
use napier_sim::machine::Class;
use napier_sim::machine::figures::{self, Experiment, Figures, Length, Setting};
use serde::Serialize;

use super::{AdviseError, Effort, Workload};
use crate::loads::Load;
use crate::machines::{KnownError, MachineFile, clients_of, core_of, fullest_queue, queue_connections};
use crate::modes::Mode;
use crate::parallel::in_parallel;

/// What is swept if no modes are given: every mode of a server that waits in an event context, and their time-outs.
pub const MODES: &str = "base,defer10,defer20,defer50,defer100,defer200,napibusy,fullbusy,suspend0,suspend10,suspend20,\
                         suspend50,suspend100,suspend200,threaded,threaded-busy-poll";

/// Points of a distribution of service times.
const POINTS: usize = 4096;
/// Requests of one run, so that 99 % of them is a figure.
pub(crate) const REQUESTS: u64 = 20_000;
/// Queues that are simulated of a server with more.
const LOOKED_AT: u16 = 4;
/// Bounds of a run's length.
const LENGTH_MS: (u64, u64) = (20, 2_000);
/// Nothing counts before.
const WARM_UP: Span = Span::from_ms(20);
/// A load is sustained that is answered to this share, less what chance takes from so many requests at random times.
const SUSTAINED: f64 = 0.99;
/// A core that works for more of the time has nothing left.
const WORKING_MAX: f64 = 0.995;
/// A recording is taken as it is if the rate is off by no more.
const ALIKE: f64 = 0.01;
/// Chance: so many standard deviations.
const DEVIATIONS: f64 = 3.0;

/// The modes of [`MODES`] for which there are CPUs.
#[must_use]
pub fn swept(workload: &Workload) -> Vec<Mode> {
    let all = Mode::parse_list(MODES).expect("a constant list");
    let (queues, cpus) = (workload.queues.into(), workload.cpus.into());
    all.into_iter().filter(|mode| mode.server_cpus(queues) <= cpus).collect()
}

/// How long a run is.
#[derive(Copy, Clone, Debug)]
pub enum Extent {
    /// About so many requests, within bounds; the closed loop takes the shortest time.
    Requests(u64),
    /// So long, within the same bounds.
    Time(Span),
}

impl Extent {
    fn measured(self, queue_rps: Option<u64>) -> Span {
        let ms = match (self, queue_rps) {
            (Self::Requests(requests), Some(rate_rps)) => requests * 1000 / rate_rps,
            (Self::Requests(_), None) => 0,
            (Self::Time(span), _) => span.ns / 1_000_000,
        };
        Span::from_ms(ms.clamp(LENGTH_MS.0, LENGTH_MS.1))
    }
}

/// Why a mode is not simulated; `None` if it is.
#[must_use]
pub fn why_not(mode: Mode) -> Option<String> {
    (!mode.is_simulated())
        .then(|| format!("{mode} is no mode of a server that waits in an event context, and no other is simulated"))
}

/// A run of a queue and what belongs to it: a mode at a load over all queues. `None`: it was told to stop.
#[must_use]
pub fn simulate(
    machine: &MachineFile,
    workload: &Workload,
    load: Load,
    mode: Mode,
    seed: u64,
    extent: Extent,
    stop: &AtomicBool,
) -> Option<Figures> {
    let queues = u64::from(workload.queues);
    let load_of_queue = match load {
        Load::Max => Load::Max,
        Load::Rps(rate_rps) => Load::Rps((rate_rps / queues).max(1)),
    };
    let queue = OfQueue { connections: (workload.connections / workload.queues).max(1), load: load_of_queue };
    simulate_queue(machine, (workload, load), queue, mode, seed, extent, stop)
}

/// What comes to a queue.
#[derive(Copy, Clone, PartialEq, Debug)]
struct OfQueue {
    connections: u16,
    load: Load,
}

impl OfQueue {
    fn rps(self) -> Option<u64> {
        if let Load::Rps(rate_rps) = self.load { Some(rate_rps) } else { None }
    }
}

/// Queues that stand for all that a server has at a rate over all of them, from the emptiest to the fullest; and beside them the
/// fullest of all, which says whether the server keeps up.
fn queues_of(workload: &Workload, rate_rps: u64) -> (Vec<OfQueue>, Option<OfQueue>) {
    let Workload { queues, connections, .. } = *workload;
    let of = |connections: u16, rps: u64| OfQueue { connections, load: Load::Rps(rps.max(1)) };
    if queues == 1 || workload.recorded.is_some() {
        // What was recorded says by itself which connections have how much.
        return (vec![of((connections / queues).max(1), rate_rps / u64::from(queues))], None);
    }
    let all = queue_connections(connections, queues, queues.min(LOOKED_AT));
    let of_all = all.iter().copied().map(u64::from).sum::<u64>() * u64::from(queues);
    let looked_at = all.iter().map(|own| of(*own, rate_rps * u64::from(*own) * all.len() as u64 / of_all));
    let fullest = fullest_queue(connections, queues);
    let most_rps = rate_rps * u64::from(fullest) / u64::from(connections);
    (looked_at.collect(), Some(of(fullest, most_rps)))
}

/// A run of a queue; the load of the whole server says how much faster a recording is.
fn simulate_queue(
    machine: &MachineFile,
    (workload, load): (&Workload, Load),
    queue: OfQueue,
    mode: Mode,
    seed: u64,
    extent: Extent,
    stop: &AtomicBool,
) -> Option<Figures> {
    let service_ns: Arc<[u64]> = workload.service.as_ref().map_or_else(Vec::new, |it| it.points_ns(POINTS)).into();
    let core = core_of(machine, mode, service_ns);
    let clients = clients_of(machine, queue.connections, queue.load);
    let length = Length { warm_up: WARM_UP, measured: extent.measured(queue.rps()) };
    let setting = match (&workload.recorded, load) {
        (Some(recorded), Load::Rps(rate_rps)) => {
            // Each run has another of the queues.
            let mut own = recorded.of_queue(seed as usize, workload.queues.into());
            let factor = rate_rps as f64 / recorded.rate_rps();
            if (factor - 1.0).abs() > ALIKE {
                own = own.faster(factor);
            }
            Setting::Replayed(core, clients, Arc::new(own))
        }
        (Some(_) | None, _) => Setting::Server(core, clients),
    };
    figures::run_or_stop(&Experiment { setting, length, seed }, stop)
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
    /// By seed, in order.
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
    /// The same as one seed has it.
    pub(super) fn of_seed(&self, seed: usize) -> Self {
        let one = self.by_seed[seed];
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

/// Whether runs of a queue answer what `queue_rps` asks for, with something left: a core that works all the time and does not even spin
/// keeps a queue that grows, however short a run is.
pub(crate) fn is_sustained<'a>(runs: impl Iterator<Item = &'a Figures> + Clone, queue_rps: f64) -> bool {
    let sum = |of: &dyn Fn(&Figures) -> u64| runs.clone().map(of).sum::<u64>() as f64;
    let ns = sum(&|run| run.measured.ns);
    // Recorded requests do not come by chance.
    let due: f64 =
        runs.clone().map(|run| run.due.map_or(queue_rps * run.measured.ns as f64 / 1e9, |due| due as f64)).sum();
    let working_ns = sum(&|run| run.program.busy().ns - run.program.of(Class::Spin).ns);
    sum(&|run| run.answered) >= due * SUSTAINED - due.sqrt() * DEVIATIONS && working_ns < ns * WORKING_MAX
}

/// Every mode at the workload's rate, and at its peak; without a peak those are none. As many as were done when it was told to stop.
pub(super) fn at_rate_and_peak(
    machine: &MachineFile,
    workload: &Workload,
    modes: &[Mode],
    effort: Effort,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<(Vec<Predicted>, Vec<Predicted>), AdviseError> {
    let at = |rate_rps| predict(machine, workload, rate_rps, modes, effort, stop, progress);
    Ok((at(workload.rate_rps)?, workload.peak_rps.map_or(Ok(Vec::new()), at)?))
}

/// Every mode at a rate over all queues, in order, or as many as were done when it was told to stop; queues and what belongs to them are
/// simulated.
pub(super) fn predict(
    machine: &MachineFile,
    workload: &Workload,
    rate_rps: u64,
    modes: &[Mode],
    effort: Effort,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Predicted>, AdviseError> {
    let seeds = u64::from(effort.seeds);
    let (mut queues, fullest) = queues_of(workload, rate_rps);
    let looked_at = queues.len();
    queues.extend(fullest);
    // All queues for as long, or the emptier ones would count for more.
    let of_mean = Some((rate_rps / u64::from(workload.queues)).max(1));
    let extent = Extent::Time(Extent::Requests(REQUESTS / looked_at as u64).measured(of_mean));
    let of_seed = |mode: Mode, seed: u64| {
        let own = (0..).map(move |nth: u64| seed + (nth << 32)); // chance of its own
        own.zip(queues.iter().copied()).map(move |(seed, queue)| (mode, seed, queue))
    };
    let of_mode = |mode: &Mode| (1..=seeds).flat_map(|seed| of_seed(*mode, seed)).collect::<Vec<_>>();
    let runs: Vec<(Mode, u64, OfQueue)> = modes.iter().flat_map(of_mode).collect();
    let one = |(mode, seed, queue): &(Mode, u64, OfQueue)| {
        simulate_queue(machine, (workload, Load::Rps(rate_rps)), *queue, *mode, *seed, extent, stop)
    };
    let results: Vec<Option<Figures>> =
        in_parallel(&runs, effort.jobs, stop, progress, one).into_iter().map(Option::flatten).collect();
    let mut rows = Vec::with_capacity(modes.len());
    for (mode, runs) in modes.iter().zip(results.chunks(queues.len() * usize::from(effort.seeds))) {
        let runs: Option<Vec<&Figures>> = runs.iter().map(Option::as_ref).collect();
        let Some(runs) = runs else { break };
        if let Some(why) = runs.iter().find_map(|run| run.broken.clone()) {
            return Err(AdviseError::Broken { mode: *mode, why });
        }
        let ran = RanQueues { queues: &queues, looked_at, of: workload.queues, runs: &runs };
        rows.push(together(*mode, rate_rps, &ran, &machine.known));
    }
    if rows.is_empty() { Err(AdviseError::Interrupted) } else { Ok(rows) }
}

/// What a run of a queue says, over so many queues. Latencies count from when a request was due.
#[expect(missing_docs, reason = "the unit stands last in the name")]
pub struct Ran {
    pub achieved_rps: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub cpu_pct: f64,
}

impl Ran {
    /// Of a run of one queue.
    #[must_use]
    pub fn of(run: &Figures, queues: u16) -> Self {
        Self::of_all(&[run], queues)
    }

    /// Of runs of queues that stand for all.
    fn of_all(runs: &[&Figures], queues: u16) -> Self {
        let mut latency: Vec<u64> = runs.iter().flat_map(|run| run.from_due_ns.iter().copied()).collect();
        latency.sort_unstable();
        let ns = runs.iter().map(|run| run.measured.ns).sum::<u64>() as f64;
        let sum = |of: &dyn Fn(&Figures) -> u64| runs.iter().map(|run| of(run)).sum::<u64>() as f64;
        Self {
            achieved_rps: sum(&|run| run.answered) * 1e9 / ns * f64::from(queues),
            p50_us: percentile_us(&latency, 50),
            p99_us: percentile_us(&latency, 99),
            cpu_pct: sum(&|run| run.account.busy().ns) * 100.0 / ns,
        }
    }
}

/// Runs of a mode: of each seed those of the queues, one after the other.
struct RanQueues<'a> {
    queues: &'a [OfQueue],
    /// So many of them stand for all; what is behind them is the fullest.
    looked_at: usize,
    /// Queues of the server.
    of: u16,
    runs: &'a [&'a Figures],
}

impl RanQueues<'_> {
    /// Whether every queue keeps up, by the runs of some seeds.
    fn are_sustained(&self, runs: &[&Figures]) -> bool {
        let of = |nth: usize| runs.iter().copied().skip(nth).step_by(self.queues.len());
        let rps = |queue: &OfQueue| queue.rps().unwrap_or(0) as f64;
        self.queues.iter().enumerate().all(|(nth, queue)| is_sustained(of(nth), rps(queue)))
    }

    fn by_seed(&self) -> Vec<BySeed> {
        let of_seed = |runs: &[&Figures]| {
            let Ran { achieved_rps, p99_us, cpu_pct, .. } = Ran::of_all(&runs[..self.looked_at], self.of);
            BySeed { achieved_rps, sustained: self.are_sustained(runs), p99_us, cpu_pct }
        };
        self.runs.chunks(self.queues.len()).map(of_seed).collect()
    }
}

fn together(mode: Mode, load_rps: u64, ran: &RanQueues<'_>, known: &KnownError) -> Predicted {
    let queues = ran.of;
    let runs: Vec<&Figures> =
        ran.runs.chunks(ran.queues.len()).flat_map(|all| &all[..ran.looked_at]).copied().collect();
    let sorted = |of: &dyn Fn(&Figures) -> Vec<u64>| {
        let mut all: Vec<u64> = runs.iter().flat_map(|run| of(run)).collect();
        all.sort_unstable();
        all
    };
    let latency = sorted(&|run| run.from_due_ns.clone());
    let way = sorted(&|run| run.way_ns.clone());
    let server =
        sorted(&|run| run.from_due_ns.iter().zip(&run.way_ns).map(|(all, way)| all.saturating_sub(*way)).collect());
    let ns: f64 = runs.iter().map(|run| run.measured.ns as f64).sum();
    let sum = |of: &dyn Fn(&Figures) -> u64| runs.iter().map(|run| of(run)).sum::<u64>() as f64;
    let achieved_rps = sum(&|run| run.answered) * 1e9 / ns * f64::from(queues);
    let cpu_pct = sum(&|run| run.account.busy().ns) * 100.0 / ns;
    let spin_pct = sum(&|run| run.account.of(Class::Spin).ns) * 100.0 / ns;
    let p99_us = percentile_us(&latency, 99);
    let off = known.off(mode, cpu_pct - spin_pct).unwrap_or_default();
    let range = |of: f64, span: Option<(f64, f64)>| span.map(|(low, high)| (of * low, of * high));
    Predicted {
        mode,
        load_rps,
        achieved_rps,
        sustained: ran.are_sustained(ran.runs),
        p50_us: percentile_us(&latency, 50),
        p95_us: percentile_us(&latency, 95),
        p99_us,
        cpu_pct,
        spin_pct,
        lost_per_s: sum(&|run| run.lost) * 1e9 / ns * f64::from(queues),
        server_p99_us: percentile_us(&server, 99),
        way_p99_us: percentile_us(&way, 99),
        p99_range_us: range(p99_us, off.p99).filter(|_| p99_us.is_finite()),
        // A CPU has no more time than all of it.
        cpu_range_pct: range(cpu_pct, off.cpu).map(|(low, high)| (low, high.min(cpu_pct.max(100.0)))),
        interrupts_per_s: sum(&|run| run.interrupts) * 1e9 / ns * f64::from(queues),
        by_seed: ran.by_seed(),
    }
}

/// Of latencies in order; without any it is endless, for nothing was answered.
#[must_use]
pub fn percentile_us(sorted_ns: &[u64], percent: usize) -> f64 {
    sorted_ns.get(sorted_ns.len() * percent / 100).map_or(f64::INFINITY, |ns| *ns as f64 / 1000.0)
}
