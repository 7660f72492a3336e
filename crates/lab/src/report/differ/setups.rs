//! What ran differently.

use serde_json::Value;

use super::Setup;
use crate::report::Report;
use crate::report::read::Saved;

/// Commit, machine and workload, where they are not the same.
pub(super) fn of(files: &[&Saved]) -> Vec<Setup> {
    let all: Vec<Vec<(String, String)>> = files.iter().map(|file| setup_of(&file.report)).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in all.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let value = |all: &[(String, String)], name: &str| all.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    let setup = |name: &String| Setup { name: name.clone(), values: all.iter().map(|all| value(all, name)).collect() };
    let differs = |setup: &Setup| setup.values.iter().any(|value| *value != setup.values[0]);
    names.into_iter().map(setup).filter(differs).collect()
}

/// What there is of it in one file.
fn setup_of(report: &Report) -> Vec<(String, String)> {
    let mut all = vec![
        ("commit".to_owned(), report.commit.clone()),
        ("CPU".to_owned(), report.host.cpu_model.clone()),
        ("CPUs".to_owned(), report.host.cpus.to_string()),
        ("kernel".to_owned(), report.host.kernel.clone()),
    ];
    // What a request costs is found, not set.
    let workload = serde_json::to_value(&report.workload).expect("it is written as JSON elsewhere");
    let set = workload.as_object().into_iter().flatten().filter(|(key, _)| *key != "request_cost_us");
    all.extend(set.filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.clone(), words(value))));
    all.extend(report.host.in_force.clone());
    all
}

fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
