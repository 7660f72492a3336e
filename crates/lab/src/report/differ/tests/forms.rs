//! JSON, CSV and Markdown, and that none of them says what another does not.

use serde_json::{Value as Json, json as written};

use super::*;
use crate::report::differ;
use crate::report::samples::keys;
use crate::stats::Figures;

/// Three files: figures lower, higher and alike; overload, one run, closed loop, and rows that only some have.
fn files() -> (Saved, [Saved; 2]) {
    let mut one_run = row("napibusy", LOAD, 1e3, 90.0, 50.0, 0.0);
    if let crate::report::Outcome::Measured(measured) = &mut one_run.outcome {
        measured.runs = 1;
    }
    let mut idle = row("fullbusy", LOAD, 1e3, 100.0, 50.0, 0.05);
    if let crate::report::Outcome::Measured(measured) = &mut idle.outcome {
        let spread = &mut measured.spread;
        for figures in [&mut measured.median, &mut spread.min, &mut spread.max] {
            figures.cpu.total_pct = 0.0;
        }
    }
    let first = vec![
        row("base", LOAD, 1e3, 100.0, 50.0, 0.05),
        row("defer20", LOAD, 1e3, 100.0, 50.0, 0.05),
        idle,
        one_run,
        row("suspend20", LOAD, 500.0, 9e5, 99.0, 0.05),
        row("base", Load::Max, 1.2e6, 9.0, 99.0, 0.01),
    ];
    let second = vec![
        row("base", LOAD, 1e3, 80.0, 54.0, 0.05),
        row("defer20", LOAD, 1e3, 104.0, 70.0, 0.05),
        row("fullbusy", LOAD, 1e3, 120.0, 50.0, 0.05),
        row("napibusy", LOAD, 1e3, 90.0, 50.0, 0.05),
        row("suspend20", LOAD, 1e3, 90.0, 50.0, 0.05),
        row("base", Load::Max, 9e5, 9.0, 99.0, 0.01),
    ];
    let third = vec![row("threaded", LOAD, 1e3, 80.0, 54.0, 0.05), row("base", LOAD, 1e3, 300.0, 20.0, 0.05)];
    let mut second = saved("with, a comma|", second);
    second.report.workload.service = Some("20us".to_owned());
    second.notes.push("A row is of a mode that is not known.".to_owned());
    (saved("first", first), [second, saved("third", third)])
}

fn value() -> Json {
    let (first, others) = files();
    serde_json::from_str(&differ::json(&SideBySide::of(&first, &others))).unwrap()
}

#[test]
fn names_are_the_documented_ones() {
    let value = value();
    assert_eq!(keys(&value), ["files", "rows", "setups", "summaries"]);
    assert_eq!(keys(&value["files"][0]), ["commit", "has_slices", "name", "notes"]);
    assert_eq!(keys(&value["setups"][0]), ["name", "values"]);
    for row in value["rows"].as_array().unwrap() {
        assert_eq!(keys(row), ["copy", "files", "load_rps", "metrics", "mode", "receive"]);
        for side in row["files"].as_array().unwrap().iter().filter(|side| !side.is_null()) {
            assert_eq!(keys(side), ["backend", "file", "runs", "sustains"]);
        }
        for values in row["metrics"].as_object().unwrap().values() {
            for value in values.as_array().unwrap().iter().filter(|value| !value.is_null()) {
                let names = ["ratio_high", "ratio_low", "ratio_to_first", "verdict", "within_pct"];
                assert_eq!(keys(value), [&["differs", "file", "max", "median", "min"][..], &names].concat());
            }
        }
    }
    let page = include_str!("../../../../../../docs/json.md");
    let section = page
        .split("\n# ")
        .find(|section| section.starts_with("The JSON of `napier report`"))
        .expect("a section of its own");
    let mut named = vec![keys(&value), keys(&value["files"][0]), keys(&value["setups"][0]), keys(&value["rows"][0])];
    named.extend([keys(&value["rows"][0]["files"][0]), keys(&value["rows"][0]["metrics"]["cpu.total_pct"][0])]);
    for key in named.into_iter().flatten() {
        assert!(
            section.contains(&format!("`{key}`")) || section.contains(&format!("[].{key}`")),
            "docs/json.md does not have {key}"
        );
    }
}

#[test]
fn the_json_has_each_figure_its_spread_and_how_it_stands_to_the_first() {
    let value = value();
    assert_eq!(value["setups"], written!([{"name": "service", "values": [null, "20us", null]}]));
    let base = &value["rows"][0];
    assert_eq!((&base["mode"], &base["load_rps"]), (&written!("base"), &written!(1000)));
    assert_eq!(base["files"][0], written!({"file": "first", "backend": "engine", "runs": 3, "sustains": true}));
    let p99 = &base["metrics"]["latency_us.p99"];
    assert_eq!(
        p99[0],
        written!({"file": "first", "median": 100.0, "min": 95.0, "max": 105.0, "ratio_to_first": 1.0, "differs": null, "verdict": null,
                  "ratio_low": null, "ratio_high": null, "within_pct": null})
    );
    assert_eq!(
        p99[1],
        written!({"file": "with, a comma|", "median": 80.0, "min": 76.0, "max": 84.0, "ratio_to_first": 0.8, "differs": true,
                  "verdict": "lower", "ratio_low": null, "ratio_high": null, "within_pct": null})
    );
    assert_eq!(p99[2]["verdict"], "higher");
    let rows = value["rows"].as_array().unwrap();
    let find = |mode: &str| rows.iter().find(|row| row["mode"] == mode).unwrap();
    let unknown = &find("napibusy")["metrics"]["latency_us.p99"][1];
    assert_eq!((&unknown["differs"], &unknown["verdict"]), (&Json::Null, &written!("one-run")));
    assert_eq!(find("fullbusy")["metrics"]["cpu.total_pct"][1]["ratio_to_first"], Json::Null, "the first has 0");
    let alone = find("threaded");
    assert_eq!(
        alone["files"],
        written!([null, null, {"file": "third", "backend": "engine", "runs": 3, "sustains": true}])
    );
    assert_eq!(alone["metrics"]["cpu.total_pct"][2]["ratio_to_first"], Json::Null);
    assert!(base["metrics"]["cores.busy_pct"].is_null(), "a metric that none has is not there");
}

/// Fields of a line of CSV, without quotation marks.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => fields.last_mut().expect("there is one").push(c),
        }
    }
    fields
}

#[test]
fn csv_has_a_line_for_each_figure_of_the_json() {
    let (first, others) = files();
    let csv = differ::csv(&SideBySide::of(&first, &others));
    let mut lines = csv.lines();
    let names = fields(lines.next().expect("names"));
    let mut of_csv: Vec<Vec<String>> = lines.map(fields).collect();
    let text = |value: &Json| match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        // A number as JSON has it has a point always.
        Json::Number(number) => number.to_string().trim_end_matches(".0").to_owned(),
        other => other.to_string(),
    };
    let mut of_json = Vec::new();
    for row in value()["rows"].as_array().unwrap() {
        for (metric, values) in row["metrics"].as_object().unwrap() {
            for (i, value) in values.as_array().unwrap().iter().enumerate().filter(|(_, value)| !value.is_null()) {
                let field = |name: &String| match name.as_str() {
                    "metric" => metric.clone(),
                    "mode" | "receive" | "copy" | "load_rps" => text(&row[name]),
                    "backend" | "runs" | "sustains" => text(&row["files"][i][name]),
                    _ => text(&value[name]),
                };
                of_json.push(names.iter().map(field).collect::<Vec<_>>());
            }
        }
    }
    // Metrics are in order in the file; a map that was read back has them by name.
    of_csv.sort();
    of_json.sort();
    assert_eq!(of_csv, of_json);
    assert!(of_csv.len() > 100 && of_csv.iter().all(|line| line.len() == names.len()));
}

/// What the tables have to say of a pair, made from the JSON alone.
fn expected(value: &Json, other: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for row in value["rows"].as_array().unwrap() {
        if row["files"][0].is_null() || row["files"][other].is_null() {
            continue;
        }
        let closed = row["load_rps"] == "max";
        let asked = &row["metrics"][if closed { "achieved_rps" } else { "latency_us.p99" }];
        let cpu = &row["metrics"]["cpu.total_pct"];
        let both = |i: usize| asked[i]["median"].as_f64().unwrap();
        let digits = usize::from(!closed && both(0).min(both(other)) < 100.0);
        let figure = |i: usize| {
            let mark = if row["files"][i]["sustains"] == false { "!" } else { "" };
            format!("{mark}{:.digits$}", both(i))
        };
        let judged = |values: &Json| {
            let word = match values[other]["verdict"].as_str().unwrap() {
                "overlap" => "runs overlap",
                "one-run" => "one run",
                "not-sustained" => "not sustained",
                word => word,
            };
            let ratio = values[other]["ratio_to_first"].as_f64();
            format!("{} {word}", ratio.map_or_else(|| "?x".to_owned(), |ratio| format!("{ratio:.2}x")))
        };
        let whole = |i: usize| format!("{:.0}", cpu[i]["median"].as_f64().unwrap());
        let load = if closed { "closed".to_owned() } else { Load::Rps(row["load_rps"].as_u64().unwrap()).to_string() };
        let mode = row["mode"].as_str().unwrap().to_owned();
        let cells = [mode, load, figure(0), figure(other), judged(asked), whole(0), whole(other), judged(cpu)];
        lines.push(cells.join(" "));
    }
    lines
}

#[test]
fn text_and_json_say_the_same() {
    let (first, others) = files();
    let (text, value) = (differ::text(&SideBySide::of(&first, &others), 160), value());
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for summary in value["summaries"].as_array().unwrap() {
        assert!(words(&text).contains(&words(summary.as_str().unwrap())), "{text}");
    }
    let is_row = |line: &String| line.split(' ').next().is_some_and(|name| name.parse::<crate::modes::Mode>().is_ok());
    let rows: Vec<String> = text.lines().map(words).filter(is_row).collect();
    let all: Vec<String> = [1, 2].into_iter().flat_map(|other| expected(&value, other)).collect();
    assert_eq!(rows, all, "{text}");
}

#[test]
fn markdown_has_the_tables_of_the_text_in_line_and_obeys_nothing_from_outside() {
    let (first, others) = files();
    let text = differ::markdown(&SideBySide::of(&first, &others));
    assert!(text.starts_with("with, a comma\\|: A row is of a mode"), "{text}");
    assert!(
        text.contains("\n### with, a comma\\| beside first\n\nwith, a comma\\| beside first: p99 is lower"),
        "{text}"
    );
    assert!(text.contains("| service         | null  | 20us            |\n"), "{text}");
    let cell = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = text.lines().map(cell).collect();
    for expected in [
        "| base | 1K | 100.0 [95.0–105.0] | 80.0 [76.0–84.0] | **0.80x lower** | 50 [48–52] | 54 [51–57] | 1.08x runs overlap |",
        "| suspend20 | 1K | 900000.0 [855000.0–945000.0], not sustained | 90.0 [85.5–94.5] | 0.00x not sustained | 99 [94–104] | 50 [48–52] | 0.51x not sustained |",
        "| base | closed | 1200000 [1188000–1212000] | 900000 [891000–909000] | **0.75x lower** | 99 [98–100] | 99 [98–100] | 1.00x runs overlap |",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}\n{text}");
    }
    for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
        let widths: Vec<usize> = table.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{table}");
    }
}

#[test]
fn the_metrics_are_the_columns_of_the_table() {
    let (first, others) = files();
    let text = differ::json(&SideBySide::of(&first, &others));
    let at = |key: &str| text.find(&format!("\"{key}\": [")).unwrap_or_else(|| panic!("{key} is not there"));
    let figures: Figures = first.report.rows[0].figures().unwrap().median;
    let known: Vec<&str> = crate::report::columns::COLUMNS
        .iter()
        .filter(|column| (column.figure)(&figures).is_some())
        .map(|column| column.key)
        .collect();
    assert!(known.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "in the same order");
}
