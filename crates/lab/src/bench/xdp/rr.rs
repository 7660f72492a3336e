//! `bench xdp-rr`: the round trip of a datagram over a veth pair, both ends spinning: by the engine, and by the kernel's own
//! sockets beside it.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket as KernelSocket};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use crate::device::XdpWay;
use hdrhistogram::Histogram;
use napier_core::control::plan::{Plan, apply};
use napier_linux::{KernelSink, Veth};
use napier_runtime::engine::EngineSink;
use napier_runtime::raw::{RawBusyPoll, RawPort};
use napier_runtime::socket::UdpSocket;
use napier_sys::sched::pin_current_thread;
use napier_verdict::Metric;
use serde::Serialize;

use super::{CLIENT_IP, CLIENT_MAC, Devices, SERVER_IP, SERVER_MAC, veth};
use crate::bench::pin::EndCpus;
use crate::bench::rounds::{Blocks, Compared, RowSlice, compared, nanos, two_cpus};
use crate::bench::rtt::{self, FRAME_BYTES, Percentiles, stamp_of, turn_round, with_server, write_stamped};
use crate::bench::stat::Spread;
use crate::modes::busy_socket;

/// Payload each way: 64 bytes on the wire with its headers.
const PAYLOAD_BYTES: usize = 22;
/// No answer within this time is the end of a run.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// `SO_BUSY_POLL` of the programs, us: longer than an answer takes where other programs run too, else an end goes to sleep
/// with its interrupts deferred, and the other end then as well.
const BUSY_POLL_US: i32 = 20_000;

/// Between whom, and who polls.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum XdpRrPath {
    /// UDP sockets of the engine that busy poll AF_XDP devices.
    EngineUdp,
    /// Raw ports of the engine on AF_XDP devices.
    EngineRaw,
    /// UDP sockets of the engine, with the programs called in the driver.
    EngineUdpNative,
    /// The kernel's UDP sockets, read again and again without waiting; packets are received on the sender's processor.
    KernelSpin,
    /// The same with `SO_BUSY_POLL` and `SO_PREFER_BUSY_POLL`, over NAPI instances (GRO on, TSO off).
    KernelBusyPoll,
}

impl XdpRrPath {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::EngineUdp, Self::EngineRaw, Self::EngineUdpNative, Self::KernelSpin, Self::KernelBusyPoll];

    /// The name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::EngineUdp => "engine, UDP sockets",
            Self::EngineRaw => "engine, raw ports",
            Self::EngineUdpNative => "engine, UDP sockets, native XDP",
            Self::KernelSpin => "kernel, UDP, non-blocking spin",
            Self::KernelBusyPoll => "kernel, UDP, SO_BUSY_POLL + prefer",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct XdpRrConfig {
    /// Round trips per run.
    pub round_trips: u32,
    /// Runs of each path, interleaved.
    pub runs: u32,
    /// How the kernel hands packets to the engine's devices, where the row does not say it.
    pub xdp: XdpWay,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct XdpRr {
    /// Between whom.
    pub path: XdpRrPath,
    /// How the kernel handed packets to the engine's devices; null for the kernel's sockets.
    pub af_xdp: Option<String>,
    /// Median of the round trip over the runs, ns.
    pub p50_ns: Spread,
    /// 99th percentile over the runs, ns.
    pub p99_ns: Spread,
    /// Each run, in order.
    pub runs: Vec<Percentiles>,
}

/// Measures every path, in turn.
///
/// # Errors
/// Fewer than two processors, or a capability is missing (`CAP_SYS_ADMIN`, `CAP_NET_ADMIN`, `CAP_NET_RAW`, `CAP_BPF`).
pub fn xdp_rr(
    config: &XdpRrConfig,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Compared<XdpRr>> {
    let cpus = two_cpus()?;
    let used = cpus.both();
    let blocks = Blocks::of_rows(XdpRrPath::ALL.map(XdpRrPath::name), &[Metric::P50, Metric::P99], config.runs, &used);
    let blocks = blocks.in_kernel(true);
    let mut in_force = XdpRrPath::ALL.map(|_| None);
    let found = blocks.run(interrupted, progress, |_, at| {
        let (slice, af_xdp) = run(XdpRrPath::ALL[at], config, cpus)?;
        in_force[at] = af_xdp;
        Ok(slice)
    })?;
    Ok(compared(found, |_, at, row| XdpRr {
        path: XdpRrPath::ALL[at],
        af_xdp: in_force[at].take(),
        p50_ns: Percentiles::spread(&row.runs, 0.5),
        p99_ns: Percentiles::spread(&row.runs, 0.99),
        runs: row.runs.iter().map(Percentiles::of).collect(),
    }))
}

/// Round trips of a slice.
type Trips = RowSlice<Histogram<u64>>;

fn run(path: XdpRrPath, config: &XdpRrConfig, cpus: EndCpus) -> anyhow::Result<(Trips, Option<String>)> {
    let round_trips = config.round_trips;
    let pair = veth(path == XdpRrPath::KernelBusyPoll)?;
    let (client, server) = (SocketAddrV4::new(CLIENT_IP, 9000), SocketAddrV4::new(SERVER_IP, 9001));
    let devices = |way| Devices::new(&pair, way, cpus);
    match path {
        XdpRrPath::EngineUdp | XdpRrPath::EngineUdpNative => {
            let native = path == XdpRrPath::EngineUdpNative;
            let devices = devices(if native { XdpWay::Copy } else { config.xdp })?;
            let open = |ns, local, peer| engine_socket(ns, SocketAddr::V4(local), SocketAddr::V4(peer));
            let (asks, answers) =
                (open(&devices.client_ns, client, server)?, open(&devices.server_ns, server, client)?);
            let measured = spin(cpus, round_trips, &asks, || Ok(&answers));
            drop((asks, answers));
            Ok((measured?, devices.in_force()))
        }
        XdpRrPath::EngineRaw => {
            let devices = devices(config.xdp)?;
            let port = |device, mac, peer| -> anyhow::Result<RawEnd> {
                let port = RawPort::bind(device, 0)?;
                port.set_busy_poll(RawBusyPoll { usecs: BUSY_POLL_US.cast_unsigned(), prefer: true, budget: 64 });
                Ok(RawEnd { port, mac, peer })
            };
            let asks = port(&devices.client, CLIENT_MAC, SERVER_MAC)?;
            let server = &devices.server;
            let measured = spin(cpus, round_trips, &asks, move || port(server, SERVER_MAC, CLIENT_MAC))?;
            Ok((measured, devices.in_force()))
        }
        XdpRrPath::KernelSpin | XdpRrPath::KernelBusyPoll => {
            let busy = path == XdpRrPath::KernelBusyPoll;
            let (asks, answers) = kernel_sockets(&pair, client, server, busy)?;
            Ok((spin(cpus, round_trips, &asks, || Ok(&answers))?, None))
        }
    }
}

/// Something that datagrams go into and come out of, by spinning.
trait Port {
    fn ask(&self, payload: &[u8]) -> io::Result<()>;
    /// An answer, if one has come.
    fn take(&self, buffer: &mut [u8]) -> io::Result<Option<usize>>;
    /// Answers a request, if one has come.
    fn answer(&self, buffer: &mut [u8]) -> io::Result<()> {
        match self.take(buffer)? {
            Some(length) => self.ask(&buffer[..length]),
            None => Ok(()),
        }
    }
}

impl<P: Port> Port for &P {
    fn ask(&self, payload: &[u8]) -> io::Result<()> {
        (*self).ask(payload)
    }

    fn take(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        (*self).take(buffer)
    }
}

/// Asks on this thread, and answers on another by what `answers` makes there.
fn spin<A: Port, B: Port>(
    cpus: EndCpus,
    round_trips: u32,
    asks: &A,
    answers: impl FnOnce() -> anyhow::Result<B> + Send,
) -> anyhow::Result<Trips> {
    let server = |ready: SyncSender<()>, stop: &AtomicBool| {
        pin_current_thread(cpus.server);
        let answers = answers()?;
        ready.send(())?;
        let mut buffer = [0; FRAME_BYTES];
        while !stop.load(Ordering::Relaxed) {
            answers.answer(&mut buffer)?;
        }
        Ok(())
    };
    with_server(server, || {
        let before = rustix::thread::sched_getaffinity(None);
        pin_current_thread(cpus.client);
        let measured = ping(asks, round_trips);
        if let Ok(before) = before {
            let _ = rustix::thread::sched_setaffinity(None, &before);
        }
        measured
    })
}

fn ping(asks: &impl Port, round_trips: u32) -> anyhow::Result<Trips> {
    let (payload, mut buffer) = ([7; PAYLOAD_BYTES], [0; FRAME_BYTES]);
    let begun = Instant::now();
    let now_ns = || nanos(begun.elapsed());
    let ask = || Ok(asks.ask(&payload)?);
    let take = || Ok(asks.take(&mut buffer)?.is_some());
    rtt::ping((round_trips, round_trips / 10), ANSWER_MAX, now_ns, ask, take)
}

/// What both kinds of sockets set.
fn busy_plan() -> Plan {
    busy_socket(BUSY_POLL_US).into_iter().collect()
}

fn engine_socket(ns: &napier_runtime::socket::NetNs, local: SocketAddr, peer: SocketAddr) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind(ns, local)?;
    socket.connect(peer)?;
    apply(&mut EngineSink::Socket(&socket), &busy_plan())?;
    socket.set_read_timeout(Some(Duration::from_millis(20)))?;
    Ok(socket)
}

fn kernel_sockets(
    pair: &Veth,
    client: SocketAddrV4,
    server: SocketAddrV4,
    busy: bool,
) -> anyhow::Result<(KernelSocket, KernelSocket)> {
    let open = |local: SocketAddrV4, peer: SocketAddrV4| {
        move || -> io::Result<KernelSocket> {
            let socket = KernelSocket::bind(local)?;
            socket.connect(peer)?;
            socket.set_nonblocking(true)?;
            if busy {
                apply(&mut KernelSink::Socket(socket.as_fd()), &busy_plan()).map_err(io::Error::other)?;
            }
            Ok(socket)
        }
    };
    let client_socket = pair.left().netns().run(open(client, server))??;
    let server_socket = pair.right().netns().run(open(server, client))??;
    Ok((client_socket, server_socket))
}

fn would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(length) => Ok(Some(length)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

impl Port for UdpSocket {
    fn ask(&self, payload: &[u8]) -> io::Result<()> {
        self.send(payload).map(|_| ())
    }

    fn take(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        would_block(self.recv(buffer))
    }
}

impl Port for KernelSocket {
    fn ask(&self, payload: &[u8]) -> io::Result<()> {
        self.send(payload).map(|_| ())
    }

    fn take(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        would_block(self.recv(buffer))
    }
}

/// A raw port that sends frames with a stamp, and turns those round that it gets.
struct RawEnd {
    port: RawPort,
    mac: [u8; 6],
    peer: [u8; 6],
}

impl Port for RawEnd {
    fn ask(&self, _payload: &[u8]) -> io::Result<()> {
        let built = self.port.build(FRAME_BYTES, |frame| write_stamped(frame, self.mac, self.peer, 1));
        built.map_err(io::Error::other)?;
        self.port.flush();
        Ok(())
    }

    fn take(&self, _buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if !self.port.recv() {
            return Ok(None);
        }
        let frame = self.port.next();
        Ok(frame.filter(|frame| stamp_of(frame.data()).is_some()).map(|frame| frame.data().len()))
    }

    fn answer(&self, _buffer: &mut [u8]) -> io::Result<()> {
        if self.port.recv()
            && let Some(mut frame) = self.port.next()
            && stamp_of(frame.data()).is_some()
        {
            turn_round(frame.data_mut());
            self.port.forward(frame).map_err(|_| io::Error::other("the transmit ring is full"))?;
            self.port.flush();
        }
        Ok(())
    }
}
