//! `napier bench raw-rr`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use napier_lab::bench::{self, RawRr, RawRrConfig, RawRrMode, published_raw_rr};
use napier_lab::subject::Backend;

use super::flow_table::{backends, print_words, time};
use super::{parse_seconds, shown};
use crate::progress::spinner;
use crate::units::{Bare, time_within};
use crate::{Told, Usage};

/// Options of `bench raw-rr`.
#[derive(clap::Args)]
pub(crate) struct RawRrArgs {
    /// interrupts, busy-read, busy-read-separate, threaded-busy-poll
    #[arg(long, value_delimiter = ',', value_parser = parse_mode)]
    modes: Vec<RawRrMode>,
    /// Raw ports on a link of the engine, or AF_XDP sockets on the kernel; both give a row each
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "engine", value_parser = backends())]
    backend: Vec<Backend>,
    /// Time between two requests in us, or with a unit such as 1ms; with --delay one experiment instead of the table's four
    #[arg(short = 'P', long, requires = "delay", allow_negative_numbers = true, value_parser = parse_period)]
    period: Option<f64>,
    /// Work on each reply in us, or with a unit
    #[arg(short, long, requires = "period", allow_negative_numbers = true, value_parser = crate::units::microseconds)]
    delay: Option<f64>,
    /// Length of each run in seconds, or with a unit such as 500ms
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true, value_parser = parse_seconds)]
    seconds: f64,
    /// Run what needs more CPUs than there are
    #[arg(long)]
    oversubscribe: bool,
    /// Print the histogram of the time spent in receive calls
    #[arg(long)]
    histogram: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_mode(name: &str) -> Result<RawRrMode, String> {
    RawRrMode::parse(name).ok_or_else(|| {
        let names: Vec<_> = RawRrMode::ALL.iter().map(|mode| mode.name()).collect();
        format!("no such mode; give {}", names.join(", "))
    })
}

/// Rates and processing times of the table in the proposal of threaded NAPI busy polling.
const TABLE: [(u64, u64); 4] = [(12_000, 0), (32_000, 30), (125_000, 6), (12_000, 78)];

/// Time between two requests, in us: a tenth of a nanosecond would be no time at all.
fn parse_period(text: &str) -> Result<f64, String> {
    time_within(text, Bare::Microseconds, 1e-3..=1e9)
}

pub(super) fn raw_rr(args: &RawRrArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    if !(0.0..=1e9).contains(&args.delay.unwrap_or(0.0)) {
        return Err(Usage(anyhow::anyhow!("--delay must be 0 to 1e9")).into());
    }
    let modes = if args.modes.is_empty() { RawRrMode::ALL.to_vec() } else { args.modes.clone() };
    let experiments: Vec<(Duration, Duration)> = match (args.period, args.delay) {
        (Some(period), Some(delay)) => {
            vec![(Duration::from_secs_f64(period / 1e6), Duration::from_secs_f64(delay / 1e6))]
        }
        _ => TABLE
            .map(|(rate, delay)| (Duration::from_nanos(1_000_000_000 / rate), Duration::from_micros(delay)))
            .to_vec(),
    };
    let bar = spinner();
    let mut rows = Vec::new();
    for &(period, delay) in &experiments {
        for &mode in &modes {
            for &backend in &args.backend {
                anyhow::ensure!(!interrupted.load(Ordering::Relaxed), "interrupted");
                let (length, oversubscribe) = (Duration::from_secs_f64(args.seconds), args.oversubscribe);
                bar.set_message(format!("{backend}/{} at a period of {period:?}", mode.name()));
                rows.push(bench::raw_rr(&RawRrConfig { backend, mode, period, delay, length, oversubscribe })?);
            }
        }
    }
    bar.finish_and_clear();
    if !shown(args.json, "raw-rr", &rows)? {
        print(&rows, args.histogram);
    }
    match rows.iter().find_map(|row| row.refused.as_ref()).filter(|_| rows.iter().all(|row| row.refused.is_some())) {
        Some(why) => Err(Told(format!("nothing was measured: {why}")).into()),
        None => Ok(()),
    }
}

/// One experiment after the other, as the proposal has them: below each its rows.
fn print(rows: &[RawRr], histogram: bool) {
    println!(
        "{:<27} {:>7} {:>7} {:>7} {:>7} {:>8} {:>4} {:>6}",
        "latency in ns", "p5", "p50", "p95", "p99", "p99.9", "lost", "wakes"
    );
    for block in rows.chunk_by(|a, b| (a.period_ns, a.delay_ns) == (b.period_ns, b.delay_ns)) {
        let (period_ns, delay_ns) = (block[0].period_ns, block[0].delay_ns);
        #[expect(clippy::cast_precision_loss, reason = "figures for a table")]
        let rate = 1e6 / period_ns as f64;
        println!("{rate:.1} Kpkt/s + {} us delay", delay_ns / 1000);
        block.iter().for_each(|row| print_row(row, histogram));
        for (mode, [p5, p50, p95, p99]) in published_raw_rr(period_ns, delay_ns) {
            let name = format!("published/{}", mode.name());
            // The longest name is longer than its column, and the figures are short.
            println!("{name:<28}{p5:>7} {p50:>7} {p95:>7} {p99:>7}");
        }
    }
    print_below(rows);
}

fn print_row(row: &RawRr, histogram: bool) {
    let label = format!("{:<27}", format!("{}/{}", row.backend, row.mode.name()));
    match (&row.latency, &row.refused) {
        (_, Some(_)) => println!("{label} refused, see below"),
        (latency, None) if row.overloaded => {
            #[expect(clippy::cast_precision_loss, reason = "a figure for a table")]
            let p50 = latency.map_or_else(|| "-".to_owned(), |p| time(p.p50_ns as f64));
            println!("{label} overloaded: {} of {} in time, p50 {p50}", row.answered_in_time, row.due);
        }
        (Some(p), None) => {
            let wakes = row.softirq_wakes_per_s.map_or_else(|| "-".to_owned(), |wakes| format!("{wakes:.0}"));
            let [p5, p50, p95, p99, p999] = [p.p5_ns, p.p50_ns, p.p95_ns, p.p99_ns, p.p999_ns].map(ns);
            println!("{label} {p5:>7} {p50:>7} {p95:>7} {p99:>7} {p999:>8} {:>4} {wakes:>6}", row.lost);
        }
        (None, None) => println!("{label} no reply came back"),
    }
    if histogram && row.refused.is_none() {
        print!("  time in receive calls, ns:\n{}", row.receive_calls);
    }
}

/// Nanoseconds as the proposal's table has them; what is no figure for that has its unit.
fn ns(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a figure for a table")]
    if ns < 10_000_000 { ns.to_string() } else { time(ns as f64) }
}

/// What is said of rows, each thing once.
fn print_below(rows: &[RawRr]) {
    println!();
    print_words(
        "",
        "Latency from the intended send. wakes: how often the engine's softirq threads of both ends woke up in a second. \
         published: the proposal's table, on another machine.",
    );
    if rows.iter().any(|row| row.overloaded) {
        print_words("", "overloaded: less than 99 % were answered in time, and the latency is that of a queue.");
    }
    let mut said = Vec::new();
    let mut say = |words: String| {
        if !said.contains(&words) {
            print_words("", &words);
            said.push(words);
        }
    };
    for row in rows {
        let name = row.mode.name();
        if let Some(why) = &row.refused {
            say(format!("refused, {}/{name}: {why}.", row.backend));
        } else if let Some(by) = row.polled_by {
            say(format!("kernel/{name}: polled by {by}."));
        }
    }
    if rows.iter().any(|row| row.refused.is_none() && !row.sender_thread) {
        say("No CPU was left for a thread that only sends: the client sends between its receive calls, so a request that \
             falls due while it works on a reply leaves late, and that counts."
            .to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_fits_its_column() {
        assert_eq!([850, 9_999_999, 15_228_927, 2_500_000_000].map(ns), ["850", "9999999", "15.23ms", "2.50s"]);
    }

    #[test]
    fn every_experiment_of_the_table_is_published_with_every_mode() {
        for (rate, delay_us) in TABLE {
            assert_eq!(published_raw_rr(1_000_000_000 / rate, delay_us * 1000).len(), RawRrMode::ALL.len());
        }
        assert!(published_raw_rr(1_000_000, 0).is_empty());
    }
}
