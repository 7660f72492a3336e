//! `napier bench group`.

use napier_lab::bench::{self, Compared, GroupBenchConfig, GroupFigure};

use super::print::{BenchText, show};
use crate::page::plural;
use crate::progress::Doing;

/// Options of `bench group`.
#[derive(clap::Args)]
pub(crate) struct GroupArgs {
    /// Datagrams for each figure of latency, in each run
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    samples: u32,
    /// Runs; of two pollers one after the other in each
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn group(args: &GroupArgs) -> anyhow::Result<()> {
    let doing = Doing::new(&format!("9 figures, {} of each", plural(args.runs, "run")), None);
    let rows = bench::group(&GroupBenchConfig { samples: args.samples, runs: args.runs }, &|_| {})?;
    drop(doing);
    let found = Compared { rows, decided: Vec::new() };
    show(args.json, "group", &found, || {
        let line = |row: &GroupFigure| {
            let (unit, group) = (row.unit, row.group);
            let beside = row.beside.map_or_else(String::new, |(name, beside)| format!("; {name}: {beside} {unit}"));
            let ratio = row.ratio.map_or_else(String::new, |ratio| format!("; ratio: {ratio}"));
            format!("{}: {group} {unit}{beside}{ratio}", row.what)
        };
        let mut notes: Vec<String> = found.rows.iter().map(line).collect();
        notes.push(format!(
            "Median [min-max] of {}. Latencies are from the send of a datagram until its socket has it; the thread that sends and looks has a CPU of \
             its own. What stands beside it ran in turn with it.",
            plural(args.runs, "run")
        ));
        BenchText { tables: Vec::new(), notes }
    })
}
