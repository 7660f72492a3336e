//! The scenario files about groups, in virtual time.

use std::path::{Path, PathBuf};

use napier_scenario::Scenario;
use napier_scenario::compare::{Clock, Judgement, judge};
use napier_sim::machine::run;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/groups");
    let entries = std::fs::read_dir(folder).expect("scenarios/groups is in the tree");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

#[test]
fn every_file_about_groups_passes() {
    let mut failed = Vec::new();
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("a file");
        let name = file.file_name().expect("a name").to_string_lossy();
        let scenario = Scenario::parse(&text, &name).unwrap_or_else(|error| panic!("{error}"));
        let outcome = run(&scenario);
        let verdict = judge(&scenario, Clock::Virtual, &outcome.events, &outcome.counters);
        if let Judgement::Fail(difference) = verdict {
            let seen = difference.seen.iter().take(60).cloned().collect::<Vec<_>>().join("\n    ");
            failed.push(format!("{name}: {}\n    {seen}", difference.reason));
        }
        if let Some(why) = outcome.broken {
            failed.push(format!("{name}: {why}"));
        }
        assert!(scenario.engine.not_runnable.is_some(), "{name}: the engine has no groups");
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[test]
fn every_file_can_be_written_down() {
    for file in files() {
        let read = |text: &str| {
            let mut scenario = Scenario::parse(text, "x.toml").expect("a scenario");
            scenario.timeline.iter_mut().for_each(|step| step.line = 0);
            scenario.expect.events.iter_mut().for_each(|expected| expected.line = 0);
            scenario
        };
        let scenario = read(&std::fs::read_to_string(&file).expect("a file"));
        assert_eq!(read(&scenario.to_toml()), scenario, "{}", file.display());
    }
}
