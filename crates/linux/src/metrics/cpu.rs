//! CPUs: what softirqs, interrupts and programs took of them. Source: `proc(5)`; `net/core/net-procfs.c softnet_seq_show`.

use std::collections::HashMap;

use napier_core::metric::{Metric, Sink, Unit};

use super::{Sources, counter, gauge};

const CPU: &[&str] = &["cpu"];

static SOFTIRQS: Metric = counter(
    "napier_kernel_softirqs",
    Unit::Count,
    "Softirqs that a CPU ran, of the kinds that deliver packets (NET_RX, NET_TX) and timers (TIMER, HRTIMER)",
    &["cpu", "kind"],
);
static TIMERS: Metric = counter(
    "napier_kernel_timer_interrupts",
    Unit::Count,
    "Interrupts of a CPU's own timer, which deferral and suspension use as well as all else",
    CPU,
);
static PROCESSED: Metric = counter(
    "napier_kernel_softnet_processed",
    Unit::Count,
    "Packets that a CPU processed, of all interfaces (softnet_stat, column 1)",
    CPU,
);
static DROPPED: Metric = counter(
    "napier_kernel_softnet_dropped",
    Unit::Count,
    "Packets dropped because a CPU's backlog was full (softnet_stat, column 2)",
    CPU,
);
static SQUEEZED: Metric = counter(
    "napier_kernel_softnet_time_squeeze",
    Unit::Count,
    "Receive softirqs that ended with work left, by netdev_budget or netdev_budget_usecs (softnet_stat, column 3)",
    CPU,
);
static STEERED: Metric = counter(
    "napier_kernel_softnet_received_rps",
    Unit::Count,
    "Times that another CPU gave packets to this one (softnet_stat, column 10)",
    CPU,
);
static LIMITED: Metric = counter(
    "napier_kernel_softnet_flow_limit",
    Unit::Count,
    "Packets dropped by the limit of a flow (softnet_stat, column 11)",
    CPU,
);
static BACKLOG: Metric =
    gauge("napier_kernel_softnet_backlog", Unit::Count, "Packets in a CPU's backlog (softnet_stat, column 12)", CPU);
static SPENT: Metric = counter(
    "napier_kernel_cpu",
    Unit::Nanoseconds,
    "What a CPU's time went to: user, nice, system, idle, iowait, irq, softirq, steal (/proc/stat)",
    &["cpu", "state"],
);

pub(super) static ALL: [&Metric; 9] =
    [&TIMERS, &SOFTIRQS, &PROCESSED, &DROPPED, &SQUEEZED, &STEERED, &LIMITED, &BACKLOG, &SPENT];

const KINDS: [&str; 4] = ["NET_RX", "NET_TX", "TIMER", "HRTIMER"];
const STATES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];

pub(super) fn walk(sources: &mut Sources, sink: &mut dyn Sink) {
    if let Some(table) = sources.file("/proc/softirqs") {
        softirqs(&table, sink);
    }
    if let Some(table) = sources.file("/proc/net/softnet_stat") {
        softnet(&table, sink);
    }
    if let Some(table) = sources.file("/proc/stat") {
        spent(&table, rustix::param::clock_ticks_per_second(), sink);
    }
}

fn softirqs(table: &str, sink: &mut dyn Sink) {
    let rows = Interrupts::parse(table);
    for kind in KINDS {
        rows.of(kind).for_each(|(cpu, count)| sink.sample(&SOFTIRQS, &[&cpu.to_string(), kind], count));
    }
}

/// Source: `arch/x86/kernel/irq.c arch_show_interrupts`; of other architectures the row has the name of their timer.
pub(super) fn timer_interrupts(table: &str, sink: &mut dyn Sink) {
    let rows = Interrupts::parse(table);
    rows.of("LOC").for_each(|(cpu, count)| sink.sample(&TIMERS, &[&cpu.to_string()], count));
}

/// Lines of hexadecimal numbers, one for each CPU that is online, which since Linux 5.10 name it in column 13.
fn softnet(table: &str, sink: &mut dyn Sink) {
    for (line, row) in table.lines().enumerate() {
        let columns: Vec<u64> = row.split_whitespace().map_while(|word| u64::from_str_radix(word, 16).ok()).collect();
        let column = |number: usize| columns.get(number - 1).copied();
        let cpu = column(13).map_or_else(|| line.to_string(), |cpu| cpu.to_string());
        let figures = [(&PROCESSED, 1), (&DROPPED, 2), (&SQUEEZED, 3), (&STEERED, 10), (&LIMITED, 11), (&BACKLOG, 12)];
        for (metric, number) in figures {
            column(number).into_iter().for_each(|figure| sink.sample(metric, &[&cpu], figure));
        }
    }
}

fn spent(table: &str, ticks_per_s: u64, sink: &mut dyn Sink) {
    const NS_PER_S: u64 = 1_000_000_000;
    let ns_per_tick = NS_PER_S / ticks_per_s.max(1);
    for row in table.lines() {
        let mut words = row.split_whitespace();
        let cpu = words.next().and_then(|name| name.strip_prefix("cpu"));
        let Some(cpu) = cpu.filter(|cpu| !cpu.is_empty()) else { continue };
        for (state, ticks) in STATES.into_iter().zip(words) {
            let Ok(ticks) = ticks.parse::<u64>() else { break };
            sink.sample(&SPENT, &[cpu, state], ticks.saturating_mul(ns_per_tick));
        }
    }
}

/// A table of counts: the CPUs at its head, and rows by their names. `/proc/interrupts` and `/proc/softirqs`.
pub(super) struct Interrupts<'a> {
    cpus: Vec<u32>,
    rows: HashMap<&'a str, &'a str>,
}

impl<'a> Interrupts<'a> {
    pub(super) fn parse(table: &'a str) -> Self {
        let head = table.lines().next().unwrap_or_default();
        let cpus = head.split_whitespace().filter_map(|word| word.strip_prefix("CPU")?.parse().ok()).collect();
        let rows = table.lines().skip(1).filter_map(|row| row.split_once(':'));
        Self { cpus, rows: rows.map(|(name, row)| (name.trim(), row)).collect() }
    }

    /// A row: CPUs and counts. A row may end before the last CPU.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = (u32, u64)> + use<'_, 'a> {
        let row = self.rows.get(name).copied().unwrap_or_default();
        self.cpus.iter().copied().zip(row.split_whitespace().map_while(|word| word.parse().ok()))
    }
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
