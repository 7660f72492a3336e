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

/// Units of Grafana (`packages/grafana-data/src/valueFormats/categories.ts`), those that our figures can have.
const UNITS: [&str; 6] = ["none", "pps", "ops", "s", "bytes", "percentunit"];

/// What a board has to say for Grafana's library to read it strictly, where Grafana itself fills in what is left out
/// (`scripts/board-check`).
fn required(kind: &str) -> &'static [&'static str] {
    match kind {
        "stat" => {
            &["graphMode", "justifyMode", "orientation", "percentChangeColorMode", "showPercentChange", "wideLayout"]
        }
        "timeseries" => &["legend", "tooltip"],
        "table" => &["frameIndex", "showHeader"],
        other => panic!("there are no panels of kind {other} here"),
    }
}

#[test]
fn the_board_keeps_the_rules_of_boards() {
    let board = board();
    assert_eq!(board["editable"], false, "what is changed in the browser is lost with the next version");
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
    assert_eq!(source["current"]["value"], "default", "whichever source Grafana has");
    for (name, above) in [("job", ""), ("instance", "$job"), ("device", "$instance")] {
        let query = text(named(name), "query");
        assert!(query.starts_with("label_values(") && query.contains(above), "{name} is of all hosts: {query}");
        assert_eq!(query, text(named(name), "definition"), "what is shown of {name} is what is asked");
    }
    let mut ids = BTreeSet::new();
    for panel in board["panels"].as_array().expect("panels") {
        assert!(ids.insert(panel["id"].as_u64()), "an id twice: {}", panel["title"]);
    }
    for panel in panels() {
        let title = text(&panel, "title");
        assert!(!title.is_empty() && text(&panel, "description").len() > 20, "{title} has no description");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let units = panel["fieldConfig"]["overrides"].as_array().expect("overrides").iter();
        let units = units.flat_map(|one| one["properties"].as_array().expect("properties"));
        let units = units.filter(|property| property["id"] == "unit").map(|property| text(property, "value"));
        for unit in units.chain([text(&panel["fieldConfig"]["defaults"], "unit")]) {
            assert!(UNITS.contains(&unit), "{title} has the unit {unit}, which Grafana does not know");
        }
        for option in required(text(&panel, "type")) {
            assert!(!panel["options"][option].is_null(), "{title} does not say {option}");
        }
        assert!(!targets(&panel).is_empty(), "{title} asks for nothing");
        let mut letters = BTreeSet::new();
        for target in targets(&panel) {
            assert_eq!(target["datasource"], panel["datasource"], "{title} asks another source");
            assert!(letters.insert(text(target, "refId")), "{title}: two queries of one letter");
            judge(title, text(&panel, "type"), text(target, "expr"), text(target, "legendFormat"));
        }
    }
}

fn judge(title: &str, kind: &str, expr: &str, legend: &str) {
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
    let named: BTreeSet<&str> = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()).collect();
    if let Some(label) = named.iter().find(|label| !by.contains(*label)) {
        panic!("{title}: the legend has {label}, which {expr} has not");
    }
    // A table has a column for each.
    if let Some(label) = by.iter().find(|label| !named.contains(*label) && !label.is_empty() && kind != "table") {
        panic!("{title}: two lines may have one name, for the legend has no {label}: {expr}");
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
