//! `napier bench storage`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::ensure;
use napier_kv::service::Service;
use napier_lab::bench::{
    BenchDecided, Compared, FlowsConfig, Metric, PublishedFlow, STORAGE_CONNECTIONS_MAX, STORAGE_OPERATIONS_MAX,
    STORAGE_SERVICE, Storage, StorageConfig, WORKERS_MAX,
};
use napier_lab::loads::Load;
use napier_lab::sheet::{ColumnHead, SheetTable, TableCell};
use napier_lab::subject::Backend;

use super::flow_table::{backends, bytes, parse_bytes, read_subjects};
use super::parse_seconds;
use super::print::{
    BenchText, figure, measured, notes_of_flows, published_times, rate, show, table, time, without_figures, words,
};
use crate::page::plural;
use crate::progress::Doing;
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
    /// Length of each slice in seconds, or with a unit such as 500ms
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true, value_parser = parse_seconds)]
    seconds: f64,
    /// Slices of each row, in random order
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
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
    let doing = Doing::of_rows(args.runs, args.seconds);
    let found = napier_lab::bench::storage(&config, interrupted, &mut |row| doing.now(row))?;
    drop(doing);
    let rows = &found.rows;
    show(args.json, "storage", &found, || BenchText { tables: tables(&found, args), notes: notes(rows, args) })?;
    match rows.iter().find_map(|row| row.refused.as_ref()).filter(|_| rows.iter().all(|row| row.figures.is_none())) {
        Some(why) => Err(Told(format!("nothing was measured: {why}")).into()),
        None => Ok(()),
    }
}

/// Bytes a second in units of a million.
fn megabytes(per_s: f64) -> String {
    let mb = per_s / 1e6;
    if mb < 100.0 { format!("{mb:.1}") } else { format!("{mb:.0}") }
}

fn heads(title: &str) -> Vec<ColumnHead> {
    let mut heads = vec![words(title)];
    heads.extend(["op_size", "QPS", "MB/s", "50%tile", "95%tile", "99%tile"].map(figure));
    heads.extend([words("of the first"), figure("99.9%tile").goes(1)]);
    heads
}

fn tables(found: &Compared<Storage>, args: &StorageArgs) -> Vec<SheetTable> {
    let (mut lines, mut published) = (Vec::new(), Vec::new());
    for (rows, decided) in found.rows.chunk_by(|a, b| a.bytes == b.bytes).zip(&found.decided) {
        for (at, row) in rows.iter().enumerate() {
            lines.push(line(row, at, decided));
            if let Some(p) = row.published.filter(|p| !published.iter().any(|(of, _)| of == p)) {
                published.push((p, row.bytes));
            }
        }
    }
    let all = heads(&format!("{}/s asked for", rate(args.rate as f64)));
    let mut tables = vec![SheetTable { title: String::new(), heads: all.clone(), rows: lines }];
    let row = |(p, size): &(PublishedFlow, u32)| {
        let [p50, p95, p99, p999] = published_times(p);
        let mb = megabytes(p.qps * f64::from(*size));
        vec![p.mode.to_owned(), bytes(*size), rate(p.qps), mb, p50, p95, p99, String::new(), p999]
    };
    let title = "As published, on another machine (56 hyper-threads, 100 Gbit/s, remote SSD):";
    tables.extend((!published.is_empty()).then(|| table(title, all, published.iter().map(row).collect())));
    tables
}

fn line(row: &Storage, at: usize, decided: &BenchDecided) -> Vec<TableCell> {
    let name = format!("{}/{}", row.backend, row.mode);
    match (&row.figures, &row.refused) {
        (figures, None) if row.overloaded => {
            let p50 = figures.map_or_else(|| "-".to_owned(), |f| time(f.p50_ns.median));
            let (in_time, due) = (row.answered_in_time, row.due);
            let why = format!("overloaded: {in_time} of {due} answered in time, 50%tile {p50}, that of a queue");
            without_figures(name, &why, 8)
        }
        (Some(f), _) => {
            let mb = megabytes(f.qps.median * f64::from(row.bytes));
            let [p50, p95, p99, p999] = [f.p50_ns, f.p95_ns, f.p99_ns, f.p999_ns].map(|of| time(of.median));
            let front = [bytes(row.bytes), rate(f.qps.median), mb, p50, p95, p99].map(TableCell::Figure);
            let beside = TableCell::Name(decided.beside_first(at, Metric::P99));
            std::iter::once(TableCell::Name(name)).chain(front).chain([beside, TableCell::Figure(p999)]).collect()
        }
        (None, refused) => without_figures(name, refused.as_deref().unwrap_or("no answer came"), 8),
    }
}

fn notes(rows: &[Storage], args: &StorageArgs) -> Vec<String> {
    let StorageArgs { runs, seconds, read_pct, service, connections, .. } = args;
    let mut notes = vec![
        measured(*runs, &format!("{seconds} s each")),
        format!(
            "Medians; from when an operation was due to the last byte of its answer. {read_pct} % reads. The store takes {service} for each and no CPU, \
             any number at once; {}, each with one operation in hand at most.",
            plural(*connections, "connection")
        ),
    ];
    let lost: u64 = rows.iter().map(|row| row.lost).sum();
    notes.extend(
        (lost > 0).then(|| format!("{} had no answer a second after the last was due.", plural(lost, "operation"))),
    );
    notes.extend(notes_of_flows(rows.iter().map(|row| row.backend), rows.iter().find_map(|row| row.cpus.as_ref())));
    notes
}
