//! A comparison for other programs: as CSV under the names of the JSON, and as Markdown.

use serde_json::Value;

use super::columns::{COLUMNS, Column, Range};
use super::json::JsonRow;
use super::sentence::sentences;
use super::table::Which;
use super::verdict::Block;
use super::{Outcome, Report, Row};
use crate::loads::Load;

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
    let mut text = keys.join(",") + "\n";
    for row in &report.rows {
        let value = serde_json::to_value(JsonRow::from(row)).expect("it is written as JSON elsewhere");
        let field = |key: &&str| match value.pointer(&format!("/{}", key.replace('.', "/"))) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => quoted(text),
            Some(other) => other.to_string(),
        };
        text += &keys.iter().map(field).collect::<Vec<_>>().join(",");
        text.push('\n');
    }
    text
}

/// As RFC 4180 has it.
pub(super) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// A heading and a table per load, the best of a column in bold, and what is said of it.
#[must_use]
pub fn markdown(report: &Report, which: &Which) -> String {
    let columns: Vec<&Column> = match which {
        Which::Chosen(chosen) => chosen.0.clone(),
        Which::Fitting | Which::All => COLUMNS.iter().filter(|c| !c.optional || c.is_in(&report.rows)).collect(),
    };
    let backends = report.among_backends();
    let mut text = String::new();
    for (load, rows) in report.by_load().into_iter().filter(|(_, rows)| !rows.iter().all(|row| row.was_not_run())) {
        text += &match load {
            Load::Max => "### Closed loop\n\n".to_owned(),
            Load::Rps(_) => format!("### {load} requests/s\n\n"),
        };
        let heads: Vec<&str> = columns.iter().map(|column| column.head).collect();
        text += &format!("| mode | {} |\n|:---|{}\n", heads.join(" | "), "---:|".repeat(heads.len()));
        let blocks = Block::all_of(report, load);
        let ranges: Vec<Range> = columns.iter().map(|column| Range::of(column, &rows, &blocks)).collect();
        for row in &rows {
            text += &format!("| {} | {} |\n", row.subject.name(backends), cells(row, &columns, &ranges).join(" | "));
        }
        text.push('\n');
        for said in sentences(load, &rows, report) {
            text += &format!("{}\n\n", escaped(&said));
        }
    }
    let workload = &report.workload;
    text + &format!(
        "Medians over the runs; **bold**: the best of its column, where that is decided. Latency in µs from the intended send; cpu, useful, spin in % of the server's CPUs. \
             {} on the {}, commit {}, {}, Linux {}.\n",
        workload.name,
        workload.backend,
        report.commit,
        escaped(&report.host.cpu_model),
        escaped(&report.host.kernel)
    )
}

fn cells(row: &Row, columns: &[&Column], ranges: &[Range]) -> Vec<String> {
    let words = |words: String| {
        let mut cells = vec![escaped(&words)];
        cells.resize(columns.len(), String::new());
        cells
    };
    match &row.outcome {
        Outcome::Refused(why) => words(format!("refused: {why}")),
        Outcome::Nothing => words(format!("no figures: {}", row.lost.as_ref().map_or("", |lost| lost.why.as_str()))),
        Outcome::Measured(figures) | Outcome::Predicted { figures, .. } => columns
            .iter()
            .zip(ranges)
            .map(|(column, range)| {
                let shown = column.shown((column.figure)(&figures.median), range);
                if range.is_best(row) { format!("**{shown}**") } else { shown }
            })
            .collect(),
    }
}

/// Text from outside without what Markdown would obey.
pub(super) fn escaped(text: &str) -> String {
    let special = |c: char| matches!(c, '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' | '\\');
    text.chars()
        .flat_map(|c| {
            let c = if c.is_control() { ' ' } else { c };
            special(c).then_some('\\').into_iter().chain(Some(c))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn markdown_has_the_best_in_bold_and_obeys_nothing_from_outside() {
        let mut report = cover_letter();
        report.rows.push(refused("busy-read", Load::Max, "a|b <img>"));
        let text = markdown(&report, &Which::All);
        assert!(text.contains("| fullbusy |") && text.contains("**132**"), "{text}");
        assert!(text.contains(r"refused: a\|b \<img\>"), "{text}");
        let chosen = Which::Chosen(crate::report::columns::parse_columns("cpu").unwrap());
        let text = markdown(&report, &chosen);
        assert!(text.starts_with("### 200K requests/s\n\n| mode | cpu |\n|:---|---:|\n| base | 26 |\n"), "{text}");
        assert!(text.contains("Frontier of p99 and CPU: defer200 304 us at 18 %"), "{text}");
    }
}
