//! `bench rx-cost`: what receiving costs, without waiting.
//!
//! One thread fills the ring from the peer's end, outside of the measured time, then receives it all:
//! time and instructions per packet are those of the receive path alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use napier_runtime::device::LinkConfig;
use napier_runtime::raw::{RawBusyPoll, RawPort};
use napier_runtime::socket::{SocketOption, UdpSocket};
use serde::Serialize;

use super::instructions::{self, Job};
use super::rtt::FRAME_BYTES;
use super::stat::Spread;
use crate::pair::{PEER_AT, Pair, TESTED_AT};

/// Batches that are measured.
const BATCHES: [u16; 4] = [1, 8, 32, 64];

/// Packets that the sending processor publishes together.
const SEND_BURST: usize = 32;

/// Payload of a UDP datagram in a frame of 64 bytes.
const PAYLOAD_BYTES: usize = FRAME_BYTES - 42;

/// Where the packets end.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RxPath {
    /// A raw port that drops them.
    Raw,
    /// A UDP socket and the caller's buffer.
    Udp,
}

impl RxPath {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Raw, Self::Udp];

    /// The name in tables and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "link to raw port, dropped",
            Self::Udp => "link to UDP socket, into the caller's buffer",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct RxCostConfig {
    /// Runs per row, interleaved.
    pub runs: u32,
    /// Length of each run.
    pub length: Duration,
    /// Count instructions under callgrind, if valgrind is installed.
    pub instructions: bool,
    /// Let another processor send all the time, so that packets come out of its cache; only calls that found packets
    /// count, as testpmd's `--record-core-cycles` counts them. Raw port only, and no instructions.
    pub other_core: bool,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct RxCost {
    /// Where the packets ended.
    pub path: RxPath,
    /// Packets per poll.
    pub batch: u16,
    /// Over the runs.
    pub ns_per_packet: Spread,
    /// User-space instructions, exact; absent without valgrind.
    pub instructions_per_packet: Option<f64>,
    /// Packets of 64 bytes that were measured.
    pub packets: u64,
}

/// Measures every path at every batch, in turn.
///
/// # Errors
/// The engine did not start, or packets were lost that must not be.
pub fn rx_cost(config: &RxCostConfig) -> anyhow::Result<Vec<RxCost>> {
    let paths = if config.other_core { &RxPath::ALL[..1] } else { &RxPath::ALL[..] };
    let cells: Vec<(RxPath, u16)> = paths.iter().flat_map(|path| BATCHES.map(|batch| (*path, batch))).collect();
    let mut runs: Vec<Vec<f64>> = vec![Vec::new(); cells.len()];
    let mut packets = vec![0; cells.len()];
    for _ in 0..config.runs.max(1) {
        for (cell, (path, batch)) in cells.iter().enumerate() {
            let measured = if config.other_core {
                measure_from_other_core(*batch, config.length)?
            } else {
                measure(*path, *batch, Stop::After(config.length))?
            };
            runs[cell].push(measured.ns_per_packet());
            packets[cell] += measured.packets;
        }
    }
    let rows = cells.iter().zip(&runs).zip(&packets);
    rows.map(|(((path, batch), runs), packets)| {
        let instructions = if config.instructions && !config.other_core { instructions(*path, *batch)? } else { None };
        Ok(RxCost {
            path: *path,
            batch: *batch,
            ns_per_packet: Spread::of(runs),
            instructions_per_packet: instructions,
            packets: *packets,
        })
    })
    .collect()
}

/// When a measurement ends.
#[derive(Copy, Clone, Debug)]
pub(super) enum Stop {
    After(Duration),
    Packets(u64),
}

pub(super) struct Cost {
    pub(super) packets: u64,
    measured: Duration,
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
    fn ns_per_packet(&self) -> f64 {
        self.measured.as_nanos() as f64 / self.packets as f64
    }
}

/// Measures one path at one batch.
pub(super) fn measure(path: RxPath, batch: u16, stop: Stop) -> anyhow::Result<Cost> {
    let cpu = napier_runtime::available_cpus()[0];
    let pair = Pair::new(&LinkConfig::default(), &[cpu], &[cpu])?;
    pair.never_interrupt(&pair.tested)?;
    pair.never_interrupt(&pair.peer)?;
    let _counted = pair.engine.count_thread("rx-cost", Some(cpu));
    let source = RawPort::bind(&pair.peer, 0)?;
    let template = pair.template();
    let fill = || -> anyhow::Result<()> {
        for _ in 0..batch {
            source.build(FRAME_BYTES, |frame| template.complete(frame, PAYLOAD_BYTES))?;
        }
        source.flush();
        Ok(())
    };
    match path {
        RxPath::Raw => {
            let port = RawPort::bind(&pair.tested, 0)?;
            port.set_busy_poll(RawBusyPoll { usecs: 1, prefer: true, budget: batch + 1 });
            // The first packet comes by interrupt; deferral then keeps the interrupt masked for good.
            source.build(FRAME_BYTES, |frame| template.complete(frame, PAYLOAD_BYTES))?;
            source.flush();
            while port.next().is_none() {
                port.recv();
            }
            repeat(batch, stop, fill, || measured_raw(&port))
        }
        RxPath::Udp => {
            let socket = UdpSocket::bind(&pair.tested_ns, TESTED_AT)?;
            socket.connect(PEER_AT)?;
            socket.set_nonblocking(true)?;
            socket.setsockopt(SocketOption::BusyPollBudget, i32::from(batch) + 1)?;
            socket.setsockopt(SocketOption::PreferBusyPoll, 1)?;
            socket.setsockopt(SocketOption::BusyPoll, 1)?;
            // The first datagram comes by interrupt and tells the socket which instance to poll; deferral then keeps
            // the interrupt masked for good.
            source.build(FRAME_BYTES, |frame| template.complete(frame, PAYLOAD_BYTES))?;
            source.flush();
            while socket.recv(&mut [0; 64]).is_err() {
                std::hint::spin_loop();
            }
            while socket.recv(&mut [0; 64]).is_ok() {}
            let mut buffer = [0; 64];
            repeat(batch, stop, fill, || measured_udp(&socket, batch, &mut buffer))
        }
    }
}

fn repeat(
    batch: u16,
    stop: Stop,
    fill: impl Fn() -> anyhow::Result<()>,
    mut receive: impl FnMut() -> u64,
) -> anyhow::Result<Cost> {
    let started = Instant::now();
    let mut cost = Cost { packets: 0, measured: Duration::ZERO };
    loop {
        fill()?;
        let before = Instant::now();
        let received = receive();
        cost.measured += before.elapsed();
        anyhow::ensure!(received == u64::from(batch), "{received} of {batch} packets came: the receive path lost some");
        // A batch of none: a call that finds nothing counts as one.
        cost.packets += received.max(1);
        let over = match stop {
            Stop::After(length) => started.elapsed() >= length,
            Stop::Packets(packets) => cost.packets >= packets,
        };
        if over {
            return Ok(cost);
        }
    }
}

/// Receives on one processor what another one sends as fast as it can.
fn measure_from_other_core(batch: u16, length: Duration) -> anyhow::Result<Cost> {
    let cpus = napier_runtime::available_cpus();
    anyhow::ensure!(cpus.len() >= 2, "needs 2 CPUs, this process may use 1: one sends, one receives");
    let (sender_cpu, receiver_cpu) = (cpus[0], cpus[1]);
    let pair = Pair::new(&LinkConfig::default(), &[receiver_cpu], &[sender_cpu])?;
    pair.never_interrupt(&pair.tested)?;
    let source = RawPort::bind(&pair.peer, 0)?;
    let port = RawPort::bind(&pair.tested, 0)?;
    port.set_busy_poll(RawBusyPoll { usecs: 1, prefer: true, budget: batch });
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (engine, over) = (&pair.engine, &over);
        scope.spawn(move || {
            let _counted = engine.count_thread("sender", Some(sender_cpu));
            while !over.load(Ordering::Relaxed) {
                for _ in 0..SEND_BURST {
                    let _ = source.build(FRAME_BYTES, |frame| {
                        frame[..FRAME_BYTES].fill(7);
                        FRAME_BYTES
                    });
                }
                source.flush();
            }
        });
        let _counted = engine.count_thread("receiver", Some(receiver_cpu));
        let started = Instant::now();
        let mut cost = Cost { packets: 0, measured: Duration::ZERO };
        let mut warm = false;
        while started.elapsed() < length {
            let before = Instant::now();
            let received = measured_raw(&port);
            let took = before.elapsed();
            if received > 0 && warm {
                cost.measured += took;
                cost.packets += received;
            }
            warm = started.elapsed() > length / 10;
        }
        over.store(true, Ordering::Relaxed);
        anyhow::ensure!(cost.packets > 0, "no packet came: the sender did not run");
        Ok(cost)
    })
}

/// Receives everything that is in the ring and drops it.
#[inline(never)]
fn measured_raw(port: &RawPort) -> u64 {
    if !port.recv() {
        return 0;
    }
    port.drain(usize::MAX, |frame| {
        std::hint::black_box(frame[0]);
    }) as u64
}

/// Receives a batch into a buffer; the first call polls, the others find the datagrams queued.
#[inline(never)]
fn measured_udp(socket: &UdpSocket, batch: u16, buffer: &mut [u8; 64]) -> u64 {
    let mut packets = 0;
    for _ in 0..batch.max(1) {
        if socket.recv(buffer).is_err() {
            break;
        }
        std::hint::black_box(&*buffer);
        packets += 1;
    }
    packets
}

/// What a child process under callgrind runs; `false` if this process is none.
///
/// # Errors
/// As [`rx_cost`].
pub fn measured_entry() -> anyhow::Result<bool> {
    let Some((path, batch, packets)) = child_job() else { return Ok(false) };
    measure(path, batch, Stop::Packets(packets))?;
    Ok(true)
}

/// Instructions per packet, counted in children.
fn instructions(path: RxPath, batch: u16) -> anyhow::Result<Option<f64>> {
    let (name, function) = match path {
        RxPath::Raw => ("raw", "*measured_raw*"),
        RxPath::Udp => ("udp", "*measured_udp*"),
    };
    let job = Job { bench: "rx-cost", function, counts: [640, 6400] };
    instructions::count(&job, |packets| format!("{name},{batch},{packets}"))
}

/// The job that a parent gave this process: path, batch and packets.
fn child_job() -> Option<(RxPath, u16, u64)> {
    let job = instructions::job()?;
    let mut parts = job.split(',');
    let path = match parts.next()? {
        "raw" => RxPath::Raw,
        "udp" => RxPath::Udp,
        _ => return None,
    };
    Some((path, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
