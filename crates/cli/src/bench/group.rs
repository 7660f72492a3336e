//! `napier bench group`.

use napier_lab::bench::{self, GroupBenchConfig, GroupFigure};

use super::shown;
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
    let doing = Doing::new(&format!("9 figures, {} runs of each", args.runs), None);
    let rows = bench::group(&GroupBenchConfig { samples: args.samples, runs: args.runs }, &|_| {})?;
    drop(doing);
    if shown(args.json, "group", &rows)? {
        return Ok(());
    }
    for row in &rows {
        println!("{}", text(row));
    }
    println!(
        "\nMedian [min-max] of {} runs. Latencies are from the send of a datagram until its socket has it; the thread that sends and\n\
         looks has a CPU of its own. What stands beside it ran in turn with it.",
        args.runs
    );
    Ok(())
}

fn text(row: &GroupFigure) -> String {
    let mut text = format!("{}: {} {}", row.what, row.group, row.unit);
    if let Some((name, beside)) = &row.beside {
        text += &format!("\n  {name}: {beside} {}", row.unit);
    }
    if let Some(ratio) = &row.ratio {
        text += &format!("\n  ratio: {ratio}");
    }
    text
}
