//! `bench xdp-rx`: how many packets a second a raw port receives over a veth pair, the sender on another processor.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use napier_runtime::device::{BareXdp, XdpStats};
use napier_runtime::raw::{RawBusyPoll, RawPort};
use napier_sys::sched::pin_current_thread;
use napier_verdict::Metric;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::{CLIENT_MAC, Devices, SERVER_MAC, config_on, veth};
use crate::bench::pin::EndCpus;
use crate::bench::rounds::{Blocks, Compared, RowSlice, compared, two_cpus};
use crate::bench::rtt::{FRAME_BYTES, write_stamped};
use crate::bench::stat::Spread;
use crate::device::XdpWay;

/// Packets that the sender hands over together.
const BATCH: u32 = 32;

/// What to run.
#[derive(Clone, Debug)]
pub struct XdpRxConfig {
    /// Length of each run.
    pub length: Duration,
    /// Runs of each mode, interleaved.
    pub runs: u32,
}

/// Who sends and receives.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum XdpRxPath {
    /// Raw ports of the engine.
    Engine,
    /// The rings of two sockets, with no engine: the most that this machine's kernel gives a program.
    Bare,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct XdpRx {
    /// Who sent and received.
    pub path: XdpRxPath,
    /// Where the kernel called the programs: `native` or `generic`.
    pub mode: &'static str,
    /// How the kernel handed packets to the engine's devices; null without the engine.
    pub af_xdp: Option<String>,
    /// Packets received, millions a second, over the runs.
    pub received_mpps: Spread,
    /// Packets sent, millions a second, over the runs.
    pub sent_mpps: Spread,
    /// Time of its processor that the sender took for a packet, the kernel's way to the receiver's ring included, ns.
    pub sender_ns: Spread,
    /// Packets received in each run, millions a second, in order.
    pub runs_mpps: Vec<f64>,
    /// Packets of all runs that the kernel dropped before the receiver: no frame, or the ring full. Of the engine alone.
    pub dropped: Option<u64>,
}

const ROWS: [(XdpRxPath, &str, XdpWay); 4] = [
    (XdpRxPath::Engine, "generic", XdpWay::Generic),
    (XdpRxPath::Bare, "generic", XdpWay::Generic),
    (XdpRxPath::Engine, "native", XdpWay::Copy),
    (XdpRxPath::Bare, "native", XdpWay::Copy),
];

/// Measures both modes, with and without the engine, in turn.
///
/// # Errors
/// Fewer than two processors, or a capability is missing.
pub fn xdp_rx(
    config: &XdpRxConfig,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Compared<XdpRx>> {
    let cpus = two_cpus()?;
    let name = |(path, mode, _): &(XdpRxPath, &str, XdpWay)| format!("{mode}: {}", path.name());
    let used = cpus.both();
    let blocks = Blocks::of_rows(ROWS.iter().map(name), &[Metric::Throughput], config.runs, &used).in_kernel(true);
    let mut in_force = ROWS.map(|_| None);
    let found = blocks.run(interrupted, progress, |_, at| {
        let (path, _, way) = ROWS[at];
        let (run, af_xdp) = match path {
            XdpRxPath::Engine => engine(way, config.length, cpus),
            XdpRxPath::Bare => bare(way, config.length, cpus),
        }?;
        in_force[at] = af_xdp;
        let (answered, window) = (run.received, run.took);
        Ok(RowSlice { latency: Default::default(), answered, window, cpu: Duration::ZERO, run })
    })?;
    Ok(compared(found, |_, at, row| {
        let (path, mode, _) = ROWS[at];
        XdpRx {
            path,
            mode,
            af_xdp: in_force[at].take(),
            received_mpps: Spread::over(&row.runs, |run| run.received_mpps),
            sent_mpps: Spread::over(&row.runs, |run| run.sent_mpps),
            sender_ns: Spread::over(&row.runs, |run| run.sender_ns),
            runs_mpps: row.runs.iter().map(|run| run.received_mpps).collect(),
            dropped: row.runs.iter().map(|run| run.dropped).sum(),
        }
    }))
}

impl XdpRxPath {
    /// The name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine, raw ports",
            Self::Bare => "raw AF_XDP, no engine",
        }
    }
}

#[derive(Copy, Clone)]
struct RxRun {
    received_mpps: f64,
    sent_mpps: f64,
    sender_ns: f64,
    dropped: Option<u64>,
    received: u64,
    took: Duration,
}

/// What a sender did.
struct RxSent {
    packets: u64,
    took: Duration,
    cpu_ns: u64,
}

impl RxRun {
    #[expect(clippy::cast_precision_loss, reason = "figures for a report")]
    fn new(sent: &RxSent, received: u64, dropped: Option<u64>) -> Self {
        let rate = |packets: u64| packets as f64 / sent.took.as_secs_f64() / 1e6;
        let sender_ns = sent.cpu_ns as f64 / sent.packets.max(1) as f64;
        Self {
            received_mpps: rate(received),
            sent_mpps: rate(sent.packets),
            sender_ns,
            dropped,
            received,
            took: sent.took,
        }
    }
}

/// Sends batches on this thread's processor for so long.
fn send_for(length: Duration, mut batch: impl FnMut(u64) -> u64) -> RxSent {
    let cpu = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
    };
    let (begun, cpu_begun, mut packets) = (Instant::now(), cpu(), 0);
    while begun.elapsed() < length {
        packets += batch(packets);
    }
    RxSent { packets, took: begun.elapsed(), cpu_ns: cpu() - cpu_begun }
}

/// Runs a sender and a receiver, each on its processor; the receiver takes packets until the sender is done.
fn both<R: FnMut() -> u64>(
    cpus: EndCpus,
    receiver: impl FnOnce() -> anyhow::Result<R> + Send,
    sender: impl FnOnce() -> anyhow::Result<RxSent> + Send,
) -> anyhow::Result<(RxSent, u64)> {
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || -> anyhow::Result<u64> {
            pin_current_thread(cpus.server);
            let mut receive = receiver()?;
            let mut received = 0;
            while !stop.load(Ordering::Relaxed) {
                received += receive();
            }
            Ok(received)
        });
        let sender = scope.spawn(move || {
            pin_current_thread(cpus.client);
            sender()
        });
        let sent = sender.join().expect("the sender does not panic");
        stop.store(true, Ordering::Release);
        let received = receiver.join().expect("the receiver does not panic");
        Ok((sent?, received?))
    })
}

fn engine(way: XdpWay, length: Duration, cpus: EndCpus) -> anyhow::Result<(RxRun, Option<String>)> {
    let pair = veth(false)?;
    let devices = Devices::new(&pair, way, cpus)?;
    let receiver = || {
        let port = RawPort::bind(&devices.server, 0)?;
        port.set_busy_poll(RawBusyPoll { usecs: 1000, prefer: true, budget: 64 });
        Ok(move || if port.recv() { port.drain(64, |_| {}) as u64 } else { 0 })
    };
    let sender = || {
        let port = RawPort::bind(&devices.client, 0)?;
        Ok(send_for(length, |before| {
            let mut sent = 0;
            for _ in 0..BATCH {
                let write = |frame: &mut [u8]| write_stamped(frame, CLIENT_MAC, SERVER_MAC, before + sent);
                sent += u64::from(port.build(FRAME_BYTES, write).is_ok());
            }
            port.flush();
            sent
        }))
    };
    let (sent, received) = both(cpus, receiver, sender)?;
    let XdpStats { rx_dropped, rx_ring_full, .. } = devices.server.xdp_stats().unwrap_or_default();
    Ok((RxRun::new(&sent, received, Some(rx_dropped + rx_ring_full)), devices.in_force()))
}

/// The same packets, in the same batches, by the smallest program on the same rings.
fn bare(way: XdpWay, length: Duration, cpus: EndCpus) -> anyhow::Result<(RxRun, Option<String>)> {
    let pair = veth(false)?;
    let open = |end| anyhow::Ok(BareXdp::open(&config_on(end, way)?)?);
    let (mut client, mut server) = (open(pair.left())?, open(pair.right())?);
    let receiver = || Ok(move || u64::from(server.parts().0.receive(|_| {})));
    let sender = || {
        Ok(send_for(length, |before| {
            let mut sequence = before;
            let sent = client.parts().1.send(BATCH, |frame| {
                sequence += 1;
                write_stamped(frame, CLIENT_MAC, SERVER_MAC, sequence)
            });
            u64::from(sent)
        }))
    };
    let (sent, received) = both(cpus, receiver, sender)?;
    Ok((RxRun::new(&sent, received, None), None))
}
