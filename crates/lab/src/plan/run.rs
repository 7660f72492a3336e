//! Runs the cells of a plan, several at a time; what comes out does not depend on how many.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use napier_core::completion::Tunables;
use napier_core::control::{NapiChange, ThreadedSetting};
use napier_core::time::Span;
use napier_sim::machine::figures::{self, Core, Figures, Length};
use napier_sim::machine::{Class, Clients, Pace, RTO_MIN, Work};
use serde::{Deserialize, Serialize};

use super::event_loop::EventLoopPlan;
use super::load::Load;
use super::machine::MachineFile;
use crate::modes::Mode;
use crate::parallel::in_parallel;

/// Events of one wait at most: libevent asks for as many as were there before, and more.
const EVENTS_MAX: usize = 4096;
/// Bytes of a request's frame: headers, the key, the command.
const REQUEST_BYTES: u32 = 120;

/// What a cell came to, over all queues and seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the unit stands last in the name; docs/json.md describes them")]
pub struct Predicted {
    pub qps: f64,
    pub avg_us: f64,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub cpu_pct: f64,
    pub cpu_user_pct: f64,
    pub cpu_system_pct: f64,
    pub cpu_irq_pct: f64,
    pub cpu_softirq_pct: f64,
    pub cpu_spin_pct: f64,
    pub cycles_per_query_corrected: f64,
    pub instructions_per_query_corrected: f64,
    pub interrupts_per_s_per_core: f64,
    pub polls_per_s_per_core: f64,
    pub empty_polls_pct: f64,
    pub work_per_poll: f64,
    pub events_per_wait: f64,
    #[serde(default)]
    pub lost_per_s_per_core: f64,
    /// Steps of the simulated machine.
    pub steps: u64,
}

/// A cell of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanCell {
    /// Offered.
    pub load: Load,
    /// In force.
    pub mode: Mode,
    /// What came of it; an error is an invariant that did not hold.
    pub predicted: Result<Predicted, String>,
}

/// Runs cells of a plan in `jobs` threads; `stop` ends it between two runs, and leaves out the cells that are not done.
#[must_use]
pub fn run(
    plan: &EventLoopPlan,
    cells: &[(Load, Mode)],
    jobs: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Vec<PlanCell> {
    let seeds = usize::from(plan.seeds);
    let runs: Vec<(Load, Mode, u64)> =
        cells.iter().flat_map(|(load, mode)| (1..=seeds as u64).map(|seed| (*load, *mode, seed))).collect();
    let one = |(load, mode, seed): &(Load, Mode, u64)| one(plan, *load, *mode, *seed, stop);
    let results: Vec<Option<Figures>> =
        in_parallel(&runs, jobs, stop, progress, one).into_iter().map(Option::flatten).collect();
    let of_cell = |(cell, runs): (&(Load, Mode), &[Option<Figures>])| {
        let runs: Option<Vec<&Figures>> = runs.iter().map(Option::as_ref).collect();
        Some(PlanCell { load: cell.0, mode: cell.1, predicted: together(plan, &runs?) })
    };
    cells.iter().zip(results.chunks(seeds)).filter_map(of_cell).collect()
}

/// `None`: it was told to stop.
fn one(plan: &EventLoopPlan, load: Load, mode: Mode, seed: u64, stop: &AtomicBool) -> Option<Figures> {
    let core = core_of(&plan.machine, mode, [].into());
    let pace = match load {
        Load::Max => Pace::Closed,
        Load::Rate(rate) => Pace::Open { rate_rps: rate / u64::from(plan.queues) },
    };
    let clients = clients_of(&plan.machine, plan.connections / plan.queues, pace);
    let length = Length { warm_up: plan.warm_up, measured: plan.measured };
    figures::run_or_stop(&core, &clients, length, seed, stop)
}

/// What a mode's plan sets on an instance.
pub(crate) fn instance_settings(set: &napier_core::control::plan::Plan) -> (Tunables, ThreadedSetting) {
    let (mut tunables, mut threaded) = (Tunables::default(), ThreadedSetting::Disabled);
    for change in set.changes() {
        match change {
            NapiChange::Threaded(setting) => threaded = setting,
            NapiChange::DeferHardIrqs(count) => tunables.defer_hard_irqs = count,
            NapiChange::IrqSuspendTimeout(span) => tunables.irq_suspend_timeout = span,
            NapiChange::GroFlushTimeout(span) => tunables.gro_flush_timeout = span,
        }
    }
    (tunables, threaded)
}

/// A core of a machine in a mode, with a program whose requests take times of these beside.
pub(crate) fn core_of(machine: &MachineFile, mode: Mode, service_ns: Arc<[u64]>) -> Core {
    let set = mode.plan();
    let (tunables, threaded) = instance_settings(&set);
    Core {
        costs: machine.costs,
        disturbance: machine.disturbance,
        hz: machine.hz,
        moderates: !machine.apply.is_zero(),
        apply: machine.apply,
        tunables,
        threaded,
        apart: threaded == ThreadedSetting::BusyPoll,
        epoll: set.context().unwrap_or_default(),
        wait: set.wait(),
        events_max: EVENTS_MAX,
        warm_max: machine.warm_max,
        service_ns,
    }
}

/// A machine's clients, with so many connections to one queue. How many queues there are beside it is nothing to them.
pub(crate) fn clients_of(machine: &MachineFile, connections: u16, pace: Pace) -> Clients {
    let client = machine.client;
    let rate_rps = match pace {
        Pace::Open { rate_rps } => rate_rps.min(client.step_grows_until_rps),
        Pace::Closed => 0,
    };
    let grown = |at_rest: u64, per_100k: u64| at_rest + per_100k * rate_rps / 100_000;
    // A closed loop keeps its client busy all the time, so that it has no interrupts of its own to meet.
    let is_closed = pace == Pace::Closed;
    let step_share = if is_closed { 0 } else { grown(client.step_share, client.step_share_per_100k) };
    Clients {
        connections,
        pace,
        to_server: Span::from_ns(client.to_server_ns),
        to_client: Span::from_ns(client.to_client_ns),
        to_client_noise: Span::from_ns(client.to_client_noise_ns),
        step_per_100k: u32::try_from(step_share).unwrap_or(u32::MAX),
        step: (
            Span::from_ns(client.step_least_ns),
            Span::from_ns(grown(client.step_most_ns, client.step_most_per_100k_ns)),
        ),
        request_bytes: REQUEST_BYTES,
        acknowledges: !machine.costs.get(Work::AckUp).is_zero(),
        rto_min: Some(RTO_MIN),
    }
}

fn together(plan: &EventLoopPlan, runs: &[&Figures]) -> Result<Predicted, String> {
    if let Some(broken) = runs.iter().find_map(|run| run.broken.clone()) {
        return Err(broken);
    }
    let mut latency: Vec<u64> = runs.iter().flat_map(|run| run.latency_ns.iter().copied()).collect();
    latency.sort_unstable();
    let sum = |of: &dyn Fn(&Figures) -> u64| runs.iter().map(|run| of(run)).sum::<u64>() as f64;
    let ns = sum(&|run| run.measured.ns);
    let per_s = |of: &dyn Fn(&Figures) -> u64| sum(of) * 1e9 / ns;
    let pct = |class: Class| sum(&|run| run.account.of(class).ns) * 100.0 / ns;
    let busy = sum(&|run| run.account.busy().ns);
    let answered = sum(&|run| run.answered).max(1.0);
    let (polls, waits) = (sum(&|run| run.polls).max(1.0), sum(&|run| run.waits).max(1.0));
    let mean_ns = latency.iter().map(|ns| *ns as f64).sum::<f64>() / latency.len().max(1) as f64;
    let us = |percent: usize| latency.get(latency.len() * percent / 100).map_or(0.0, |ns| *ns as f64 / 1000.0);
    Ok(Predicted {
        qps: per_s(&|run| run.answered) * f64::from(plan.queues),
        avg_us: mean_ns / 1000.0,
        p50_us: us(50),
        p95_us: us(95),
        p99_us: us(99),
        cpu_pct: busy * 100.0 / ns,
        cpu_user_pct: pct(Class::User),
        cpu_system_pct: pct(Class::System),
        cpu_irq_pct: pct(Class::Irq),
        cpu_softirq_pct: pct(Class::Softirq),
        cpu_spin_pct: pct(Class::Spin),
        cycles_per_query_corrected: busy / answered * f64::from(plan.machine.clock_mhz) / 1000.0,
        instructions_per_query_corrected: sum(&|run| instructions(plan, run)) / answered,
        interrupts_per_s_per_core: per_s(&|run| run.interrupts),
        polls_per_s_per_core: per_s(&|run| run.polls),
        empty_polls_pct: sum(&|run| run.empty_polls) * 100.0 / polls,
        work_per_poll: sum(&|run| run.packets) / polls,
        events_per_wait: sum(&|run| run.events) / waits,
        lost_per_s_per_core: per_s(&|run| run.lost),
        steps: runs.iter().map(|run| run.steps).sum(),
    })
}

/// Instructions of a run: those of its work go by what it takes undisturbed, for a CPU that is slower retires them later.
fn instructions(plan: &EventLoopPlan, run: &Figures) -> u64 {
    let (working, spinning) = plan.machine.per_100_cycles;
    let spin_ns = run.account.undisturbed(Class::Spin).ns;
    let classes = [Class::User, Class::System, Class::Irq, Class::Softirq];
    let work_ns: u64 = classes.iter().map(|class| run.account.undisturbed(*class).ns).sum();
    (work_ns * working + spin_ns * spinning) * u64::from(plan.machine.clock_mhz) / 100_000
}
