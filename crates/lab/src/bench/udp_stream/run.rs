//! One run: senders, transmit threads if the path has them, and the receiver at the other end.

use std::net::SocketAddrV4;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use napier_runtime::{LinkConfig, RawBusyPoll, RawPort, ThreadUsage, thread_usage, ticks, ticks_after};

use super::paths::{Flow, Path, PathCounts, Sender};
use crate::bench::pin::pin_to;
use crate::bench::rtt::{FRAME_BYTES, write_stamped};
use crate::bench::ticks::{TIMED_EVERY, TickClock};
use crate::compare::Template;
use crate::pair::{PEER_IP, Pair, TESTED_IP};
use crate::report::{CpuTimes, LockWaits, PowerHistogram};

/// Port of the first sender; the others follow.
const FIRST_PORT: u16 = 10_000;

/// Where all datagrams go.
const SINK_PORT: u16 = 9001;

/// Packets per poll of the receiver.
const RECEIVE_BUDGET: u16 = 64;

/// How long the first packet of a queue may take.
const FIRST_PACKET_MAX: Duration = Duration::from_secs(5);

/// What all threads of a run are told.
#[derive(Copy, Clone)]
pub(super) struct Setup<'a> {
    pub(super) senders: u32,
    pub(super) queues: u16,
    pub(super) payload_bytes: usize,
    pub(super) length: Duration,
    pub(super) cpus: &'a [usize],
    /// Keep threads on one processor each: senders and transmitters in turn, the receiver on the last.
    pub(super) pin: bool,
    pub(super) clock: TickClock,
}

/// What came of a run.
#[derive(Default)]
pub(super) struct Run {
    /// Packets that came to the other end before the senders were told to stop.
    pub(super) packets: u64,
    /// Packets that were sent and never came.
    pub(super) lost: u64,
    pub(super) wall: Duration,
    /// Time in the timed calls, ns.
    pub(super) call_ns: PowerHistogram,
    pub(super) lock_waits: LockWaits,
    pub(super) batch: PowerHistogram,
    pub(super) cpu: CpuTimes,
}

/// How far the run has got. Each flag is set after those before it have had their effect.
#[derive(Default)]
struct Phases {
    /// Senders stop.
    stop: AtomicBool,
    /// No sender runs any more.
    all_sent: AtomicBool,
    /// Nothing is on its way to the rings any more.
    all_transmitted: AtomicBool,
}

/// Runs one path.
pub(super) fn run<P: Path>(setup: Setup<'_>) -> anyhow::Result<Run> {
    let link = LinkConfig { queues: setup.queues, ..LinkConfig::default() };
    let pair = Pair::new(&link, setup.cpus, setup.cpus)?;
    pair.never_interrupt(&pair.peer)?;
    let bind = |device| (0..setup.queues).map(|queue| RawPort::bind(device, queue)).collect::<Result<Vec<_>, _>>();
    let (sending, receiving) = (bind(&pair.tested)?, bind(&pair.peer)?);
    take_over(&sending, &receiving)?;
    let path = P::new(sending, setup.senders, setup.payload_bytes, setup.clock);
    let phases = Phases::default();
    let transmitters = if P::TRANSMITTERS { setup.queues } else { 0 };
    let start = Barrier::new(setup.senders as usize + usize::from(transmitters) + 2);
    std::thread::scope(|scope| {
        let (path, phases, start) = (&path, &phases, &start);
        let senders: Vec<_> = (0..setup.senders)
            .map(|me| {
                let flow = flow::<P>(&pair, me);
                scope.spawn(move || send_all(path.sender(flow), me, phases, start, setup))
            })
            .collect();
        let transmitters: Vec<_> = (0..transmitters)
            .map(|queue| scope.spawn(move || transmit_all(path, queue, phases, start, setup)))
            .collect();
        let receiver = scope.spawn(move || receive_all(&receiving, phases, start, setup));
        start.wait();
        let started = Instant::now();
        std::thread::sleep(setup.length);
        phases.stop.store(true, Ordering::Relaxed);
        let mut run = Run { wall: started.elapsed(), ..Run::default() };
        let mut sent = 0;
        for sender in senders {
            let own = sender.join().expect("a sender does not panic");
            sent += own.sent;
            run.call_ns.merge(&own.call_ns);
            run.cpu.add_sender(own.usage);
            run.add(&own.counts);
        }
        phases.all_sent.store(true, Ordering::Release);
        for transmitter in transmitters {
            let (counts, usage) = transmitter.join().expect("a transmit thread does not panic");
            run.cpu.add_transmitter(usage);
            run.add(&counts);
        }
        phases.all_transmitted.store(true, Ordering::Release);
        let received = receiver.join().expect("the receiver does not panic");
        run.cpu.add_receiver(received.usage);
        run.packets = received.in_time;
        run.lost = sent - received.all;
        Ok(run)
    })
}

/// Makes the receiver the one that polls: the first packet of a queue comes by interrupt, and from then on deferral keeps
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

impl Run {
    fn add(&mut self, counts: &PathCounts) {
        self.lock_waits.merge(&counts.lock_waits);
        self.batch.merge(&counts.batch);
    }
}

/// The flow of a sender. Receive-side scaling of the other end decides on the queue, as it does for a socket.
fn flow<P: Path>(pair: &Pair, sender: u32) -> Flow {
    let port = FIRST_PORT + u16::try_from(sender).expect("senders are few");
    let (from, to) = (SocketAddrV4::new(TESTED_IP, port), SocketAddrV4::new(PEER_IP, SINK_PORT));
    let queue = if P::OWN_QUEUES { sender as u16 } else { pair.peer.rx_queue_of(from.into(), to.into()) };
    Flow { sender, queue, template: Template::new(pair.tested.mac(), pair.peer.mac(), from, to) }
}

struct Sent {
    sent: u64,
    call_ns: PowerHistogram,
    counts: PathCounts,
    usage: ThreadUsage,
}

fn send_all(mut sender: impl Sender, me: u32, phases: &Phases, start: &Barrier, setup: Setup<'_>) -> Sent {
    if setup.pin {
        pin_to(setup.cpus[me as usize % setup.cpus.len()]);
    }
    let payload = vec![7; setup.payload_bytes];
    let (mut sent, mut call_ns) = (0, PowerHistogram::default());
    let mut until_timed = me % TIMED_EVERY;
    start.wait();
    while !phases.stop.load(Ordering::Relaxed) {
        let done = if until_timed == 0 {
            until_timed = TIMED_EVERY;
            let before = ticks();
            let done = sender.send(&payload, &phases.stop);
            call_ns.add(setup.clock.ns(ticks_after() - before));
            done
        } else {
            sender.send(&payload, &phases.stop)
        };
        until_timed -= 1;
        sent += u64::from(done);
    }
    Sent { sent, call_ns, counts: sender.finish(), usage: thread_usage() }
}

fn transmit_all<P: Path>(
    path: &P,
    queue: u16,
    phases: &Phases,
    start: &Barrier,
    setup: Setup<'_>,
) -> (PathCounts, ThreadUsage) {
    if setup.pin {
        pin_to(setup.cpus[usize::from(queue) % setup.cpus.len()]);
    }
    start.wait();
    (path.transmit(queue, &phases.all_sent), thread_usage())
}

struct Received {
    in_time: u64,
    all: u64,
    usage: ThreadUsage,
}

/// Takes everything out of the rings of the other end and looks at its first byte. Never sleeps; gives up its processor
/// when it finds nothing.
fn receive_all(ports: &[RawPort], phases: &Phases, start: &Barrier, setup: Setup<'_>) -> Received {
    if setup.pin {
        pin_to(*setup.cpus.last().expect("there is a processor"));
    }
    let (mut all, mut in_time) = (0, None);
    start.wait();
    loop {
        // Acquire: pairs with the Release in `run`: what was transmitted before is found below.
        let last_look = phases.all_transmitted.load(Ordering::Acquire);
        let mut found = 0;
        for port in ports {
            if port.recv() {
                found += port.drain(usize::MAX, |frame| {
                    std::hint::black_box(frame[0]);
                }) as u64;
            }
        }
        all += found;
        if in_time.is_none() && phases.stop.load(Ordering::Relaxed) {
            in_time = Some(all);
        }
        if found == 0 {
            if last_look {
                return Received { in_time: in_time.unwrap_or(all), all, usage: thread_usage() };
            }
            std::thread::yield_now();
        }
    }
}
