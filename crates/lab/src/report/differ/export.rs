//! Differences as CSV: tidy, for what draws and counts.

use super::{DifferenceVerdict, Line, SideBySide};
use crate::loads::Load;
use crate::report::columns::{COLUMNS, Column};
use crate::sheet::quoted;

/// What stands in each line; a figure is in the unit that the metric's name says.
const NAMES: &[&str] = &[
    "mode",
    "receive",
    "copy",
    "load_rps",
    "metric",
    "file",
    "backend",
    "runs",
    "sustains",
    "median",
    "min",
    "max",
    "ratio_to_first",
    "differs",
    "verdict",
    "ratio_low",
    "ratio_high",
    "within_pct",
];

/// One line per row, metric and file, under the names of the JSON; what is null there is empty, and has no line if all is.
#[must_use]
pub fn csv(all: &SideBySide<'_>) -> String {
    let mut text = NAMES.join(",") + "\n";
    for line in &all.lines {
        for column in COLUMNS {
            for i in 0..all.files.len() {
                if let Some(fields) = fields(all, line, i, column) {
                    text += &fields.map(|field| quoted(&field)).join(",");
                    text.push('\n');
                }
            }
        }
    }
    text
}

fn fields(all: &SideBySide<'_>, line: &Line<'_>, i: usize, column: &Column) -> Option<[String; NAMES.len()]> {
    let (row, standing) = (line.rows[i]?, line.standing(i, column)?);
    let subject = line.subject();
    let receive = serde_json::to_value(subject.receive).expect("it is written as JSON elsewhere");
    Some([
        subject.mode.to_string(),
        receive.as_str().unwrap_or_default().to_owned(),
        subject.copy.to_string(),
        match line.load {
            Load::Rps(rps) => rps.to_string(),
            Load::Max => "max".to_owned(),
        },
        column.key.to_owned(),
        all.files[i].name.clone(),
        row.subject.backend.to_string(),
        standing.value.runs.to_string(),
        known(line.sustains(i)),
        standing.value.median.to_string(),
        standing.value.range.0.to_string(),
        standing.value.range.1.to_string(),
        known(standing.ratio),
        known(standing.verdict.and_then(DifferenceVerdict::differs)),
        known(standing.verdict.map(DifferenceVerdict::key)),
        known(standing.interval.map(|(low, _)| low)),
        known(standing.interval.map(|(_, high)| high)),
        known(standing.verdict.and_then(DifferenceVerdict::within_pct)),
    ])
}

/// Nothing where it is not known.
fn known(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}
