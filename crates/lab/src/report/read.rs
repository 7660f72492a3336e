//! A report read back from the JSON that a comparison printed, also from that of other versions. The file may be anything:
//! what cannot be used is an error that says why, and nothing of it is taken.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json::{JsonLoad, JsonReport, JsonRow, JsonSustained};
use super::most;
use super::{Lost, Outcome, Report, Row, Sustained};
use crate::loads::{Load, SustainSearch, in_time_pct_by_rate};
use crate::modes::Mode;
use crate::stats::{Measured, RowFigures, Spread};
use crate::subject::{Backend, Subject};

/// Largest file that is read, in bytes: a comparison of all modes at seven loads has about one million.
pub const BYTES_MAX: u64 = 64 << 20;

/// Most rows: ten loads of all modes on three backends are 360.
const ROWS_MAX: usize = 5000;

/// No figure of a comparison is larger; in the smallest of its units this is three hours.
const FIGURE_MAX: f64 = 1e13;

/// A comparison that was saved.
#[derive(Clone, Debug)]
pub struct Saved {
    /// Its name beside others: that of its file.
    pub name: String,
    /// What it found.
    pub report: Report,
    /// What of it this version cannot show, a sentence each.
    pub notes: Vec<String>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refuses.
    #[error("cannot read {path}: {source}", path = path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Too large.
    #[error("{path} has more than {} MiB: that is no comparison", BYTES_MAX >> 20, path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It has something else, or only a part.
    #[error("{path} {why}", path = path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
}

/// Reads what `napier compare --json` wrote.
///
/// # Errors
/// [`ReadError`].
pub fn read(path: &Path) -> Result<Saved, ReadError> {
    let text = napier_linux::given::read(path, BYTES_MAX).map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge => ReadError::TooLarge { path: path.to_owned() },
        _ => ReadError::Open { path: path.to_owned(), source },
    })?;
    let name = path.file_stem().map_or_else(|| path.display().to_string(), |stem| stem.to_string_lossy().into_owned());
    parse(&text, name).map_err(|why| ReadError::Unusable { path: path.to_owned(), why })
}

/// The same of text that is there already.
fn parse(text: &[u8], name: String) -> Result<Saved, String> {
    if text.trim_ascii().is_empty() {
        return Err("is empty; write it with `napier compare --json`".to_owned());
    }
    let value: Value = serde_json::from_slice(text).map_err(|error| {
        if error.is_eof() {
            format!("ends in the middle (line {}): it was cut short, so write it again", error.line())
        } else {
            format!("is not JSON ({error}); give what `napier compare --json` printed")
        }
    })?;
    whose(&value)?;
    for part in ["rows", "sustained", "machine"] {
        figures_in_bounds(&value[part], part)?;
    }
    let report: JsonReport = serde_json::from_slice(text).map_err(|error| {
        let by = value["commit"].as_str().map_or_else(String::new, |commit| format!(", written by commit {commit},"));
        format!("{by} is not a comparison as this version knows it: {error}").trim_start_matches(',').trim().to_owned()
    })?;
    if report.rows.len() > ROWS_MAX {
        return Err(format!("has {} rows, and a page of more than {ROWS_MAX} is none", report.rows.len()));
    }
    let mut notes = Vec::new();
    let report = report_of(report, &mut notes);
    Ok(Saved { name, report, notes })
}

/// Whether it is the JSON of a comparison; if of something else, of what.
fn whose(value: &Value) -> Result<(), String> {
    let has = |key: &str| value.get(key).is_some();
    if has("host") && has("workload") && has("rows") {
        return Ok(());
    }
    let command = [
        ("bench", "napier bench"),
        ("summaries", "napier report"),
        ("choice", "napier advise"),
        ("cells", "napier sim plan"),
        ("canaries", "napier sim farm"),
        ("paths", "napier sim transmit"),
        ("totals", "napier conform"),
        ("counters", "napier serve kv"),
        ("median", "napier load kv"),
    ];
    match command.iter().find(|(key, _)| has(key)) {
        Some((_, command)) => Err(format!(
            "is the JSON of `{command}`, which has no rows to compare; for a page of it give that command --html FILE"
        )),
        None => Err(
            "is JSON, but no comparison: it lacks host, workload or rows; give what `napier compare --json` printed"
                .to_owned(),
        ),
    }
}

/// Refuses figures that were never measured: they would break every axis.
fn figures_in_bounds(value: &Value, at: &str) -> Result<(), String> {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(figure) if (0.0..=FIGURE_MAX).contains(&figure) => Ok(()),
            _ => Err(format!("holds {number} as {at}, which no comparison has measured: the file is damaged")),
        },
        Value::Array(items) => {
            items.iter().enumerate().try_for_each(|(i, item)| figures_in_bounds(item, &format!("{at}[{i}]")))
        }
        Value::Object(map) => map.iter().try_for_each(|(key, item)| figures_in_bounds(item, &format!("{at}.{key}"))),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

fn report_of(report: JsonReport, notes: &mut Vec<String>) -> Report {
    let mut unknown = Vec::new();
    let mut rows: Vec<Row> =
        report.rows.iter().filter_map(|row| row_of(row).map_err(|mode| unknown.push(mode)).ok()).collect();
    let by_rate = by_rate(&mut rows, report.workload.seconds);
    let sustained = report.sustained.iter().filter_map(|one| sustained_of(one).ok()).collect();
    unknown.sort();
    unknown.dedup();
    if !unknown.is_empty() {
        notes.push(format!("Rows of {} are left out: this version knows no such mode.", unknown.join(", ")));
    }
    let has_cdf = |row: &JsonRow| row.figures.latency_cdf.is_some() || row.runs == 0;
    if !report.rows.iter().all(has_cdf) {
        notes.push(
            "An older version wrote this: it has five percentiles and no latency_cdf, so percentile plots are coarse."
                .to_owned(),
        );
    }
    notes.extend(by_rate);
    let mut report = Report {
        host: report.host,
        commit: report.commit,
        workload: report.workload,
        rows,
        failures: report.failures,
        ended: report.ended,
        memory: report.memory,
        machine: report.machine,
        sustained,
        searched_again: report.searched_again,
        loads_wrong: report.loads_wrong,
        prediction: report.prediction,
        at_start: report.at_start,
        decided: report.decided,
        took_minutes: report.took_minutes,
        slices: report.slices,
    };
    report.sustained = most::reconciled(&report);
    report
}

/// Older versions did not count what was due: what they answered is held against the rate, less what chance takes. Says so if any did.
fn by_rate(rows: &mut [Row], seconds: Option<f64>) -> Option<String> {
    let mut any = false;
    for row in rows {
        let (Load::Rps(rps), Outcome::Measured(measured), Some(seconds)) = (row.load, &mut row.outcome, seconds) else {
            continue;
        };
        for figures in [&mut measured.median, &mut measured.spread.min, &mut measured.spread.max] {
            any |= figures.in_time_pct.is_none();
            let by_rate = in_time_pct_by_rate(rps, figures.achieved_rps, seconds);
            figures.in_time_pct = figures.in_time_pct.or(Some(by_rate));
        }
    }
    any.then(|| {
        "An older version wrote this, which did not count the requests that were due: what sustains a load is told by the rate, less what \
         chance takes."
            .to_owned()
    })
}

/// The name of the mode, if it is none.
fn row_of(row: &JsonRow) -> Result<Row, String> {
    let mode = Mode::parse(&row.mode).map_err(|_| row.mode.clone())?;
    let load = match row.load_rps {
        JsonLoad::Rps(rps) => Load::Rps(rps),
        JsonLoad::Max(_) => Load::Max,
    };
    let subject = Subject { backend: row.backend, mode, receive: row.receive, copy: row.copy };
    let outcome = match (&row.refused, Some(row.figures).filter(|_| row.runs > 0).and_then(RowFigures::of_run)) {
        (Some(why), _) => Outcome::Refused(why.clone()),
        (None, None) => Outcome::Nothing,
        (None, Some(median)) => {
            let spread = row.spread.unwrap_or(Spread { min: median, max: median });
            let figures = Box::new(Measured { median, spread, runs: row.runs });
            if row.backend == Backend::Sim {
                let answered = |rps: u64| median.achieved_rps >= SustainSearch::ACHIEVED_MIN * rps as f64;
                let by_rate = match load {
                    Load::Rps(rps) => answered(rps),
                    Load::Max => true,
                };
                Outcome::Predicted { figures, sustained: row.sustains.unwrap_or(by_rate) }
            } else {
                Outcome::Measured(figures)
            }
        }
    };
    let lost = row.lost.as_ref().map(|why| Lost {
        runs: row.lost_runs,
        of: row.runs + row.lost_runs,
        not_run: if *why == format!("{} not run", row.lost_runs) { row.lost_runs } else { 0 },
        why: why.clone(),
    });
    Ok(Row { subject, load, outcome, lost, left_out: row.left_out })
}

fn sustained_of(one: &JsonSustained) -> Result<Sustained, String> {
    let mode = Mode::parse(&one.mode).map_err(|_| one.mode.clone())?;
    Ok(Sustained {
        subject: Subject { backend: one.backend, mode, receive: one.receive, copy: one.copy },
        start_rps: one.sustained_rps,
        rps: one.sustained_rps,
        interval_rps: one.low_rps.zip(one.high_rps),
        kept_up_at_most: one.kept_up_at_most,
        fell_behind_at_least: one.fell_behind_at_least,
        // What slices say is said by where they fell behind; a search by short runs has its reason.
        failed: one.failed_rps.zip(one.why.clone().filter(|why| !why.is_empty())),
        at_most: one.p99_us.zip(one.cpu_pct),
        taken: one.taken.clone(),
    })
}

#[cfg(test)]
mod tests;
