//! The board keeps the rules of Grafana's own linter (github.com/grafana/dashboard-linter, "Rules"), which few have installed.

use std::collections::BTreeSet;

use serde_json::Value;

use super::read;

fn board() -> Value {
    serde_json::from_str(&read("deploy/grafana/napier.json")).expect("JSON")
}

fn panels() -> Vec<Value> {
    board()["panels"].as_array().expect("panels").iter().filter(|panel| panel["type"] != "row").cloned().collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn targets(panel: &Value) -> &[Value] {
    panel["targets"].as_array().expect("targets")
}

/// Title of the panel, and each of its expressions.
pub(crate) fn expressions() -> Vec<(String, String)> {
    let of = |panel: &Value| -> Vec<(String, String)> {
        targets(panel).iter().map(|one| (text(panel, "title").to_owned(), text(one, "expr").to_owned())).collect()
    };
    panels().iter().flat_map(of).collect()
}

/// What variables ask for.
pub(crate) fn queries() -> Vec<String> {
    let board = board();
    let all = board["templating"]["list"].as_array().expect("variables").iter();
    all.filter(|variable| variable["type"] == "query").map(|variable| text(variable, "query").to_owned()).collect()
}

#[test]
fn the_board_keeps_the_rules_of_boards() {
    let board = board();
    let variables = board["templating"]["list"].as_array().expect("variables");
    let named = |name: &str| variables.iter().find(|one| one["name"] == name).expect(name);
    let source = named("datasource");
    assert_eq!(
        (text(source, "type"), text(source, "query"), text(source, "label")),
        ("datasource", "prometheus", "Data source")
    );
    for (name, label) in [("job", "Job"), ("instance", "Instance"), ("device", "Device")] {
        let one = named(name);
        assert_eq!((text(one, "label"), text(one, "allValue")), (label, ".+"));
        assert_eq!((one["multi"].as_bool(), one["refresh"].as_u64()), (Some(true), Some(2)), "{name}");
        assert_eq!(one["datasource"]["uid"], "${datasource}");
    }
    let mut ids = BTreeSet::new();
    for panel in board["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64()), "an id twice: {}", panel["title"]);
    }
    for panel in panels() {
        let title = text(&panel, "title");
        assert!(!title.is_empty() && text(&panel, "description").len() > 20, "{title} has no description");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        assert!(!text(&panel["fieldConfig"]["defaults"], "unit").is_empty(), "{title} has no unit");
        assert!(!targets(&panel).is_empty(), "{title} asks for nothing");
        for target in targets(&panel) {
            judge(title, text(target, "expr"), text(target, "legendFormat"));
        }
    }
}

fn judge(title: &str, expr: &str, legend: &str) {
    for part in expr.split("napier_").skip(1) {
        let after = part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        assert!(
            after.starts_with("{job=~\"$job\", instance=~\"$instance\""),
            "{title}: a selector is for all hosts: {expr}"
        );
        let name = &part[..part.len() - after.len()];
        let range = after.split('}').nth(1).is_some_and(|rest| rest.starts_with("[$__rate_interval])"));
        assert_eq!(
            range,
            name.ends_with("_total"),
            "{title}: {name} is a counter without a rate, or a gauge with one: {expr}"
        );
    }
    assert_eq!(expr.matches("_total{").count(), expr.matches("rate(").count(), "{title}: {expr}");
    let by = expr.split("by (").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
    let by: BTreeSet<&str> = by.split(", ").collect();
    for label in legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
        assert!(by.contains(label), "{title}: the legend has {label}, which {expr} has not");
    }
    assert!(!legend.is_empty(), "{title}: {expr} has no legend");
}

#[test]
fn panels_do_not_overlap() {
    let board = board();
    let mut taken = BTreeSet::new();
    for panel in board["panels"].as_array().expect("panels") {
        let at = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
        assert!(at("x") + at("w") <= 24, "{} is too wide", panel["title"]);
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{} is on top of another", panel["title"]);
            }
        }
    }
}
