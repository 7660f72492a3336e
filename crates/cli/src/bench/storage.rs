//! `napier bench storage`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::ensure;
use napier_kv::service::Service;
use napier_lab::bench::{
    FlowsConfig, STORAGE_CONNECTIONS_MAX, STORAGE_OPERATIONS_MAX, STORAGE_SERVICE, Storage, StorageConfig, WORKERS_MAX,
};
use napier_lab::loads::Load;
use napier_lab::subject::Backend;

use super::flow_table::{
    Column, backends, bytes, once, parse_bytes, print_notes, print_row, print_words, rate, read_subjects, time,
};
use super::{parse_seconds, shown};
use crate::{Told, Usage};

/// Options of `bench storage`.
#[derive(clap::Args)]
pub(crate) struct StorageArgs {
    /// Operations a second, sent whatever comes back, such as 800 or 20k
    #[arg(long, value_parser = parse_rate)]
    rate: u64,
    /// Bytes of an operation, such as 4K, 64K or 1M; several sizes give a block each
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4K", value_parser = parse_bytes)]
    size: Vec<u32>,
    /// Reads among a hundred operations, such as 95 or 95%; the rest are writes
    #[arg(long, default_value_t = 95, value_parser = crate::units::whole_percent)]
    read_pct: u32,
    /// Time that the store takes for an operation, which costs no CPU: 80us, exp:80us or hist:FILE. Any number of operations
    /// pass at once
    #[arg(long, value_name = "TIME", default_value = STORAGE_SERVICE)]
    service: String,
    /// Connections, each with one operation in hand at most
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(STORAGE_CONNECTIONS_MAX)))]
    connections: u32,
    /// Modes of the store's end, in the order of the rows, as in `napier compare`
    #[arg(long, value_name = "LIST", default_value = "base,threaded,workqueue")]
    modes: String,
    /// Where modes are applied; both give a row each
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "engine", value_parser = backends())]
    backend: Vec<Backend>,
    /// Threads of the store, each with a queue of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(WORKERS_MAX)))]
    workers: u16,
    /// Length of each run in seconds, or with a unit such as 500ms
    #[arg(long, default_value_t = 2.0, allow_negative_numbers = true, value_parser = parse_seconds)]
    seconds: f64,
    /// Runs of each row, interleaved
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Of the order of reads and writes, and of the store's times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run what needs more CPUs than there are
    #[arg(long)]
    oversubscribe: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_rate(text: &str) -> Result<u64, String> {
    match Load::parse(text) {
        Ok(Load::Rps(rate)) => Ok(rate),
        Ok(Load::Max) => Err("a fixed rate is needed; give operations per second such as 800 or 20k".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

impl StorageArgs {
    fn config(&self) -> anyhow::Result<StorageConfig> {
        let operations = (self.rate as f64 * self.seconds) as u64;
        let most = STORAGE_OPERATIONS_MAX;
        ensure!(
            operations <= most,
            "{operations} operations in a run are too many: give less --rate or --seconds (at most {most})"
        );
        Ok(StorageConfig {
            flows_config: FlowsConfig {
                subjects: read_subjects(&self.modes, &self.backend)?,
                workers: self.workers,
                length: Duration::from_secs_f64(self.seconds),
                runs: self.runs,
                oversubscribe: self.oversubscribe,
            },
            rate: self.rate,
            sizes: self.size.clone(),
            read_pct: self.read_pct,
            service: self.service.parse::<Service>()?,
            connections: self.connections,
            seed: self.seed,
        })
    }
}

pub(super) fn storage(args: &StorageArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let config = args.config().map_err(Usage)?;
    let bar = crate::progress::spinner();
    let measured = napier_lab::bench::storage(&config, interrupted, &mut |row| bar.set_message(row.to_owned()));
    bar.finish_and_clear();
    let rows = measured?;
    if !shown(args.json, "storage", &rows)? {
        print(&rows, args);
    }
    match rows.iter().find_map(|row| row.refused.as_ref()).filter(|_| rows.iter().all(|row| row.figures.is_none())) {
        Some(why) => Err(Told(format!("nothing was measured: {why}")).into()),
        None => Ok(()),
    }
}

fn label(name: &str, size: u32) -> String {
    format!("{name:<17}{:>7}", bytes(size))
}

/// Bytes a second in units of a million.
fn megabytes(per_s: f64) -> String {
    let mb = per_s / 1e6;
    if mb < 100.0 { format!("{mb:.1}") } else { format!("{mb:.0}") }
}

fn print(rows: &[Storage], args: &StorageArgs) {
    println!(
        "{:<17}{:>7}{:>8}{:>8}{:>9}{:>9}{:>9}{:>10}",
        format!("{}/s asked for", rate(args.rate as f64)),
        "op_size",
        "QPS",
        "MB/s",
        "50%tile",
        "95%tile",
        "99%tile",
        "99.9%tile"
    );
    for row in rows {
        let label = label(&format!("{}/{}", row.backend, row.mode), row.bytes);
        match (&row.figures, &row.refused) {
            (figures, None) if row.overloaded => {
                let p50 = figures.map_or_else(|| "-".to_owned(), |f| time(f.p50_ns.median));
                let (in_time, due) = (row.answered_in_time, row.due);
                print_words(
                    &label,
                    &format!("overloaded: {in_time} of {due} answered in time, 50%tile {p50}, that of a queue"),
                );
            }
            (Some(f), _) => {
                let columns = [
                    Column { width: 8, values: Some(f.qps), write: rate },
                    Column { width: 8, values: Some(f.qps.scaled(f64::from(row.bytes))), write: megabytes },
                    Column { width: 9, values: Some(f.p50_ns), write: time },
                    Column { width: 9, values: Some(f.p95_ns), write: time },
                    Column { width: 9, values: Some(f.p99_ns), write: time },
                    Column { width: 10, values: Some(f.p999_ns), write: time },
                ];
                print_row(&label, &columns, row.runs);
            }
            (None, refused) => print_words(&format!("{label} "), refused.as_deref().unwrap_or("no answer came")),
        }
    }
    print_published(rows);
    print_below(rows, args);
}

fn print_published(rows: &[Storage]) {
    let mut said = Vec::new();
    for row in rows {
        let Some(p) = row.published.filter(|p| !said.contains(p)) else { continue };
        if said.is_empty() {
            println!("\nAs published, on another machine (56 hyper-threads, 100 Gbit/s, remote SSD):");
        }
        said.push(p);
        let times = [(9, Some(p.p50_ns)), (9, p.p95_ns), (9, Some(p.p99_ns)), (10, Some(p.p999_ns))];
        let times = times.map(|(width, ns)| Column { width, values: ns.map(|ns| once(ns as f64)), write: time });
        let bytes_per_s = once(p.qps * f64::from(row.bytes));
        let front = [
            Column { width: 8, values: Some(once(p.qps)), write: rate },
            Column { width: 8, values: Some(bytes_per_s), write: megabytes },
        ];
        print_row(&label(p.mode, row.bytes), &front.into_iter().chain(times).collect::<Vec<_>>(), 1);
    }
}

fn print_below(rows: &[Storage], args: &StorageArgs) {
    let StorageArgs { runs, seconds, read_pct, service, connections, .. } = args;
    println!();
    let runs = if *runs == 1 { "One run".to_owned() } else { format!("Medians of {runs} runs") };
    print_words(
        "",
        &format!(
            "{runs} of {seconds} s; from when an operation was due to the last byte of its answer. {read_pct} % reads. The \
             store takes {service} for each and no CPU, any number at once; {connections} connections, each with one \
             operation in hand at most."
        ),
    );
    let lost: u64 = rows.iter().map(|row| row.lost).sum();
    if lost > 0 {
        println!("{lost} operations had no answer a second after the last was due.");
    }
    print_notes(rows.iter().map(|row| row.backend), rows.iter().find_map(|row| row.cpus.as_ref()));
}
