//! `bench udp-rr`: the round trip of a datagram between two programs with UDP sockets, closed loop.

use std::net::{SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use hdrhistogram::Histogram;
use napier_core::control::plan::{Plan, apply};
use napier_runtime::capture::{CaptureConfig, CaptureStats};
use napier_runtime::device::LinkConfig;
use napier_runtime::engine::{Engine, EngineSink};
use napier_runtime::event::{Event, EventContext, Interest, Timeout};
use napier_runtime::socket::{NetNs, UdpSocket};
use napier_verdict::Metric;
use serde::Serialize;

use super::pin::EndCpus;
use super::rounds::{Blocks, Compared, RowSlice, compared, two_cpus};
use super::rtt::{self, ANSWER_MAX, Percentiles, with_server};
use super::stat::Spread;
use crate::modes::{busy_context, busy_socket};
use crate::pair::{PEER_AT, Pair, TESTED_AT};

/// Payload each way: 64 bytes on the wire with its headers.
const PAYLOAD_BYTES: usize = 22;

/// How long a program waits before it looks whether the run is over.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// How both programs receive.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UdpMode {
    /// Blocked in `recv`, woken by interrupt.
    Blocking,
    /// Blocked in an event context, woken by interrupt.
    EventContext,
    /// `recv` that busy polls (`SO_BUSY_POLL`, prefer).
    BusyRead,
    /// An event context that busy polls (busy_poll_usecs 1000, budget 64, prefer).
    EventContextBusy,
}

impl UdpMode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Blocking, Self::EventContext, Self::BusyRead, Self::EventContextBusy];

    /// The name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking recv, interrupts",
            Self::EventContext => "event context, interrupts",
            Self::BusyRead => "recv busy polling",
            Self::EventContextBusy => "event context busy polling",
        }
    }

    pub(super) fn polls(self) -> bool {
        matches!(self, Self::BusyRead | Self::EventContextBusy)
    }

    /// What a program sets of its sockets and its event context.
    pub(super) fn plan(self) -> Plan {
        match self {
            Self::Blocking | Self::EventContext => Plan::default(),
            Self::BusyRead => busy_socket(1000).into_iter().collect(),
            Self::EventContextBusy => [busy_context(1000)].into_iter().collect(),
        }
    }

    /// The event context of a program, if it waits in one.
    pub(super) fn context(self, engine: &Engine, members_max: u32) -> anyhow::Result<Option<EventContext>> {
        if matches!(self, Self::Blocking | Self::BusyRead) {
            return Ok(None);
        }
        let context = EventContext::with_members_max(engine, members_max);
        apply(&mut EngineSink::Context(&context), &self.plan())?;
        Ok(Some(context))
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct UdpRrConfig {
    /// Round trips per run.
    pub round_trips: u32,
    /// Runs per mode, interleaved.
    pub runs: u32,
    /// Captures the server's device into this file, a section per run. The copying is part of the figures then.
    pub pcapng: Option<PathBuf>,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct UdpRr {
    /// How both programs received.
    pub mode: UdpMode,
    /// Median of the round trip over the runs, in ns.
    pub p50_ns: Spread,
    /// 99th percentile over the runs, in ns.
    pub p99_ns: Spread,
    /// Runs.
    pub runs: u32,
    /// Frames captured and dropped by the capture, if there was one.
    pub captured: Option<(u64, u64)>,
}

/// Measures every mode, in turn.
///
/// # Errors
/// Fewer than two processors, or the engine did not start.
pub fn udp_rr(
    config: &UdpRrConfig,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Compared<UdpRr>> {
    let cpus = two_cpus()?;
    let mut captured = [CaptureStats::default(); UdpMode::ALL.len()];
    let mut capture = config.pcapng.as_ref().map(CaptureConfig::new);
    let used = cpus.both();
    let blocks = Blocks::of_rows(UdpMode::ALL.map(UdpMode::name), &[Metric::P50, Metric::P99], config.runs, &used);
    let found = blocks.run(interrupted, progress, |_, at| {
        let (slice, stats) = run(UdpMode::ALL[at], config.round_trips, cpus, capture.as_ref())?;
        captured[at].written += stats.written;
        captured[at].dropped += stats.dropped;
        capture.iter_mut().for_each(|config| config.append = true);
        Ok(slice)
    })?;
    Ok(compared(found, |_, at, row| UdpRr {
        mode: UdpMode::ALL[at],
        p50_ns: Percentiles::spread(&row.runs, 0.5),
        p99_ns: Percentiles::spread(&row.runs, 0.99),
        runs: row.count(),
        captured: config.pcapng.is_some().then_some((captured[at].written, captured[at].dropped)),
    }))
}

fn run(
    mode: UdpMode,
    round_trips: u32,
    cpus: EndCpus,
    capture: Option<&CaptureConfig>,
) -> anyhow::Result<(RowSlice<Histogram<u64>>, CaptureStats)> {
    let pair = Pair::new(&LinkConfig::default(), &[cpus.server], &[cpus.client])?;
    let capture = capture.map(|config| pair.tested.capture(config)).transpose()?;
    if mode.polls() {
        pair.defer_for_pollers()?;
    }
    let server = |ready: SyncSender<()>, stop: &AtomicBool| {
        let _counted = pair.engine.count_thread("server", Some(cpus.server));
        let end = End::open(&pair, &pair.tested_ns, TESTED_AT, PEER_AT, mode)?;
        ready.send(())?;
        let mut buffer = [0; 64];
        while !stop.load(Ordering::Acquire) {
            if let Some(bytes) = end.receive(&mut buffer)? {
                end.socket.send(&buffer[..bytes])?;
            }
        }
        Ok(())
    };
    let measured = with_server(server, || {
        let _counted = pair.engine.count_thread("client", Some(cpus.client));
        ping(&pair, &End::open(&pair, &pair.peer_ns, PEER_AT, TESTED_AT, mode)?, round_trips)
    })?;
    let captured = capture.map(|capture| capture.finish()).transpose()?;
    Ok((measured, captured.unwrap_or_default()))
}

fn ping(pair: &Pair, end: &End, round_trips: u32) -> anyhow::Result<RowSlice<Histogram<u64>>> {
    let (payload, mut buffer) = ([7; PAYLOAD_BYTES], [0; 64]);
    let ask = || {
        end.socket.send(&payload)?;
        Ok(())
    };
    let take = || Ok(end.receive(&mut buffer)?.is_some());
    rtt::ping((round_trips, round_trips / 10), ANSWER_MAX, || pair.engine.now_ns(), ask, take)
}

/// One program's socket and how it receives.
struct End {
    socket: UdpSocket,
    context: Option<EventContext>,
}

impl End {
    fn open(
        pair: &Pair,
        netns: &NetNs,
        local: SocketAddrV4,
        peer: SocketAddrV4,
        mode: UdpMode,
    ) -> anyhow::Result<Self> {
        let socket = UdpSocket::bind(netns, SocketAddr::V4(local))?;
        socket.connect(SocketAddr::V4(peer))?;
        socket.set_read_timeout(Some(STOP_LOOK))?;
        apply(&mut EngineSink::Socket(&socket), &mode.plan())?;
        let context = mode.context(&pair.engine, EventContext::MEMBERS_DEFAULT)?;
        if let Some(context) = &context {
            socket.set_nonblocking(true)?;
            context.add(&socket, Interest::IN, 0)?;
        }
        Ok(Self { socket, context })
    }

    /// The next datagram, or `None` if none came in time.
    #[inline]
    fn receive(&self, buffer: &mut [u8]) -> anyhow::Result<Option<usize>> {
        if let Some(context) = &self.context {
            let mut events = [Event::default(); 4];
            if context.wait(&mut events, Timeout::After(STOP_LOOK))? == 0 {
                return Ok(None);
            }
        }
        match self.socket.recv(buffer) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
