//! Figures by name, with the unit at the end of it: what a plan's cells come to, and what documents print.

use napier_lab::advise::p99_within_pct;
use napier_sim::machine::Class;
use napier_sim::machine::figures::Figures;

use super::{Plan, PlanKind};
use crate::contention::Outcome;

/// Named figures of a cell.
pub type Predicted = Vec<(&'static str, f64)>;

/// All that there are. Those of the last lines are of senders on transmit queues.
pub const NAMES: &[&str] = &[
    "qps",
    "qps_spread_pct",
    "delivered_pct",
    "transactions_per_s",
    "avg_us",
    "p50_us",
    "p90_us",
    "p95_us",
    "p99_us",
    "p99_within_pct",
    "p999_us",
    "p5_ns",
    "p50_ns",
    "p95_ns",
    "p99_ns",
    "cpu_pct",
    "cpu_user_pct",
    "cpu_system_pct",
    "cpu_irq_pct",
    "cpu_softirq_pct",
    "cpu_spin_pct",
    "server_cpu_pct",
    "cpus_polling",
    "cpus_busy",
    "cycles_per_query_corrected",
    "instructions_per_query_corrected",
    "interrupts_per_s",
    "interrupts_per_s_per_core",
    "polls_per_s",
    "polls_per_s_per_core",
    "empty_polls_pct",
    "work_per_poll",
    "waits_per_s_per_core",
    "events_per_wait",
    "lost_per_s_per_core",
    "growing_pct",
    "migrations_per_s",
    "parks_per_s",
    "parks_in_vain_per_s",
    "wakes_per_s",
    "moves_back_per_s",
    "moves_sibling_per_s",
    "moves_node_per_s",
    "moves_far_per_s",
    "steps",
    "mpps",
    "switches_per_s",
    "below_512_ns_pct",
    "below_1_us_pct",
    "below_2_us_pct",
    "below_4_us_pct",
    "below_8_us_pct",
    "below_16_us_pct",
    "below_32_us_pct",
    "below_64_us_pct",
];

/// The name as it is kept.
pub(super) fn name_of(name: &str) -> Option<&'static str> {
    NAMES.iter().find(|known| **known == name).copied()
}

/// The figure of this name.
#[must_use]
pub fn of(figures: &[(&'static str, f64)], name: &str) -> Option<f64> {
    figures.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// What a cell's runs say together.
pub(super) fn together(plan: &Plan, runs: &[&Figures]) -> Result<Predicted, String> {
    if let Some(broken) = runs.iter().find_map(|run| run.broken.clone()) {
        return Err(broken);
    }
    let mut latency: Vec<u64> = runs.iter().flat_map(|run| run.latency_ns.iter().copied()).collect();
    latency.sort_unstable();
    if latency.is_empty() && plan.kind != PlanKind::EventLoop {
        return Err("no answer came in the measured time".to_owned());
    }
    let all = Together { plan, runs, latency, ns: runs.iter().map(|run| run.measured.ns).sum::<u64>() as f64 };
    let figures = plan.figures().into_iter().filter_map(|name| Some((name, all.figure(name)?)));
    Ok(figures.collect())
}

struct Together<'a> {
    plan: &'a Plan,
    runs: &'a [&'a Figures],
    /// In order.
    latency: Vec<u64>,
    ns: f64,
}

impl Together<'_> {
    fn sum(&self, of: impl Fn(&Figures) -> u64) -> f64 {
        self.runs.iter().map(|run| of(run)).sum::<u64>() as f64
    }

    fn per_s(&self, of: impl Fn(&Figures) -> u64) -> f64 {
        self.sum(of) * 1e9 / self.ns
    }

    fn at_ns(&self, per_mille: usize) -> f64 {
        self.latency.get(self.latency.len() * per_mille / 1000).map_or(0.0, |ns| *ns as f64)
    }

    fn pct(&self, class: Class) -> f64 {
        self.sum(|run| run.account.of(class).ns) * 100.0 / self.ns
    }

    fn figure(&self, name: &str) -> Option<f64> {
        let us = |per_mille| self.at_ns(per_mille) / 1000.0;
        let moves = |kind: usize| self.per_s(|run| run.moves[kind]);
        let clock_mhz = self.plan.machine.as_ref().map_or(0, |machine| machine.clock_mhz);
        Some(match name {
            "qps" => self.per_s(|run| run.answered) * self.plan.alike(),
            "delivered_pct" => self.sum(|run| run.answered) * 100.0 / self.sum(|run| run.due.unwrap_or(0)).max(1.0),
            "qps_spread_pct" => self.spread_pct(),
            "transactions_per_s" => self.per_s(|run| run.latency_ns.len() as u64),
            "avg_us" => {
                self.latency.iter().map(|ns| *ns as f64).sum::<f64>() / self.latency.len().max(1) as f64 / 1000.0
            }
            "p50_us" => us(500),
            "p90_us" => us(900),
            "p95_us" => us(950),
            "p99_us" => us(990),
            "p99_within_pct" => p99_within_pct(self.runs, |run| &run.latency_ns)?,
            "p999_us" => us(999),
            "p5_ns" => self.at_ns(50),
            "p50_ns" => self.at_ns(500),
            "p95_ns" => self.at_ns(950),
            "p99_ns" => self.at_ns(990),
            "cpu_pct" => self.busy() * 100.0 / self.ns,
            "cpu_user_pct" => self.pct(Class::User),
            "cpu_system_pct" => self.pct(Class::System),
            "cpu_irq_pct" => self.pct(Class::Irq),
            "cpu_softirq_pct" => self.pct(Class::Softirq),
            "cpu_spin_pct" => self.pct(Class::Spin),
            "server_cpu_pct" => self.busy() * 100.0 / self.ns / self.plan.host_cpus(),
            "cpus_polling" => self.polling(),
            "cpus_busy" => self.polling() + self.sum(|run| run.program.busy().ns) / self.ns,
            "cycles_per_query_corrected" => {
                self.sum(|run| run.account.awake().ns) / self.answered() * f64::from(clock_mhz) / 1000.0
            }
            "instructions_per_query_corrected" => self.sum(|run| self.instructions(run)) / self.answered(),
            "interrupts_per_s" => self.per_s(|run| run.interrupts) * self.plan.alike(),
            "interrupts_per_s_per_core" => self.per_s(|run| run.interrupts),
            "polls_per_s" | "polls_per_s_per_core" => self.per_s(|run| run.polls),
            "empty_polls_pct" => self.sum(|run| run.empty_polls) * 100.0 / self.sum(|run| run.polls).max(1.0),
            "work_per_poll" => self.sum(|run| run.packets) / self.sum(|run| run.polls).max(1.0),
            "waits_per_s_per_core" => self.per_s(|run| run.waits),
            "events_per_wait" => self.sum(|run| run.events) / self.sum(|run| run.waits).max(1.0),
            "lost_per_s_per_core" => self.per_s(|run| run.lost),
            "growing_pct" => self.growing_pct(),
            "migrations_per_s" => self.per_s(|run| run.migrations),
            "parks_per_s" => self.per_s(|run| run.parks),
            "parks_in_vain_per_s" => self.per_s(|run| run.parks_in_vain),
            "wakes_per_s" => self.per_s(|run| run.wakes),
            "moves_back_per_s" => moves(0),
            "moves_sibling_per_s" => moves(1),
            "moves_node_per_s" => moves(2),
            "moves_far_per_s" => moves(3),
            "steps" => self.sum(|run| run.steps),
            _ => return None,
        })
    }

    /// From the slowest run to the fastest, of their mean.
    fn spread_pct(&self) -> f64 {
        let rates = self.runs.iter().map(|run| run.answered as f64 / run.measured.ns.max(1) as f64);
        let (least, most) =
            rates.clone().fold((f64::INFINITY, 0.0_f64), |(least, most), rate| (least.min(rate), most.max(rate)));
        let mean = rates.sum::<f64>() / self.runs.len().max(1) as f64;
        if mean > 0.0 { (most - least) / mean * 100.0 } else { 0.0 }
    }

    /// Of the queues that were run: those whose backlog grows.
    fn growing_pct(&self) -> f64 {
        let growing = self.runs.iter().filter(|run| run.falls_behind()).count();
        growing as f64 * 100.0 / self.runs.len().max(1) as f64
    }

    fn busy(&self) -> f64 {
        self.sum(|run| run.account.busy().ns)
    }

    fn polling(&self) -> f64 {
        self.sum(|run| run.polling.busy().ns) / self.ns
    }

    fn answered(&self) -> f64 {
        self.sum(|run| run.answered).max(1.0)
    }

    /// Instructions of a run: those of its work go by what it takes undisturbed, for a CPU that is slower retires them later.
    fn instructions(&self, run: &Figures) -> u64 {
        let Some(machine) = &self.plan.machine else { return 0 };
        let (working, spinning) = machine.per_100_cycles;
        let spin_ns = run.account.undisturbed(Class::Spin).ns;
        let classes = [Class::User, Class::System, Class::Irq, Class::Softirq, Class::Unseen];
        let work_ns: u64 = classes.iter().map(|class| run.account.undisturbed(*class).ns).sum();
        (work_ns * working + spin_ns * spinning) * u64::from(machine.clock_mhz) / 100_000
    }
}

/// What senders on transmit queues come to.
pub(super) fn of_senders(plan: &Plan, outcome: &Outcome) -> Predicted {
    let below = |power| outcome.stays.below_pct(power);
    let figure = |name| match name {
        "mpps" => outcome.mpps(),
        "cpu_pct" => outcome.cpu_pct(),
        "switches_per_s" => 2.0 * outcome.per_second(outcome.counts.sleeps),
        "below_512_ns_pct" => below(9),
        "below_1_us_pct" => below(10),
        "below_2_us_pct" => below(11),
        "below_4_us_pct" => below(12),
        "below_8_us_pct" => below(13),
        "below_16_us_pct" => below(14),
        "below_32_us_pct" => below(15),
        "below_64_us_pct" => below(16),
        _ => f64::NAN,
    };
    plan.figures().into_iter().map(|name| (name, figure(name))).collect()
}
