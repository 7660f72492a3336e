//! Every figure that a board or an alert names is in one of the two tables of figures, with its labels.

use std::collections::{BTreeMap, BTreeSet};

use yaml_rust2::{Yaml, YamlLoader};

use super::{board, read};

/// Labels that a scraper adds.
const SCRAPED: [&str; 2] = ["job", "instance"];

fn yaml(path: &str) -> Yaml {
    YamlLoader::load_from_str(&read(path)).expect("YAML").remove(0)
}

fn rules() -> Vec<Yaml> {
    let file = yaml("deploy/prometheus/napier.rules.yml");
    let groups = file["groups"].as_vec().expect("groups");
    groups.iter().flat_map(|group| group["rules"].as_vec().expect("rules").clone()).collect()
}

pub(crate) fn alerts() -> Vec<String> {
    rules().iter().map(|rule| rule["alert"].as_str().expect("an alert").to_owned()).collect()
}

/// Names as scrapers see them, and their labels, of a page with a table whose first column has the name.
fn table(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    let mut head: Vec<String> = Vec::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")) {
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let Some(name) = cells[0].strip_prefix('`').and_then(|cell| cell.strip_suffix('`')) else {
            head = cells.into_iter().map(str::to_owned).collect();
            continue;
        };
        let cell = |title: &str| head.iter().position(|found| found == title).and_then(|at| cells.get(at)).copied();
        // One page has names as scrapers see them, the other has the unit in a column.
        let unit = match cell("unit") {
            Some("ns") => "_seconds",
            Some("bytes") => "_bytes",
            _ => "",
        };
        let is_counter = cell("unit").is_some() && cell("kind") == Some("counter");
        let labels = cell("labels").unwrap_or_default().split(", ").map(|label| label.trim_matches('`').to_owned());
        found.insert(format!("{name}{unit}{}", if is_counter { "_total" } else { "" }), labels.collect());
    }
    found
}

fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = table(&read("docs/metrics.md"));
    assert!(all.len() > 50, "the table of an engine's figures is not read");
    let kernel = table(&read("docs/metrics-kernel.md"));
    assert!(kernel.len() > 50, "the table of a kernel's figures is not read");
    all.extend(kernel);
    all
}

/// Words of an expression that name our figures.
pub(crate) fn figures(expr: &str) -> BTreeSet<String> {
    let words = expr.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("napier_")).map(str::to_owned).collect()
}

/// Labels in `by (...)`, `on (...)` and the like, and in `{...}`.
fn labels(expr: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (open, close) in [("by (", ')'), ("on (", ')'), ("group_left (", ')')] {
        for part in expr.split(open).skip(1) {
            found.extend(part.split(close).next().unwrap_or_default().split(',').map(|label| label.trim().to_owned()));
        }
    }
    for part in expr.split('{').skip(1) {
        let inside = part.split('}').next().unwrap_or_default();
        found.extend(inside.split("\", ").filter_map(|pair| Some(pair.split_once('=')?.0.trim().to_owned())));
    }
    found.remove("");
    found.remove("__name__");
    found
}

fn check(place: &str, expr: &str, documented: &BTreeMap<String, BTreeSet<String>>) {
    let names = figures(expr);
    assert!(!names.is_empty(), "{place}: {expr} names no figure of ours");
    let mut known: BTreeSet<&str> = SCRAPED.into();
    for name in &names {
        let labels = documented.get(name).unwrap_or_else(|| panic!("{place}: there is no figure {name}"));
        known.extend(labels.iter().map(String::as_str));
    }
    for label in labels(expr) {
        assert!(known.contains(&*label), "{place}: no figure of {expr} has a label {label}");
    }
}

#[test]
fn each_figure_of_board_and_alerts_exists() {
    let documented = documented();
    for rule in rules() {
        check(rule["alert"].as_str().expect("a name"), rule["expr"].as_str().expect("an expression"), &documented);
    }
    for (title, expr) in board::expressions() {
        check(&title, &expr, &documented);
    }
    for query in board::queries() {
        let (_, selector) = query.split_once('(').expect("a function");
        check("a variable", selector, &documented);
    }
    let stories = yaml("deploy/prometheus/napier.test.yml");
    for story in stories["tests"].as_vec().expect("tests") {
        for series in story["input_series"].as_vec().expect("series") {
            check("a story", series["series"].as_str().expect("a series"), &documented);
        }
    }
}

#[test]
fn a_wrong_name_or_label_would_be_found() {
    let documented = documented();
    let is_found = |expr: &str| std::panic::catch_unwind(|| check("here", expr, &documented)).is_err();
    assert!(!is_found("sum by (device, job) (rate(napier_napi_polls_total{context=\"user\"}[1m]))"));
    assert!(!is_found("rate(napier_napi_spinning_seconds_total[1m])"));
    assert!(is_found("rate(napier_napi_polls[1m])"));
    assert!(is_found("sum by (cpu) (rate(napier_napi_polls_total[1m]))"));
    assert!(is_found("rate(napier_napi_polls_total{queue=\"0\", cpu=\"1\"}[1m])"));
    assert!(is_found("up == 0"));
}
