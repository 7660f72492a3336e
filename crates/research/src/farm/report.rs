//! A campaign for people and for programs.

use std::fmt::Write;

use napier_scenario::Kind;
use napier_sim::machine::Decision;

use super::{FarmReport, JsonCanary, JsonFailure, JsonReport, scenario_file};

/// Events that a campaign counts; a failed check is none of them.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| *kind != Kind::CheckFailed)
}

/// For people.
#[must_use]
pub fn table(report: &FarmReport) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| writeln!(text, "{name:<11} {value}").expect("a string takes everything");
    let last = report.campaign.seed.wrapping_add(report.runs.saturating_sub(1));
    line("seeds", format!("{} ({}..={last}), {} at a time", report.runs, report.campaign.seed, report.campaign.jobs));
    line(
        "steps",
        format!(
            "{:.1} million in {:.1} s of CPU time: {:.1} million a second per core ({:.1} s on the wall)",
            report.steps as f64 / 1e6,
            report.cpu_time.as_secs_f64(),
            report.steps_per_core_s() / 1e6,
            report.wall_time.as_secs_f64()
        ),
    );
    let (kinds, decisions) = (kinds().count(), Decision::ALL.len());
    match report.missing.as_slice() {
        [] => line("occurred", format!("all {kinds} kinds of events, all {decisions} decisions")),
        missing => line("MISSING", format!("never occurred: {}", missing.join("; "))),
    }
    for (plant, seeds) in &report.canaries {
        match seeds {
            Some(seeds) => line("canary", format!("found after {seeds} seeds: {}", plant.text())),
            None => line("CANARY", format!("NOT FOUND: {}", plant.text())),
        }
    }
    match &report.failure {
        None => line("failures", "none".to_owned()),
        Some(failure) => {
            line("FAILURES", format!("{} seeds, the first is {}", report.failed_seeds.len(), failure.seed));
            line("", failure.why.clone());
            line("made small", format!("{} steps: {}", failure.scenario.timeline.len(), failure.small_why));
        }
    }
    text
}

/// For programs.
#[must_use]
pub fn json(report: &FarmReport) -> String {
    let events = kinds().map(|kind| (kind.name().to_owned(), report.coverage.of_event(kind)));
    let decisions =
        Decision::ALL.iter().map(|decision| (decision.text().to_owned(), report.coverage.of_decision(*decision)));
    let object = JsonReport {
        commit: napier_lab::host::host_and_commit().1,
        seed: report.campaign.seed,
        jobs: report.campaign.jobs,
        runs: report.runs,
        steps: report.steps,
        cpu_s: report.cpu_time.as_secs_f64(),
        wall_s: report.wall_time.as_secs_f64(),
        steps_per_core_s: report.steps_per_core_s(),
        result: if report.passed() { "pass" } else { "fail" }.to_owned(),
        failed_seeds: report.failed_seeds.clone(),
        failure: report.failure.as_ref().map(|failure| JsonFailure {
            seed: failure.seed,
            why: failure.why.clone(),
            steps_in_timeline: failure.scenario.timeline.len(),
            scenario: scenario_file(failure),
        }),
        events: events.collect(),
        decisions: decisions.collect(),
        missing: report.missing.iter().map(|text| (*text).to_owned()).collect(),
        canaries: report
            .canaries
            .iter()
            .map(|(plant, seeds)| JsonCanary { mistake: plant.text().to_owned(), seeds: *seeds })
            .collect(),
    };
    let mut text = serde_json::to_string_pretty(&object).expect("an object of plain values");
    text.push('\n');
    text
}
