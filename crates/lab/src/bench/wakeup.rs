//! `bench wakeup`: from the doorbell until a thread has received the packet, for each kind that may be woken.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use napier_core::control::plan::Write;
use napier_core::control::{NapiChange, ThreadedSetting};
use napier_runtime::device::LinkConfig;
use napier_runtime::event::{Event, EventContext, Interest, Timeout};
use napier_runtime::raw::RawPort;
use napier_runtime::socket::UdpSocket;
use napier_verdict::Metric;
use serde::{Deserialize, Serialize};

use super::rounds::{Blocks, Compared, RowSlice, compared, latencies, nanos, together, two_cpus};
use super::rtt::{Percentiles, histogram, send_stamped};
use crate::apply::writes_on_device;
use crate::pair::{Pair, TESTED_AT};

/// Samples without an answer within this time are errors, not latencies.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a sleeper sleeps before it looks whether the experiment is over.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// Who is woken, and until when time is taken.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WakeContext {
    /// The softirq thread has polled.
    Softirq,
    /// The NAPI thread has polled.
    Threaded,
    /// A worker of the pool has polled.
    Workqueue,
    /// A NAPI thread that polls for ever has polled: no thread sleeps.
    ThreadedBusyPoll,
    /// A program that was blocked on a raw port runs.
    RawPort,
    /// A program that was blocked in a receive on a UDP socket runs.
    Receive,
    /// A program that was blocked in an event context runs.
    EventContext,
}

impl WakeContext {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Softirq,
        Self::Threaded,
        Self::Workqueue,
        Self::ThreadedBusyPoll,
        Self::RawPort,
        Self::Receive,
        Self::EventContext,
    ];

    /// The name in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Softirq => "softirq thread polls",
            Self::Threaded => "NAPI thread polls",
            Self::Workqueue => "pool worker polls",
            Self::ThreadedBusyPoll => "busy-polling NAPI thread polls",
            Self::RawPort => "program blocked on a raw port runs",
            Self::Receive => "program blocked in recv runs",
            Self::EventContext => "program blocked in an event context runs",
        }
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct WakeupConfig {
    /// Samples per context.
    pub samples: u32,
    /// Idle time before each.
    pub gap: Duration,
}

/// One row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wakeup {
    /// Who was woken.
    pub context: WakeContext,
    /// Idle time before each sample, in ns.
    pub gap_ns: u64,
    /// From before the doorbell until then.
    pub latency: Percentiles,
    /// What the sender paid for publishing and ringing.
    pub sender: Percentiles,
}

/// Measures every context.
///
/// # Errors
/// There is only one processor, the engine did not start, or a packet was not received.
pub fn wakeup(
    config: &WakeupConfig,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Compared<Wakeup>> {
    let cpus = two_cpus()?;
    let used = cpus.both();
    let rounds = ROUNDS.min(config.samples);
    let blocks = Blocks::of_rows(WakeContext::ALL.map(WakeContext::name), &[Metric::P50], rounds, &used);
    let samples = config.samples.div_ceil(rounds.max(1));
    let config = WakeupConfig { samples, ..config.clone() };
    let found = blocks
        .run(interrupted, progress, |_, at| Ok(measure(WakeContext::ALL[at], &config, cpus.client, cpus.server)?))?;
    Ok(compared(found, |_, at, row| Wakeup {
        context: WakeContext::ALL[at],
        gap_ns: nanos(config.gap),
        latency: Percentiles::of(&together(row.runs.iter().map(|(latency, _)| latency))),
        sender: Percentiles::of(&together(row.runs.iter().map(|(_, sender)| sender))),
    }))
}

/// Slices of each context; samples are as many in each.
const ROUNDS: u32 = 20;

/// Of a slice: latencies, and what the sender paid.
type WakeupRun = (Histogram<u64>, Histogram<u64>);

/// What a woken program tells the sender: when it ran, or 0.
#[derive(Default)]
struct Woken {
    at_ns: AtomicU64,
    stop: AtomicBool,
}

fn measure(
    context: WakeContext,
    config: &WakeupConfig,
    sender_cpu: usize,
    woken_cpu: usize,
) -> anyhow::Result<RowSlice<WakeupRun>> {
    let pair = Pair::new(&LinkConfig::default(), &[woken_cpu], &[sender_cpu])?;
    pair.never_interrupt(&pair.peer)?;
    pair.engine.set_thread_affinity(pair.tested.napi_id(0), woken_cpu)?;
    let threaded = match context {
        WakeContext::Threaded => ThreadedSetting::Enabled,
        WakeContext::Workqueue => ThreadedSetting::Workqueue,
        WakeContext::ThreadedBusyPoll => ThreadedSetting::BusyPoll,
        _ => ThreadedSetting::Disabled,
    };
    writes_on_device(&pair.engine, &pair.tested, [Write::Instance(NapiChange::Threaded(threaded))])?;
    let _counted = pair.engine.count_thread("sender", Some(sender_cpu));
    let source = RawPort::bind(&pair.peer, 0)?;
    let woken = Woken::default();
    std::thread::scope(|scope| {
        let outcome = match context {
            WakeContext::Receive | WakeContext::EventContext => {
                let socket = UdpSocket::bind(&pair.tested_ns, TESTED_AT)?;
                let (pair, woken) = (&pair, &woken);
                scope.spawn(move || blocked_socket(pair, &socket, context, woken_cpu, woken));
                sample(pair, config, &source, woken, None)
            }
            WakeContext::RawPort => {
                let port = RawPort::bind(&pair.tested, 0)?;
                let (pair, woken) = (&pair, &woken);
                scope.spawn(move || blocked_port(pair, &port, woken_cpu, woken));
                sample(pair, config, &source, woken, None)
            }
            _ => {
                let port = RawPort::bind(&pair.tested, 0)?;
                sample(&pair, config, &source, &woken, Some(&port))
            }
        };
        woken.stop.store(true, Ordering::Release);
        let (run, window) = outcome?;
        Ok(RowSlice { latency: latencies(&run.0), answered: run.0.len(), window, cpu: Duration::ZERO, run })
    })
}

/// Sends one packet at a time and waits for it: in `port` if given, else for the woken program's word.
fn sample(
    pair: &Pair,
    config: &WakeupConfig,
    source: &RawPort,
    woken: &Woken,
    port: Option<&RawPort>,
) -> anyhow::Result<(WakeupRun, Duration)> {
    let (mut latency, mut sender) = (histogram(), histogram());
    let template = pair.template();
    let clock = || pair.engine.now_ns();
    let gap_ns = nanos(config.gap);
    let warm_up = config.samples / 10;
    let begun_ns = clock();
    for sample in 0..config.samples + warm_up {
        let idle_until_ns = clock() + gap_ns;
        while clock() < idle_until_ns {
            std::hint::spin_loop();
        }
        woken.at_ns.store(0, Ordering::Relaxed);
        let sent_ns = clock();
        send_stamped(pair, source, &template, sent_ns)?;
        let rung_ns = clock();
        let seen_ns = loop {
            let now_ns = clock();
            let word = woken.at_ns.load(Ordering::Acquire);
            match port {
                Some(port) if port.recv() => {
                    while port.next().is_some() {}
                    break now_ns;
                }
                None if word != 0 => break word,
                _ => {}
            }
            anyhow::ensure!(
                now_ns - sent_ns < PATIENCE.as_nanos() as u64,
                "a packet was not received within {PATIENCE:?}"
            );
        };
        if sample >= warm_up {
            latency.saturating_record(seen_ns.saturating_sub(sent_ns));
            sender.saturating_record(rung_ns - sent_ns);
        }
    }
    Ok(((latency, sender), Duration::from_nanos(clock() - begun_ns)))
}

fn blocked_port(pair: &Pair, port: &RawPort, cpu: usize, woken: &Woken) {
    let _counted = pair.engine.count_thread("woken", Some(cpu));
    while !woken.stop.load(Ordering::Acquire) {
        if port.wait(Some(STOP_LOOK)) {
            woken.at_ns.store(pair.engine.now_ns(), Ordering::Release);
            while port.next().is_some() {}
        }
    }
}

fn blocked_socket(
    pair: &Pair,
    socket: &UdpSocket,
    context: WakeContext,
    cpu: usize,
    woken: &Woken,
) -> anyhow::Result<()> {
    let _counted = pair.engine.count_thread("woken", Some(cpu));
    let mut buffer = [0; 128];
    let events = EventContext::new(&pair.engine);
    if context == WakeContext::EventContext {
        socket.set_nonblocking(true)?;
        events.add(socket, Interest::IN, 0)?;
    } else {
        socket.set_read_timeout(Some(STOP_LOOK))?;
    }
    let mut ready = [Event::default(); 4];
    while !woken.stop.load(Ordering::Acquire) {
        if context == WakeContext::EventContext && events.wait(&mut ready, Timeout::After(STOP_LOOK))? == 0 {
            continue;
        }
        if socket.recv_from(&mut buffer).is_ok() {
            woken.at_ns.store(pair.engine.now_ns(), Ordering::Release);
        }
    }
    Ok(())
}
