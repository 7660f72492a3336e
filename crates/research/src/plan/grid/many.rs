//! Plans of many threads on two hosts of many CPUs: `tcp-rr` and `remote-ssd`.

use std::sync::Arc;

use napier_core::time::Span;
use napier_scenario::ParseError;
use napier_scenario::read::{Node, Table};
use napier_sim::machine::Work;
use napier_sim::machine::bulk::{Asks, FlowFigures, Flows, Polls};
use napier_sim::machine::figures::Length;

use super::{Grid, GridKind, GridSubject, Offer, modes, published, two_hosts};
use napier_lab::machines::{MachineFile, Wire, points_ns};

/// Bytes of a request to read, and of an answer to a write, with what a protocol puts around them; estimated.
const COMMAND_BYTES: u32 = 128;
/// Operations up to this are small.
const SMALL_BYTES: u32 = 64 << 10;
/// The largest message of a plan: what a simulated socket takes of one.
const BYTES_MAX: i128 = 16 << 20;

/// How many there are of what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Hyper-threads of each host.
    pub cpus: u16,
    /// Receive queues of each host.
    pub queues: u16,
    /// Threads of each program.
    pub threads: u16,
    /// Connections.
    pub flows: u16,
}

/// Reads a plan.
pub(super) fn read(kind: GridKind, whole: Table<'_>) -> Result<Grid, ParseError> {
    let whole = whole.only(&[
        "title",
        "kind",
        "machine",
        "published",
        "modes",
        "loads",
        "cpus",
        "queues",
        "threads",
        "flows",
        "seeds",
    ])?;
    let loads = whole.need("loads")?;
    let items = loads.list(expected(kind))?;
    let offers = items.iter().map(|node| offer(kind, node)).collect::<Result<Vec<_>, _>>()?;
    if offers.is_empty() {
        return Err(loads.error("a plan has a load at least"));
    }
    let (machine, wire) = two_hosts(&whole)?;
    if kind == GridKind::RemoteSsd && machine.storage.times.iter().any(|times| times[5] == 0) {
        return Err(whole.need("machine")?.error("this machine has no storage; expected one with [storage]"));
    }
    let cpus: u16 = whole.need("cpus")?.number(2..=1024)?;
    if !cpus.is_multiple_of(2) {
        return Err(whole.need("cpus")?.error("each core has two hyper-threads: their number is even"));
    }
    let size = Size {
        cpus,
        queues: whole.need("queues")?.number(1..=i128::from(cpus))?,
        threads: whole.need("threads")?.number(1..=4096)?,
        flows: whole.need("flows")?.number(1..=20_000)?,
    };
    Ok(Grid {
        kind,
        title: whole.need("title")?.text("what it reproduces")?.to_owned(),
        modes: modes(&whole, kind)?,
        loads: offers,
        subject: GridSubject::Many { machine, wire, size, seeds: whole.number("seeds", 1..=1000, 1)? },
        published: whole.map("published", |node| published::named(kind, node))?.unwrap_or_default(),
    })
}

const fn expected(kind: GridKind) -> &'static str {
    match kind {
        GridKind::TcpRr => {
            "an array of loads such as { request = 1, response = 1, measured = \"100ms\" }, sizes in bytes"
        }
        _ => "an array of loads such as { bytes = 4096, rate = 500000, measured = \"100ms\" }",
    }
}

fn offer(kind: GridKind, node: &Node<'_>) -> Result<Offer, ParseError> {
    let keys: &[&str] = match kind {
        GridKind::TcpRr => &["request", "response", "warm-up", "measured"],
        _ => &["bytes", "rate", "warm-up", "measured"],
    };
    let table = node.table(expected(kind))?.only(keys)?;
    let length = Length {
        warm_up: table.short_span("warm-up", Span::from_ms(20))?,
        measured: crate::plan::files::measured(&table)?,
    };
    let bytes = |key| table.need(key)?.number(1..=BYTES_MAX);
    Ok(match kind {
        GridKind::TcpRr => {
            Offer::Messages { request_bytes: bytes("request")?, response_bytes: bytes("response")?, length }
        }
        _ => {
            Offer::Operations { bytes: bytes("bytes")?, rate_rps: table.need("rate")?.number(1..=100_000_000)?, length }
        }
    })
}

/// How long a cell's run is.
pub(super) fn length(load: Offer) -> Length {
    match load {
        Offer::Messages { length, .. } | Offer::Operations { length, .. } => length,
        other => unreachable!("{other} is no load of many threads"),
    }
}

/// Both hosts in a mode.
pub(super) fn flows_in(machine: &MachineFile, wire: Wire, size: Size, mode: &str, load: Offer) -> Flows {
    let polls = match mode {
        "base" => Polls::Softirq,
        "threaded" => Polls::Thread,
        "workqueue" => Polls::Pool,
        mode => unreachable!("{mode} is no mode of many threads"),
    };
    let none: Arc<[u64]> = Arc::new([]);
    let (request_bytes, response_bytes, asks, storage_ns) = match load {
        Offer::Operations { bytes, rate_rps, .. } => {
            let times = &machine.storage.times[usize::from(bytes > SMALL_BYTES)];
            (COMMAND_BYTES, bytes, Asks::Rate { rate_rps }, points_ns(times))
        }
        Offer::Messages { request_bytes, response_bytes, .. } => (request_bytes, response_bytes, Asks::Program, none),
        other => unreachable!("{other} is no load of many threads"),
    };
    let is_storage = asks != Asks::Program;
    let mut costs = machine.costs;
    if is_storage {
        costs.set(Work::Request, Span::from_ns(machine.storage.program_ns));
    }
    Flows {
        costs,
        disturbance: machine.disturbance,
        deep_after: machine.deep_after,
        hz: machine.hz,
        cpus: size.cpus,
        sibling_pct: machine.sibling_pct,
        migration_cost: machine.migration_cost,
        queues: size.queues,
        threads: size.threads,
        flows: size.flows,
        polls,
        // The document pins who polls where the programs are busy, and nothing where they are not.
        pinned: is_storage,
        rx_usecs: 0,
        request_bytes,
        response_bytes,
        both_ways: is_storage,
        asks,
        storage_ns,
        wire: Span::from_ns(wire.one_way_ns),
        wire_noise: Span::from_ns(wire.noise_ns),
        mbit_s: u32::try_from(wire.mbit_s).unwrap_or(u32::MAX),
    }
}

/// What a cell's runs say together.
pub(super) fn together(cpus: u16, runs: &[&FlowFigures]) -> Result<Vec<(&'static str, f64)>, String> {
    if let Some(broken) = runs.iter().find_map(|run| run.broken.clone()) {
        return Err(broken);
    }
    let mut latency: Vec<u64> = runs.iter().flat_map(|run| run.latency_ns.iter().copied()).collect();
    latency.sort_unstable();
    if latency.is_empty() {
        return Err("no answer came in the measured time".to_owned());
    }
    let ns = runs.iter().map(|run| run.measured.ns).sum::<u64>() as f64;
    let sum = |of: fn(&FlowFigures) -> u64| runs.iter().map(|run| of(run)).sum::<u64>() as f64;
    let at = |per_mille: usize| latency[latency.len() * per_mille / 1000] as f64 / 1000.0;
    Ok(vec![
        ("qps", sum(|run| run.answered) * 1e9 / ns),
        ("p50_us", at(500)),
        ("p90_us", at(900)),
        ("p95_us", at(950)),
        ("p99_us", at(990)),
        ("p999_us", at(999)),
        ("server_cpu_pct", sum(|run| run.server.busy().ns) * 100.0 / ns / f64::from(cpus)),
        ("interrupts_per_s", sum(|run| run.interrupts) * 1e9 / ns),
        ("polls_per_s", sum(|run| run.polls) * 1e9 / ns),
        ("migrations_per_s", sum(|run| run.migrations) * 1e9 / ns),
    ])
}
