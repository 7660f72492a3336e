//! Metrics as a table for people, in Markdown.

use napier_core::metric::{Kind, Metric};

use crate::exposition::full_name;

/// A row for each: its name as scrapers see it, how it moves, its labels, what it says.
#[must_use]
pub fn table(metrics: &[&Metric]) -> String {
    let mut table = "| metric | kind | labels | what it says |\n|---|---|---|---|\n".to_owned();
    for metric in metrics {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let help = metric.help.replace('|', "\\|");
        table += &format!("| `{}` | {kind} | {} | {help} |\n", full_name(metric), labels.join(", "));
    }
    table
}
