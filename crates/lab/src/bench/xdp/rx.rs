//! `bench xdp-rx`: how many packets a second a raw port receives over a veth pair, the sender on another processor.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use napier_runtime::{RawBusyPoll, RawPort, XdpMode, XdpStats};
use serde::Serialize;

use super::{CLIENT_MAC, Devices, SERVER_MAC, two_cpus, veth};
use crate::bench::pin::pin_to;
use crate::bench::rtt::{FRAME_BYTES, write_stamped};
use crate::bench::stat::Spread;

/// Packets that the sender hands over together.
const BATCH: usize = 32;

/// What to run.
#[derive(Clone, Debug)]
pub struct XdpRxConfig {
    /// Length of each run.
    pub length: Duration,
    /// Runs of each mode, interleaved.
    pub runs: u32,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct XdpRx {
    /// Where the kernel called the programs: `native` or `generic`.
    pub mode: &'static str,
    /// Packets received, millions a second, over the runs.
    pub received_mpps: Spread,
    /// Packets sent, millions a second, over the runs.
    pub sent_mpps: Spread,
    /// Packets received in each run, millions a second, in order.
    pub runs_mpps: Vec<f64>,
    /// Packets of all runs that the kernel dropped before the device: no frame, or the ring full.
    pub dropped: u64,
}

/// Measures both modes, in turn.
///
/// # Errors
/// Fewer than two processors, or a capability is missing.
pub fn xdp_rx(config: &XdpRxConfig) -> anyhow::Result<Vec<XdpRx>> {
    let cpus = two_cpus()?;
    let modes = [("generic", XdpMode::Generic), ("native", XdpMode::Native)];
    let mut runs = vec![Vec::new(); modes.len()];
    for _ in 0..config.runs.max(1) {
        for ((name, mode), runs) in modes.iter().zip(&mut runs) {
            runs.push(run(*mode, config.length, cpus).with_context(|| *name)?);
        }
    }
    let rows = modes.iter().zip(runs).map(|((mode, _), runs)| {
        let received: Vec<f64> = runs.iter().map(|run| run.received_mpps).collect();
        let sent: Vec<f64> = runs.iter().map(|run| run.sent_mpps).collect();
        XdpRx {
            mode,
            received_mpps: Spread::of(&received),
            sent_mpps: Spread::of(&sent),
            runs_mpps: received,
            dropped: runs.iter().map(|run| run.dropped).sum(),
        }
    });
    Ok(rows.collect())
}

#[derive(Copy, Clone)]
struct Run {
    received_mpps: f64,
    sent_mpps: f64,
    dropped: u64,
}

fn run(mode: XdpMode, length: Duration, cpus: (usize, usize)) -> anyhow::Result<Run> {
    let pair = veth(false)?;
    let devices = Devices::new(&pair, mode, cpus)?;
    let stop = AtomicBool::new(false);
    let (stop, server) = (&stop, &devices.server);
    let (sent, received, took) = std::thread::scope(|scope| {
        let receiver = scope.spawn(move || -> anyhow::Result<u64> {
            pin_to(cpus.1);
            let port = RawPort::bind(server, 0)?;
            port.set_busy_poll(RawBusyPoll { usecs: 1000, prefer: true, budget: 64 });
            let mut received = 0;
            while !stop.load(Ordering::Relaxed) {
                if port.recv() {
                    received += port.drain(64, |_| {}) as u64;
                }
            }
            Ok(received)
        });
        let sender = scope.spawn(|| -> anyhow::Result<(u64, Duration)> {
            pin_to(cpus.0);
            let port = RawPort::bind(&devices.client, 0)?;
            let (begun, mut sent) = (Instant::now(), 0);
            while begun.elapsed() < length {
                for _ in 0..BATCH {
                    let built = port.build(FRAME_BYTES, |frame| write_stamped(frame, CLIENT_MAC, SERVER_MAC, sent));
                    sent += u64::from(built.is_ok());
                }
                port.flush();
            }
            Ok((sent, begun.elapsed()))
        });
        let sent = sender.join().expect("the sender does not panic");
        stop.store(true, Ordering::Release);
        let received = receiver.join().expect("the receiver does not panic");
        let (sent, took) = sent?;
        anyhow::Ok((sent, received?, took))
    })?;
    let XdpStats { rx_dropped, rx_ring_full, .. } = devices.server.xdp_stats().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "a rate for a report")]
    let rate = |packets: u64| packets as f64 / took.as_secs_f64() / 1e6;
    Ok(Run { received_mpps: rate(received), sent_mpps: rate(sent), dropped: rx_dropped + rx_ring_full })
}
