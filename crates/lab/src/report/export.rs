//! A comparison for other programs: as CSV under the names of the JSON, and as Markdown.

use serde_json::Value;

use super::Report;
use super::columns::COLUMNS;
use super::table::{self, Which};
use crate::sheet::{self, ColumnHead, SheetTable, TableCell};

/// What stands before the figures.
const FIRST: &[&str] = &["mode", "backend", "receive", "copy", "load_rps", "runs", "lost_runs", "sustains", "refused"];

/// Figures that no column shows.
const FURTHER: &[&str] = &[
    "in_time_pct",
    "latency_us.p90",
    "latency_us.max",
    "service_latency_us.p50",
    "service_latency_us.p99",
    "run_delay_ms_per_s",
    "timers_per_s",
    "softirq_polls_per_s",
    "softirqs_per_s",
    "context_switches_per_s",
    "spread.min.achieved_rps",
    "spread.max.achieved_rps",
    "spread.min.latency_us.p99",
    "spread.max.latency_us.p99",
    "spread.min.cpu.total_pct",
    "spread.max.cpu.total_pct",
];

/// One line per row, with the names of the JSON in the first; what is null there is empty.
#[must_use]
pub fn csv(report: &Report) -> String {
    let keys: Vec<&str> =
        FIRST.iter().copied().chain(COLUMNS.iter().map(|column| column.key)).chain(FURTHER.iter().copied()).collect();
    let rows = report.rows.iter().map(|row| {
        let value = serde_json::to_value(row).expect("it is written as JSON elsewhere");
        let cell = |key: &&str| {
            TableCell::Figure(match value.pointer(&format!("/{}", key.replace('.', "/"))) {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            })
        };
        keys.iter().map(cell).collect()
    });
    let heads = keys.iter().map(|key| ColumnHead::figure(key, "")).collect();
    sheet::csv(&SheetTable { title: String::new(), heads, rows: rows.collect() })
}

/// The answer, a heading and a table per load, and how to read it.
#[must_use]
pub fn markdown(report: &Report, which: &Which) -> String {
    sheet::markdown(&table::sheet(report, which))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::Load;
    use crate::report::samples::{cover_letter, refused};

    #[test]
    fn each_row_is_a_line_of_csv_with_as_many_fields_as_names() {
        let mut report = cover_letter();
        report.rows.push(refused("busy-read", Load::Max, "no \"CAP_X\", here"));
        let text = csv(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 1 + report.rows.len());
        let names: Vec<&str> = lines[0].split(',').collect();
        let first: Vec<&str> = lines[1].split(',').collect();
        assert_eq!(first.len(), names.len());
        let at = |name: &str| first[names.iter().position(|other| *other == name).expect(name)];
        assert_eq!((at("mode"), at("load_rps"), at("latency_us.p99")), ("base", "200000", "415.0"));
        assert_eq!((at("sustains"), at("spread.max.latency_us.p99")), ("true", "419.15"));
        assert!(lines.last().unwrap().contains(r#","no ""CAP_X"", here","#), "{text}");
    }

    #[test]
    fn markdown_has_the_answer_and_obeys_nothing_from_outside() {
        let mut report = cover_letter();
        report.rows.push(refused("busy-read", Load::Max, "a|b <img>"));
        let text = markdown(&report, &Which::All);
        assert!(
            text.starts_with("Take defer20 at 200K/s: p99 153 us (0.37x base's), CPU 26 % (as base).\n\n"),
            "{text}"
        );
        assert!(text.contains("\n| fullbusy | 199993 |"), "{text}");
        assert!(text.contains(r"refused: a\|b \<img\>"), "{text}");
        let chosen = Which::Chosen(crate::report::columns::parse_columns("cpu").unwrap());
        let text = markdown(&report, &chosen);
        assert!(
            text.contains("### 200K/s offered: 40 rounds of 50 ms\n\n| mode | cpu |\n|:---|---:|\n| base | 26 |\n"),
            "{text}"
        );
    }
}
