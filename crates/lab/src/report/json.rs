//! The report as one JSON object. The format is documented in `docs/json.md`; names never change their meaning.

mod modes;
mod verdicts;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Lost, Outcome, Report, Row, SavedSlices};
use crate::loads::{Load, SustainSearch};
use crate::stats::{Measured, RowFigures, Spread};
use crate::subject::{Backend, Subject};
use modes::JsonMode;
use verdicts::JsonVerdict;

/// The object as it is written: the report, and what follows from it.
#[derive(Serialize)]
struct JsonReport<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// What each mode set, by name.
    modes: BTreeMap<String, JsonMode>,
    /// What may be said of each load, and what not.
    verdicts: Vec<JsonVerdict>,
    /// Written apart, a line for each.
    slices: [(); 0],
}

/// One mode at one load. Every key is always there; in a refused row all figures are null.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct JsonRow {
    #[serde(flatten)]
    subject: Subject,
    load_rps: Load,
    #[serde(flatten)]
    figures: RowFigures,
    /// Whether the load was sustained; null without figures, and in a closed loop.
    #[serde(default)]
    sustains: Option<bool>,
    /// Number of runs; 0 in a refused row.
    runs: u32,
    /// Smallest and largest of each figure over the runs.
    spread: Option<Spread>,
    /// Why the mode could not be applied, or null.
    refused: Option<String>,
    /// Runs that gave no figures.
    #[serde(default)]
    lost_runs: u32,
    /// Why they did not, or null if there are none.
    #[serde(default)]
    lost: Option<String>,
    /// Slices in which the machine was taken away.
    #[serde(default)]
    left_out: u32,
}

/// The report as JSON, indented, with a newline at its end.
pub fn render(report: &Report) -> String {
    let modes = report.rows.iter().map(|row| row.subject.mode);
    let modes = modes.map(|mode| (mode.to_string(), JsonMode::from(&mode.plan()))).collect();
    let object = JsonReport { report, modes, verdicts: verdicts::of(report), slices: [] };
    let text = serde_json::to_string_pretty(&object).expect("strings, numbers and maps by string always serialize");
    with_slices(text, &report.slices)
}

/// Lists of numbers with one number in a line would be most of the file, so each row's slices are a line.
fn with_slices(object: String, slices: &[SavedSlices]) -> String {
    let lines = slices.iter().map(|one| serde_json::to_string(one).expect("numbers and strings always serialize"));
    let lines: Vec<String> = lines.map(|line| format!("    {line}")).collect();
    if lines.is_empty() {
        return object + "\n";
    }
    let before = object.strip_suffix("[]\n}").expect("the empty list of slices is its last entry");
    format!("{before}[\n{}\n  ]\n}}\n", lines.join(",\n"))
}

impl From<Row> for JsonRow {
    fn from(row: Row) -> Self {
        let figures = row.figures();
        Self {
            subject: row.subject,
            load_rps: row.load,
            figures: figures.map(|figures| figures.median.into()).unwrap_or_default(),
            sustains: (figures.is_some() && row.load != Load::Max).then(|| row.sustains()),
            runs: figures.map_or(0, |figures| figures.runs),
            spread: figures.map(|figures| figures.spread),
            refused: match &row.outcome {
                Outcome::Refused(reason) => Some(reason.clone()),
                Outcome::Measured(_) | Outcome::Predicted { .. } | Outcome::Nothing => None,
            },
            lost_runs: row.lost.as_ref().map_or(0, |lost| lost.runs),
            lost: row.lost.map(|lost| lost.why),
            left_out: row.left_out,
        }
    }
}

impl From<JsonRow> for Row {
    fn from(row: JsonRow) -> Self {
        let JsonRow { subject, load_rps: load, .. } = row;
        let outcome = match (row.refused, Some(row.figures).filter(|_| row.runs > 0).and_then(RowFigures::of_run)) {
            (Some(why), _) => Outcome::Refused(why),
            (None, None) => Outcome::Nothing,
            (None, Some(median)) => {
                let spread = row.spread.unwrap_or(Spread { min: median, max: median });
                let figures = Box::new(Measured { median, spread, runs: row.runs });
                if subject.backend == Backend::Sim {
                    let by_rate = match load {
                        Load::Rps(rps) => median.achieved_rps >= SustainSearch::ACHIEVED_MIN * rps as f64,
                        Load::Max => true,
                    };
                    Outcome::Predicted { figures, sustained: row.sustains.unwrap_or(by_rate) }
                } else {
                    Outcome::Measured(figures)
                }
            }
        };
        let lost = row.lost.map(|why| Lost {
            runs: row.lost_runs,
            of: row.runs + row.lost_runs,
            not_run: if why == format!("{} not run", row.lost_runs) { row.lost_runs } else { 0 },
            why,
        });
        Self { subject, load, outcome, lost, left_out: row.left_out }
    }
}

#[cfg(test)]
mod tests;
