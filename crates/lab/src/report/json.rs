//! The report as one JSON object. The format is documented in `docs/json.md`; names never change their meaning.

mod modes;
mod verdicts;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::decided::{Decided, readable};
use super::{Host, MachineUse, Memory, Outcome, Prediction, Report, Row, SavedSlices, Sustained, Workload};
use crate::loads::Load;
use crate::stats::{RowFigures, Spread};
use crate::subject::{Backend, Receive, first_copy};
use modes::JsonMode;
pub use verdicts::JsonVerdict;

/// The object as it is written. `P` is what stands for what a mode sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JsonReport<P = serde_json::Value> {
    /// Where it ran.
    pub host: Host,
    /// Commit of the binary.
    pub commit: String,
    /// What ran.
    pub workload: Workload,
    /// What each mode set, by name.
    pub modes: BTreeMap<String, P>,
    /// One per mode and load.
    pub rows: Vec<JsonRow>,
    /// What may be said of each load, and what not.
    #[serde(default)]
    pub verdicts: Vec<JsonVerdict>,
    /// Runs that could not be carried out, each with why.
    #[serde(default)]
    pub failures: Vec<String>,
    /// Why it ended before all was run, or null.
    #[serde(default)]
    pub ended: Option<String>,
    /// What the process took, or null.
    #[serde(default)]
    pub memory: Option<Memory>,
    /// What else the machine did, by load.
    #[serde(default)]
    pub machine: Vec<MachineUse>,
    /// The most that each mode sustains.
    #[serde(default)]
    pub sustained: Vec<JsonSustained>,
    /// Why the loads were searched again, or null.
    #[serde(default)]
    pub searched_again: Option<String>,
    /// Why the loads are not what they were to be, or null.
    #[serde(default)]
    pub loads_wrong: Option<String>,
    /// What rows of `sim` were predicted on, or null.
    #[serde(default)]
    pub prediction: Option<Prediction>,
    /// Who had the CPUs before anything was measured, or null.
    #[serde(default)]
    pub at_start: Option<String>,
    /// What was decided, by load.
    #[serde(default, deserialize_with = "readable")]
    pub decided: Vec<Decided>,
    /// Minutes that it took, or null.
    #[serde(default)]
    pub took_minutes: Option<f64>,
    /// The slices behind the rows, by mode and load; written apart, a line for each.
    #[serde(default, deserialize_with = "readable")]
    pub slices: Vec<SavedSlices>,
}

/// The most that a mode sustains in open loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in `report::Sustained`, and in docs/json.md")]
pub struct JsonSustained {
    pub mode: String,
    pub backend: Backend,
    /// On which CPU packets were received.
    #[serde(default)]
    pub receive: Receive,
    /// Which of the rows that are the same in all else, from 1.
    #[serde(default = "first_copy")]
    pub copy: u8,
    pub sustained_rps: u64,
    #[serde(default)]
    pub low_rps: Option<u64>,
    #[serde(default)]
    pub high_rps: Option<u64>,
    #[serde(default)]
    pub kept_up_at_most: Option<u64>,
    #[serde(default)]
    pub fell_behind_at_least: Option<u64>,
    pub failed_rps: Option<u64>,
    pub why: Option<String>,
    pub p99_us: Option<f64>,
    pub cpu_pct: Option<f64>,
    /// What took the machine away meanwhile, or null.
    #[serde(default)]
    pub taken: Option<String>,
}

impl From<&Sustained> for JsonSustained {
    fn from(one: &Sustained) -> Self {
        Self {
            mode: one.subject.mode.to_string(),
            backend: one.subject.backend,
            receive: one.subject.receive,
            copy: one.subject.copy,
            sustained_rps: one.rps,
            low_rps: one.interval_rps.map(|(low, _)| low),
            high_rps: one.interval_rps.map(|(_, high)| high),
            kept_up_at_most: one.kept_up_at_most,
            fell_behind_at_least: one.fell_behind_at_least,
            failed_rps: one.failed.as_ref().map(|(rps, _)| *rps).or(one.fell_behind_at_least),
            why: one.failed.as_ref().map(|(_, why)| why.clone()),
            p99_us: one.at_most.map(|(p99_us, _)| p99_us),
            cpu_pct: one.at_most.map(|(_, cpu_pct)| cpu_pct),
            taken: one.taken.clone(),
        }
    }
}

/// One mode at one load. Every key is always there; in a refused row all figures are null.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md")]
pub struct JsonRow {
    pub mode: String,
    pub backend: Backend,
    /// On which CPU packets were received.
    #[serde(default)]
    pub receive: Receive,
    /// Which of the rows that are the same in all else, from 1.
    #[serde(default = "first_copy")]
    pub copy: u8,
    pub load_rps: JsonLoad,
    #[serde(flatten)]
    pub figures: RowFigures,
    /// Whether the load was sustained; null without figures, and in a closed loop.
    #[serde(default)]
    pub sustains: Option<bool>,
    /// Number of runs; 0 in a refused row.
    pub runs: u32,
    /// Smallest and largest of each figure over the runs.
    pub spread: Option<Spread>,
    /// Why the mode could not be applied, or null.
    pub refused: Option<String>,
    /// Runs that gave no figures.
    #[serde(default)]
    pub lost_runs: u32,
    /// Why they did not, or null if there are none.
    #[serde(default)]
    pub lost: Option<String>,
    /// Slices in which the machine was taken away.
    #[serde(default)]
    pub left_out: u32,
}

/// A number of requests per second, or the string `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JsonLoad {
    /// Requests per second.
    Rps(u64),
    /// Closed loop.
    Max(Max),
}

/// The string `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Max {
    /// The only value.
    Max,
}

impl From<Load> for JsonLoad {
    fn from(load: Load) -> Self {
        match load {
            Load::Rps(rps) => Self::Rps(rps),
            Load::Max => Self::Max(Max::Max),
        }
    }
}

/// The report as JSON, indented, with a newline at its end.
pub fn render(report: &Report) -> String {
    let slices = &report.slices;
    let modes = report.rows.iter().map(|row| row.subject.mode);
    let modes: BTreeMap<String, JsonMode> =
        modes.map(|mode| (mode.to_string(), JsonMode::from(&mode.plan()))).collect();
    let report = JsonReport {
        host: report.host.clone(),
        commit: report.commit.clone(),
        workload: report.workload.clone(),
        modes,
        rows: report.rows.iter().map(JsonRow::from).collect(),
        verdicts: verdicts::of(report),
        failures: report.failures.clone(),
        ended: report.ended.clone(),
        memory: report.memory,
        machine: report.machine.clone(),
        sustained: report.sustained.iter().map(JsonSustained::from).collect(),
        searched_again: report.searched_again.clone(),
        loads_wrong: report.loads_wrong.clone(),
        prediction: report.prediction.clone(),
        at_start: report.at_start.clone(),
        decided: report.decided.clone(),
        took_minutes: report.took_minutes,
        slices: Vec::new(),
    };
    let text = serde_json::to_string_pretty(&report).expect("strings, numbers and maps by string always serialize");
    with_slices(text, slices)
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

impl From<&Row> for JsonRow {
    fn from(row: &Row) -> Self {
        let figures = row.figures();
        Self {
            mode: row.subject.mode.to_string(),
            backend: row.subject.backend,
            receive: row.subject.receive,
            copy: row.subject.copy,
            load_rps: row.load.into(),
            figures: figures.map(|figures| figures.median.into()).unwrap_or_default(),
            sustains: (figures.is_some() && row.load != Load::Max).then(|| row.sustains()),
            runs: figures.map_or(0, |figures| figures.runs),
            spread: figures.map(|figures| figures.spread),
            refused: match &row.outcome {
                Outcome::Refused(reason) => Some(reason.clone()),
                Outcome::Measured(_) | Outcome::Predicted { .. } | Outcome::Nothing => None,
            },
            lost_runs: row.lost.as_ref().map_or(0, |lost| lost.runs),
            lost: row.lost.as_ref().map(|lost| lost.why.clone()),
            left_out: row.left_out,
        }
    }
}

#[cfg(test)]
mod tests;
