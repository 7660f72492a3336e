//! `napier bench raw-rr`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use napier_lab::bench::{self, BenchDecided, Compared, Metric, RawRr, RawRrConfig, RawRrMode, published_raw_rr};
use napier_lab::sheet::{SheetTable, TableCell};
use napier_lab::subject::Backend;

use super::flow_table::backends;
use super::parse_seconds;
use super::print::{BenchText, figure, measured, show, time, without_figures, words};
use crate::progress::Doing;
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
    /// Length of each slice in seconds, or with a unit such as 500ms
    #[arg(long, default_value_t = 0.1, allow_negative_numbers = true, value_parser = parse_seconds)]
    seconds: f64,
    /// Slices of each row, in random order
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
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
    let (length, oversubscribe) = (Duration::from_secs_f64(args.seconds), args.oversubscribe);
    let rows = |&(period, delay): &(Duration, Duration)| {
        let all = modes.iter().flat_map(|mode| args.backend.iter().map(|backend| (*mode, *backend)));
        all.map(|(mode, backend)| RawRrConfig { backend, mode, period, delay, length, oversubscribe }).collect()
    };
    let experiments: Vec<Vec<RawRrConfig>> = experiments.iter().map(rows).collect();
    let doing = Doing::of_rows(args.runs, args.seconds);
    let found = bench::raw_rr(&experiments, args.runs, interrupted, &mut |row| doing.now(row))?;
    drop(doing);
    let rows = &found.rows;
    show(args.json, "raw-rr", &found, || BenchText {
        tables: tables(&experiments, &found),
        notes: notes(&found, args),
    })?;
    match rows.iter().find_map(|row| row.refused.as_ref()).filter(|_| rows.iter().all(|row| row.refused.is_some())) {
        Some(why) => Err(Told(format!("nothing was measured: {why}")).into()),
        None => Ok(()),
    }
}

/// One experiment after the other, as the proposal has them: in each its rows, and the published ones.
fn tables(experiments: &[Vec<RawRrConfig>], found: &Compared<RawRr>) -> Vec<SheetTable> {
    let blocks = found.rows.chunk_by(|a, b| (a.period_ns, a.delay_ns) == (b.period_ns, b.delay_ns));
    blocks
        .zip(experiments)
        .zip(&found.decided)
        .map(|((rows, configs), decided)| block(rows, configs, decided))
        .collect()
}

fn block(rows: &[RawRr], configs: &[RawRrConfig], decided: &BenchDecided) -> SheetTable {
    let mut heads = vec![words("latency in ns")];
    heads.extend(["p5", "p50", "p95", "p99", "p99.9", "lost"].map(figure));
    // Where latencies are those of queues, the columns are wide.
    heads.extend([figure("wakes").goes(1), words("p50 of the first").goes(2)]);
    let mut lines: Vec<Vec<TableCell>> = rows.iter().enumerate().map(|(at, row)| cells(row, at, decided)).collect();
    let (period_ns, delay_ns) = rows.first().map_or((0, 0), |row| (row.period_ns, row.delay_ns));
    for (mode, figures) in published_raw_rr(period_ns, delay_ns) {
        let name = TableCell::Name(format!("published/{}", mode.name()));
        let figures = figures.map(|figure| TableCell::Figure(figure.to_string()));
        lines.push(std::iter::once(name).chain(figures).collect());
    }
    let title = configs.first().map(RawRrConfig::experiment).unwrap_or_default();
    SheetTable { title, heads, rows: lines }
}

fn cells(row: &RawRr, at: usize, decided: &BenchDecided) -> Vec<TableCell> {
    let name = format!("{}/{}", row.backend, row.mode.name());
    match (&row.latency, &row.refused) {
        (_, Some(_)) => without_figures(name, "refused, see below", 8),
        (latency, None) if row.overloaded => {
            #[expect(clippy::cast_precision_loss, reason = "a figure for a table")]
            let p50 = latency.map_or_else(|| "-".to_owned(), |p| time(p.p50_ns as f64));
            let why = format!("overloaded: {} of {} in time, p50 {p50}", row.answered_in_time, row.due);
            without_figures(name, &why, 8)
        }
        (Some(p), None) => {
            let wakes = row.softirq_wakes_per_s.map_or_else(|| "-".to_owned(), |wakes| format!("{wakes:.0}"));
            let times = [p.p5_ns, p.p50_ns, p.p95_ns, p.p99_ns, p.p999_ns].map(ns);
            let figures = times.into_iter().chain([row.lost.to_string(), wakes]).map(TableCell::Figure);
            let beside = TableCell::Name(decided.beside_first(at, Metric::P50));
            std::iter::once(TableCell::Name(name)).chain(figures).chain([beside]).collect()
        }
        (None, None) => without_figures(name, "no reply came back", 8),
    }
}

/// Nanoseconds as the proposal's table has them; what is no figure for that has its unit.
fn ns(ns: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a figure for a table")]
    if ns < 10_000_000 { ns.to_string() } else { time(ns as f64) }
}

/// What is said of rows, each thing once.
fn notes(found: &Compared<RawRr>, args: &RawRrArgs) -> Vec<String> {
    let rows = &found.rows;
    let mut notes = vec![
        "Latency from the intended send. wakes: how often the engine's softirq threads of both ends woke up in a second. published: the proposal's \
         table, on another machine."
            .to_owned(),
        measured(args.runs, &format!("{} s each", args.seconds)),
    ];
    if rows.iter().any(|row| row.overloaded) {
        notes.push(
            "overloaded: less than 99 % were answered in time, and the latency is that of a queue; it is compared with none.".to_owned(),
        );
    }
    for row in rows {
        let name = row.mode.name();
        if let Some(why) = &row.refused {
            notes.push(format!("refused, {}/{name}: {why}.", row.backend));
        } else if let Some(by) = row.polled_by {
            notes.push(format!("kernel/{name}: polled by {by}."));
        }
    }
    if rows.iter().any(|row| row.refused.is_none() && !row.sender_thread) {
        notes.push(
            "No CPU was left for a thread that only sends: the client sends between its receive calls, so a request that falls due while it works on a \
             reply leaves late, and that counts."
                .to_owned(),
        );
    }
    for row in rows.iter().filter(|row| args.histogram && row.refused.is_none()) {
        let (name, calls) = (row.mode.name(), row.receive_calls.to_string().replace('\n', "; "));
        notes.push(format!("{}/{name}, time in receive calls, ns: {calls}", row.backend));
    }
    let mut said = Vec::new();
    notes.retain(|note| {
        !said.contains(note) && {
            said.push(note.clone());
            true
        }
    });
    notes
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
