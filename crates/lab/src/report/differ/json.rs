//! Differences as one JSON object. The format is documented in `docs/json.md`; names never change their meaning.

use serde::{Serialize, Serializer};

use super::{DifferenceVerdict, Differences, Line, SideBySide, Standing};
use crate::loads::Load;
use crate::report::columns::{COLUMNS, Column};
use crate::subject::{Backend, Receive};

/// The object as it is written. All arrays of one entry per file are in the order of `files`.
#[derive(Serialize)]
struct JsonSideBySide<'a> {
    files: Vec<JsonFile<'a>>,
    summaries: Vec<String>,
    setups: Vec<JsonSetup<'a>>,
    rows: Vec<JsonLine<'a>>,
}

#[derive(Serialize)]
struct JsonFile<'a> {
    name: &'a str,
    commit: &'a str,
    notes: &'a [String],
    has_slices: bool,
}

#[derive(Serialize)]
struct JsonSetup<'a> {
    name: &'a str,
    values: &'a [Option<String>],
}

#[derive(Serialize)]
struct JsonLine<'a> {
    mode: String,
    receive: Receive,
    copy: u8,
    load_rps: Load,
    files: Vec<Option<JsonSide<'a>>>,
    #[serde(serialize_with = "in_order")]
    metrics: Vec<(&'static str, Vec<Option<JsonValue<'a>>>)>,
}

#[derive(Serialize)]
struct JsonSide<'a> {
    file: &'a str,
    backend: Backend,
    runs: u32,
    sustains: Option<bool>,
}

/// A figure of a file, in the unit that the metric's name says.
#[derive(Serialize)]
struct JsonValue<'a> {
    file: &'a str,
    median: f64,
    min: f64,
    max: f64,
    ratio_to_first: Option<f64>,
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
    differs: Option<bool>,
    verdict: Option<&'static str>,
    within_pct: Option<u32>,
}

/// All comparisons beside the first as JSON, indented, with a newline at its end.
#[must_use]
pub fn json(all: &SideBySide<'_>) -> String {
    let object = JsonSideBySide {
        files: all
            .files
            .iter()
            .map(|file| JsonFile {
                name: &file.name,
                commit: &file.report.commit,
                notes: &file.notes,
                has_slices: !file.report.slices.is_empty(),
            })
            .collect(),
        summaries: all.each().iter().map(Differences::summary).collect(),
        setups: all.setups.iter().map(|setup| JsonSetup { name: &setup.name, values: &setup.values }).collect(),
        rows: all.lines.iter().map(|line| line_of(all, line)).collect(),
    };
    serde_json::to_string_pretty(&object).expect("strings, numbers and maps by string always serialize") + "\n"
}

fn line_of<'a>(all: &'a SideBySide<'_>, line: &Line<'_>) -> JsonLine<'a> {
    let subject = line.subject();
    let side = |i: usize| {
        let row = line.rows[i]?;
        Some(JsonSide {
            file: &all.files[i].name,
            backend: row.subject.backend,
            runs: row.figures()?.runs,
            sustains: line.sustains(i),
        })
    };
    let files = 0..all.files.len();
    let metric = |column: &&'static Column| {
        let values: Vec<_> = files.clone().map(|i| value_of(all, line, i, column)).collect();
        values.iter().any(Option::is_some).then_some((column.key, values))
    };
    JsonLine {
        mode: subject.mode.to_string(),
        receive: subject.receive,
        copy: subject.copy,
        load_rps: line.load,
        files: files.clone().map(side).collect(),
        metrics: COLUMNS.iter().filter_map(|column| metric(&column)).collect(),
    }
}

fn value_of<'a>(all: &'a SideBySide<'_>, line: &Line<'_>, i: usize, column: &Column) -> Option<JsonValue<'a>> {
    let Standing { value, ratio, interval, verdict } = line.standing(i, column)?;
    Some(JsonValue {
        file: &all.files[i].name,
        median: value.median,
        min: value.range.0,
        max: value.range.1,
        ratio_to_first: ratio,
        ratio_low: interval.map(|(low, _)| low),
        ratio_high: interval.map(|(_, high)| high),
        differs: verdict.and_then(DifferenceVerdict::differs),
        verdict: verdict.map(DifferenceVerdict::key),
        within_pct: verdict.and_then(DifferenceVerdict::within_pct),
    })
}

/// Metrics by name, in the order of the table.
fn in_order<S: Serializer, V: Serialize>(metrics: &[(&str, V)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(metrics.iter().map(|(name, values)| (name, values)))
}
