//! The same for programs (docs/json.md).

use std::collections::BTreeMap;

use napier_lab::loads::Load;
use napier_lab::machines::Parameter;
use serde::{Deserialize, Serialize};

use super::score::{Errors, ModeOrder, Score, error, pairs};
use super::{Plan, PlanCell, PlanKind};

/// The whole. What is said of a server alone is absent elsewhere.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonPlan {
    pub title: String,
    pub kind: String,
    pub machine: String,
    pub cells: Vec<JsonCell>,
    pub fitted: Option<JsonErrors>,
    pub checked: Option<JsonErrors>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_qps_pct: Option<Option<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<JsonOrder>>,
    pub parameters: Vec<JsonParameter>,
}

/// One cell. The load of a server is a number or `"max"`, that of others a text.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonCell {
    pub mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_rps: Option<Load>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    pub backend: String,
    pub fitted: bool,
    pub failed: Option<String>,
    pub predicted: BTreeMap<String, f64>,
    pub published: BTreeMap<String, f64>,
    pub error_pct: BTreeMap<String, f64>,
}

/// Errors over rows.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct JsonErrors {
    pub figures: usize,
    pub median_pct: f64,
    pub p90_pct: f64,
}

/// Agreement of the order of modes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JsonOrder {
    pub load_rps: Load,
    pub tau_p99: f64,
    pub tau_cpu: f64,
    #[serde(default)]
    pub tau_cycles: f64,
}

/// One figure of the machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JsonParameter {
    pub name: String,
    pub value: u64,
    pub unit: String,
    pub origin: String,
    pub rows: Vec<String>,
    #[serde(default)]
    pub hardly_determined: bool,
    pub why: String,
}

impl From<Errors> for JsonErrors {
    fn from(Errors { figures, median_pct, p90_pct, .. }: Errors) -> Self {
        Self { figures, median_pct, p90_pct }
    }
}

impl From<&Parameter> for JsonParameter {
    fn from(parameter: &Parameter) -> Self {
        Self {
            name: parameter.name.clone(),
            value: parameter.value,
            unit: parameter.unit.to_owned(),
            origin: parameter.origin.name().to_owned(),
            rows: parameter.rows.clone(),
            hardly_determined: parameter.hardly_determined,
            why: parameter.why.clone(),
        }
    }
}

/// A plan's cells and score.
#[must_use]
pub fn json(plan: &Plan, cells: &[PlanCell], score: &Score) -> JsonPlan {
    let order = |order: &ModeOrder| JsonOrder {
        load_rps: order.load.load,
        tau_p99: order.p99,
        tau_cpu: order.cpu,
        tau_cycles: order.cycles,
    };
    JsonPlan {
        title: plan.title.clone(),
        kind: plan.kind.name().to_owned(),
        machine: plan.machine_title(),
        cells: cells.iter().map(|cell| json_cell(plan, cell)).collect(),
        fitted: score.fitted.map(Into::into),
        checked: score.checked.map(Into::into),
        max_qps_pct: score.server.as_ref().map(|server| server.max_qps_pct),
        order: score.server.as_ref().map(|server| server.order.iter().map(order).collect()),
        parameters: plan
            .machine
            .as_ref()
            .map_or(&[][..], |machine| &machine.parameters)
            .iter()
            .map(Into::into)
            .collect(),
    }
}

fn json_cell(plan: &Plan, cell: &PlanCell) -> JsonCell {
    let pairs = pairs(plan, cell);
    let is_server = plan.kind == PlanKind::EventLoop;
    let predicted = cell.predicted.iter().flatten().map(|(name, value)| ((*name).to_owned(), *value));
    JsonCell {
        mode: cell.mode.name.clone(),
        load_rps: is_server.then_some(cell.load.load),
        load: (!is_server).then(|| cell.load.to_string()),
        backend: "sim".to_owned(),
        fitted: plan.is_fitted(cell),
        failed: cell.predicted.as_ref().err().cloned(),
        predicted: predicted.collect(),
        published: pairs.iter().map(|(name, was, _)| ((*name).to_owned(), *was)).collect(),
        error_pct: pairs.iter().map(|(name, was, is)| ((*name).to_owned(), error(*was, *is) * 100.0)).collect(),
    }
}
