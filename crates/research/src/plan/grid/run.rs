//! Runs the cells of a plan, several at a time; what comes out does not depend on how many.

use std::sync::atomic::{AtomicBool, Ordering};

use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::sockopt::SocketBusy;
use napier_core::time::Span;
use napier_sim::machine::bulk;
use napier_sim::machine::figures::Length;
use napier_sim::machine::rpc::{self, Hosts, RpcFigures, RpcPoller, RpcProgram, Traffic};
use napier_sim::machine::{Work, WorkCosts};

use super::{Grid, GridKind, GridSubject, Offer, groups, many, path};
use crate::transmit::{self, Experiment};
use napier_lab::machines::{MachineFile, Wire};
use napier_lab::parallel::in_parallel;

/// `SO_BUSY_POLL` of xsk_rr, in us: `-B 400`.
const XSK_BUSY_USECS: u32 = 400;
/// `SO_BUSY_POLL` of a stream, in us: within what slide 10 of the document suggests.
const STREAM_BUSY_USECS: u32 = 50;
/// Deferral of the document's script: `napi_defer_hard_irqs`, `gro_flush_timeout`.
const DEFER: (u32, Span) = (100, Span::from_us(15));

/// A cell of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct GridCell {
    /// Offered.
    pub load: Offer,
    /// In force.
    pub mode: &'static str,
    /// Figures by name, with the unit at the end of it; an error is a rule that did not hold, or an end that could not keep up.
    pub predicted: Result<Vec<(&'static str, f64)>, String>,
}

/// Runs a plan in `jobs` threads; `stop` ends it between two runs, and leaves out the cells that are not done.
#[must_use]
pub fn run_grid(
    grid: &Grid,
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<GridCell> {
    match &grid.subject {
        GridSubject::Pair { machine, wire, warm_up, measured, seeds } => {
            let length = Length { warm_up: *warm_up, measured: *measured };
            let one = |load, mode: &str, seed| {
                rpc::run_or_stop(&hosts_in(machine, mode), &traffic(*wire, load), length, seed, stop)
            };
            each_cell(grid, *seeds, jobs, stop, progress, one, |runs| together(grid.kind, runs))
        }
        GridSubject::Many { machine, wire, size, seeds } => {
            let one = |load, mode: &str, seed| {
                bulk::run_or_stop(&many::flows_in(machine, *wire, *size, mode, load), many::length(load), seed, stop)
            };
            each_cell(grid, *seeds, jobs, stop, progress, one, |runs| many::together(size.cpus, runs))
        }
        subject @ GridSubject::Server { seeds, .. } => {
            let one = |load, mode: &str, seed| {
                let (server, length) = groups::server_in(subject, mode, load);
                napier_sim::machine::smp::run_or_stop(&server, length, seed, stop)
            };
            each_cell(grid, *seeds, jobs, stop, progress, one, groups::together)
        }
        GridSubject::Senders { senders, queues, seed } => {
            let experiment = Experiment {
                senders: *senders,
                queues: *queues,
                seed: *seed,
                paths: grid.modes.iter().filter_map(|mode| path(mode)).collect(),
                sensitivity: false,
                jobs,
            };
            send(grid, &experiment, stop, progress)
        }
    }
}

/// Runs each cell once for each seed; a cell that is not done is left out.
fn each_cell<R: Send>(
    grid: &Grid,
    seeds: u16,
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
    one: impl Fn(Offer, &'static str, u64) -> Option<R> + Sync,
    together: impl Fn(&[&R]) -> Result<Vec<(&'static str, f64)>, String>,
) -> Vec<GridCell> {
    let cells: Vec<_> = grid.cells().collect();
    let runs: Vec<_> = cells.iter().flat_map(|cell| (1..=u64::from(seeds)).map(move |seed| (*cell, seed))).collect();
    let run = |((load, mode), seed): &((Offer, &'static str), u64)| one(*load, mode, *seed);
    let results: Vec<Option<R>> =
        in_parallel(&runs, jobs, stop, progress, run).into_iter().map(Option::flatten).collect();
    let of_cell = |((load, mode), runs): (&(Offer, &'static str), &[Option<R>])| {
        let runs: Option<Vec<&R>> = runs.iter().map(Option::as_ref).collect();
        Some(GridCell { load: *load, mode, predicted: together(&runs?) })
    };
    cells.iter().zip(results.chunks(seeds.into())).filter_map(of_cell).collect()
}

fn send(
    grid: &Grid,
    experiment: &Experiment,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<GridCell> {
    let report = transmit::run(experiment, stop, progress);
    if stop.load(Ordering::Relaxed) {
        return Vec::new();
    }
    let cell = |(load, mode): (Offer, &'static str)| GridCell {
        load,
        mode,
        predicted: match &report {
            Err(error) => Err(error.to_string()),
            Ok(report) => path(mode)
                .and_then(|path| report.of(path))
                .map(|outcome| vec![("mpps", outcome.mpps()), ("cpu_pct", outcome.cpu_pct())])
                .ok_or_else(|| "it was not run".to_owned()),
        },
    };
    grid.cells().map(cell).collect()
}

/// Both hosts in a mode.
fn hosts_in(machine: &MachineFile, mode: &str) -> Hosts {
    let deferred = Tunables { defer_hard_irqs: DEFER.0, gro_flush_timeout: DEFER.1, irq_suspend_timeout: Span::ZERO };
    let at_once = Tunables { defer_hard_irqs: 0, ..deferred };
    let none = Tunables::default();
    let ring = |poller, tunables| (RpcProgram::Ring(poller), tunables, XSK_BUSY_USECS, (0, 0));
    let stream = |usecs, coalesce| (RpcProgram::Stream, none, usecs, coalesce);
    let (program, tunables, busy_usecs, (rx_usecs, rx_frames)) = match mode {
        "interrupts" => ring(RpcPoller::RpcProgram, at_once),
        "busy-read" => ring(RpcPoller::RpcProgram, deferred),
        "busy-read-separate" => ring(RpcPoller::Thread, deferred),
        "threaded-busy-poll" => ring(RpcPoller::Kernel, deferred),
        "interrupts-1-1" => stream(0, (1, 1)),
        "interrupts-16-44" => stream(0, (16, 44)),
        "busy-poll-3.11" | "busy-poll-4.11" => stream(STREAM_BUSY_USECS, (16, 44)),
        mode => unreachable!("{mode} is no mode of two hosts"),
    };
    let is_threaded = mode == "threaded-busy-poll";
    let mut costs: WorkCosts = machine.costs;
    if mode == "busy-poll-3.11" {
        costs.set(Work::PacketUp, costs.get(Work::PacketUp) + machine.own_busy_poll);
    }
    Hosts {
        costs,
        disturbance: machine.disturbance,
        deep_after: machine.deep_after,
        quiet: machine.quiet,
        hz: machine.hz,
        rx_usecs,
        rx_frames,
        tunables,
        threaded: if is_threaded { ThreadedSetting::BusyPoll } else { ThreadedSetting::Disabled },
        busy: SocketBusy { prefer: program != RpcProgram::Stream, ..SocketBusy::new(busy_usecs) },
        program,
    }
}

fn traffic(wire: Wire, load: Offer) -> Traffic {
    let (period, delay) = match load {
        Offer::Rate { pps, delay } => (Some(Span::from_ns(1_000_000_000 / pps)), delay),
        _ => (None, Span::ZERO),
    };
    Traffic { period, delay, wire: Span::from_ns(wire.one_way_ns), wire_noise: Span::from_ns(wire.noise_ns) }
}

fn together(kind: GridKind, runs: &[&RpcFigures]) -> Result<Vec<(&'static str, f64)>, String> {
    if let Some(broken) = runs.iter().find_map(|run| run.broken.clone()) {
        return Err(broken);
    }
    let mut latency: Vec<u64> = runs.iter().flat_map(|run| run.latency_ns.iter().copied()).collect();
    latency.sort_unstable();
    if latency.is_empty() {
        return Err("no answer came in the measured time".to_owned());
    }
    let measured_ns = runs.iter().map(|run| run.measured.ns).sum::<u64>() as f64;
    let per_s =
        |of: &dyn Fn(&RpcFigures) -> u64| runs.iter().map(|run| of(run)).sum::<u64>() as f64 * 1e9 / measured_ns;
    let at = |percent: usize| latency[latency.len() * percent / 100] as f64;
    let percentiles = [("p5_ns", at(5)), ("p50_ns", at(50)), ("p95_ns", at(95)), ("p99_ns", at(99))];
    let rates = [("interrupts_per_s", per_s(&|run| run.interrupts)), ("polls_per_s", per_s(&|run| run.polls))];
    let answers = ("transactions_per_s", per_s(&|run| run.latency_ns.len() as u64));
    Ok(match kind {
        GridKind::BusyRead => std::iter::once(answers).chain(percentiles).chain(rates).collect(),
        _ => percentiles.into_iter().chain([answers]).chain(rates).collect(),
    })
}
