//! Runs the cells of a plan, several at a time; what comes out does not depend on how many.

use std::sync::atomic::AtomicBool;

use napier_lab::machines::{clients_of, core_of};
use napier_lab::modes::Mode;
use napier_lab::parallel::in_parallel;
use napier_sim::machine::figures::{self, Figures, Length};
use napier_sim::machine::{Class, Pace};
use serde::{Deserialize, Serialize};

use super::event_loop::EventLoopPlan;
use super::load::Load;

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
