//! `bench tcp-rr`: the round trip of one byte between two programs with TCP sockets, closed loop, over one connection or over
//! many in turn.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use hdrhistogram::Histogram;
use napier_core::control::plan::apply;
use napier_runtime::device::LinkConfig;
use napier_runtime::engine::EngineSink;
use napier_runtime::event::{Event, EventContext, Interest, Timeout};
use napier_runtime::socket::{TcpListener, TcpStream};
use napier_verdict::Metric;
use serde::Serialize;

use super::instructions::{self, Job};
use super::pin::EndCpus;
use super::rounds::{BenchDecided, Blocks, RowSlice, compared, two_cpus};
use super::rtt::{self, ANSWER_MAX, Percentiles, with_server};
use super::stat::Spread;
use super::udp_rr::UdpMode;
use crate::modes::busy_socket;
use crate::pair::{Pair, TESTED_AT};
use crate::wrap::counted;

/// How long a program waits before it looks whether the run is over.
const STOP_LOOK: Duration = Duration::from_millis(20);
/// Most connections: what fits into the range of ephemeral ports.
pub const TCP_CONNECTIONS_MAX: u32 = 28_000;

/// What to run.
#[derive(Clone, Debug)]
pub struct TcpRrConfig {
    /// Round trips per run.
    pub round_trips: u32,
    /// Runs per row, interleaved.
    pub runs: u32,
    /// Numbers of connections, each a row per mode; requests go over them in turn.
    pub connections: Vec<u32>,
    /// Numbers of requests that the one thread of the second table keeps in flight, each over a connection of its own; a
    /// row per number of connections, which bounds it.
    pub in_flight: Vec<u32>,
    /// Make the first table.
    pub round_trip_table: bool,
    /// Count instructions under callgrind, if valgrind is installed.
    pub instructions: bool,
}

/// One row: round trips between two programs.
#[derive(Clone, Debug, Serialize)]
pub struct TcpRr {
    /// How both programs received.
    pub mode: UdpMode,
    /// Connections that were open, and used in turn.
    pub connections: u32,
    /// Median of the round trip over the runs, in ns.
    pub p50_ns: Spread,
    /// 99th percentile over the runs, in ns.
    pub p99_ns: Spread,
    /// Runs.
    pub runs: u32,
}

/// One row: what a request and its response cost when one thread does the work of both ends.
#[derive(Clone, Debug, Serialize)]
pub struct TcpCost {
    /// Connections that were open, and used in turn.
    pub connections: u32,
    /// Requests that were sent before the first was received, each over another connection.
    pub in_flight: u32,
    /// Over the runs.
    pub ns_per_request: Spread,
    /// User-space instructions, exact; absent without valgrind.
    pub instructions_per_request: Option<f64>,
}

/// Both tables.
#[derive(Clone, Debug, Serialize)]
pub struct TcpRrTables {
    /// Between two programs.
    pub round_trips: Vec<TcpRr>,
    /// On one thread.
    pub costs: Vec<TcpCost>,
    /// What was decided: of the modes for each number of connections, and of the rows of one thread.
    #[serde(skip)]
    pub decided: Vec<BenchDecided>,
}

/// Measures every mode with every number of connections, in turn.
///
/// # Errors
/// Fewer than two processors, too many connections, or the engine did not start.
pub fn tcp_rr(
    config: &TcpRrConfig,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<TcpRrTables> {
    let cpus = two_cpus()?;
    let most = TCP_CONNECTIONS_MAX;
    anyhow::ensure!(config.connections.iter().all(|n| (1..=most).contains(n)), "connections must be 1 to {most}");
    let between_programs = if config.round_trip_table { &*config.connections } else { &[] };
    let both = cpus.both();
    let modes: Vec<String> = UdpMode::ALL.map(|mode| mode.name().to_owned()).into();
    let found = Blocks::of_engine(vec![modes; between_programs.len()], &[Metric::P50, Metric::P99], config.runs, &both)
        .run(interrupted, progress, |block, at| {
            Ok(run(UdpMode::ALL[at], between_programs[block], config.round_trips, cpus)?)
        })?;
    let mut round_trips = compared(found, |block, at, row| TcpRr {
        mode: UdpMode::ALL[at],
        connections: between_programs[block],
        p50_ns: Percentiles::spread(&row.runs, 0.5),
        p99_ns: Percentiles::spread(&row.runs, 0.99),
        runs: row.count(),
    });
    if between_programs.len() > 1 {
        let names = between_programs.iter().map(|connections| counted(*connections, "connection"));
        round_trips.decided.iter_mut().zip(names).for_each(|(decided, name)| decided.block = name);
    }
    let loads: Vec<TcpLoad> = config.connections.iter().flat_map(|n| TcpLoad::all(*n, &config.in_flight)).collect();
    let name = |load: &TcpLoad| {
        format!("one thread, {}, {} in flight", counted(load.connections, "connection"), load.in_flight)
    };
    let found = Blocks::of_rows(loads.iter().map(name), &[Metric::Throughput], config.runs, &both).run(
        interrupted,
        progress,
        |_, at| Ok(cost(loads[at], config.round_trips)?),
    )?;
    let mut instructions_of = Vec::new();
    for load in &loads {
        instructions_of.push(if config.instructions { instructions(*load)? } else { None });
    }
    let costs = compared(found, |_, at, row| TcpCost {
        connections: loads[at].connections,
        in_flight: loads[at].in_flight,
        ns_per_request: Spread::of(&row.runs),
        instructions_per_request: instructions_of[at],
    });
    let decided = round_trips.decided.into_iter().chain(costs.decided).collect();
    Ok(TcpRrTables { round_trips: round_trips.rows, costs: costs.rows, decided })
}

fn run(
    mode: UdpMode,
    connections: u32,
    round_trips: u32,
    EndCpus { client: client_cpu, server: server_cpu }: EndCpus,
) -> anyhow::Result<RowSlice<Histogram<u64>>> {
    let pair = Pair::new(&LinkConfig::default(), &[server_cpu], &[client_cpu])?;
    let (clients, servers) = connect(&pair, connections)?;
    if mode.polls() {
        pair.defer_for_pollers()?;
    }
    // Kept until the server has stopped, which would find its connections closed.
    let end = End::new(&pair, clients, mode)?;
    let server = |ready: SyncSender<()>, stop: &AtomicBool| {
        let _counted = pair.engine.count_thread("server", Some(server_cpu));
        let end = End::new(&pair, servers, mode)?;
        ready.send(())?;
        let mut byte = [0];
        let mut turn = 0;
        while !stop.load(Ordering::Acquire) {
            if let Some(at) = end.receive(turn, &mut byte)? {
                end.streams[at].send(&byte)?;
                turn = (turn + 1) % end.streams.len();
            }
        }
        Ok(())
    };
    with_server(server, || {
        let _counted = pair.engine.count_thread("client", Some(client_cpu));
        ping(&pair, &end, round_trips)
    })
}

fn ping(pair: &Pair, end: &End, round_trips: u32) -> anyhow::Result<RowSlice<Histogram<u64>>> {
    let count = end.streams.len();
    // Every connection is used before it counts.
    let warm_up = (round_trips / 10).max(u32::try_from(count).expect("at most TCP_CONNECTIONS_MAX"));
    let turn = Cell::new(count - 1);
    let ask = || {
        turn.set((turn.get() + 1) % count);
        end.streams[turn.get()].send(&[7])?;
        Ok(())
    };
    let take = || Ok(end.receive(turn.get(), &mut [0])?.is_some());
    rtt::ping((round_trips, warm_up), ANSWER_MAX, || pair.engine.now_ns(), ask, take)
}

/// As many connections as wanted, and their other ends, in one order.
fn connect(pair: &Pair, connections: u32) -> anyhow::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let server = TESTED_AT;
    let listener = TcpListener::bind(&pair.tested_ns, server)?;
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for _ in 0..connections {
        clients.push(TcpStream::connect(&pair.peer_ns, server)?);
        servers.push(listener.accept()?.0);
    }
    Ok((clients, servers))
}

/// One program's sockets and how it receives.
struct End {
    streams: Vec<TcpStream>,
    context: Option<EventContext>,
}

impl End {
    fn new(pair: &Pair, streams: Vec<TcpStream>, mode: UdpMode) -> anyhow::Result<Self> {
        let context = mode.context(&pair.engine, TCP_CONNECTIONS_MAX)?;
        for (at, stream) in streams.iter().enumerate() {
            stream.set_read_timeout(Some(STOP_LOOK))?;
            apply(&mut EngineSink::Socket(stream), &mode.plan())?;
            if let Some(context) = &context {
                stream.set_nonblocking(true)?;
                context.add(stream, Interest::IN, at as u64)?;
            }
        }
        Ok(Self { streams, context })
    }

    /// Where the next byte came, or `None` if none came in time. Without a context only the stream whose turn it is is
    /// looked at.
    #[inline]
    fn receive(&self, turn: usize, byte: &mut [u8; 1]) -> anyhow::Result<Option<usize>> {
        let mut at = turn;
        if let Some(context) = &self.context {
            let mut events = [Event::default(); 4];
            if context.wait(&mut events[..1], Timeout::After(STOP_LOOK))? == 0 {
                return Ok(None);
            }
            at = usize::try_from(events[0].data).expect("an index");
        }
        match self.streams[at].recv(byte) {
            Ok(0) => anyhow::bail!("a connection was closed"),
            Ok(_) => Ok(Some(at)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// What the one thread of the second table does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct TcpLoad {
    pub(super) connections: u32,
    /// At most `connections`.
    pub(super) in_flight: u32,
}

impl TcpLoad {
    /// With each number of requests in flight, none twice.
    fn all(connections: u32, in_flight: &[u32]) -> Vec<Self> {
        let mut loads: Vec<Self> =
            in_flight.iter().map(|n| Self { connections, in_flight: (*n).clamp(1, connections) }).collect();
        loads.dedup();
        loads
    }
}

/// ns of a request and its response, both ends on this thread.
fn cost(load: TcpLoad, requests: u32) -> anyhow::Result<RowSlice<f64>> {
    let cpu = napier_runtime::available_cpus()[0];
    let pair = Pair::new(&LinkConfig::default(), &[cpu], &[cpu])?;
    let (clients, servers) = connect(&pair, load.connections)?;
    pair.never_interrupt(&pair.tested)?;
    pair.never_interrupt(&pair.peer)?;
    // Nobody else polls: a segment that found the ring full leaves a millisecond later, and comes while we poll.
    let plan = busy_socket(1_000_000).into_iter().collect();
    for stream in clients.iter().chain(&servers) {
        apply(&mut EngineSink::Socket(stream), &plan)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    }
    let _counted = pair.engine.count_thread("tcp-rr", Some(cpu));
    let at_once = load.in_flight as usize;
    let ends = || clients.chunks(at_once).zip(servers.chunks(at_once));
    for (clients, servers) in ends() {
        exchange(clients, servers)?;
    }
    let begun = pair.engine.now_ns();
    let mut left = requests as usize;
    while left > 0 {
        for (clients, servers) in ends() {
            let count = clients.len().min(left);
            measured_requests(&clients[..count], &servers[..count])?;
            left -= count;
        }
    }
    let window = Duration::from_nanos(pair.engine.now_ns() - begun);
    let run = window.as_secs_f64() * 1e9 / f64::from(requests);
    Ok(RowSlice { latency: Default::default(), answered: requests.into(), window, cpu: window, run })
}

#[inline(never)]
fn measured_requests(clients: &[TcpStream], servers: &[TcpStream]) -> anyhow::Result<()> {
    exchange(clients, servers)
}

/// A request over each connection, all before the first is received, and a response to each, likewise.
fn exchange(clients: &[TcpStream], servers: &[TcpStream]) -> anyhow::Result<()> {
    let mut byte = [7];
    for client in clients {
        client.send(&byte)?;
    }
    for server in servers {
        server.recv(&mut byte)?;
        server.send(&byte)?;
    }
    for client in clients {
        client.recv(&mut byte)?;
    }
    Ok(())
}

/// What a child process under callgrind runs; `false` if this process is none.
///
/// # Errors
/// As [`tcp_rr`].
pub fn measured_tcp_entry() -> anyhow::Result<bool> {
    let Some((load, requests)) = tcp_job() else { return Ok(false) };
    cost(load, requests)?;
    Ok(true)
}

/// Instructions of a request and its response, both ends, counted in children.
fn instructions(load: TcpLoad) -> anyhow::Result<Option<f64>> {
    let TcpLoad { connections, in_flight } = load;
    let job = Job { bench: "tcp-rr", function: "*measured_requests*", counts: [500, 10_500] };
    instructions::count(&job, |requests| format!("tcp,{connections},{in_flight},{requests}"))
}

/// The job that a parent gave this process: the load and the number of requests.
fn tcp_job() -> Option<(TcpLoad, u32)> {
    let job = instructions::job()?;
    let mut parts = job.strip_prefix("tcp,")?.split(',').map(|part| part.parse().ok());
    let mut next = || parts.next().flatten();
    Some((TcpLoad { connections: next()?, in_flight: next()? }, next()?))
}
