//! `bench defer`.

use std::time::Duration;

use napier_lab::bench::{self, DeferConfig};
use napier_lab::limits::MachineLimits;

use crate::page::plural;
use crate::progress::Doing;
use crate::units::{self, Bare};

/// Options of `bench defer`.
#[derive(clap::Args)]
pub(crate) struct DeferArgs {
    /// Time between two cycles in us, or with a unit such as 1ms (gro-flush-timeout)
    #[arg(long, default_value_t = 20, value_parser = parse_timeout)]
    timeout: u64,
    /// Runs per row, interleaved
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Length of each run in seconds, or with a unit such as 500ms
    #[arg(long, default_value_t = 0.5, allow_negative_numbers = true, value_parser = super::parse_seconds)]
    seconds: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_timeout(text: &str) -> Result<u64, String> {
    units::whole_within(text, Bare::Microseconds, 1..=1_000_000)
}

/// Runs `bench defer` and prints it.
pub(crate) fn defer(args: &DeferArgs) -> anyhow::Result<()> {
    let doing = Doing::of_rows(args.runs, args.seconds);
    let rows = bench::defer(&DeferConfig {
        timeout: Duration::from_micros(args.timeout),
        length: Duration::from_secs_f64(args.seconds),
        runs: args.runs,
    })?;
    drop(doing);
    if super::shown(args.json, "defer", &rows)? {
        return Ok(());
    }
    println!(
        "{:<40} {:>24} {:>24} {:>22}",
        "a cycle that", "CPU us [min-max]", "cycles/s [min-max]", "packets [min-max]"
    );
    for row in &rows {
        println!(
            "{:<40} {:>24} {:>24} {:>22}",
            row.cycle.name(),
            row.cpu_us_per_cycle.to_string(),
            row.cycles_per_s.to_string(),
            row.packets_per_cycle.to_string()
        );
    }
    println!(
        "\nMedian of {}; per cycle of {} us. CPU time of the engine's softirq thread and of the program that receives, the\n\
         sender is on another CPU. This machine: {}.",
        plural(args.runs, "run"),
        args.timeout,
        MachineLimits::measure()?
    );
    Ok(())
}
