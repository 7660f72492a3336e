//! Runs the cells of a plan, several at a time; what comes out does not depend on how many.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::group::Settings;
use napier_core::sockopt::SocketBusy;
use napier_core::time::Span;
use napier_lab::loads::Load;
use napier_lab::machines::{MachineFile, clients_of, core_of, points_ns, queue_connections};
use napier_lab::modes::Mode;
use napier_lab::parallel::in_parallel;
use napier_sim::machine::bulk::{Flows, Polls};
use napier_sim::machine::figures::{self, Experiment, Figures, Setting};
use napier_sim::machine::rpc::{Hosts, RpcPoller, RpcProgram, Traffic};
use napier_sim::machine::smp::{Many, Polling};
use napier_sim::machine::{Work, WorkCosts};

use super::figures::{of_senders, together};
use super::{Asked, Plan, PlanKind, PlanLoad, PlanMode, Predicted, Scale};
use super::{histograms, series};
use crate::contention::{self, Outcome};

/// Deferral of the document's script: `napi_defer_hard_irqs`, `gro_flush_timeout`.
const DEFER: (u32, Span) = (100, Span::from_us(15));
/// Bytes of a request to read, and of an answer to a write, with what a protocol puts around them; estimated.
const COMMAND_BYTES: u32 = 128;

/// Points of a distribution of service times.
const SERVICE_POINTS: usize = 4096;

/// A cell of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanCell {
    /// Offered.
    pub load: PlanLoad,
    /// In force.
    pub mode: PlanMode,
    /// What came of it; an error is a rule that did not hold, or an end that could not keep up.
    pub predicted: Result<Predicted, String>,
}

impl PlanCell {
    /// Its name, as `--cells` takes it.
    #[must_use]
    pub fn name(load: PlanLoad, mode: &PlanMode) -> String {
        format!("{}@{load}", mode.name)
    }

    /// The figure of this name, if there is one.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.predicted.as_ref().ok().and_then(|predicted| super::of(predicted, name))
    }
}

/// What came of a run.
enum Came {
    Simulated(Box<Figures>),
    Sent(Box<Outcome>),
    Refused(String),
}

impl Came {
    fn figures(&self) -> Option<&Figures> {
        if let Self::Simulated(figures) = self { Some(figures) } else { None }
    }
}

/// Runs cells of a plan in `jobs` threads; `stop` ends it between two runs, and leaves out the cells that are not done.
#[must_use]
pub fn run(
    plan: &Plan,
    cells: &[(PlanLoad, &PlanMode)],
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<PlanCell> {
    run_all(plan, cells, jobs, stop, progress).into_iter().map(|(cell, _)| cell).collect()
}

/// What can be said of a plan's cells.
#[derive(Clone, PartialEq, Debug)]
pub struct RanPlan {
    /// In the order in which they were asked for.
    pub cells: Vec<PlanCell>,
    /// How each run went on in time, as a CSV file: `docs/plans.md` has its columns.
    pub series: String,
    /// Latencies of each cell, as a log of HdrHistogram.
    pub histograms: String,
}

impl RanPlan {
    /// Cells of which nothing else is said.
    #[must_use]
    pub fn of(cells: Vec<PlanCell>) -> Self {
        Self { cells, series: String::new(), histograms: String::new() }
    }
}

/// The same with all that can be said of them.
#[must_use]
pub fn run_in_full(
    plan: &Plan,
    cells: &[(PlanLoad, &PlanMode)],
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> RanPlan {
    let all = run_all(plan, cells, jobs, stop, progress);
    let figures: Vec<(&PlanCell, Vec<&Figures>)> =
        all.iter().map(|(cell, runs)| (cell, runs.iter().filter_map(Came::figures).collect())).collect();
    let lines = figures.iter().map(|(cell, runs)| series::lines(cell, runs));
    let series = series::HEAD.to_owned() + &lines.collect::<String>();
    let named = figures.iter().map(|(cell, runs)| (PlanCell::name(cell.load, &cell.mode), &runs[..]));
    let histograms = histograms::log(&plan.title, named);
    RanPlan { series, histograms, cells: all.into_iter().map(|(cell, _)| cell).collect() }
}

/// The cells with their runs.
fn run_all(
    plan: &Plan,
    cells: &[(PlanLoad, &PlanMode)],
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<(PlanCell, Vec<Came>)> {
    let seeds = plan.seed..plan.seed + u64::from(plan.seeds);
    let runs: Vec<_> = cells.iter().flat_map(|cell| seeds.clone().map(move |seed| (*cell, seed))).collect();
    let one = |((load, mode), seed): &((PlanLoad, &PlanMode), u64)| one(plan, *load, mode, *seed, stop);
    let results: Vec<Option<Came>> =
        in_parallel(&runs, jobs, stop, progress, one).into_iter().map(Option::flatten).collect();
    let mut results = results.into_iter();
    let of_cell = |(load, mode): &(PlanLoad, &PlanMode)| {
        // All of the cell's are taken, or the next cell would have what is left.
        let runs: Vec<Option<Came>> = results.by_ref().take(plan.seeds.into()).collect();
        let runs: Vec<Came> = runs.into_iter().collect::<Option<_>>()?;
        let predicted = predicted(plan, &runs.iter().collect::<Vec<_>>());
        Some((PlanCell { load: *load, mode: (*mode).clone(), predicted }, runs))
    };
    cells.iter().filter_map(of_cell).collect()
}

fn predicted(plan: &Plan, runs: &[&Came]) -> Result<Predicted, String> {
    let mut simulated = Vec::new();
    for run in runs {
        match run {
            Came::Simulated(figures) => simulated.push(&**figures),
            Came::Sent(outcome) => return Ok(of_senders(plan, outcome)),
            Came::Refused(why) => return Err(why.clone()),
        }
    }
    together(plan, &simulated)
}

/// `None`: it was told to stop.
fn one(plan: &Plan, load: PlanLoad, mode: &PlanMode, seed: u64, stop: &AtomicBool) -> Option<Came> {
    let Some(machine) = &plan.machine else {
        let Scale::Senders { senders, queues } = plan.scale else { unreachable!("a plan has a machine or senders") };
        let mut plan =
            contention::plan::Contended { senders, queues, ..contention::plan::Contended::new(mode.with.path, seed) };
        plan.settings.pinned = mode.with.pinned;
        let came = match plan.check().and_then(|()| contention::run(&plan)) {
            Ok(outcome) => Came::Sent(Box::new(outcome)),
            Err(error) => Came::Refused(error.to_string()),
        };
        return (!stop.load(Ordering::Relaxed)).then_some(came);
    };
    let setting = setting(plan, machine, load, mode, (seed - plan.seed) as usize);
    let of = Experiment { setting, length: load.length, seed };
    figures::run_or_stop(&of, stop).map(|figures| Came::Simulated(Box::new(figures)))
}

/// What is simulated of a cell in its nth run.
fn setting(plan: &Plan, machine: &MachineFile, load: PlanLoad, mode: &PlanMode, nth: usize) -> Setting {
    match (plan.scale, load.asked) {
        (Scale::Queues { queues, connections }, _) => queue(plan, machine, load.load, mode, (nth, queues, connections)),
        (Scale::Hosts { .. }, _) => Setting::Flows(flows(plan, machine, mode, load)),
        (Scale::Server { connections, full_rps, group }, Asked::OfServer(cpus, nodes, shape)) => {
            let polling = match mode.mode {
                Mode::Group => Polling::Groups(Settings { policy: mode.with.policy, ..group }),
                Mode::ThreadedBusyPoll => Polling::Threads,
                _ => Polling::NoCpus,
            };
            Setting::Many(Many {
                core: core_of(machine, mode.mode, [].into()),
                cpus,
                nodes,
                sibling_pct: machine.sibling_pct,
                deep_after: machine.deep_after,
                polling,
                connections,
                full_rps,
                shape,
                way: (Span::from_ns(machine.client.to_server_ns), Span::from_ns(machine.client.to_client_ns)),
            })
        }
        (_, asked) => {
            let delay = if let Asked::Packets(delay) = asked { delay } else { Span::ZERO };
            let wire = machine.wire.expect("it was read with one");
            let (wire, wire_noise) = (Span::from_ns(wire.one_way_ns), Span::from_ns(wire.noise_ns));
            Setting::Pair(hosts(plan.kind, machine, mode), Traffic { load: load.load, delay, wire, wire_noise })
        }
    }
}

/// One of the queues of a server and what comes to it: each run has another.
fn queue(
    plan: &Plan,
    machine: &MachineFile,
    load: Load,
    mode: &PlanMode,
    (nth, queues, connections): (usize, u16, u16),
) -> Setting {
    let service_ns = plan.service.as_ref().map_or_else(Vec::new, |service| service.points_ns(SERVICE_POINTS)).into();
    let core = mode.with.own.put_into(core_of(machine, mode.mode, service_ns));
    if let (Some(arrivals), Load::Rps(rate_rps)) = (&plan.arrivals, load) {
        let clients = clients_of(machine, 1, Load::Rps((rate_rps / u64::from(queues)).max(1)));
        return Setting::Replayed(core, clients, arrivals.of_queue(nth, queues, rate_rps));
    }
    // Together the queues that are run are asked for what all are.
    let all = queue_connections(connections, queues, plan.seeds);
    let of_all: u64 = all.iter().copied().map(u64::from).sum();
    let own = all[nth];
    let of_queue = match load {
        Load::Max => Load::Max,
        Load::Rps(rate) => {
            let share = rate * u64::from(own) * all.len() as u64 / (of_all * u64::from(queues));
            Load::Rps(share.max(1))
        }
    };
    let clients = clients_of(machine, own, of_queue);
    if plan.datagrams { Setting::Datagrams(core, clients) } else { Setting::Server(core, clients) }
}

/// Both hosts of a pair in a mode.
fn hosts(kind: PlanKind, machine: &MachineFile, PlanMode { mode, with, .. }: &PlanMode) -> Hosts {
    let is_threaded = *mode == Mode::ThreadedBusyPoll;
    let (program, tunables) = if kind == PlanKind::XskRr {
        let poller = match mode {
            _ if is_threaded => RpcPoller::Kernel,
            _ if with.separate => RpcPoller::Thread,
            _ => RpcPoller::RpcProgram,
        };
        let defer_hard_irqs = if *mode == Mode::Base { 0 } else { DEFER.0 };
        let (gro_flush_timeout, irq_suspend_timeout) = (DEFER.1, Span::ZERO);
        (RpcProgram::Ring(poller), Tunables { defer_hard_irqs, gro_flush_timeout, irq_suspend_timeout })
    } else {
        (RpcProgram::Stream, Tunables::default())
    };
    let mut costs: WorkCosts = machine.costs;
    if with.own_busy_poll {
        costs.set(Work::PacketUp, costs.get(Work::PacketUp) + machine.own_busy_poll);
    }
    Hosts {
        costs,
        disturbance: machine.disturbance,
        deep_after: machine.deep_after,
        quiet: machine.quiet,
        hz: machine.hz,
        rx_usecs: with.rx_usecs,
        rx_frames: with.rx_frames,
        tunables,
        threaded: if is_threaded { ThreadedSetting::BusyPoll } else { ThreadedSetting::Disabled },
        busy: SocketBusy { prefer: program != RpcProgram::Stream, ..SocketBusy::new(with.busy_usecs) },
        program,
    }
}

/// Both hosts of many CPUs in a mode.
fn flows(plan: &Plan, machine: &MachineFile, mode: &PlanMode, load: PlanLoad) -> Flows {
    let Scale::Hosts { cpus, queues, threads, flows } = plan.scale else { unreachable!("two hosts of many CPUs") };
    let wire = machine.wire.expect("it was read with one");
    let none: Arc<[u64]> = Arc::new([]);
    let (request_bytes, response_bytes, storage_ns) = match load.asked {
        Asked::Operations(bytes) => (COMMAND_BYTES, bytes, points_ns(&machine.storage.times_of(bytes))),
        Asked::Messages(request, response) => (request, response, none),
        other => unreachable!("{other:?} is no load of many threads"),
    };
    let is_storage = load.load != Load::Max;
    let mut costs = machine.costs;
    if is_storage {
        costs.set(Work::Request, Span::from_ns(machine.storage.program_ns));
    }
    Flows {
        costs,
        disturbance: machine.disturbance,
        deep_after: machine.deep_after,
        hz: machine.hz,
        cpus,
        sibling_pct: machine.sibling_pct,
        migration_cost: machine.migration_cost,
        queues,
        threads,
        flows,
        polls: match mode.mode {
            Mode::Threaded => Polls::Thread,
            Mode::Workqueue => Polls::Pool,
            _ => Polls::Softirq,
        },
        // The document pins who polls where the programs are busy, and nothing where they are not.
        pinned: is_storage,
        rx_usecs: mode.with.rx_usecs,
        request_bytes,
        response_bytes,
        both_ways: is_storage,
        load: load.load,
        storage_ns,
        wire: Span::from_ns(wire.one_way_ns),
        wire_noise: Span::from_ns(wire.noise_ns),
        mbit_s: u32::try_from(wire.mbit_s).unwrap_or(u32::MAX),
    }
}
