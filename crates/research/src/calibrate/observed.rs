//! What a comparison measured, as far as a machine can be fitted to it.

use std::path::Path;

use napier_kv::service::{Service, ServiceError};

use super::wakeups::{Wakeups, name_of};
use napier_lab::advise::Workload;
use napier_lab::loads::Load;
use napier_lab::modes::Mode;
use napier_lab::report::{Report, Row};
use napier_lab::subject::{Backend, Receive, Subject};

/// A row of a comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct Observed {
    /// In force.
    pub mode: Mode,
    /// Offered.
    pub load: Load,
    /// Answered per second, over all queues.
    pub achieved_rps: f64,
    /// Latencies from when a request was due, in us.
    pub p50_us: f64,
    /// Likewise.
    pub p99_us: f64,
    /// CPU of the server, in % of one CPU per queue.
    pub cpu_pct: f64,
    /// p99 is the mode's: nothing took the machine away at this load, as the report says.
    pub tail_counts: bool,
}

impl Observed {
    /// The load was answered.
    #[must_use]
    pub fn is_sustained(&self) -> bool {
        match self.load {
            Load::Rps(rps) => self.achieved_rps >= rps as f64 * 0.99,
            Load::Max => true,
        }
    }
}

/// A comparison: what was asked, and what came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// The server and its requests; the rate is that of no row.
    pub workload: Workload,
    /// What it ran on.
    pub host: String,
    /// Rows with figures, of one backend.
    pub rows: Vec<Observed>,
    /// What wake-ups take there, if that was measured by itself.
    pub wakeups: Option<Wakeups>,
}

/// A file is no comparison that a machine can be fitted to.
#[derive(Debug, thiserror::Error)]
pub enum ObservedError {
    /// It cannot be read.
    #[error("{file} cannot be read: {error}")]
    Unreadable {
        /// As given.
        file: String,
        /// What the system says.
        error: std::io::Error,
    },
    /// It is none.
    #[error("{file} is no report of `napier compare --json`: {error}")]
    NoReport {
        /// As given.
        file: String,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// What a request takes cannot be had again.
    #[error("{file}: {error}")]
    Service {
        /// As given.
        file: String,
        /// What is wrong.
        error: ServiceError,
    },
    /// What is predicted was not measured.
    #[error(
        "rows of sim are predictions, and nothing is fitted to them or judged by them: give --backend engine or kernel"
    )]
    Predicted,
    /// It has no figures of the backend.
    #[error("{file} has no row with figures of {backend}: give another --backend, or compare again")]
    Nothing {
        /// As given.
        file: String,
        /// Wanted.
        backend: Backend,
    },
}

/// Reads the report of a comparison.
///
/// # Errors
/// [`ObservedError`] says what was expected.
pub fn read(file: &Path, backend: Backend) -> Result<Comparison, ObservedError> {
    let name = || file.display().to_string();
    let text = napier_linux::given::read_text(file, napier_lab::report::read::BYTES_MAX)
        .map_err(|error| ObservedError::Unreadable { file: name(), error })?;
    parse(&text, &name(), backend)
}

/// The same of a text; `file` is its name in errors.
///
/// # Errors
/// Likewise.
pub fn parse(text: &str, file: &str, backend: Backend) -> Result<Comparison, ObservedError> {
    if backend == Backend::Sim {
        return Err(ObservedError::Predicted);
    }
    let file = file.to_owned();
    let report: Report =
        serde_json::from_str(text).map_err(|error| ObservedError::NoReport { file: file.clone(), error })?;
    let service: Option<Service> = match &report.workload.service {
        Some(text) => Some(text.parse().map_err(|error| ObservedError::Service { file: file.clone(), error })?),
        None => None,
    };
    let queues = u16::try_from(report.workload.queues).unwrap_or(u16::MAX).max(1);
    let workload = Workload {
        rate_rps: 1,
        peak_rps: None,
        queues,
        connections: u16::try_from(report.workload.flows).unwrap_or(u16::MAX).max(queues),
        cpus: u16::try_from(report.workload.server_cpus).unwrap_or(u16::MAX).max(queues),
        service,
        recorded: None,
    };
    let mut rows: Vec<Observed> = report.rows.iter().filter_map(|row| observed(row, backend, queues)).collect();
    if rows.is_empty() {
        return Err(ObservedError::Nothing { file, backend });
    }
    for used in &report.machine {
        let at = |row: &&Observed| row.load == used.load_rps;
        let lowest_us = rows.iter().filter(at).map(|row| row.p99_us).fold(f64::INFINITY, f64::min);
        let is_quiet = used.taken_from(lowest_us).is_none();
        for row in rows.iter_mut().filter(|row| row.load == used.load_rps) {
            row.tail_counts = is_quiet;
        }
    }
    Ok(Comparison { workload, host: name_of(&report.host), rows, wakeups: None })
}

fn observed(row: &Row, backend: Backend, queues: u16) -> Option<Observed> {
    let Subject { mode, receive, .. } = row.subject;
    if row.subject.backend != backend || receive != Receive::default() || !mode.is_simulated() {
        return None;
    }
    let figures = row.figures()?.median;
    // Percentages of a report are of all CPUs that the mode has.
    let cpus = mode.server_cpus(queues.into()) as f64 / f64::from(queues);
    Some(Observed {
        mode,
        load: row.load,
        achieved_rps: figures.achieved_rps,
        p50_us: figures.latency_us.p50,
        p99_us: figures.latency_us.p99,
        cpu_pct: figures.cpu.total_pct * cpus,
        tail_counts: true,
    })
}
