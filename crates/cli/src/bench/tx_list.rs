//! `bench tx-list`.

use std::io::Write;
use std::time::Duration;

use napier_lab::bench::{self, TIMED_EVERY, TX_LIST_SENDERS_MAX, TxList, TxListConfig, TxListVariant};

use crate::page::plural;
use crate::progress::Doing;

/// Options of `bench tx-list`.
#[derive(clap::Args)]
pub(crate) struct TxListArgs {
    /// Numbers of sender threads, each an experiment of its own
    #[arg(long, value_delimiter = ',', default_value = "16",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(TX_LIST_SENDERS_MAX)))]
    threads: Vec<u32>,
    /// list, spin, mutex, ring, seg; all if none is given
    #[arg(long, value_delimiter = ',', value_parser = parse_variant)]
    variant: Vec<TxListVariant>,
    /// Runs per variant, interleaved
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Length of each run in seconds, or with a unit such as 500ms
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true, value_parser = super::parse_seconds)]
    seconds: f64,
    /// Keep each thread on one CPU: the senders in turn, the consumer on the last
    #[arg(long)]
    pin: bool,
    /// Print the histograms of the push call
    #[arg(long)]
    histogram: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_variant(name: &str) -> Result<TxListVariant, String> {
    TxListVariant::parse(name).ok_or_else(|| super::no_such_variant(&TxListVariant::ALL.map(TxListVariant::name)))
}

/// Runs `bench tx-list` and prints it.
pub(crate) fn tx_list(args: &TxListArgs) -> anyhow::Result<()> {
    let variants = if args.variant.is_empty() { TxListVariant::ALL.to_vec() } else { args.variant.clone() };
    let doing = Doing::of_rows(args.runs, args.seconds);
    let rows = bench::tx_list(&TxListConfig {
        threads: args.threads.clone(),
        variants,
        runs: args.runs,
        length: Duration::from_secs_f64(args.seconds),
        pin: args.pin,
    })?;
    drop(doing);
    if super::shown(args.json, "tx-list", &rows)? {
        return Ok(());
    }
    Ok(print_tx_list(&rows, args)?)
}

fn print_tx_list(rows: &[TxList], args: &TxListArgs) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:>7} {:<6} {:>21} {:>18} {:>7} {:>7} {:>20} {:>9} {:>8} {:>6}",
        "senders",
        "",
        "M items/s [min-max]",
        "x list [min-max]",
        "p50 ns",
        "p99 ns",
        "p99.9 ns [min-max]",
        "max us",
        "cpu ns",
        "batch"
    )?;
    for row in rows {
        writeln!(
            out,
            "{:>7} {:<6} {:>21} {:>18} {:>7.0} {:>7.0} {:>20} {:>9.0} {:>8.1} {:>6}",
            row.threads,
            row.variant.name(),
            row.items_per_s.scaled(1e-6).to_string(),
            row.ratio_to_list.map_or_else(|| "-".to_owned(), |ratio| ratio.to_string()),
            row.p50_ns.median,
            row.p99_ns.median,
            row.p999_ns.to_string(),
            row.max_ns.median / 1e3,
            row.cpu_ns_per_item.median,
            row.batch_items.percentile(0.5),
        )?;
    }
    if args.histogram {
        for row in rows {
            writeln!(out, "\n{} senders, {}; CPU, %: {}", row.threads, row.variant.name(), row.cpu)?;
            write!(out, "time in the push call, ns:\n{}", row.push_calls)?;
        }
    }
    let clock_ns = rows.first().map_or(0, |row| row.clock_ns);
    writeln!(
        out,
        "\nMedian of {} of {} s, {}. Times of every {TIMED_EVERY}th push; the {clock_ns} ns that reading the \
         clock takes are in them.\ncpu: CPU time of all threads per item; batch: median of the items that the consumer \
         found at once.",
        plural(args.runs, "run"),
        args.seconds,
        if args.pin { "each thread on one CPU" } else { "threads run where the system lets them" },
    )
}
