//! The report for people.

use std::fmt::Write;

use crate::contention::Outcome;
use crate::contention::costs::{COSTS, Origin};
use crate::contention::plan::Path;
use napier_core::histogram::Histogram;

use super::judge::{checks, sentence};
use super::published::published;
use super::{PathResult, TransmitReport};
use napier_lab::report::range;

/// Widest line, in columns.
const WIDTH_MAX: usize = 120;
/// Columns of the fullest bucket's bar.
const BAR: usize = 26;

/// Writes the report as text.
#[must_use]
pub fn table(report: &TransmitReport) -> String {
    let mut text = heading(report);
    for result in &report.results {
        text += "\n";
        text += &figures(report, result);
        text += &histograms(report, result);
    }
    text += "\n";
    text += &settings(report);
    text += &parameters(report);
    if !report.sensitivity.is_empty() {
        text += "\n";
        text += &sensitivity(report);
    }
    let checks = checks(report);
    if let Some(gain) = checks.iter().find(|check| check.path.is_none()) {
        writeln!(text, "\n{}: published {}, model {}, {}", gain.name, gain.published, gain.model, gain.difference)
            .expect("a string takes everything");
    }
    text += "\n";
    text += &wrapped("", &closing(report));
    text
}

fn heading(report: &TransmitReport) -> String {
    let plan = &report.plan;
    let machine = plan.topology;
    let line = format!(
        "{} senders on {} transmit queues with fq, {} x {} cores with {} threads each, {} Gbit/s; seed {}, {} placements \
         of {} ms after {} ms",
        plan.senders,
        plan.queues,
        machine.sockets,
        machine.cores_per_socket,
        machine.threads_per_core,
        plan.settings.device_gbit,
        plan.seed,
        plan.placements,
        plan.run_ns / 1_000_000,
        plan.warm_up_ns / 1_000_000,
    );
    wrapped("", &line)
}

fn closing(report: &TransmitReport) -> String {
    if report.is_published() {
        sentence(&checks(report))
    } else {
        "Nothing was published for such senders and queues: these are predictions.".to_owned()
    }
}

/// What the paths are, for a reader who has only the table.
const fn title(path: Path) -> &'static str {
    match path {
        Path::Locked => "locked: a spin lock before the root lock, each sender queues its own packet",
        Path::List => "llist: a list without lock, who finds it empty queues the packets of all",
    }
}

fn figures(report: &TransmitReport, result: &PathResult) -> String {
    let mut text = format!("{}\n", title(result.path));
    let all = checks(report);
    if all.is_empty() {
        let outcome = &result.outcome;
        let mode = outcome.stays.fullest_power().map_or_else(|| "none".to_owned(), range);
        for (name, value) in [
            ("Mpps", format!("{:.1}", outcome.mpps())),
            ("busy CPUs, %", format!("{:.1}", outcome.cpu_pct())),
            ("fullest bucket, ns", mode),
            ("below 1 us, %", format!("{:.2}", outcome.stays.below_pct(10))),
        ] {
            writeln!(text, "  {name:<26}{value:>14}").expect("a string takes everything");
        }
    } else {
        writeln!(text, "  {:<26}{:>14}{:>14}{:>14}", "", "published", "model", "difference")
            .expect("a string takes everything");
        for check in all.iter().filter(|check| check.path == Some(result.path)) {
            let mark = if check.holds { "" } else { "  missed" };
            writeln!(
                text,
                "  {:<26}{:>14}{:>14}{:>14}{mark}",
                check.name, check.published, check.model, check.difference
            )
            .expect("a string takes everything");
        }
    }
    text + &rates(result.path, &result.outcome)
}

/// What the model shows besides.
fn rates(path: Path, outcome: &Outcome) -> String {
    let counts = &outcome.counts;
    let mean = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
    let own = match path {
        Path::Locked => {
            format!("{:.0} % of senders found a runner", 100.0 * mean(counts.contended_pkts, counts.entered_pkts))
        }
        Path::List => format!(
            "{:.1} packets a flush, {:.2} failed swaps a packet",
            mean(counts.batch_pkts, counts.batches),
            mean(counts.swaps_failed, counts.entered_pkts)
        ),
    };
    wrapped(
        "  ",
        &format!(
            "model only: {own}, {:.1} packets a chain, {:.0} k interrupts and {:.0} k sleeps a second, {} dropped",
            mean(counts.chain_pkts, counts.chains),
            outcome.per_second(counts.interrupts) / 1e3,
            outcome.per_second(counts.sleeps) / 1e3,
            counts.dropped_pkts,
        ),
    )
}

fn histograms(report: &TransmitReport, result: &PathResult) -> String {
    let known = report.is_published().then(|| published(result.path).stays);
    let all: Vec<&Histogram> = known.iter().chain([&result.outcome.stays]).collect();
    let shown = |exponent: u32| all.iter().any(|histogram| histogram.share_pct(exponent) >= 0.005);
    let buckets: Vec<u32> = (0..64).filter(|exponent| shown(*exponent)).collect();
    let mut text = String::from("  time in __dev_queue_xmit, ns");
    text += if known.is_some() { ": published, model\n" } else { "\n" };
    for exponent in buckets {
        write!(text, "  {:<14}", range(exponent)).expect("a string takes everything");
        for histogram in &all {
            let share = histogram.share_pct(exponent);
            let most = histogram.fullest_power().map_or(0.0, |mode| histogram.share_pct(mode));
            let bar = "@".repeat((share / most.max(f64::MIN_POSITIVE) * BAR as f64).round() as usize);
            write!(text, " {share:>6.2} % |{bar:<BAR$}|").expect("a string takes everything");
        }
        text.push('\n');
    }
    text
}

/// Settings that matter, and what is not known of them.
fn settings(report: &TransmitReport) -> String {
    let settings = &report.plan.settings;
    let mut text = String::from("settings\n");
    for (name, value, reason) in [
        (
            "send_buffer_bytes",
            settings.send_buffer_bytes,
            "net.core.wmem_default; a sender sleeps when it is full, and wakes at half",
        ),
        (
            "packet_memory_bytes",
            settings.packet_memory_bytes,
            "struct sk_buff and a small head: what a packet is charged with",
        ),
        ("ring_pkts", settings.ring_pkts as u64, "packets in a transmit ring, within byte limits that adapt; assumed"),
        (
            "flow_limit_pkts",
            settings.flow_limit_pkts.into(),
            "flow_limit of fq; assumed: with the default of 100 senders lose packets instead of sleeping",
        ),
        (
            "follow_waker",
            settings.follow_waker.into(),
            "1: woken senders gather on the socket of their queue's completions (kernel/sched/fair.c wake_affine_idle); \
             assumed",
        ),
        (
            "pinned",
            settings.pinned.into(),
            "1: each sender is kept on a CPU, in turn, and sends on the queue of its neighbourhood (net/core/dev.c \
             get_xps_queue)",
        ),
    ] {
        text += &wrapped(&format!("  {name:<25}{value:>7}  "), reason);
    }
    text
}

fn parameters(report: &TransmitReport) -> String {
    let mut text = String::from("parameters, the same for each path\n");
    for cost in COSTS {
        let start = format!("  {:<25}{:>7}  {:<9}", cost.name, cost.value(&report.plan.costs), cost.origin.name());
        text += &wrapped(&start, cost.reason);
    }
    let count = |origin| COSTS.iter().filter(|cost| cost.origin == origin).count();
    writeln!(
        text,
        "  {} of {} are chosen, {} computed, {} from a source",
        count(Origin::Chosen),
        COSTS.len(),
        count(Origin::Computed),
        count(Origin::Source)
    )
    .expect("a string takes everything");
    text
}

fn sensitivity(report: &TransmitReport) -> String {
    let mut text = String::from(
        "what depends on the parameters without a source: Mpps and busy CPUs in percent, from one placement\n",
    );
    write!(text, "  {:<32}", "").expect("a string takes everything");
    for path in &report.experiment.paths {
        write!(text, "{:>9}{:>7}", path.name(), "CPU").expect("a string takes everything");
    }
    text += "   ratio\n";
    for row in &report.sensitivity {
        let (name, value) = row.change.name();
        write!(text, "  {name:<25}{value:>7}").expect("a string takes everything");
        for result in &row.results {
            write!(text, "{:>9.1}{:>7.1}", result.outcome.mpps(), result.outcome.cpu_pct())
                .expect("a string takes everything");
        }
        let of = |path| row.results.iter().find(|result| result.path == path).map(|result| result.outcome.mpps());
        if let (Some(locked), Some(list)) = (of(Path::Locked), of(Path::List)) {
            write!(text, "{:>8.2}", list / locked).expect("a string takes everything");
        }
        text.push('\n');
    }
    text
}

/// Words after `start`, in lines of this page.
fn wrapped(start: &str, words: &str) -> String {
    napier_lab::wrap::wrapped(start, words, WIDTH_MAX)
}
