//! `bench defer`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use napier_lab::bench::{self, DeferConfig, Metric};
use napier_lab::limits::MachineLimits;

use super::print::{BenchText, cell, figure, measured, show, table, words};
use crate::progress::Doing;
use crate::units::{self, Bare};

/// Options of `bench defer`.
#[derive(clap::Args)]
pub(crate) struct DeferArgs {
    /// Time between two cycles in us, or with a unit such as 1ms (gro-flush-timeout)
    #[arg(long, default_value_t = 20, value_parser = parse_timeout)]
    timeout: u64,
    /// Slices per row, in random order
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: u32,
    /// Length of each slice in seconds, or with a unit such as 500ms
    #[arg(long, default_value_t = 0.15, allow_negative_numbers = true, value_parser = super::parse_seconds)]
    seconds: f64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse_timeout(text: &str) -> Result<u64, String> {
    units::whole_within(text, Bare::Microseconds, 1..=1_000_000)
}

/// Runs `bench defer` and prints it.
pub(crate) fn defer(args: &DeferArgs, interrupted: &AtomicBool) -> anyhow::Result<()> {
    let doing = Doing::of_rows(args.runs, args.seconds);
    let config = DeferConfig {
        timeout: Duration::from_micros(args.timeout),
        length: Duration::from_secs_f64(args.seconds),
        runs: args.runs,
    };
    let found = bench::defer(&config, interrupted, &mut |row| doing.now(row))?;
    drop(doing);
    let limits = MachineLimits::measure()?;
    show(args.json, "defer", &found, || {
        let decided = &found.decided[0];
        let mut heads = vec![words("a cycle that"), figure("CPU %"), words("of the first")];
        heads.extend(["CPU us/cycle", "cycles/s", "packets"].map(figure));
        let row = |(at, row): (usize, &bench::Defer)| {
            let medians = [row.cpu_us_per_cycle, row.cycles_per_s, row.packets_per_cycle].map(|of| of.median_shown());
            let front = [row.cycle.name().to_owned(), cell(decided, at, Metric::Cpu, 1.0)];
            front.into_iter().chain([decided.beside_first(at, Metric::Cpu)]).chain(medians).collect()
        };
        let notes = vec![
            measured(args.runs, &format!("{} s each", args.seconds)),
            format!(
                "CPU time of the engine's softirq thread and of the program that receives, the sender is on another CPU; per cycle of {} us, medians. \
                 This machine: {limits}.",
                args.timeout
            ),
        ];
        BenchText { tables: vec![table("", heads, found.rows.iter().enumerate().map(row).collect())], notes }
    })
}
