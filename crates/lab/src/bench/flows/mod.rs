//! What experiments with many TCP connections share: a server, a client, and where they run.

mod client;
mod place;
mod server;
mod wire;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use napier_kv::service::{Service, ServiceStream};
use napier_verdict::Metric;
use serde::Serialize;

pub(super) use self::client::{Ask, ClientOutcome};
use self::server::Job;
pub use self::wire::MESSAGE_BYTES_MAX;
use super::rounds::{BenchDecided, Blocks, RowSlice, Stopped, latencies};
use super::stat::Spread;
use crate::cpus::CpuLayout;
use crate::loads::Load;
use crate::modes::{Mode, NO_GROUPS};
use crate::subject::{Backend, Subject};

/// Most workers of a server, each with a queue.
pub const WORKERS_MAX: u16 = 64;

/// One run.
pub(super) struct Case {
    pub(super) mode: Mode,
    pub(super) connections: u32,
    pub(super) ask: Ask,
    /// What a store takes for an operation.
    pub(super) service: Option<Service>,
    pub(super) load: Load,
    pub(super) length: Duration,
}

impl Case {
    /// What the worker with this number does; its times are those of every other run.
    fn job(&self, worker: usize) -> Job {
        match (self.ask, &self.service) {
            (Ask::Echo { request, response }, _) => Job::Echo { request, response },
            (Ask::Store { seed, .. }, Some(service)) => {
                Job::Store(ServiceStream::new(service, seed, &format!("store/{worker}")))
            }
            (Ask::Store { .. }, None) => unreachable!("a store takes a time"),
        }
    }

    /// Bytes of the largest message.
    fn message_bytes(&self) -> usize {
        match self.ask {
            Ask::Echo { request, response } => request.max(response),
            Ask::Store { bytes, .. } => bytes as usize,
        }
    }

    /// Runs it where `backend` says.
    pub(super) fn run(
        &self,
        backend: Backend,
        cpus: &CpuLayout,
        interrupted: &AtomicBool,
    ) -> Result<ClientOutcome, Stopped> {
        match backend {
            Backend::Engine => place::on_engine(self, cpus, interrupted),
            Backend::Kernel => place::on_kernel(self, cpus, interrupted),
            Backend::Sim => unreachable!("no option of these experiments names it"),
        }
    }
}

/// What the experiments of this kind are told alike.
#[derive(Clone, Debug)]
pub struct FlowsConfig {
    /// Who is measured, in the order of the rows.
    pub subjects: Vec<Subject>,
    /// Workers of the server, each with a queue.
    pub workers: u16,
    /// Length of each run; the first tenth does not count.
    pub length: Duration,
    /// Runs of each row, interleaved.
    pub runs: u32,
    /// Run what needs more CPUs than there are.
    pub oversubscribe: bool,
}

/// Figures of one row over its runs, as the document on threaded NAPI prints them.
#[derive(Copy, Clone, Debug, Serialize)]
pub struct FlowFigures {
    /// Requests answered a second.
    pub qps: Spread,
    /// Median, ns.
    pub p50_ns: Spread,
    /// 90th percentile, ns.
    pub p90_ns: Spread,
    /// 95th percentile, ns.
    pub p95_ns: Spread,
    /// 99th percentile, ns.
    pub p99_ns: Spread,
    /// 99.9th percentile, ns.
    pub p999_ns: Spread,
    /// Requests behind the percentiles, all runs.
    pub count: u64,
}

impl FlowFigures {
    /// `None` where a run has no answers.
    fn of(runs: &[ClientOutcome]) -> Option<Self> {
        if runs.is_empty() || runs.iter().any(|run| run.latency.is_empty()) {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "figures for a report")]
        let quantile = |at: f64| Spread::over(runs, |run| run.latency.value_at_quantile(at) as f64);
        #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
        let qps = Spread::over(runs, |run| run.answered as f64 / run.counted.as_secs_f64());
        Some(Self {
            qps,
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p95_ns: quantile(0.95),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            count: runs.iter().map(|run| run.latency.len()).sum(),
        })
    }
}

/// A row of a published table: another machine, another network.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
#[expect(missing_docs, reason = "each name says it all")]
pub struct PublishedFlow {
    pub mode: &'static str,
    pub qps: f64,
    pub p50_ns: u64,
    /// Of the table of TCP requests alone.
    pub p90_ns: Option<u64>,
    /// Of the table of a store alone.
    pub p95_ns: Option<u64>,
    pub p99_ns: u64,
    pub p999_ns: u64,
}

impl PublishedFlow {
    /// A row with the 50th, 90th, 99th and 99.9th percentile in us.
    pub(super) const fn with_p90(mode: &'static str, qps: f64, [p50, p90, p99, p999]: [u64; 4]) -> Self {
        let (p90_ns, p95_ns) = (Some(1000 * p90), None);
        Self { mode, qps, p50_ns: 1000 * p50, p90_ns, p95_ns, p99_ns: 1000 * p99, p999_ns: 1000 * p999 }
    }

    /// A row with the 50th, 95th, 99th and 99.9th percentile in us.
    pub(super) const fn with_p95(mode: &'static str, qps: f64, [p50, p95, p99, p999]: [u64; 4]) -> Self {
        let (p90_ns, p95_ns) = (None, Some(1000 * p95));
        Self { mode, qps, p50_ns: 1000 * p50, p90_ns, p95_ns, p99_ns: 1000 * p99, p999_ns: 1000 * p999 }
    }
}

/// What came of the runs of one row.
pub(super) struct FlowCell {
    pub(super) subject: Subject,
    pub(super) case: Case,
    pub(super) cpus: Option<CpuLayout>,
    pub(super) runs: Vec<ClientOutcome>,
    pub(super) refused: Option<String>,
}

impl FlowCell {
    pub(super) fn new(config: &FlowsConfig, subject: Subject, case: Case) -> Self {
        let queues = usize::from(config.workers);
        let polls = subject.mode.server_cpus(1) > 1;
        let cpus = CpuLayout::choose(&napier_runtime::available_cpus(), queues, polls, config.oversubscribe);
        let no_groups = subject.backend == Backend::Kernel && subject.mode == Mode::Group;
        let refused = cpus.as_ref().err().map(ToString::to_string).or(no_groups.then(|| NO_GROUPS.to_owned()));
        Self { subject, case, cpus: cpus.ok(), runs: Vec::new(), refused }
    }

    pub(super) fn figures(&self) -> Option<FlowFigures> {
        FlowFigures::of(&self.runs)
    }
}

/// Runs all rows, in rounds of random order: those of a block are compared by `metrics`. What was decided of each block.
pub(super) fn run_cells(
    config: &FlowsConfig,
    cells: &mut [Vec<FlowCell>],
    metrics: &[Metric],
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<BenchDecided>> {
    let in_kernel = cells.iter().flatten().any(|cell| cell.subject.backend == Backend::Kernel);
    let name = |cell: &FlowCell| cell.subject.name(in_kernel);
    let names = cells.iter().map(|block| block.iter().map(name).collect()).collect();
    let used = napier_runtime::available_cpus();
    let blocks = Blocks::of_engine(names, metrics, config.runs, &used).in_kernel(in_kernel);
    let found = blocks.run(interrupted, progress, |block, at| {
        let cell = &cells[block][at];
        let cpus = match (&cell.cpus, &cell.refused) {
            (_, Some(why)) => return Err(Stopped::Refused(why.clone())),
            (Some(cpus), None) => cpus,
            (None, None) => unreachable!("without CPUs it is refused"),
        };
        match cell.case.run(cell.subject.backend, cpus, interrupted) {
            Ok(run) => Ok(RowSlice {
                latency: latencies(&run.latency),
                answered: run.answered,
                window: run.counted,
                cpu: Duration::ZERO,
                run,
            }),
            Err(Stopped::Failed(error)) if error.is::<client::TooSlow>() => Err(Stopped::Refused(error.to_string())),
            Err(other) => Err(other),
        }
    })?;
    let mut decided = Vec::new();
    for (block, found) in cells.iter_mut().zip(found) {
        for (cell, row) in block.iter_mut().zip(found.rows) {
            (cell.runs, cell.refused) = (row.runs, row.refused);
        }
        decided.push(found.decided);
    }
    Ok(decided)
}
