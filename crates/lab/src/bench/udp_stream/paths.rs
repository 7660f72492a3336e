//! How a datagram gets from a sender's buffer into the transmit ring of its queue.

use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use crossbeam_queue::ArrayQueue;
use napier_core::frames::{HEADER_BYTES, Template};
use napier_runtime::device::LinkConfig;
use napier_runtime::raw::RawPort;
use napier_sys::tsc::ticks;

use super::setup::StreamSetup;
use crate::bench::ticks::TickClock;
use crate::pair::Pair;
use crate::report::{LockWaits, PowerHistogram};

/// Frames that are published together where one thread has several: the weight of a NAPI poll.
const BATCH_MAX: u64 = 64;

/// Places of a queue between senders and a transmit thread. Source: `include/net/pkt_sched.h`, `DEFAULT_TX_QUEUE_LEN`:
/// a queueing discipline holds 1000; rounded up.
const QUEUE_PLACES: usize = 1024;

/// One sender's flow.
#[derive(Clone)]
pub(super) struct StreamFlow {
    /// Which sender.
    pub(super) sender: u32,
    /// Transmit queue of the flow.
    pub(super) queue: u16,
    /// Where it comes from and goes to.
    pub(super) from: SocketAddrV4,
    pub(super) to: SocketAddrV4,
    /// Its headers, for paths that make them themselves.
    pub(super) template: Template,
}

impl StreamFlow {
    /// Builds the whole frame; its length.
    #[inline]
    fn build(&self, frame: &mut [u8], payload: &[u8]) -> usize {
        frame[HEADER_BYTES..HEADER_BYTES + payload.len()].copy_from_slice(payload);
        self.template.complete(frame, payload.len())
    }
}

/// What was counted on a path.
#[derive(Default)]
pub(super) struct PathCounts {
    pub(super) lock_waits: LockWaits,
    /// Packets that one thread handled at once, where a thread has several.
    pub(super) batch: PowerHistogram,
    /// Packets that the path itself dropped, as it may.
    pub(super) dropped: u64,
    /// Transmit calls inside the engine, in ns, if they were measured.
    pub(super) xmit_ns: Option<PowerHistogram>,
    /// The longest of those that flushed, for others as well, in ns; only where senders do that.
    pub(super) stay_max_ns: Option<f64>,
}

impl PathCounts {
    pub(super) fn merge(&mut self, other: &Self) {
        self.lock_waits.merge(&other.lock_waits);
        self.batch.merge(&other.batch);
        self.dropped += other.dropped;
        if let Some(other) = &other.xmit_ns {
            self.xmit_ns.get_or_insert_default().merge(other);
        }
        self.stay_max_ns = match (self.stay_max_ns, other.stay_max_ns) {
            (Some(one), Some(two)) => Some(one.max(two)),
            (one, two) => one.or(two),
        };
    }
}

/// What became of a datagram.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum SendOutcome {
    /// It is the path's now.
    Sent,
    /// It is the path's now, after the sender has slept for room.
    SentLate,
    /// There was no room; nothing has happened.
    Full,
}

/// A sender's end of a path.
pub(super) trait Sender: Send {
    /// Sends one datagram if there is room, and may sleep until there is. It may wait for a lock.
    ///
    /// # Errors
    /// What no sender expects.
    fn send(&mut self, payload: &[u8]) -> anyhow::Result<SendOutcome>;

    /// What was counted.
    fn finish(self) -> PathCounts;
}

/// A way to the transmit rings, shared by all threads of a run.
pub(super) trait StreamPath: Sync + Sized {
    /// Whether each queue has a thread that only transmits.
    const TRANSMITTERS: bool = false;
    /// Whether sender n has queue n to itself, instead of the one that its flow leads to.
    const OWN_QUEUES: bool = false;

    /// From the end under test, of whose queues there is a raw port each.
    ///
    /// # Errors
    /// The engine refuses what `setup` asks for.
    fn open(pair: &Pair, ports: Vec<RawPort>, setup: StreamSetup<'_>) -> anyhow::Result<Self>;

    /// The end of one sender.
    ///
    /// # Errors
    /// The engine refuses a socket.
    fn sender(&self, pair: &Pair, flow: StreamFlow) -> anyhow::Result<impl Sender + '_>;

    /// The work of the thread that transmits for `queue`, until all has been sent and `over` is set.
    fn transmit(&self, _queue: u16, _over: &AtomicBool) -> PathCounts {
        unreachable!("asked of paths that have transmitters")
    }

    /// What the path counted as a whole, so far.
    ///
    /// # Errors
    /// The engine's counters cannot be read.
    fn counts(&self, _pair: &Pair) -> anyhow::Result<PathCounts> {
        Ok(PathCounts::default())
    }
}

/// A mutex round each transmit ring: its holder builds its packet there and sends it.
pub(super) struct MutexPath {
    ports: Vec<Mutex<RawPort>>,
    clock: TickClock,
}

struct MutexSender<'a> {
    port: &'a Mutex<RawPort>,
    flow: StreamFlow,
    clock: TickClock,
    lock_waits: LockWaits,
}

impl StreamPath for MutexPath {
    fn open(_pair: &Pair, ports: Vec<RawPort>, setup: StreamSetup<'_>) -> anyhow::Result<Self> {
        Ok(Self { ports: ports.into_iter().map(Mutex::new).collect(), clock: setup.clock })
    }

    fn sender(&self, _pair: &Pair, flow: StreamFlow) -> anyhow::Result<impl Sender + '_> {
        let port = &self.ports[usize::from(flow.queue)];
        Ok(MutexSender { port, flow, clock: self.clock, lock_waits: LockWaits::default() })
    }
}

impl Sender for MutexSender<'_> {
    #[inline]
    fn send(&mut self, payload: &[u8]) -> anyhow::Result<SendOutcome> {
        let port = lock(self.port, self.clock, &mut self.lock_waits);
        if port.build(HEADER_BYTES + payload.len(), |frame| self.flow.build(frame, payload)).is_err() {
            return Ok(SendOutcome::Full);
        }
        port.flush();
        Ok(SendOutcome::Sent)
    }

    fn finish(self) -> PathCounts {
        PathCounts { lock_waits: self.lock_waits, ..PathCounts::default() }
    }
}

/// Takes a lock, and counts the time if it was not free.
#[inline]
fn lock<'a, T>(mutex: &'a Mutex<T>, clock: TickClock, waits: &mut LockWaits) -> MutexGuard<'a, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::WouldBlock) => {
            let before = ticks();
            let guard = mutex.lock().expect("no panic while held");
            waits.add(clock.ns(ticks() - before));
            guard
        }
        Err(TryLockError::Poisoned(_)) => panic!("no panic while held"),
    }
}

/// A bounded lock-free queue to a thread that transmits. Senders build packets in buffers of their own, which come back.
pub(super) struct QueuePath {
    queues: Vec<ArrayQueue<StreamPacket>>,
    returned: Vec<ArrayQueue<Box<[u8]>>>,
    ports: Vec<Mutex<RawPort>>,
}

struct StreamPacket {
    bytes: Box<[u8]>,
    length: usize,
    sender: u32,
}

struct QueueSender<'a> {
    path: &'a QueuePath,
    flow: StreamFlow,
}

impl StreamPath for QueuePath {
    const TRANSMITTERS: bool = true;

    fn open(_pair: &Pair, ports: Vec<RawPort>, setup: StreamSetup<'_>) -> anyhow::Result<Self> {
        // As many as the engine gives a sender with a discipline.
        let window = LinkConfig::default().sender_frames as usize;
        let own = || {
            let free = ArrayQueue::new(window);
            while free.push(vec![0; HEADER_BYTES + setup.payload_bytes].into()).is_ok() {}
            free
        };
        Ok(Self {
            queues: ports.iter().map(|_| ArrayQueue::new(QUEUE_PLACES)).collect(),
            returned: (0..setup.senders).map(|_| own()).collect(),
            ports: ports.into_iter().map(Mutex::new).collect(),
        })
    }

    fn sender(&self, _pair: &Pair, flow: StreamFlow) -> anyhow::Result<impl Sender + '_> {
        Ok(QueueSender { path: self, flow })
    }

    fn transmit(&self, queue: u16, over: &AtomicBool) -> PathCounts {
        let port = self.ports[usize::from(queue)].lock().expect("no panic while held");
        let queue = &self.queues[usize::from(queue)];
        let mut counts = PathCounts::default();
        loop {
            // Acquire: pairs with the Release of whoever set it: what was sent before is in the queue.
            let last_look = over.load(Ordering::Acquire);
            let mut sent = 0;
            while sent < BATCH_MAX
                && let Some(StreamPacket { bytes, length, sender }) = queue.pop()
            {
                while port.build(length, |frame| copy(&bytes[..length], frame)).is_err() {
                    port.flush();
                    std::thread::yield_now();
                }
                sent += 1;
                self.returned[sender as usize].push(bytes).expect("each buffer has its place");
            }
            if sent > 0 {
                port.flush();
                counts.batch.add(sent);
            } else if last_look {
                return counts;
            } else {
                std::thread::yield_now();
            }
        }
    }
}

#[inline]
fn copy(bytes: &[u8], frame: &mut [u8]) -> usize {
    frame[..bytes.len()].copy_from_slice(bytes);
    bytes.len()
}

impl Sender for QueueSender<'_> {
    #[inline]
    fn send(&mut self, payload: &[u8]) -> anyhow::Result<SendOutcome> {
        let returned = &self.path.returned[self.flow.sender as usize];
        let queue = &self.path.queues[usize::from(self.flow.queue)];
        // A hint is enough: who finds no place below gives the buffer back.
        if queue.is_full() {
            return Ok(SendOutcome::Full);
        }
        let Some(mut bytes) = returned.pop() else { return Ok(SendOutcome::Full) };
        let length = self.flow.build(&mut bytes, payload);
        match queue.push(StreamPacket { bytes, length, sender: self.flow.sender }) {
            Ok(()) => Ok(SendOutcome::Sent),
            Err(back) => {
                returned.push(back.bytes).expect("each buffer has its place");
                Ok(SendOutcome::Full)
            }
        }
    }

    fn finish(self) -> PathCounts {
        PathCounts::default()
    }
}

/// No hand-over at all: each queue has one sender, which publishes a batch at a time. What the link itself can do.
pub(super) struct AlonePath(Vec<Mutex<Option<RawPort>>>);

struct AloneSender {
    port: RawPort,
    flow: StreamFlow,
    built: u64,
    counts: PathCounts,
}

impl StreamPath for AlonePath {
    const OWN_QUEUES: bool = true;

    fn open(_pair: &Pair, ports: Vec<RawPort>, _setup: StreamSetup<'_>) -> anyhow::Result<Self> {
        Ok(Self(ports.into_iter().map(|port| Mutex::new(Some(port))).collect()))
    }

    fn sender(&self, _pair: &Pair, flow: StreamFlow) -> anyhow::Result<impl Sender + '_> {
        let port = self.0[usize::from(flow.queue)].lock().expect("no panic while held").take();
        Ok(AloneSender { port: port.expect("one sender per queue"), flow, built: 0, counts: PathCounts::default() })
    }
}

impl AloneSender {
    #[inline]
    fn flush(&mut self) {
        if self.built > 0 {
            self.port.flush();
            self.counts.batch.add(self.built);
            self.built = 0;
        }
    }
}

impl Sender for AloneSender {
    #[inline]
    fn send(&mut self, payload: &[u8]) -> anyhow::Result<SendOutcome> {
        if self.port.build(HEADER_BYTES + payload.len(), |frame| self.flow.build(frame, payload)).is_err() {
            self.flush();
            return Ok(SendOutcome::Full);
        }
        self.built += 1;
        if self.built == BATCH_MAX {
            self.flush();
        }
        Ok(SendOutcome::Sent)
    }

    fn finish(mut self) -> PathCounts {
        self.flush();
        self.counts
    }
}
