//! Advice as one JSON object; docs/json.md describes it.

use std::fmt::Display;

use serde::Serializer;
use serde_json::{Value, json};

use super::text::{commands, sentence};
use super::{Advice, Predicted, Verdict};

/// Names as their text.
///
/// # Errors
/// Those of the serializer.
pub fn as_text<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn names(items: &[impl Display]) -> Vec<String> {
    items.iter().map(ToString::to_string).collect()
}

/// A row; what was never answered has no latency.
fn row(row: &Predicted) -> Value {
    serde_json::to_value(row).expect("numbers and texts always serialize")
}

/// The object.
#[must_use]
pub fn json(advice: &Advice, device: &str) -> Value {
    let workload = &advice.workload;
    json!({
        "machine": advice.machine,
        "machine_figures": advice.parameters.0,
        "machine_figures_fitted": advice.parameters.1,
        "machine_error": {
            "fit_pct": advice.known.fit_pct,
            "held_back_pct": advice.known.held_back_pct,
            "distrust": advice.known.distrust().map(|why| why.to_string()),
        },
        "workload": {
            "rate_rps": workload.rate_rps,
            "peak_rps": workload.peak_rps,
            "queues": workload.queues,
            "connections": workload.connections,
            "cpus": workload.cpus,
            "service": workload.service.as_ref().map(ToString::to_string),
        },
        "goal": { "p99_us": advice.goal.p99_us, "cpu_pct": advice.goal.cpu_pct },
        "rows": advice.rows.iter().map(row).collect::<Vec<_>>(),
        "at_peak": advice.at_peak.iter().map(row).collect::<Vec<_>>(),
        "choice": advice.choice.mode.to_string(),
        "reaches": advice.choice.verdict == Verdict::Reaches,
        "verdict": advice.choice.verdict,
        "near": names(&advice.choice.near),
        "frontier": names(&advice.choice.frontier),
        "overloaded": names(&advice.choice.overloaded),
        "why": sentence(advice),
        "seeds_agreeing": advice.agreeing.0,
        "seeds": advice.agreeing.1,
        "modes_not_run": advice.left_out,
        "sensitivity": serde_json::to_value(&advice.effects).expect("numbers and texts always serialize"),
        "commands": commands(&advice.choice, device),
    })
}
