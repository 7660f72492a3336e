//! The two programs and what runs beside them: client, sender, server, pollers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::Engine;
use napier_runtime::raw::{RawBusyPoll, RawPort};

use super::{RawRrConfig, RawRrMode, RigPlaces};
use crate::bench::rounds::nanos;
use crate::bench::rtt::{FRAME_BYTES, histogram, stamp_of, turn_round, write_stamped};
use crate::pair::Pair;
use crate::report::PowerHistogram;

/// `SO_BUSY_POLL` of the busy-read modes in us, as the proposal's script sets `net.core.busy_read`.
pub(super) const BUSY_READ_US: u32 = 400;
/// Socket options of a busy-reading program; 64 packets per poll.
const BUSY_READ: RawBusyPoll = RawBusyPoll { usecs: BUSY_READ_US, prefer: true, budget: 64 };
/// How long a blocked side waits before it looks whether the run is over.
pub(super) const STOP_LOOK: Duration = Duration::from_millis(20);

pub(super) struct RigShared<'a> {
    pub(super) stop: &'a AtomicBool,
    pub(super) sent: AtomicU64,
}

pub(super) struct EndOutcome {
    pub(super) latency: Histogram<u64>,
    pub(super) receive_calls: PowerHistogram,
    pub(super) replies: u64,
    /// Of them, those that the client had done with before the last request was due.
    pub(super) in_time: u64,
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

pub(super) fn serve(pair: &Pair, mode: RawRrMode, places: &RigPlaces, shared: &RigShared<'_>) -> anyhow::Result<()> {
    let _counted = pair.engine.count_thread("server", Some(places.server));
    let port = open(&pair.tested, mode)?;
    let poller = places.pollers.filter(|_| mode == RawRrMode::BusyReadSeparate).map(|(_, cpu)| cpu);
    with_poller(&pair.engine, &port, poller, || answer_all(&port, mode, shared));
    Ok(())
}

fn answer_all(port: &RawPort, mode: RawRrMode, shared: &RigShared<'_>) {
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

/// What the client's loop is given, by either backend.
pub(super) trait ClientEnd {
    /// The time in ns, from any moment on.
    fn now_ns(&self) -> u64;
    /// Sends a request that carries when it was due. If there is no room it is lost.
    fn ask(&mut self, intended_ns: u64);
    /// Receives as the mode's program does; one that blocks does so no longer than this. Whether there is something.
    fn receive(&mut self, at_most: Duration) -> bool;
    /// When the request of the next reply was due.
    fn next(&mut self) -> Option<u64>;
}

struct EngineEnd<'a> {
    pair: &'a Pair,
    port: &'a RawPort,
    mode: RawRrMode,
}

impl ClientEnd for EngineEnd<'_> {
    fn now_ns(&self) -> u64 {
        self.pair.engine.now_ns()
    }

    fn ask(&mut self, intended_ns: u64) {
        let _ = self.port.build(FRAME_BYTES, |frame| stamped(self.pair, frame, intended_ns));
        self.port.flush();
    }

    #[inline]
    fn receive(&mut self, at_most: Duration) -> bool {
        if self.mode == RawRrMode::Interrupts { self.port.wait(Some(at_most)) } else { self.port.recv() }
    }

    fn next(&mut self) -> Option<u64> {
        while let Some(frame) = self.port.next() {
            if let Some(intended_ns) = stamp_of(frame.data()) {
                return Some(intended_ns);
            }
        }
        None
    }
}

pub(super) fn run_client(
    pair: &Pair,
    config: &RawRrConfig,
    places: &RigPlaces,
    shared: &RigShared<'_>,
) -> anyhow::Result<EndOutcome> {
    let _counted = pair.engine.count_thread("client", Some(places.client));
    let port = open(&pair.peer, config.mode)?;
    let poller = places.pollers.filter(|_| config.mode == RawRrMode::BusyReadSeparate).map(|(cpu, _)| cpu);
    let mut end = EngineEnd { pair, port: &port, mode: config.mode };
    let outcome = with_poller(&pair.engine, &port, poller, || match places.sender {
        None => client_loop(&mut end, config, shared, true),
        Some(cpu) => std::thread::scope(|scope| {
            let sender = port.sender();
            scope.spawn(move || {
                let _counted = pair.engine.count_thread("sender", Some(cpu));
                send_all(config, shared, &|| pair.engine.now_ns(), |intended_ns| {
                    // A full ring loses the request: counted as sent and never answered.
                    let _ = sender.send(FRAME_BYTES, |frame| stamped(pair, frame, intended_ns));
                });
            });
            client_loop(&mut end, config, shared, false)
        }),
    });
    Ok(outcome)
}

/// The sender's thread: requests at their points in time, whatever comes back.
pub(super) fn send_all(
    config: &RawRrConfig,
    shared: &RigShared<'_>,
    now_ns: &impl Fn() -> u64,
    mut ask: impl FnMut(u64),
) {
    let mut due = Due::new(now_ns(), config);
    while !due.over() && !shared.stop.load(Ordering::Acquire) {
        if let Some(intended_ns) = due.next(now_ns()) {
            ask(intended_ns);
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
    fn new(now_ns: u64, config: &RawRrConfig) -> Self {
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

/// Receives, works on each reply, and sends in between if there is no sender.
pub(super) fn client_loop(
    end: &mut impl ClientEnd,
    config: &RawRrConfig,
    shared: &RigShared<'_>,
    sends: bool,
) -> EndOutcome {
    let mut outcome =
        EndOutcome { latency: histogram(), receive_calls: PowerHistogram::default(), replies: 0, in_time: 0 };
    let mut due = Due::new(end.now_ns(), config);
    let warm_ns = due.next_ns + nanos(config.length) / 10;
    let end_ns = due.end_ns + nanos(STOP_LOOK);
    let mut now_ns = end.now_ns();
    loop {
        if sends && let Some(intended_ns) = due.next(now_ns) {
            end.ask(intended_ns);
            shared.sent.fetch_add(1, Ordering::Relaxed);
            now_ns = end.now_ns();
        }
        let over = now_ns >= end_ns || (now_ns >= due.end_ns && outcome.replies == shared.sent.load(Ordering::Relaxed));
        if over {
            return outcome;
        }
        // Without a sender of its own the client must be back in time to send.
        let left = Duration::from_nanos(due.next_ns.saturating_sub(now_ns).max(1));
        let found = end.receive(if sends { left.min(STOP_LOOK) } else { STOP_LOOK });
        let received_ns = end.now_ns();
        let called_ns = std::mem::replace(&mut now_ns, received_ns);
        if !found {
            continue;
        }
        outcome.receive_calls.add(received_ns - called_ns);
        while let Some(intended_ns) = end.next() {
            outcome.replies += 1;
            if intended_ns >= warm_ns {
                outcome.latency.saturating_record(received_ns.saturating_sub(intended_ns));
            }
            let done_ns = work_for(end, config.delay).unwrap_or(received_ns);
            outcome.in_time += u64::from(done_ns < due.end_ns);
        }
        now_ns = end.now_ns();
    }
}

/// The application's work on one reply; when it was done, in ns, if there was any.
fn work_for(end: &impl ClientEnd, delay: Duration) -> Option<u64> {
    if delay.is_zero() {
        return None;
    }
    let until_ns = end.now_ns() + nanos(delay);
    loop {
        let now_ns = end.now_ns();
        if now_ns >= until_ns {
            return Some(now_ns);
        }
        std::hint::spin_loop();
    }
}
