//! `bench udp-beside-tcp`: what a program that sends over TCP does to programs that have nothing to do with it.
//!
//! Two programs echo one datagram between them, in a scheduling class that nothing of this experiment can starve. A third
//! program, which is starved, sends over TCP on the same device. With it and without it runs follow each other in pairs;
//! what of its waiting reaches the echo is the ratio of the two.

mod echo;

use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use napier_runtime::device::LinkConfig;
use napier_runtime::socket::{TcpListener, TcpStream};
use serde::Serialize;

use self::echo::{echo, measure};
use super::pin::pin_to;
use super::rtt::Percentiles;
use super::stat::Spread;
use crate::pair::{PEER_IP, Pair};

/// Priority of the two programs that echo: below softirq threads, above all that is not real-time.
const ECHO_PRIORITY: i32 = 40;
/// Nice value of the program that sends over TCP: the least that the system gives.
const SENDER_NICE: i32 = 19;
/// Threads that want the sender's CPU all the time.
const BUSY_LOOPS: usize = 3;
/// Bytes that the sender gives to one call.
const SENT_AT_ONCE: usize = 16 * 1024;
/// Port of the TCP program's other end.
const SINK_PORT: u16 = 9002;
/// How long a program waits before it looks whether the run is over.
const STOP_LOOK: Duration = Duration::from_millis(20);
/// What to run.
#[derive(Copy, Clone, Debug)]
pub struct UdpBesideTcpConfig {
    /// No busy loops, and the sender on the other CPU.
    pub idle: bool,
    /// Time between two requests of the echo.
    pub period: Duration,
    /// Length of each run.
    pub length: Duration,
    /// Pairs of runs.
    pub runs: u32,
}

/// What runs beside the echo.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Beside {
    /// No other program on the engine.
    Nothing,
    /// One that sends over one TCP connection, all the time.
    Tcp,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct UdpBesideTcp {
    /// What ran beside the echo.
    pub beside: Beside,
    /// No busy loops, and the sender on the other CPU.
    pub idle: bool,
    /// Scheduling class that was in force for the two programs that echo.
    pub echo_class: String,
    /// Scheduling class that was in force for the softirq threads.
    pub softirq_class: String,
    /// Time between two requests of the echo, in ns.
    pub period_ns: u64,
    /// Median of the round trip over the runs, in ns.
    pub p50_ns: Spread,
    /// 99th percentile over the runs, in ns.
    pub p99_ns: Spread,
    /// Longest round trip over the runs, in ns.
    pub max_ns: Spread,
    /// `p50_ns` by that of the other run of its pair, where nothing ran beside. Absent in that row itself.
    pub p50_ratio: Option<Spread>,
    /// `p99_ns` likewise.
    pub p99_ratio: Option<Spread>,
    /// What the TCP program's other end received, in bytes per second. Absent without it.
    pub tcp_bytes_per_s: Option<Spread>,
    /// Round trips that were measured, all runs.
    pub round_trips: u64,
    /// Datagrams without an answer within 5 s, all runs; not among the times.
    pub lost: u64,
    /// Times that a softirq thread left the rest to normal priority, as to ksoftirqd, all runs. It gets what other programs
    /// of the machine leave then.
    pub ksoftirqd: u64,
    /// Runs behind the figures.
    pub runs: u32,
}

/// Measures the echo alone and beside TCP, in pairs of runs whose order turns.
///
/// # Errors
/// Fewer than two processors, or the engine did not start.
pub fn udp_beside_tcp(config: &UdpBesideTcpConfig) -> anyhow::Result<Vec<UdpBesideTcp>> {
    let cpus = napier_runtime::available_cpus();
    anyhow::ensure!(cpus.len() >= 2, "needs 2 CPUs, this process may use 1: each end of the echo has its own");
    let place = MixPlace { server: cpus[0], client: cpus[1], idle: config.idle };
    let pair = Pair::new(&LinkConfig::default(), &[place.server], &[place.client])?;
    // Nothing has come yet that could have taken it to normal priority.
    let softirq_is_fifo = pair.engine.softirq_stats().iter().all(|cpu| cpu.fifo);
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for round in 0..config.runs.max(1) {
        let order = if round % 2 == 0 { [Beside::Nothing, Beside::Tcp] } else { [Beside::Tcp, Beside::Nothing] };
        for what in order {
            let runs = if what == Beside::Nothing { &mut alone } else { &mut beside };
            runs.push(run(&pair, place, what, config)?);
        }
    }
    let row = |what, runs: &[MixRun]| row(what, config, runs, &alone, softirq_is_fifo);
    Ok(vec![row(Beside::Nothing, &alone), row(Beside::Tcp, &beside)])
}

fn row(
    beside: Beside,
    config: &UdpBesideTcpConfig,
    runs: &[MixRun],
    alone: &[MixRun],
    softirq_is_fifo: bool,
) -> UdpBesideTcp {
    let class = |fifo, priority| {
        if fifo { format!("SCHED_FIFO {priority}") } else { "SCHED_OTHER (SCHED_FIFO was not granted)".to_owned() }
    };
    let ratio = |of: fn(&MixRun) -> f64| {
        let of_each: Vec<f64> = runs.iter().zip(alone).map(|(run, alone)| of(run) / of(alone)).collect();
        (beside == Beside::Tcp).then(|| Spread::of(&of_each))
    };
    let spread = |of: fn(&MixRun) -> f64| Spread::of(&runs.iter().map(of).collect::<Vec<_>>());
    UdpBesideTcp {
        beside,
        idle: config.idle,
        echo_class: class(runs.iter().all(|run| run.fifo), ECHO_PRIORITY),
        softirq_class: class(softirq_is_fifo, 50),
        period_ns: ns(config.period),
        p50_ns: spread(|run| float(run.latency.p50_ns)),
        p99_ns: spread(|run| float(run.latency.p99_ns)),
        max_ns: spread(|run| float(run.latency.max_ns)),
        p50_ratio: ratio(|run| float(run.latency.p50_ns)),
        p99_ratio: ratio(|run| float(run.latency.p99_ns)),
        tcp_bytes_per_s: (beside == Beside::Tcp).then(|| spread(|run| run.tcp_bytes_per_s)),
        round_trips: runs.iter().map(|run| run.latency.count).sum(),
        lost: runs.iter().map(|run| run.lost).sum(),
        ksoftirqd: runs.iter().map(|run| run.ksoftirqd).sum(),
        runs: u32::try_from(runs.len()).expect("as many as were asked for"),
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("shorter than five hundred years")
}

#[expect(clippy::cast_precision_loss, reason = "a figure for a report")]
fn float(number: u64) -> f64 {
    number as f64
}

/// Who runs where.
#[derive(Copy, Clone)]
struct MixPlace {
    /// The echo's server, the softirq of its device, busy loops, and the TCP sender.
    server: usize,
    /// The echo's client, the softirq of its device, and the TCP program's other end.
    client: usize,
    /// The sender and its other end change places, and there are no busy loops.
    idle: bool,
}

/// Figures of one run.
struct MixRun {
    latency: Percentiles,
    lost: u64,
    ksoftirqd: u64,
    /// Both programs of the echo were real-time.
    fifo: bool,
    tcp_bytes_per_s: f64,
}

fn run(pair: &Pair, place: MixPlace, beside: Beside, config: &UdpBesideTcpConfig) -> anyhow::Result<MixRun> {
    let connection = (beside == Beside::Tcp).then(|| connect(pair)).transpose()?;
    let stop = AtomicBool::new(false);
    let received = AtomicU64::new(0);
    let both_are_there = Barrier::new(2);
    let (stop, received, both_are_there) = (&stop, &received, &both_are_there);
    std::thread::scope(|scope| {
        if !place.idle {
            for _ in 0..BUSY_LOOPS {
                scope.spawn(move || busy_loop(place.server, stop));
            }
        }
        let mut programs = Vec::new();
        if let Some((sender, sink)) = connection {
            let (of_sender, of_sink) =
                if place.idle { (place.client, place.server) } else { (place.server, place.client) };
            programs.push(scope.spawn(move || send_all_the_time(pair, &sender, of_sender, stop)));
            programs.push(scope.spawn(move || drain(pair, &sink, of_sink, stop, received)));
        }
        let server = scope.spawn(move || echo(pair, place.server, stop, both_are_there));
        let client = scope.spawn(move || {
            // The other end may have failed to start, which its own result says.
            let measured = measure(pair, place.client, config, received, both_are_there);
            stop.store(true, Ordering::Release);
            measured
        });
        let mut run = client.join().expect("the client does not panic")?;
        run.fifo &= server.join().expect("the server does not panic")?;
        for program in programs {
            program.join().expect("a TCP program does not panic")?;
        }
        Ok(run)
    })
}

/// The TCP connection from the server's end, which sends, to the client's.
fn connect(pair: &Pair) -> anyhow::Result<(TcpStream, TcpStream)> {
    let sink = SocketAddr::V4(SocketAddrV4::new(PEER_IP, SINK_PORT));
    let listener = TcpListener::bind(&pair.peer_ns, sink)?;
    let sender = TcpStream::connect(&pair.tested_ns, sink)?;
    Ok((sender, listener.accept()?.0))
}

fn busy_loop(cpu: usize, stop: &AtomicBool) {
    pin_to(cpu);
    while !stop.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

fn send_all_the_time(pair: &Pair, sender: &TcpStream, cpu: usize, stop: &AtomicBool) -> anyhow::Result<()> {
    let _counted = pair.engine.count_thread("sender", Some(cpu));
    // `None`: this thread. Going down is always allowed.
    rustix::process::setpriority_process(None, SENDER_NICE)?;
    sender.set_write_timeout(Some(STOP_LOOK))?;
    let data = [7; SENT_AT_ONCE];
    while !stop.load(Ordering::Acquire) {
        in_time(sender.send(&data))?;
    }
    Ok(())
}

fn drain(pair: &Pair, sink: &TcpStream, cpu: usize, stop: &AtomicBool, received: &AtomicU64) -> anyhow::Result<()> {
    let _counted = pair.engine.count_thread("sink", Some(cpu));
    sink.set_read_timeout(Some(STOP_LOOK))?;
    let mut buffer = vec![0; 4 * SENT_AT_ONCE];
    while !stop.load(Ordering::Acquire) {
        match in_time(sink.recv(&mut buffer))? {
            // The sender has stopped before we looked.
            Some(0) => break,
            // Relaxed: a count for the report.
            Some(bytes) => drop(received.fetch_add(bytes as u64, Ordering::Relaxed)),
            None => {}
        }
    }
    Ok(())
}

/// `None` = nothing in the time that was set.
fn in_time<T>(outcome: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use napier_testkit::in_time_enough;

    use super::*;

    /// Says nothing of the times: that both rows are measured, that bytes went over TCP, and that the ratio is of pairs.
    #[test]
    fn both_rows_are_measured() {
        if napier_runtime::available_cpus().len() < 2 {
            napier_testkit::skip!("both_rows_are_measured", "the echo beside TCP needs 2 CPUs");
            return;
        }
        for idle in [false, true] {
            let rows = in_time_enough("bytes go over TCP beside the echo", Duration::from_millis(300), |length| {
                let config = UdpBesideTcpConfig { idle, period: Duration::from_millis(1), length, runs: 2 };
                let rows = udp_beside_tcp(&config).expect("it runs");
                let went = rows[1].tcp_bytes_per_s.is_some_and(|bytes| bytes.max > 0.0);
                (went && rows.iter().all(|row| row.round_trips > 0)).then_some(rows)
            });
            assert_eq!(rows.iter().map(|row| row.beside).collect::<Vec<_>>(), [Beside::Nothing, Beside::Tcp]);
            for row in &rows {
                assert!(row.runs == 2 && row.idle == idle, "{row:?}");
                assert!(row.p50_ns.min <= row.p99_ns.max && row.p99_ns.max <= row.max_ns.max, "{row:?}");
            }
            assert!(rows[0].p99_ratio.is_none() && rows[0].tcp_bytes_per_s.is_none());
            assert!(rows[1].p99_ratio.is_some_and(|ratio| ratio.median > 0.0), "{:?}", rows[1]);
        }
    }
}
