//! The report for programs. The format is documented in `docs/json.md`; names never change their meaning.

use std::collections::BTreeMap;

use crate::contention::Outcome;
use crate::contention::costs::COSTS;
use crate::contention::plan::Path;
use napier_core::histogram::Histogram;
use serde::{Deserialize, Serialize};

use super::TransmitReport;
use super::judge::checks;

/// The whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonReport {
    pub commit: String,
    pub seed: u64,
    pub senders: u16,
    pub queues: u16,
    pub pinned: bool,
    pub cpus: u16,
    pub placements: u32,
    pub run_ns: u64,
    pub paths: Vec<JsonPath>,
    pub checks: Vec<JsonCheck>,
    pub parameters: Vec<JsonParameter>,
    pub sensitivity: Vec<JsonSensitivity>,
}

/// One way of transmitting.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonPath {
    pub path: String,
    pub mpps: f64,
    pub cpu_pct: f64,
    pub mode_ns: Option<u64>,
    pub below_1us_pct: f64,
    pub histogram: Vec<JsonBucket>,
    pub counts: BTreeMap<String, u64>,
}

/// One bucket.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonBucket {
    pub from_ns: u64,
    pub count: u64,
}

/// One comparison.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonCheck {
    pub path: Option<String>,
    pub name: String,
    pub published: String,
    pub model: String,
    pub difference: String,
    pub holds: bool,
}

/// One parameter.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonParameter {
    pub name: String,
    pub value: u64,
    pub origin: String,
    pub reason: String,
}

/// One changed parameter.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonSensitivity {
    pub name: String,
    pub value: String,
    pub mpps: BTreeMap<String, f64>,
    pub cpu_pct: BTreeMap<String, f64>,
}

/// Writes the report as one object.
#[must_use]
pub fn json(report: &TransmitReport) -> String {
    let plan = &report.plan;
    let object = JsonReport {
        commit: napier_lab::host::host_and_commit().1,
        seed: plan.seed,
        senders: plan.senders,
        queues: plan.queues,
        pinned: plan.settings.pinned,
        cpus: plan.topology.cpus(),
        placements: plan.placements,
        run_ns: plan.run_ns,
        paths: report.results.iter().map(|result| path(result.path, &result.outcome)).collect(),
        checks: checks(report)
            .into_iter()
            .map(|check| JsonCheck {
                path: check.path.map(|path| path.name().to_owned()),
                name: check.name.to_owned(),
                published: check.published,
                model: check.model,
                difference: check.difference,
                holds: check.holds,
            })
            .collect(),
        parameters: COSTS
            .iter()
            .map(|cost| JsonParameter {
                name: cost.name.to_owned(),
                value: cost.value(&plan.costs),
                origin: cost.origin.name().to_owned(),
                reason: cost.reason.to_owned(),
            })
            .collect(),
        sensitivity: sensitivity(report),
    };
    let mut text = serde_json::to_string_pretty(&object).expect("an object of plain values");
    text.push('\n');
    text
}

fn path(path: Path, outcome: &Outcome) -> JsonPath {
    JsonPath {
        path: path.name().to_owned(),
        mpps: outcome.mpps(),
        cpu_pct: outcome.cpu_pct(),
        mode_ns: outcome.stays.fullest_power().map(|exponent| 1 << exponent),
        below_1us_pct: outcome.stays.below_pct(10),
        histogram: buckets(&outcome.stays),
        counts: outcome.counts.iter().map(|(name, count)| (name.to_owned(), count)).collect(),
    }
}

fn buckets(histogram: &Histogram) -> Vec<JsonBucket> {
    let from_first = (0..).zip(histogram.powers()).skip_while(|(_, count)| *count == 0);
    from_first.map(|(power, count): (u32, u64)| JsonBucket { from_ns: 1 << power, count }).collect()
}

fn sensitivity(report: &TransmitReport) -> Vec<JsonSensitivity> {
    let by_path = |row: &super::Sensitivity, figure: fn(&Outcome) -> f64| {
        row.results.iter().map(|result| (result.path.name().to_owned(), figure(&result.outcome))).collect()
    };
    report
        .sensitivity
        .iter()
        .map(|row| {
            let (name, value) = row.change.name();
            JsonSensitivity {
                name: name.to_owned(),
                value,
                mpps: by_path(row, Outcome::mpps),
                cpu_pct: by_path(row, Outcome::cpu_pct),
            }
        })
        .collect()
}
