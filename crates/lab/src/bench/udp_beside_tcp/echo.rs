//! The two programs that echo one datagram between them.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use napier_runtime::RealTime;
use napier_runtime::socket::{NetNs, UdpSocket};

use super::{ECHO_PRIORITY, MixRun, STOP_LOOK, UdpBesideTcpConfig, float, in_time, ns};
use crate::bench::rtt::{Percentiles, histogram};
use crate::pair::{PEER_IP, Pair, TESTED_IP};

/// Payload of the echo: 64 bytes on the wire with its headers.
const PAYLOAD_BYTES: usize = 22;
/// How long the client waits for an answer before the datagram counts as lost.
const ANSWER_MAX_NS: u64 = 5_000_000_000;

/// Answers until it is told to stop. True = it was real-time.
pub(super) fn echo(pair: &Pair, cpu: usize, stop: &AtomicBool, start: &Barrier) -> anyhow::Result<bool> {
    let _counted = pair.engine.count_thread("server", Some(cpu));
    let real_time = RealTime::begin(ECHO_PRIORITY);
    let socket = open(&pair.tested_ns, (TESTED_IP, 9001).into(), (PEER_IP, 9000).into());
    start.wait();
    let socket = socket?;
    let mut buffer = [0; 64];
    while !stop.load(Ordering::Acquire) {
        if let Some(bytes) = in_time(socket.recv(&mut buffer))? {
            socket.send(&buffer[..bytes])?;
        }
    }
    Ok(real_time.is_ok())
}

/// Round trips at a fixed period for the length of a run, one after the other. The first tenth of the run does not count.
///
/// A request that falls due while the one before it is on the way counts from when it was due, so that a standstill counts
/// for all that it held up. Others count from when they were sent: how late a sleep ends is not the question.
pub(super) fn measure(
    pair: &Pair,
    cpu: usize,
    config: &UdpBesideTcpConfig,
    received: &AtomicU64,
    start: &Barrier,
) -> anyhow::Result<MixRun> {
    let _counted = pair.engine.count_thread("client", Some(cpu));
    let real_time = RealTime::begin(ECHO_PRIORITY);
    let socket = open(&pair.peer_ns, (PEER_IP, 9000).into(), (TESTED_IP, 9001).into());
    start.wait();
    let socket = socket?;
    let (mut histogram, mut lost) = (histogram(), 0);
    let ksoftirqd = || pair.engine.softirq_stats().iter().map(|cpu| cpu.ksoftirqd).sum::<u64>();
    let ksoftirqd_before = ksoftirqd();
    let begun_ns = pair.engine.now_ns();
    let (counts_from_ns, end_ns) = (begun_ns + ns(config.length) / 10, begun_ns + ns(config.length));
    let mut counted = None;
    for number in 0_u64.. {
        let due_ns = begun_ns + number * ns(config.period);
        if due_ns >= end_ns {
            break;
        }
        let from_ns = wait_until(pair, due_ns);
        let counts = due_ns >= counts_from_ns;
        if counts && counted.is_none() {
            counted = Some((pair.engine.now_ns(), received.load(Ordering::Relaxed)));
        }
        match (counts, round_trip(pair, &socket, number)?) {
            (true, Some(answered_ns)) => histogram.saturating_record(answered_ns - from_ns),
            (_, None) => lost += 1,
            (false, Some(_)) => {}
        }
    }
    let (counted_ns, counted_bytes) =
        counted.context("no request falls due after the first tenth; give more seconds")?;
    let bytes = received.load(Ordering::Relaxed) - counted_bytes;
    Ok(MixRun {
        latency: Percentiles::of(&histogram),
        lost,
        ksoftirqd: ksoftirqd() - ksoftirqd_before,
        fifo: real_time.is_ok(),
        tcp_bytes_per_s: float(bytes) * 1e9 / float(pair.engine.now_ns() - counted_ns),
    })
}

/// Sleeps until then; says from when on the request counts.
fn wait_until(pair: &Pair, due_ns: u64) -> u64 {
    let now_ns = pair.engine.now_ns();
    if now_ns >= due_ns {
        return due_ns;
    }
    std::thread::sleep(Duration::from_nanos(due_ns - now_ns));
    pair.engine.now_ns()
}

/// When the answer came, or `None` if it did not.
fn round_trip(pair: &Pair, socket: &UdpSocket, number: u64) -> anyhow::Result<Option<u64>> {
    let (mut payload, mut buffer) = ([0; PAYLOAD_BYTES], [0; 64]);
    payload[..8].copy_from_slice(&number.to_le_bytes());
    let sent_ns = pair.engine.now_ns();
    socket.send(&payload)?;
    loop {
        let answer = in_time(socket.recv(&mut buffer))?;
        let now_ns = pair.engine.now_ns();
        // One that had been given up may come late.
        if answer == Some(PAYLOAD_BYTES) && buffer[..PAYLOAD_BYTES] == payload {
            return Ok(Some(now_ns));
        }
        if now_ns - sent_ns > ANSWER_MAX_NS {
            return Ok(None);
        }
    }
}

fn open(netns: &NetNs, local: SocketAddr, peer: SocketAddr) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind(netns, local)?;
    socket.connect(peer)?;
    socket.set_read_timeout(Some(STOP_LOOK))?;
    Ok(socket)
}
