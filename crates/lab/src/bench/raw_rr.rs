//! `bench raw-rr`: request and response over raw ports with a processing time per reply.
//!
//! After the tool that threaded NAPI busy polling was proposed with ("[PATCH net-next v10 0/2] Add support
//! to do threaded napi busy poll"): requests leave at a fixed period whatever comes back, the server
//! answers each from where it receives, and the client works for a given time on each reply. Latency is
//! from the intended send.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use napier_runtime::control::NapiSet;
use napier_runtime::device::{DeviceHandle, LinkConfig};
use napier_runtime::engine::Engine;
use napier_runtime::raw::{RawBusyPoll, RawPort, RawSender};
use serde::Serialize;

use super::rtt::{FRAME_BYTES, Percentiles, histogram, stamp_of, turn_round, write_stamped};
use crate::loads::SustainSearch;
use crate::pair::Pair;
use crate::report::PowerHistogram;

/// `SO_BUSY_POLL` of the busy-read modes in us, as the proposal's script sets `net.core.busy_read`.
const BUSY_READ_US: u32 = 400;
/// `napi-defer-hard-irqs` of the busy modes, from the same script.
const DEFER_HARD_IRQS: u64 = 100;
/// `gro-flush-timeout` of the busy modes in ns, from the same script.
const GRO_FLUSH_TIMEOUT_NS: u64 = 15_000;
/// Socket options of a busy-reading program; 64 packets per poll.
const BUSY_READ: RawBusyPoll = RawBusyPoll { usecs: BUSY_READ_US, prefer: true, budget: 64 };
/// How long a blocked side waits before it looks whether the run is over.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// Requests that may be on their way at the end of a run, however short it is, without a word of overload.
const ON_THEIR_WAY: u64 = 10;

/// Who polls for the two programs.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RawRrMode {
    /// Softirq after an interrupt; the programs block.
    Interrupts,
    /// The programs, inline in their receive calls.
    BusyRead,
    /// A second thread of each program, which does nothing else.
    BusyReadSeparate,
    /// The NAPI thread of each end, for ever.
    ThreadedBusyPoll,
}

impl RawRrMode {
    /// All, in the order of the proposal's table.
    pub const ALL: [Self; 4] = [Self::Interrupts, Self::BusyRead, Self::BusyReadSeparate, Self::ThreadedBusyPoll];

    /// The name on the command line and in the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupts => "interrupts",
            Self::BusyRead => "busy-read",
            Self::BusyReadSeparate => "busy-read-separate",
            Self::ThreadedBusyPoll => "threaded-busy-poll",
        }
    }

    /// The mode with this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether each side has a polling thread beside its program.
    fn has_pollers(self) -> bool {
        matches!(self, Self::BusyReadSeparate | Self::ThreadedBusyPoll)
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct RawRrConfig {
    /// Who polls.
    pub mode: RawRrMode,
    /// Time between two requests.
    pub period: Duration,
    /// Time that the client works on each reply.
    pub delay: Duration,
    /// Length of the run.
    pub length: Duration,
    /// Send from a thread of its own even if that shares a processor.
    pub oversubscribe: bool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct RawRr {
    /// Who polled.
    pub mode: RawRrMode,
    /// Time between two requests, in ns.
    pub period_ns: u64,
    /// Time that the client worked on each reply, in ns.
    pub delay_ns: u64,
    /// Whether requests came from a thread of their own (else the client sent them between its receive calls).
    pub sender_thread: bool,
    /// Processors: client, server, sender, then pollers.
    pub cpus: Vec<usize>,
    /// From intended send to reply.
    pub latency: Option<Percentiles>,
    /// Time that the client spent in its receive calls.
    pub receive_calls: PowerHistogram,
    /// Requests without a reply.
    pub lost: u64,
    /// Requests that were due.
    pub due: u64,
    /// Replies that the client had done with while requests were still due.
    pub answered_in_time: u64,
    /// Less than 99 % of the requests were answered in time: the load is more than the mode can do here, and the latency is
    /// that of a queue which grows as long as the run lasts.
    pub overloaded: bool,
    /// Why it did not run, if it did not.
    pub refused: Option<String>,
}

/// Processors of the parts.
struct Places {
    client: usize,
    server: usize,
    sender: Option<usize>,
    pollers: Option<(usize, usize)>,
}

impl Places {
    fn choose(mode: RawRrMode, oversubscribe: bool) -> Result<Self, String> {
        let cpus = napier_runtime::available_cpus();
        let at = |index: usize| cpus[index % cpus.len()];
        let least = if mode.has_pollers() { 4 } else { 2 };
        if cpus.len() < least && !oversubscribe {
            let parts = if mode.has_pollers() { "client, server and a poller for each" } else { "client and server" };
            return Err(format!(
                "needs {least} CPUs ({parts}), this process may use {}: --oversubscribe runs it all the same",
                cpus.len()
            ));
        }
        // A sender of its own where a processor is left for it; else the client sends, which costs nothing but
        // precision while it works on a reply.
        let sender = (cpus.len() > least).then(|| at(least));
        let pollers = mode.has_pollers().then(|| (at(2), at(3)));
        Ok(Self { client: at(0), server: at(1), sender, pollers })
    }

    fn list(&self) -> Vec<usize> {
        let mut list = vec![self.client, self.server];
        list.extend(self.sender);
        list.extend(self.pollers.map(|(a, _)| a));
        list.extend(self.pollers.map(|(_, b)| b));
        list
    }
}

/// Runs one experiment.
///
/// # Errors
/// The engine did not start; a machine with too few processors is a refused result, not an error.
pub fn raw_rr(config: &RawRrConfig) -> anyhow::Result<RawRr> {
    let places = match Places::choose(config.mode, config.oversubscribe) {
        Ok(places) => places,
        Err(refused) => return Ok(config.refused(refused)),
    };
    let pair = Pair::new(&LinkConfig::default(), &[places.server], &[places.client])?;
    set_mode(&pair, config.mode, &places)?;
    let stop = AtomicBool::new(false);
    let shared = Shared { stop: &stop, sent: AtomicU64::new(0) };
    let outcome = std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&pair, config.mode, &places, &shared));
        let client = run_client(&pair, config, &places, &shared);
        stop.store(true, Ordering::Release);
        server.join().expect("the server does not panic").context("the server failed")?;
        client
    })?;
    let due = config.requests_due();
    Ok(RawRr {
        mode: config.mode,
        period_ns: nanos(config.period),
        delay_ns: nanos(config.delay),
        sender_thread: places.sender.is_some(),
        cpus: places.list(),
        latency: (!outcome.latency.is_empty()).then(|| Percentiles::of(&outcome.latency)),
        receive_calls: outcome.receive_calls,
        lost: shared.sent.load(Ordering::Relaxed) - outcome.replies,
        due,
        answered_in_time: outcome.in_time,
        overloaded: is_overload(due, outcome.in_time),
        refused: None,
    })
}

impl RawRrConfig {
    fn refused(&self, why: String) -> RawRr {
        RawRr {
            mode: self.mode,
            period_ns: nanos(self.period),
            delay_ns: nanos(self.delay),
            sender_thread: false,
            cpus: Vec::new(),
            latency: None,
            receive_calls: PowerHistogram::default(),
            lost: 0,
            due: 0,
            answered_in_time: 0,
            overloaded: false,
            refused: Some(why),
        }
    }

    /// One after each period, but none at the end.
    fn requests_due(&self) -> u64 {
        nanos(self.length).saturating_sub(1) / nanos(self.period).max(1)
    }
}

/// Whether too few were answered in time, as in `compare`.
fn is_overload(due: u64, answered_in_time: u64) -> bool {
    let late = due.saturating_sub(answered_in_time);
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let sustained = answered_in_time as f64 >= SustainSearch::ACHIEVED_MIN * due as f64;
    !sustained && late > ON_THEIR_WAY
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("no experiment lasts 584 years")
}

struct Shared<'a> {
    stop: &'a AtomicBool,
    sent: AtomicU64,
}

struct Outcome {
    latency: Histogram<u64>,
    receive_calls: PowerHistogram,
    replies: u64,
    /// Of them, those that the client had done with before the last request was due.
    in_time: u64,
}

fn set_mode(pair: &Pair, mode: RawRrMode, places: &Places) -> anyhow::Result<()> {
    let ends = [(&pair.peer, places.pollers.map(|p| p.0)), (&pair.tested, places.pollers.map(|p| p.1))];
    for (device, poller) in ends {
        let id = device.napi_id(0);
        if let Some(cpu) = poller {
            pair.engine.set_thread_affinity(id, cpu)?;
        }
        let deferred = mode != RawRrMode::Interrupts;
        pair.engine.napi_set(NapiSet {
            id: Some(u64::from(id)),
            defer_hard_irqs: deferred.then_some(DEFER_HARD_IRQS),
            gro_flush_timeout: deferred.then_some(GRO_FLUSH_TIMEOUT_NS),
            threaded: (mode == RawRrMode::ThreadedBusyPoll).then_some(2),
            ..NapiSet::default()
        })?;
    }
    Ok(())
}

fn open(device: &DeviceHandle, mode: RawRrMode) -> anyhow::Result<RawPort> {
    let port = RawPort::bind(device, 0)?;
    if mode == RawRrMode::BusyRead {
        port.set_busy_poll(BUSY_READ);
    }
    Ok(port)
}

/// Receives as the mode's program does: blocking by interrupt, else one call that does not block.
#[inline]
fn receive(port: &RawPort, mode: RawRrMode) -> bool {
    if mode == RawRrMode::Interrupts { port.wait(Some(STOP_LOOK)) } else { port.recv() }
}

fn serve(pair: &Pair, mode: RawRrMode, places: &Places, shared: &Shared<'_>) -> anyhow::Result<()> {
    let _counted = pair.engine.count_thread("server", Some(places.server));
    let port = open(&pair.tested, mode)?;
    let poller = places.pollers.filter(|_| mode == RawRrMode::BusyReadSeparate).map(|(_, cpu)| cpu);
    with_poller(&pair.engine, &port, poller, || answer_all(&port, mode, shared));
    Ok(())
}

fn answer_all(port: &RawPort, mode: RawRrMode, shared: &Shared<'_>) {
    while !shared.stop.load(Ordering::Acquire) {
        if !receive(port, mode) {
            std::hint::spin_loop();
            continue;
        }
        while let Some(mut frame) = port.next() {
            turn_round(frame.data_mut());
            // A full ring loses the reply; the client counts it as lost.
            drop(port.forward(frame));
            port.flush();
        }
    }
}

/// Runs `program` on `port`, with a second thread on processor `cpu` that polls for it and takes nothing.
fn with_poller<R>(engine: &Engine, port: &RawPort, cpu: Option<usize>, program: impl FnOnce() -> R) -> R {
    let Some(cpu) = cpu else { return program() };
    let (poller, over) = (port.poller(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _counted = engine.count_thread("poller", Some(cpu));
            while !over.load(Ordering::Acquire) {
                poller.poll(BUSY_READ);
            }
        });
        let answer = program();
        over.store(true, Ordering::Release);
        answer
    })
}

fn run_client(pair: &Pair, config: &RawRrConfig, places: &Places, shared: &Shared<'_>) -> anyhow::Result<Outcome> {
    let _counted = pair.engine.count_thread("client", Some(places.client));
    let port = open(&pair.peer, config.mode)?;
    let poller = places.pollers.filter(|_| config.mode == RawRrMode::BusyReadSeparate).map(|(cpu, _)| cpu);
    let outcome = with_poller(&pair.engine, &port, poller, || match places.sender {
        None => client_loop(pair, &port, config, shared, true),
        Some(cpu) => std::thread::scope(|scope| {
            let sender = port.sender();
            scope.spawn(move || send_all(pair, &sender, config, cpu, shared));
            client_loop(pair, &port, config, shared, false)
        }),
    });
    Ok(outcome)
}

/// The sender's thread: requests at their points in time, whatever comes back.
fn send_all(pair: &Pair, sender: &RawSender, config: &RawRrConfig, cpu: usize, shared: &Shared<'_>) {
    let _counted = pair.engine.count_thread("sender", Some(cpu));
    let mut due = Due::new(pair, config);
    while !due.over() && !shared.stop.load(Ordering::Acquire) {
        if let Some(intended_ns) = due.next(pair.engine.now_ns()) {
            // A full ring loses the request: counted as sent and never answered.
            let _ = sender.send(FRAME_BYTES, |frame| stamped(pair, frame, intended_ns));
            shared.sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The points in time at which requests are due.
struct Due {
    next_ns: u64,
    period_ns: u64,
    end_ns: u64,
}

impl Due {
    fn new(pair: &Pair, config: &RawRrConfig) -> Self {
        let now_ns = pair.engine.now_ns();
        let period_ns = nanos(config.period).max(1);
        Self { next_ns: now_ns + period_ns, period_ns, end_ns: now_ns + nanos(config.length) }
    }

    #[inline]
    fn next(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns < self.next_ns || self.over() {
            return None;
        }
        let this_ns = self.next_ns;
        self.next_ns += self.period_ns;
        Some(this_ns)
    }

    fn over(&self) -> bool {
        self.next_ns >= self.end_ns
    }
}

fn stamped(pair: &Pair, frame: &mut [u8], intended_ns: u64) -> usize {
    write_stamped(frame, pair.peer.mac(), pair.tested.mac(), intended_ns)
}

fn client_loop(pair: &Pair, port: &RawPort, config: &RawRrConfig, shared: &Shared<'_>, sends: bool) -> Outcome {
    let mut outcome =
        Outcome { latency: histogram(), receive_calls: PowerHistogram::default(), replies: 0, in_time: 0 };
    let mut due = Due::new(pair, config);
    let warm_ns = due.next_ns + nanos(config.length) / 10;
    let end_ns = due.end_ns + nanos(STOP_LOOK);
    let mut now_ns = pair.engine.now_ns();
    loop {
        if sends && let Some(intended_ns) = due.next(now_ns) {
            let _ = port.build(FRAME_BYTES, |frame| stamped(pair, frame, intended_ns));
            port.flush();
            shared.sent.fetch_add(1, Ordering::Relaxed);
            now_ns = pair.engine.now_ns();
        }
        let over = now_ns >= end_ns || (now_ns >= due.end_ns && outcome.replies == shared.sent.load(Ordering::Relaxed));
        if over {
            return outcome;
        }
        // Without a sender of its own the client must be back in time to send.
        let found = match config.mode {
            RawRrMode::Interrupts if sends => {
                let left = Duration::from_nanos(due.next_ns.saturating_sub(now_ns).max(1));
                port.wait(Some(left.min(STOP_LOOK)))
            }
            mode => receive(port, mode),
        };
        let received_ns = pair.engine.now_ns();
        let called_ns = std::mem::replace(&mut now_ns, received_ns);
        if !found {
            continue;
        }
        outcome.receive_calls.add(received_ns - called_ns);
        while let Some(frame) = port.next() {
            let Some(intended_ns) = stamp_of(frame.data()) else { continue };
            outcome.replies += 1;
            if intended_ns >= warm_ns {
                outcome.latency.saturating_record(received_ns - intended_ns);
            }
            drop(frame);
            let done_ns = work_for(pair, config.delay).unwrap_or(received_ns);
            outcome.in_time += u64::from(done_ns < due.end_ns);
        }
        now_ns = pair.engine.now_ns();
    }
}

/// The application's work on one reply; when it was done, in ns, if there was any.
fn work_for(pair: &Pair, delay: Duration) -> Option<u64> {
    if delay.is_zero() {
        return None;
    }
    let until_ns = pair.engine.now_ns() + nanos(delay);
    loop {
        let now_ns = pair.engine.now_ns();
        if now_ns >= until_ns {
            return Some(now_ns);
        }
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the machine: the client alone works for twice as long on a reply as it has.
    #[test]
    fn a_load_that_cannot_be_answered_is_called_so() {
        let (period, delay) = (Duration::from_millis(1), Duration::from_millis(2));
        let length = Duration::from_millis(300);
        let config = RawRrConfig { mode: RawRrMode::Interrupts, period, delay, length, oversubscribe: true };
        let row = raw_rr(&config).unwrap();
        assert_eq!(row.due, 299);
        assert!(row.overloaded && row.answered_in_time <= 151, "{row:?}");
    }

    #[test]
    fn what_is_on_its_way_at_the_end_is_no_overload() {
        for (due, in_time, overloaded) in
            [(0, 0, false), (100, 90, false), (100, 89, true), (12_000, 11_880, false), (12_000, 11_879, true)]
        {
            assert_eq!(is_overload(due, in_time), overloaded, "{in_time} of {due}");
        }
    }
}
