//! One run: senders, transmit threads if the path has them, and the receiver at the other end.

use std::net::SocketAddrV4;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use napier_core::frames::Template;
use napier_runtime::device::LinkConfig;
use napier_runtime::raw::{RawBusyPoll, RawPort};
use napier_sys::tsc::{ticks, ticks_after};
use napier_sys::usage::{ThreadUsage, thread_usage};

use super::paths::{PathCounts, SendOutcome, Sender, StreamFlow, StreamPath};
use super::setup::StreamSetup;
use crate::bench::rtt::{FRAME_BYTES, write_stamped};
use crate::bench::ticks::TIMED_EVERY;
use crate::pair::{PEER_IP, Pair, TESTED_IP};
use crate::report::{CpuTimes, PowerHistogram};
use napier_sys::sched::pin_current_thread;

/// Port of the first sender; the others follow.
const FIRST_PORT: u16 = 10_000;

/// Where all datagrams go.
const SINK_PORT: u16 = 9001;

/// Packets per poll of the receiver.
const RECEIVE_BUDGET: u16 = 64;

/// How long the first packet of a queue may take.
const FIRST_PACKET_MAX: Duration = Duration::from_secs(5);

/// How long what was sent may take to come when all senders have ended; what has not come then is lost.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// What came of a run.
#[derive(Default)]
pub(super) struct StreamRun {
    /// Packets that came to the other end before the senders were told to stop.
    pub(super) packets: u64,
    /// Packets that were sent, not dropped, and never came.
    pub(super) lost: u64,
    /// Calls that found no room.
    pub(super) full: u64,
    pub(super) wall: Duration,
    /// Time in the timed calls that found room, ns.
    pub(super) call_ns: PowerHistogram,
    pub(super) counts: PathCounts,
    pub(super) cpu: CpuTimes,
}

/// How far the run has got.
#[derive(Default)]
struct Phases {
    /// Senders stop.
    stop: AtomicBool,
    /// No sender runs any more.
    all_sent: AtomicBool,
    /// The receiver stops as well.
    over: AtomicBool,
    /// Packets that the receiver has found.
    received: AtomicU64,
}

/// Runs one path.
pub(super) fn run<P: StreamPath>(setup: StreamSetup<'_>) -> anyhow::Result<StreamRun> {
    let link = LinkConfig { queues: setup.queues, ..LinkConfig::default() };
    let pair = Pair::new(&link, setup.cpus, setup.cpus)?;
    pair.never_interrupt(&pair.peer)?;
    let bind = |device| (0..setup.queues).map(|queue| RawPort::bind(device, queue)).collect::<Result<Vec<_>, _>>();
    let (sending, receiving) = (bind(&pair.tested)?, bind(&pair.peer)?);
    take_over(&sending, &receiving)?;
    let path = P::open(&pair, sending, setup)?;
    let senders =
        (0..setup.senders).map(|me| path.sender(&pair, flow::<P>(&pair, me))).collect::<Result<Vec<_>, _>>()?;
    let phases = Phases::default();
    let transmitters = if P::TRANSMITTERS { setup.queues } else { 0 };
    let start = Barrier::new(senders.len() + usize::from(transmitters) + 2);
    let engine_before = engine_time(&pair);
    std::thread::scope(|scope| {
        let (path, phases, start) = (&path, &phases, &start);
        let senders: Vec<_> = (0..)
            .zip(senders)
            .map(|(me, sender)| scope.spawn(move || send_all(sender, me, phases, start, setup)))
            .collect();
        let transmitters: Vec<_> = (0..transmitters)
            .map(|queue| scope.spawn(move || transmit_all(path, queue, phases, start, setup)))
            .collect();
        let receiver = scope.spawn(move || receive_all(&receiving, phases, start, setup));
        start.wait();
        let started = Instant::now();
        std::thread::sleep(setup.length);
        phases.stop.store(true, Ordering::Relaxed);
        let mut run = StreamRun { wall: started.elapsed(), ..StreamRun::default() };
        run.cpu.transmitters = engine_time(&pair) - engine_before;
        let (mut sent, mut failed) = (0, None);
        for sender in senders {
            let own = sender.join().expect("a sender does not panic");
            sent += own.sent;
            run.full += own.full;
            run.call_ns.merge(&own.call_ns);
            run.cpu.add_sender(own.usage);
            run.counts.merge(&own.counts);
            failed = failed.or(own.failed);
        }
        phases.all_sent.store(true, Ordering::Release);
        for transmitter in transmitters {
            let (counts, usage) = transmitter.join().expect("a transmit thread does not panic");
            run.cpu.add_transmitter(usage);
            run.counts.merge(&counts);
        }
        // Lost for want of a frame, as if the receiver kept them all: the device counts that.
        let no_frame = || pair.peer.stats().rx_no_frame;
        // What a discipline still holds comes by itself.
        let drained = wait_until(DRAIN_MAX, || {
            Ok(phases.received.load(Ordering::Relaxed) + no_frame() + path.counts(&pair)?.dropped >= sent)
        });
        phases.over.store(true, Ordering::Relaxed);
        let (in_time, usage) = receiver.join().expect("the receiver does not panic");
        drained?;
        failed.map_or(Ok(()), Err)?;
        run.cpu.add_receiver(usage);
        run.counts.merge(&path.counts(&pair)?);
        run.packets = in_time;
        run.counts.dropped += no_frame();
        run.lost = sent - run.counts.dropped - phases.received.load(Ordering::Relaxed);
        Ok(run)
    })
}

/// Makes the receiver the one that polls: the first packet of a queue is told by an interrupt, and from then on deferral keeps
/// the interrupt masked for good.
fn take_over(sending: &[RawPort], receiving: &[RawPort]) -> anyhow::Result<()> {
    for (from, to) in sending.iter().zip(receiving) {
        to.set_busy_poll(RawBusyPoll { usecs: 1, prefer: true, budget: RECEIVE_BUDGET });
        from.build(FRAME_BYTES, |frame| write_stamped(frame, [2; 6], [2; 6], 0))?;
        from.flush();
        let begun = Instant::now();
        while !to.recv() {
            anyhow::ensure!(begun.elapsed() < FIRST_PACKET_MAX, "the first packet of a queue did not come");
            std::thread::yield_now();
        }
        to.drain(usize::MAX, |_| ());
    }
    Ok(())
}

/// The flow of a sender. Receive-side scaling of the other end decides on the queue, as it does for a socket.
fn flow<P: StreamPath>(pair: &Pair, sender: u32) -> StreamFlow {
    let port = FIRST_PORT + u16::try_from(sender).expect("senders are few");
    let (from, to) = (SocketAddrV4::new(TESTED_IP, port), SocketAddrV4::new(PEER_IP, SINK_PORT));
    let queue = if P::OWN_QUEUES { sender as u16 } else { pair.peer.rx_queue_of(from.into(), to.into()) };
    StreamFlow { sender, queue, from, to, template: Template::new(pair.tested.mac(), pair.peer.mac(), from, to) }
}

struct SenderResult {
    sent: u64,
    full: u64,
    call_ns: PowerHistogram,
    counts: PathCounts,
    usage: ThreadUsage,
    failed: Option<anyhow::Error>,
}

fn send_all(
    mut sender: impl Sender,
    me: u32,
    phases: &Phases,
    start: &Barrier,
    setup: StreamSetup<'_>,
) -> SenderResult {
    if setup.pin {
        pin_current_thread(setup.cpus[me as usize % setup.cpus.len()]);
    }
    let payload = vec![7; setup.payload_bytes];
    let (mut sent, mut full, mut call_ns, mut failed) = (0, 0, PowerHistogram::default(), None);
    let mut until_timed = me % TIMED_EVERY;
    start.wait();
    while !phases.stop.load(Ordering::Relaxed) {
        let timed = until_timed == 0;
        let before = if timed { ticks() } else { 0 };
        match sender.send(&payload) {
            Ok(SendOutcome::Sent) => {
                if timed {
                    call_ns.add(setup.clock.ns(ticks_after() - before));
                    until_timed = TIMED_EVERY;
                }
                until_timed -= 1;
                sent += 1;
            }
            Ok(SendOutcome::SentLate) => {
                full += 1;
                sent += 1;
            }
            Ok(SendOutcome::Full) => {
                full += 1;
                std::thread::yield_now();
            }
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    SenderResult { sent, full, call_ns, counts: sender.finish(), usage: thread_usage(), failed }
}

fn transmit_all<P: StreamPath>(
    path: &P,
    queue: u16,
    phases: &Phases,
    start: &Barrier,
    setup: StreamSetup<'_>,
) -> (PathCounts, ThreadUsage) {
    if setup.pin {
        pin_current_thread(setup.cpus[usize::from(queue) % setup.cpus.len()]);
    }
    start.wait();
    (path.transmit(queue, &phases.all_sent), thread_usage())
}

/// Takes everything out of the rings of the other end and looks at its first byte; how much that was until the senders
/// were told to stop. Never sleeps; gives up its processor when it finds nothing.
fn receive_all(ports: &[RawPort], phases: &Phases, start: &Barrier, setup: StreamSetup<'_>) -> (u64, ThreadUsage) {
    if setup.pin {
        pin_current_thread(*setup.cpus.last().expect("there is a processor"));
    }
    let (mut received, mut in_time) = (0, None);
    start.wait();
    while !phases.over.load(Ordering::Relaxed) {
        let mut found = 0;
        for port in ports {
            if port.recv() {
                found += port.drain(usize::MAX, |frame| {
                    std::hint::black_box(frame[0]);
                }) as u64;
            }
        }
        received += found;
        if in_time.is_none() && phases.stop.load(Ordering::Relaxed) {
            in_time = Some(received);
        }
        if found == 0 {
            std::thread::yield_now();
        } else {
            phases.received.store(received, Ordering::Relaxed);
        }
    }
    (in_time.unwrap_or(received), thread_usage())
}

/// CPU time so far of the engine's threads that transmit: owners of queues, and softirq, which takes over what others
/// leave.
fn engine_time(pair: &Pair) -> Duration {
    pair.engine.thread_times().iter().map(|thread| thread.cpu).sum()
}

/// Waits until `there` or for a while.
fn wait_until(longest: Duration, mut there: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !there()? && begun.elapsed() < longest {
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
