//! How a plan's cells go on in time: each run in equal slices, as lines of a CSV file.

use std::fmt::Write;

use napier_lab::advise::percentile_us;
use napier_sim::machine::figures::{Figures, RunSlice};

use super::PlanCell;

/// The first line. What is counted is of the queue that the run has.
pub(super) const HEAD: &str = "mode,load,run,until_ms,answered_per_s,p50_us,p99_us,behind,cpu_pct\n";

/// The lines of a cell's runs, counted from 1. A slice without an answer has no percentiles.
pub(super) fn lines(cell: &PlanCell, runs: &[&Figures]) -> String {
    let mut text = String::new();
    for (nth, run) in runs.iter().enumerate() {
        let (name, load) = (&cell.mode.name, cell.load);
        let mut before = RunSlice::default();
        for slice in &run.slices {
            let seconds = (slice.until.ns - before.until.ns).max(1) as f64 / 1e9;
            let mut latency = run.latency_ns.get(before.latencies..slice.latencies).unwrap_or_default().to_vec();
            latency.sort_unstable();
            let us = |percent| {
                let us = percentile_us(&latency, percent);
                if us.is_finite() { format!("{us:.1}") } else { String::new() }
            };
            writeln!(
                text,
                "{name},{load},{},{:.3},{:.0},{},{},{},{:.1}",
                nth + 1,
                slice.until.ns as f64 / 1e6,
                (slice.answered - before.answered) as f64 / seconds,
                us(50),
                us(99),
                slice.behind,
                slice.busy_ns.saturating_sub(before.busy_ns) as f64 / 1e7 / seconds,
            )
            .expect("a string takes everything");
            before = *slice;
        }
    }
    text
}
