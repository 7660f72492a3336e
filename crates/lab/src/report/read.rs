//! A report read back from the JSON that a comparison printed, also from that of other versions. The file may be anything:
//! what cannot be used is an error that says why, and nothing of it is taken.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{Outcome, Report, Row, most};
use crate::loads::{Load, in_time_pct_by_rate};
use crate::modes::Mode;

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
    let mut report: Report = serde_json::from_slice(text).map_err(|error| {
        let by = value["commit"].as_str().map_or_else(String::new, |commit| format!(", written by commit {commit},"));
        format!("{by} is not a comparison as this version knows it: {error}").trim_start_matches(',').trim().to_owned()
    })?;
    if report.rows.len() > ROWS_MAX {
        return Err(format!("has {} rows, and a page of more than {ROWS_MAX} is none", report.rows.len()));
    }
    let notes = [unknown_modes(&value), coarse(&report.rows), by_rate(&mut report)].into_iter().flatten().collect();
    report.sustained = most::reconciled(&report);
    Ok(Saved { name, report, notes })
}

/// Entries of modes that this version knows; the others are left out.
pub(super) fn of_known_modes<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let known = Vec::<Value>::deserialize(deserializer)?.into_iter().filter(|one| unknown_mode(one).is_none());
    known.map(|one| serde_json::from_value(one).map_err(D::Error::custom)).collect()
}

fn unknown_mode(entry: &Value) -> Option<&str> {
    entry["mode"].as_str().filter(|mode| Mode::parse(mode).is_err())
}

/// Says of which modes rows are left out.
fn unknown_modes(value: &Value) -> Option<String> {
    let mut unknown: Vec<&str> = value["rows"].as_array()?.iter().filter_map(unknown_mode).collect();
    unknown.sort_unstable();
    unknown.dedup();
    (!unknown.is_empty())
        .then(|| format!("Rows of {} are left out: this version knows no such mode.", unknown.join(", ")))
}

/// Says so if older versions kept fewer percentiles.
fn coarse(rows: &[Row]) -> Option<String> {
    let mut figures = rows.iter().filter_map(Row::figures);
    figures.any(|figures| figures.median.latency_cdf.is_none()).then(|| {
        "An older version wrote this: it has five percentiles and no latency_cdf, so percentile plots are coarse."
            .to_owned()
    })
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

/// Older versions did not count what was due: what they answered is held against the rate, less what chance takes. Says so if any did.
fn by_rate(report: &mut Report) -> Option<String> {
    let (mut any, seconds) = (false, report.workload.seconds?);
    for row in &mut report.rows {
        let (Load::Rps(rps), Outcome::Measured(measured)) = (row.load, &mut row.outcome) else { continue };
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

#[cfg(test)]
mod tests;
