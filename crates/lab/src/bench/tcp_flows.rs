//! `bench tcp-rr --flows`: many TCP connections at once, each with one request on its way, closed loop.
//!
//! Source of the experiment and of its published table: W. Wang, "implement kthread based napi poll" (merge message of
//! Linux 5.12): `tcp_rr` with 1000 flows, 56 hyper-threads, a NIC of 100 Gbit/s with 8 receive queues.

use std::sync::atomic::AtomicBool;

use napier_verdict::Metric;
use serde::Serialize;

use super::flows::{Ask, Case, FlowCell, FlowFigures, FlowsConfig, PublishedFlow, run_cells};
use super::rounds::Compared;
use crate::cpus::CpuLayout;
use crate::loads::Load;
use crate::subject::{Backend, Subject};

/// Most flows: what fits into the range of ephemeral ports.
pub const FLOWS_MAX: u32 = super::TCP_CONNECTIONS_MAX;

const MEBI: u32 = 1 << 20;

/// The published table: bytes each way, and the rows.
const PUBLISHED: [(u32, [PublishedFlow; 3]); 2] = [
    (
        1,
        [
            PublishedFlow::with_p90("base", 2.75e6, [337, 376, 1040, 3690]),
            PublishedFlow::with_p90("threaded", 2.67e6, [371, 408, 455, 550]),
            PublishedFlow::with_p90("workqueue", 2.56e6, [384, 435, 673, 822]),
        ],
    ),
    (
        MEBI,
        [
            PublishedFlow::with_p90("base", 11_000.0, [79_000, 166_000, 306_000, 630_000]),
            PublishedFlow::with_p90("threaded", 11_000.0, [75_000, 177_000, 303_000, 596_000]),
            PublishedFlow::with_p90("workqueue", 11_000.0, [79_000, 180_000, 303_000, 587_000]),
        ],
    ),
];

/// What to run.
#[derive(Clone, Debug)]
pub struct TcpFlowsConfig {
    /// Who, how long and how often.
    pub flows_config: FlowsConfig,
    /// Connections, all at once.
    pub flows: u32,
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Bytes of a response, each a block of rows.
    pub response_bytes: Vec<u32>,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct TcpFlows {
    /// Where the mode was in force.
    pub backend: Backend,
    /// The mode of the server's end.
    pub mode: String,
    /// Connections, all at once.
    pub flows: u32,
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Bytes of a response.
    pub response_bytes: u32,
    /// Who ran where; null in a row that was refused for want of CPUs.
    pub cpus: Option<CpuLayout>,
    /// Null in a refused row.
    pub figures: Option<FlowFigures>,
    /// Runs behind the figures.
    pub runs: u32,
    /// The row of the published table with this mode and these sizes: another machine.
    pub published: Option<PublishedFlow>,
    /// Why it did not run.
    pub refused: Option<String>,
}

/// Measures every mode with every size, in turn.
///
/// # Errors
/// Something failed on the way, or it was interrupted; what cannot be run here is a refused row.
pub fn tcp_flows(
    config: &TcpFlowsConfig,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Compared<TcpFlows>> {
    let common = &config.flows_config;
    let cell = |response: u32, subject: Subject| {
        let ask = Ask::Echo { request: config.request_bytes as usize, response: response as usize };
        let (mode, connections, length) = (subject.mode, config.flows, common.length);
        FlowCell::new(common, subject, Case { mode, connections, ask, service: None, load: Load::Max, length })
    };
    let block = |response: &u32| common.subjects.iter().map(|subject| cell(*response, *subject)).collect();
    let mut cells: Vec<Vec<FlowCell>> = config.response_bytes.iter().map(block).collect();
    let mut decided = run_cells(common, &mut cells, &[Metric::P99, Metric::Throughput], interrupted, progress)?;
    if decided.len() > 1 {
        let names = config.response_bytes.iter().map(|bytes| format!("responses of {bytes} bytes"));
        decided.iter_mut().zip(names).for_each(|(decided, name)| decided.block = name);
    }
    let cells =
        config.response_bytes.iter().zip(cells).flat_map(|(bytes, cells)| cells.into_iter().map(|cell| (*bytes, cell)));
    let rows = cells.map(|(response_bytes, cell)| TcpFlows {
        backend: cell.subject.backend,
        mode: cell.subject.mode.to_string(),
        flows: config.flows,
        request_bytes: config.request_bytes,
        response_bytes,
        figures: cell.figures(),
        cpus: cell.cpus,
        runs: u32::try_from(cell.runs.len()).expect("as many as were asked for"),
        published: published(&cell.subject.mode.to_string(), config.request_bytes, response_bytes),
        refused: cell.refused,
    });
    Ok(Compared { rows: rows.collect(), decided })
}

/// The published row; 1M stands for its "1MB".
fn published(mode: &str, request: u32, response: u32) -> Option<PublishedFlow> {
    let (_, rows) = PUBLISHED.into_iter().find(|&(bytes, _)| bytes == request && bytes == response)?;
    rows.into_iter().find(|row| row.mode == mode)
}
