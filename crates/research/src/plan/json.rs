//! The same for programs (docs/json.md).

use std::collections::BTreeMap;

use napier_lab::machines::Parameter;
use serde::{Deserialize, Serialize};

use super::event_loop::EventLoopPlan;
use super::load::Load;
use super::run::{PlanCell, Predicted};
use super::score::{Errors, Score, error, figures, instructions, is_fitted};

/// The whole.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonPlan {
    pub title: String,
    pub kind: String,
    pub machine: String,
    pub cells: Vec<JsonCell>,
    pub fitted: Option<JsonErrors>,
    pub checked: Option<JsonErrors>,
    pub max_qps_pct: Option<f64>,
    pub order: Vec<JsonOrder>,
    pub parameters: Vec<JsonParameter>,
}

/// One cell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "documented in docs/json.md under the same names")]
pub struct JsonCell {
    pub mode: String,
    pub load_rps: serde_json::Value,
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
    pub load_rps: serde_json::Value,
    pub tau_p99: f64,
    pub tau_cpu: f64,
}

/// One figure of the machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JsonParameter {
    pub name: String,
    pub value: u64,
    pub unit: String,
    pub origin: String,
    pub rows: Vec<String>,
    pub why: String,
}

impl From<Errors> for JsonErrors {
    fn from(Errors { figures, median_pct, p90_pct }: Errors) -> Self {
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
            why: parameter.why.clone(),
        }
    }
}

/// A plan's cells and score.
#[must_use]
pub fn json(plan: &EventLoopPlan, cells: &[PlanCell], score: &Score) -> JsonPlan {
    let order = |(load, tau_p99, tau_cpu): &(Load, f64, f64)| JsonOrder {
        load_rps: load_rps(*load),
        tau_p99: *tau_p99,
        tau_cpu: *tau_cpu,
    };
    JsonPlan {
        title: plan.title.clone(),
        kind: super::event_loop::EVENT_LOOP.to_owned(),
        machine: plan.machine.title.clone(),
        cells: cells.iter().map(|cell| json_cell(plan, cell)).collect(),
        fitted: score.fitted.map(Into::into),
        checked: score.checked.map(Into::into),
        max_qps_pct: score.max_qps_pct,
        order: score.order.iter().map(order).collect(),
        parameters: plan.machine.parameters.iter().map(Into::into).collect(),
    }
}

/// A number, or `"max"`, as in the rows of `compare`.
fn load_rps(load: Load) -> serde_json::Value {
    match load {
        Load::Rate(rate) => rate.into(),
        Load::Max => "max".into(),
    }
}

fn json_cell(plan: &EventLoopPlan, cell: &PlanCell) -> JsonCell {
    let mode = cell.mode.to_string();
    let pairs = plan.published.row(&mode, cell.load).zip(cell.predicted.as_ref().ok());
    let figures = pairs.map(|(row, predicted)| figures(&row, predicted)).into_iter().flatten();
    let (mut published, mut error_pct) = (BTreeMap::new(), BTreeMap::new());
    for (name, was, is) in figures.chain(instructions(plan, cell)) {
        published.insert(name.to_owned(), was);
        error_pct.insert(name.to_owned(), error(was, is) * 100.0);
    }
    JsonCell {
        fitted: is_fitted(plan, cell),
        mode,
        load_rps: load_rps(cell.load),
        backend: "sim".to_owned(),
        failed: cell.predicted.as_ref().err().cloned(),
        predicted: cell.predicted.as_ref().map(all).unwrap_or_default(),
        published,
        error_pct,
    }
}

fn all(predicted: &Predicted) -> BTreeMap<String, f64> {
    let pairs = [
        ("qps", predicted.qps),
        ("avg_us", predicted.avg_us),
        ("p50_us", predicted.p50_us),
        ("p95_us", predicted.p95_us),
        ("p99_us", predicted.p99_us),
        ("cpu_pct", predicted.cpu_pct),
        ("cpu_user_pct", predicted.cpu_user_pct),
        ("cpu_system_pct", predicted.cpu_system_pct),
        ("cpu_irq_pct", predicted.cpu_irq_pct),
        ("cpu_softirq_pct", predicted.cpu_softirq_pct),
        ("cpu_spin_pct", predicted.cpu_spin_pct),
        ("cycles_per_query_corrected", predicted.cycles_per_query_corrected),
        ("instructions_per_query_corrected", predicted.instructions_per_query_corrected),
        ("interrupts_per_s_per_core", predicted.interrupts_per_s_per_core),
        ("polls_per_s_per_core", predicted.polls_per_s_per_core),
        ("empty_polls_pct", predicted.empty_polls_pct),
        ("work_per_poll", predicted.work_per_poll),
        ("events_per_wait", predicted.events_per_wait),
        ("lost_per_s_per_core", predicted.lost_per_s_per_core),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
