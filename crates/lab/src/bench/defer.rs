//! `bench defer`: what a deferral cycle costs that finds nothing, and one that finds packets.
//!
//! With `defer-hard-irqs` the interrupt stays masked, and the instance's timer polls instead (`net/core/dev.c
//! napi_complete_done`, `napi_watchdog`). Each cycle costs a sleep, a timer and a poll, whatever it finds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use napier_core::time::Span;
use napier_runtime::device::LinkConfig;
use napier_runtime::engine::ThreadRole;
use napier_runtime::raw::RawPort;
use napier_runtime::socket::UdpSocket;
use napier_sys::sched::pin_current_thread;
use napier_verdict::Metric;
use serde::Serialize;

use super::rounds::{Blocks, Compared, RowSlice, compared, nanos, two_cpus};
use super::rtt::send_stamped;
use super::stat::Spread;
use crate::apply::writes_on_device;
use crate::modes::deferral;
use crate::pair::{Pair, TESTED_AT};

/// Deferrals in a row: more than any run has cycles.
const DEFER_HARD_IRQS: u32 = i32::MAX.unsigned_abs();
/// How long the receiver sleeps before it looks whether the run is over: so rarely that it does not show.
const STOP_LOOK: Duration = Duration::from_millis(200);

/// What cycles find.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeferCycle {
    /// No packet; the program sleeps all the time.
    Nothing,
    /// One packet, which wakes the program that waits for it.
    OnePacket,
}

impl DeferCycle {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Nothing, Self::OnePacket];

    /// The name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "finds nothing, the program sleeps",
            Self::OnePacket => "finds a packet, a program receives it",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct DeferConfig {
    /// `gro-flush-timeout`: time between two cycles.
    pub timeout: Duration,
    /// Length of each run.
    pub length: Duration,
    /// Runs per row, interleaved.
    pub runs: u32,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Defer {
    /// What cycles found.
    pub cycle: DeferCycle,
    /// `gro-flush-timeout`, in ns.
    pub timeout_ns: u64,
    /// CPU time of the engine and the program that receives, per cycle, in us.
    pub cpu_us_per_cycle: Spread,
    /// Cycles per second.
    pub cycles_per_s: Spread,
    /// Packets per cycle.
    pub packets_per_cycle: Spread,
}

/// One run: CPU time in us and packets per cycle, cycles per second.
struct DeferRun {
    cpu_us: f64,
    per_s: f64,
    packets: f64,
}

/// Measures both kinds of cycles.
///
/// # Errors
/// There is only one processor, the engine did not start, or no cycle came about.
pub fn defer(
    config: &DeferConfig,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Compared<Defer>> {
    let cpus = two_cpus()?;
    let used = cpus.both();
    let blocks = Blocks::of_rows(DeferCycle::ALL.map(DeferCycle::name), &[Metric::Cpu], config.runs, &used);
    let found =
        blocks.run(interrupted, progress, |_, at| Ok(run(DeferCycle::ALL[at], config, cpus.client, cpus.server)?))?;
    let timeout_ns = nanos(config.timeout);
    Ok(compared(found, |_, at, row| Defer {
        cycle: DeferCycle::ALL[at],
        timeout_ns,
        cpu_us_per_cycle: Spread::over(&row.runs, |run| run.cpu_us),
        cycles_per_s: Spread::over(&row.runs, |run| run.per_s),
        packets_per_cycle: Spread::over(&row.runs, |run| run.packets),
    }))
}

fn run(cycle: DeferCycle, config: &DeferConfig, sender_cpu: usize, cpu: usize) -> anyhow::Result<RowSlice<DeferRun>> {
    let pair = Pair::new(&LinkConfig::default(), &[cpu], &[sender_cpu])?;
    let timeout = Span { ns: u64::try_from(config.timeout.as_nanos()).context("--timeout is too long")? };
    writes_on_device(&pair.engine, &pair.tested, deferral(DEFER_HARD_IRQS, timeout))?;
    pair.never_interrupt(&pair.peer)?;
    let source = RawPort::bind(&pair.peer, 0)?;
    let socket = UdpSocket::bind(&pair.tested_ns, TESTED_AT)?;
    socket.set_read_timeout(Some(STOP_LOOK))?;
    let stop = AtomicBool::new(false);
    let (pair, stop) = (&pair, &stop);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _counted = pair.engine.count_thread("receiver", Some(cpu));
            let mut buffer = [0; 128];
            while !stop.load(Ordering::Relaxed) {
                let _ = socket.recv_from(&mut buffer);
            }
        });
        // On a thread of its own, which stays on its processor: others are started from here.
        let measured = scope.spawn(move || {
            pin_current_thread(sender_cpu);
            measure(cycle, config, pair, &source, cpu)
        });
        let outcome = measured.join().expect("sending does not panic");
        stop.store(true, Ordering::Relaxed);
        outcome
    })
}

fn measure(
    cycle: DeferCycle,
    config: &DeferConfig,
    pair: &Pair,
    source: &RawPort,
    cpu: usize,
) -> anyhow::Result<RowSlice<DeferRun>> {
    let template = pair.template();
    let send = || {
        // A full ring has a packet for the next cycle already.
        let _full = send_stamped(pair, source, &template, 0);
    };
    // The first packet begins it; then it is let come into its stride.
    send();
    during(cycle, config.length / 10, config.timeout, send);
    let before = DeferReading::take(pair, cpu);
    let begun = Instant::now();
    during(cycle, config.length, config.timeout, send);
    DeferReading::take(pair, cpu).since(&before, begun.elapsed())
}

/// Lets time pass, or sends a packet per time-out.
fn during(cycle: DeferCycle, length: Duration, timeout: Duration, send: impl Fn()) {
    let begun = Instant::now();
    if cycle == DeferCycle::Nothing {
        return std::thread::sleep(length);
    }
    let mut due = begun;
    while begun.elapsed() < length {
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        due += timeout;
        send();
    }
}

/// Counters at one moment.
struct DeferReading {
    cpu: Duration,
    cycles: u64,
    packets: u64,
}

impl DeferReading {
    fn take(pair: &Pair, cpu: usize) -> Self {
        let counted = |role: &ThreadRole| match role {
            ThreadRole::Softirq { cpu: of } => *of == cpu,
            ThreadRole::Program { name } => name == "receiver",
            _ => false,
        };
        let times = pair.engine.thread_times();
        let stats = pair.tested.napi_stats(0);
        Self {
            cpu: times.iter().filter(|time| counted(&time.role)).map(|time| time.cpu).sum(),
            cycles: stats.timer_fires,
            packets: stats.packets_total(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "counts for a table")]
    fn since(&self, before: &Self, window: Duration) -> anyhow::Result<RowSlice<DeferRun>> {
        let seconds = window.as_secs_f64();
        let cycles = self.cycles - before.cycles;
        anyhow::ensure!(cycles > 0, "no timer fired in {seconds:.3} s: the run is too short");
        let (answered, cycles, cpu) = (cycles, cycles as f64, self.cpu - before.cpu);
        let run = DeferRun {
            cpu_us: cpu.as_secs_f64() * 1e6 / cycles,
            per_s: cycles / seconds,
            packets: (self.packets - before.packets) as f64 / cycles,
        };
        Ok(RowSlice { latency: Default::default(), answered, window, cpu, run })
    }
}
