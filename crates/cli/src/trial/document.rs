//! A trial for programs, and for the page that is drawn of it (docs/trial.md).

use napier_trial::{Estimate, Holds, Measured, TrialAnswer, Unit, Verdict};
use serde_json::{Map, Value, json};

use super::{REFERENCE, TrialArgs, TrialPlan, TrialResult, said};

/// What it came to.
pub(super) fn document(result: &TrialResult<'_>) -> Value {
    let TrialResult { plan, outcome, decision, .. } = result;
    let name = |candidate: usize| plan.modes[candidate].to_string();
    let names = |all: &[usize]| all.iter().map(|one| name(*one)).collect::<Vec<_>>();
    let (decided, mode) = match &decision.answer {
        TrialAnswer::Take { candidate, .. } => ("take", Some(name(*candidate))),
        TrialAnswer::Stay { .. } => ("stay", Some(name(REFERENCE))),
        TrialAnswer::Undecided { .. } => ("undecided", None),
    };
    let (alike, better, within, more) = match &decision.answer {
        TrialAnswer::Take { alike, .. } => (names(alike), Vec::new(), None, None),
        TrialAnswer::Stay { within } => (Vec::new(), Vec::new(), *within, None),
        TrialAnswer::Undecided { better, more_rounds } => (Vec::new(), names(better), None, *more_rounds),
    };
    let ended = outcome.ended.as_ref().map(|(why, words)| json!({ "why": why.to_string(), "words": words }));
    let trips = outcome.trips.iter().map(|trip| {
        json!({
            "mode": trip.candidate.map(name), "why": trip.why, "at_s": seconds(trip.at), "back_ms": trip.took.as_secs_f64() * 1e3,
        })
    });
    let carried =
        decision.carried.iter().map(|one| json!({ "mode": name(one.candidate), "ratio": estimate(one.ratio) }));
    let mut whole = head(plan, result.dev, result.program);
    let more_s = more.map(|rounds| (plan.times.block * plan.modes.len() as u32 * rounds).as_secs_f64());
    for (key, value) in [
        ("answer", json!(said::answer(result))),
        ("decided", json!(decided)),
        ("mode", json!(mode)),
        ("alike", json!(alike)),
        ("within", json!(within)),
        ("better", json!(better)),
        ("more_s", json!(more_s)),
        ("keep", json!(result.keep)),
        ("measured_rounds", json!(decision.rounds)),
        ("took_s", json!(seconds(outcome.took))),
        ("ended", json!(ended)),
        ("modes", (0..plan.modes.len()).map(|candidate| mode_of(result, candidate)).collect()),
        ("pairs", pairs(result)),
        ("taken_back", trips.collect()),
        ("carried", carried.collect()),
        ("blocks", outcome.measured.iter().map(|one| block(plan, one)).collect()),
        ("left", json!(result.left)),
    ] {
        whole.insert(key.to_owned(), value);
    }
    Value::Object(whole)
}

/// What would be done.
pub(super) fn planned(plan: &TrialPlan, args: &TrialArgs, program: &str, modes: Vec<Value>) -> Value {
    let mut whole = head(plan, &args.dev, program);
    let turns = plan.blocks().into_iter().map(|block| plan.modes[block.candidate].to_string());
    whole.insert("turns".to_owned(), turns.collect());
    whole.insert("modes".to_owned(), modes.into());
    Value::Object(whole)
}

/// How it is done.
fn head(plan: &TrialPlan, dev: &str, program: &str) -> Map<String, Value> {
    let figures = plan.figures.iter().map(|figure| {
        let unit = match figure.unit {
            Unit::Seconds => "s",
            Unit::Share => "share",
            Unit::PerSecond => "1/s",
            Unit::BytesPerSecond => "B/s",
            Unit::Plain => "",
        };
        json!({ "name": figure.name, "unit": unit, "more_is_better": figure.better == napier_trial::Better::More })
    });
    let bounds =
        plan.bounds.iter().map(|bound| json!({ "figure": plan.figures[bound.figure].name, "share": bound.share }));
    let value = json!({
        "dev": dev, "program": program, "reference": plan.modes[REFERENCE].to_string(), "block_s": seconds(plan.times.block),
        "settle_s": seconds(plan.times.settle), "rounds": plan.rounds, "seed": plan.seed, "figures": figures.collect::<Vec<_>>(),
        "decides": plan.figures[plan.decides].name, "bounds": bounds.collect::<Vec<_>>(),
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn mode_of(result: &TrialResult<'_>, candidate: usize) -> Value {
    let plan = result.plan;
    let figure = |figure: usize| {
        let standing = result.decision.standing(candidate, figure);
        let bound = standing.and_then(|one| one.bound).map(|holds| match holds {
            Holds::Yes => "within",
            Holds::No => "beyond",
            Holds::Open => "open",
        });
        let value = json!({
            "value": standing.and_then(|one| one.value).map(estimate), "ratio": standing.and_then(|one| one.ratio).map(estimate),
            "bound": bound,
        });
        (plan.figures[figure].name.clone(), value)
    };
    let figures: Map<String, Value> = (0..plan.figures.len()).map(figure).collect();
    let mut value = json!({
        "mode": plan.modes[candidate].to_string(), "taken_back": result.outcome.out.contains(&candidate), "figures": figures,
    });
    for (key, seen) in result.acts[candidate].json() {
        value[key] = seen;
    }
    value
}

fn pairs(result: &TrialResult<'_>) -> Value {
    let name = |candidate: usize| result.plan.modes[candidate].to_string();
    let pair = |pair: &napier_trial::Versus| {
        let (verdict, detail) = match pair.verdict {
            Verdict::Better { which } => ("better", json!(name(which))),
            Verdict::NoDifferent { within } => ("no-different", json!(within)),
            Verdict::Undecided { why, .. } => ("undecided", json!(why.to_string())),
        };
        json!({ "a": name(pair.a), "b": name(pair.b), "ratio": pair.ratio.map(estimate), "verdict": verdict, "detail": detail })
    };
    result.decision.pairs.iter().map(pair).collect()
}

fn block(plan: &TrialPlan, one: &Measured) -> Value {
    let figures = |value: &dyn Fn(usize) -> Value| -> Map<String, Value> {
        plan.figures.iter().enumerate().map(|(at, figure)| (figure.name.clone(), value(at))).collect()
    };
    json!({
        "at_s": seconds(one.at), "round": one.block.round, "mode": plan.modes[one.block.candidate].to_string(),
        "values": figures(&|at| json!(one.value(at))),
        "halves": figures(&|at| json!([one.half(0, at), one.half(1, at)])), "seen": super::acts::of_block(one),
    })
}

fn estimate(found: Estimate) -> Value {
    let interval = found.interval.map(|it| json!([it.low, it.high]));
    json!({ "value": found.value, "interval": interval })
}

fn seconds(span: std::time::Duration) -> f64 {
    (span.as_secs_f64() * 1e3).round() / 1e3
}
