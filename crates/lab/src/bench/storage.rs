//! `bench storage`: reads and writes of a remote store at a fixed rate, open loop.
//!
//! Source of the experiment and of its published table: W. Wang, "implement kthread based napi poll" (merge message of
//! Linux 5.12): "fixed qps remote SSD read/write operations". The store here is a time that an operation takes, which costs
//! no CPU and of which any number pass at once, behind a protocol of our own over TCP.

use std::sync::atomic::AtomicBool;

use napier_kv::service::Service;
use napier_verdict::Metric;
use serde::Serialize;

use super::flows::{Ask, Case, ClientOutcome, FlowCell, FlowFigures, FlowsConfig, PublishedFlow, run_cells};
use super::rounds::{Compared, is_overload};
use crate::cpus::CpuLayout;
use crate::loads::Load;
use crate::subject::{Backend, Subject};

/// Most connections, which is the most operations in hand.
pub const STORAGE_CONNECTIONS_MAX: u32 = super::TCP_CONNECTIONS_MAX;
/// Most operations of one run.
pub const STORAGE_OPERATIONS_MAX: u64 = 100_000_000;
/// What the store takes for an operation unless it is said.
pub const STORAGE_SERVICE: &str = "80us";

const PUBLISHED: [(u32, [PublishedFlow; 3]); 2] = [
    (
        4 << 10,
        [
            PublishedFlow::with_p95("base", 572_600.0, [385, 1500, 3160, 6410]),
            PublishedFlow::with_p95("threaded", 572_600.0, [390, 803, 2210, 6830]),
            PublishedFlow::with_p95("workqueue", 572_600.0, [384, 763, 3120, 6870]),
        ],
    ),
    (
        1 << 20,
        [
            PublishedFlow::with_p95("base", 10_980.0, [2030, 3100, 3700, 11_560]),
            PublishedFlow::with_p95("threaded", 10_980.0, [2130, 3210, 4020, 13_300]),
            PublishedFlow::with_p95("workqueue", 10_980.0, [2130, 3200, 3990, 14_120]),
        ],
    ),
];

/// What to run.
#[derive(Clone, Debug)]
pub struct StorageConfig {
    /// Who, how long and how often.
    pub flows_config: FlowsConfig,
    /// Operations a second.
    pub rate: u64,
    /// Bytes of an operation, each a block of rows.
    pub sizes: Vec<u32>,
    /// Reads among a hundred operations; the rest are writes.
    pub read_pct: u32,
    /// What the store takes for an operation.
    pub service: Service,
    /// Connections, each with one operation in hand at most.
    pub connections: u32,
    /// Of the order of reads and writes, and of the times of the store.
    pub seed: u64,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Storage {
    /// Where the mode was in force.
    pub backend: Backend,
    /// The mode of the store's end.
    pub mode: String,
    /// Bytes of an operation.
    pub bytes: u32,
    /// Operations a second that were due.
    pub rate: u64,
    /// Reads among a hundred operations.
    pub read_pct: u32,
    /// What the store takes for an operation, as given.
    pub service: String,
    /// Connections, each with one operation in hand at most.
    pub connections: u32,
    /// Who ran where; null in a row that was refused for want of CPUs.
    pub cpus: Option<CpuLayout>,
    /// From when an operation was due to its answer. Null in a refused row, and where no answer came.
    pub figures: Option<FlowFigures>,
    /// Operations of all runs that were due.
    pub due: u64,
    /// Of them, those answered while others were still due.
    pub answered_in_time: u64,
    /// Of them, those without an answer a second after the last was due.
    pub lost: u64,
    /// Less than 99 % were answered in time: the latency is that of a queue that grows with the length of a run.
    pub overloaded: bool,
    /// Runs behind the figures.
    pub runs: u32,
    /// The row of the published table with this mode and this size: another machine, another rate.
    pub published: Option<PublishedFlow>,
    /// Why it did not run.
    pub refused: Option<String>,
}

/// Measures every mode with every size, in turn.
///
/// # Errors
/// Something failed on the way, or it was interrupted; what cannot be run here is a refused row.
pub fn storage(
    config: &StorageConfig,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Compared<Storage>> {
    let common = &config.flows_config;
    let cell = |bytes: u32, subject: Subject| {
        let ask = Ask::Store { bytes, read_pct: config.read_pct, seed: config.seed };
        let (mode, connections, service) = (subject.mode, config.connections, Some(config.service.clone()));
        let (load, length) = (Load::Rps(config.rate.max(1)), common.length);
        FlowCell::new(common, subject, Case { mode, connections, ask, service, load, length })
    };
    let block = |bytes: &u32| common.subjects.iter().map(|subject| cell(*bytes, *subject)).collect();
    let mut cells: Vec<Vec<FlowCell>> = config.sizes.iter().map(block).collect();
    let mut decided = run_cells(common, &mut cells, &[Metric::P50, Metric::P99], interrupted, progress)?;
    let mut rows = Vec::new();
    for ((bytes, cells), decided) in config.sizes.iter().zip(cells).zip(&mut decided) {
        let own: Vec<Storage> = cells.into_iter().map(|cell| row(config, *bytes, cell)).collect();
        decided.without(|at| own[at].overloaded);
        if config.sizes.len() > 1 {
            decided.block = format!("{bytes} bytes");
        }
        rows.extend(own);
    }
    Ok(Compared { rows, decided })
}

fn row(config: &StorageConfig, bytes: u32, cell: FlowCell) -> Storage {
    let mode = cell.subject.mode.to_string();
    let sum = |of: fn(&ClientOutcome) -> u64| cell.runs.iter().map(of).sum();
    Storage {
        backend: cell.subject.backend,
        bytes,
        rate: config.rate,
        read_pct: config.read_pct,
        service: config.service.to_string(),
        connections: config.connections,
        figures: cell.figures(),
        due: sum(|run| run.due),
        answered_in_time: sum(|run| run.in_time),
        lost: sum(|run| run.lost),
        overloaded: is_overload(sum(|run| run.due), sum(|run| run.in_time), cell.runs.len() as u64),
        runs: u32::try_from(cell.runs.len()).expect("as many as were asked for"),
        published: published(&mode, bytes),
        mode,
        cpus: cell.cpus,
        refused: cell.refused,
    }
}

fn published(mode: &str, bytes: u32) -> Option<PublishedFlow> {
    let (_, rows) = PUBLISHED.into_iter().find(|&(published, _)| published == bytes)?;
    rows.into_iter().find(|row| row.mode == mode)
}
