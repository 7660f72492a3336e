//! What was reproduced and what was not.

use std::fmt::Write;

use crate::contention::Outcome;
use crate::contention::plan::Path;
use napier_core::histogram::Histogram;

use super::TransmitReport;
use super::published::published;
use napier_lab::report::range;

/// How far a figure may be off and still count as reproduced, in percent of the published one.
const TOLERANCE_PCT: f64 = 15.0;
/// Likewise for a share, in points.
const TOLERANCE_POINTS: f64 = 3.0;
/// Least part of two histograms that must lie on top of each other, in percent.
const OVERLAP_PCT_MIN: f64 = 80.0;

/// One figure, as published and as computed.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// Of which way of transmitting; `None`: of both together.
    pub path: Option<Path>,
    /// What it is.
    pub name: &'static str,
    /// As published.
    pub published: String,
    /// As computed.
    pub model: String,
    /// How far it is off.
    pub difference: String,
    /// Within the tolerance.
    pub holds: bool,
}

/// Everything that can be compared; nothing if other senders or queues were asked for.
#[must_use]
pub fn checks(report: &TransmitReport) -> Vec<Check> {
    if !report.is_published() {
        return Vec::new();
    }
    let mut checks: Vec<Check> =
        report.results.iter().flat_map(|result| of_path(result.path, &result.outcome)).collect();
    if let (Some(locked), Some(list)) = (report.of(Path::Locked), report.of(Path::List)) {
        let gain = published(Path::List).mpps / published(Path::Locked).mpps;
        checks.push(figure(None, "gain in Mpps, llist to locked", gain, list.mpps() / locked.mpps(), 2));
    }
    checks
}

fn of_path(path: Path, outcome: &Outcome) -> Vec<Check> {
    let published = published(path);
    let share = |histogram: &Histogram| histogram.below_pct(10);
    let points = share(&outcome.stays) - share(&published.stays);
    let overlap = overlap_pct(&published.stays, &outcome.stays);
    let (published_mode, model_mode) = (published.stays.fullest_power(), outcome.stays.fullest_power());
    vec![
        figure(Some(path), "Mpps", published.mpps, outcome.mpps(), 1),
        figure(Some(path), "busy CPUs, %", published.cpu_pct, outcome.cpu_pct(), 1),
        Check {
            path: Some(path),
            name: "fullest bucket, ns",
            published: published_mode.map_or_else(String::new, range),
            model: model_mode.map_or_else(|| "none".to_owned(), range),
            difference: if published_mode == model_mode { "same" } else { "other" }.to_owned(),
            holds: published_mode == model_mode,
        },
        Check {
            path: Some(path),
            name: "below 1 us, %",
            published: format!("{:.2}", share(&published.stays)),
            model: format!("{:.2}", share(&outcome.stays)),
            difference: format!("{points:+.1} points"),
            holds: points.abs() <= TOLERANCE_POINTS,
        },
        Check {
            path: Some(path),
            name: "overlap of histograms, %",
            published: "100".to_owned(),
            model: format!("{overlap:.0}"),
            difference: format!("{overlap:.0} %"),
            holds: overlap >= OVERLAP_PCT_MIN,
        },
    ]
    .into_iter()
    .chain(switches(path, published.switches_per_s, outcome))
    .collect()
}

/// Context switches: to sleep and back. Without senders that sleep there is nothing in the model that switches.
fn switches(path: Path, published: f64, outcome: &Outcome) -> Option<Check> {
    let model = 2.0 * outcome.per_second(outcome.counts.sleeps);
    match path {
        Path::Locked => None,
        Path::List => Some(figure(Some(path), "context switches, k/s", published / 1e3, model / 1e3, 0)),
    }
}

fn figure(path: Option<Path>, name: &'static str, published: f64, model: f64, digits: usize) -> Check {
    let off_pct = 100.0 * (model / published - 1.0);
    Check {
        path,
        name,
        published: format!("{published:.digits$}"),
        model: format!("{model:.digits$}"),
        difference: format!("{off_pct:+.1} %"),
        holds: off_pct.abs() <= TOLERANCE_PCT,
    }
}

/// Share that two histograms have in common, in percent.
pub(super) fn overlap_pct(a: &Histogram, b: &Histogram) -> f64 {
    (0..64).map(|exponent| a.share_pct(exponent).min(b.share_pct(exponent))).sum()
}

/// What was reproduced and what was not, in one sentence or two.
#[must_use]
pub fn sentence(checks: &[Check]) -> String {
    let (held, missed): (Vec<&Check>, Vec<&Check>) = checks.iter().partition(|check| check.holds);
    let list = |checks: &[&Check]| {
        let named = checks.iter().map(|check| {
            let path = check.path.map_or_else(String::new, |path| format!(" of {}", path.name()));
            format!("{}{path} ({})", check.name.split(',').next().unwrap_or(check.name), check.difference)
        });
        named.collect::<Vec<_>>().join(", ")
    };
    let mut text = String::new();
    if !held.is_empty() {
        write!(text, "Reproduced: {}.", list(&held)).expect("a string takes everything");
    }
    if missed.is_empty() {
        if !held.is_empty() {
            text.push_str(" Missed: nothing that is compared.");
        }
    } else {
        let space = if text.is_empty() { "" } else { " " };
        write!(text, "{space}Missed: {}.", list(&missed)).expect("a string takes everything");
    }
    text
}
