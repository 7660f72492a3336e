//! The shared half of a socket that listens: who waits to be accepted, and how many may.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napier_core::sockopt::{SocketBusy, record_napi_id};
use napier_core::time::Instant;
use smoltcp::wire::{IpEndpoint, IpListenEndpoint};

use super::super::addr::End;
use super::super::builder::ReusePort;
use super::super::counters::Counter;
use super::super::demux::Member;
use super::super::netns::Inner;
use super::super::options;
use super::super::send::Target;
use super::super::wire::Segment;
use super::Tcp;
use super::conn::{Buffers, Conn};
use super::flows::Flow;
use super::outlet::Route;
use super::rules::Cause;
use crate::event::{Interest, Source, Watched};
use crate::park::Parker;

/// What a listener is made with.
#[derive(Copy, Clone, Debug)]
pub(super) struct Limits {
    /// Connections that may wait to be accepted; one more than this fits, as in the kernel (`sk_acceptq_is_full`).
    pub(super) backlog: usize,
    /// Handshakes that may be under way.
    pub(super) syns: usize,
    pub(super) buffers: Buffers,
}

/// What the tables, the connections and the handle of one listener share.
pub(crate) struct ListenerInner {
    pub(super) local: End,
    pub(super) reuse: ReusePort,
    limits: Limits,
    /// The recorded NAPI id, valid or not.
    napi_id: AtomicU32,
    queue: Mutex<VecDeque<Arc<Conn>>>,
    /// Length of the queue.
    waiting: AtomicUsize,
    embryos: AtomicUsize,
    closed: AtomicBool,
    pub(super) nonblocking: AtomicBool,
    /// The busy-poll settings, all but the id; connections inherit them.
    pub(super) busy: AtomicU64,
    pub(super) parker: Parker,
    pub(super) source: Source,
}

impl ListenerInner {
    pub(super) fn new(local: End, reuse: ReusePort, limits: Limits, busy: &SocketBusy) -> Self {
        Self {
            local,
            reuse,
            limits,
            napi_id: AtomicU32::new(0),
            queue: Mutex::new(VecDeque::new()),
            waiting: AtomicUsize::new(0),
            embryos: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            nonblocking: AtomicBool::new(false),
            busy: AtomicU64::new(options::pack(busy)),
            parker: Parker::new(),
            source: Source::new(),
        }
    }

    /// Whether no more connections may wait to be accepted.
    pub(super) fn is_full(&self) -> bool {
        // Relaxed: a limit, not a hand-over; instances that look at the same time may exceed it by one each.
        self.waiting.load(Ordering::Relaxed) > self.limits.backlog
    }

    pub(super) fn has_waiting(&self) -> bool {
        // Acquire: pairs with the Release in `established`; the queue itself is behind its lock.
        self.waiting.load(Ordering::Acquire) > 0
    }

    pub(super) fn embryo_gone(&self) {
        self.embryos.fetch_sub(1, Ordering::Relaxed);
    }

    /// A SYN that no connection wants.
    #[cold]
    pub(super) fn open(self: &Arc<Self>, arrival: &Arrival<'_>, segment: &Segment, packet: &[u8]) {
        let Arrival { ns, tcp, napi_id, ifindex, now } = *arrival;
        let full = self.is_full();
        if full || self.embryos.load(Ordering::Relaxed) >= self.limits.syns {
            if full {
                ns.counters.count(Counter::ListenOverflows);
            }
            return ns.counters.count(Counter::ListenDrops);
        }
        // Relaxed: the id is a hint that orders nothing.
        let current = self.napi_id.load(Ordering::Relaxed);
        self.napi_id.store(record_napi_id(current, napi_id, false), Ordering::Relaxed);
        let flow = Flow { local: segment.dst, peer: segment.src };
        let scope = if flow.peer.addr.is_link_local_v6() { ifindex } else { 0 };
        let route = Route::new(ns, flow.local, Target { dst: flow.peer, scope });
        let busy = SocketBusy { napi_id, ..options::unpack(self.busy.load(Ordering::Relaxed)) };
        let conn = Arc::new(Conn::new(ns, flow, route, self.limits.buffers, &busy));
        self.embryos.fetch_add(1, Ordering::Relaxed);
        let mut core = conn.lock();
        core.adopt(self.clone());
        let local: IpEndpoint = (flow.local.addr.ip(), flow.local.port).into();
        core.socket().listen(IpListenEndpoint::from(local)).expect("a new socket may listen, and the port is not 0");
        // Under the connection's lock: the answer to our answer may come before we are done.
        let alone = tcp.flows.insert(&conn);
        if alone {
            core.open(ns, now, packet, tcp.secret(&flow, now));
        } else {
            core.dead = true;
        }
        let news = conn.settle(ns, &mut core, now, Cause::Segment);
        drop(core);
        conn.tell(ns, news);
    }

    /// A handshake is complete.
    pub(super) fn established(&self, ns: &Inner, conn: &Arc<Conn>) {
        let mut queue = self.queue();
        // Relaxed: written under the queue's lock.
        if self.closed.load(Ordering::Relaxed) {
            drop(queue);
            return conn.reset(ns);
        }
        queue.push_back(conn.clone());
        // Release: pairs with the Acquire in `has_waiting`.
        self.waiting.store(queue.len(), Ordering::Release);
        drop(queue);
        self.source.notify(self.napi_id.load(Ordering::Relaxed), Interest::IN);
        self.parker.wake();
    }

    pub(super) fn accept(&self) -> Option<Arc<Conn>> {
        let mut queue = self.queue();
        let conn = queue.pop_front();
        self.waiting.store(queue.len(), Ordering::Release);
        conn
    }

    /// Nobody will accept any more: who waits is reset.
    pub(super) fn close(&self, ns: &Inner) {
        self.source.close();
        let mut queue = self.queue();
        self.closed.store(true, Ordering::Relaxed);
        let waiting = std::mem::take(&mut *queue);
        self.waiting.store(0, Ordering::Release);
        drop(queue);
        for conn in waiting {
            conn.reset(ns);
        }
    }

    pub(super) fn busy(&self) -> SocketBusy {
        // Relaxed: the settings order nothing, nor does the id.
        let napi_id = self.napi_id.load(Ordering::Relaxed);
        SocketBusy { napi_id, ..options::unpack(self.busy.load(Ordering::Relaxed)) }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Arc<Conn>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where and when a segment came in.
#[derive(Copy, Clone)]
pub(super) struct Arrival<'a> {
    pub(super) ns: &'a Inner,
    pub(super) tcp: &'a Tcp,
    pub(super) napi_id: u32,
    pub(super) ifindex: u32,
    pub(super) now: Instant,
}

impl Member for ListenerInner {
    fn recorded_napi(&self) -> &AtomicU32 {
        &self.napi_id
    }
}

impl Watched for ListenerInner {
    fn source(&self) -> &Source {
        &self.source
    }

    fn ready(&self) -> Interest {
        if self.has_waiting() { Interest::IN } else { Interest::NONE }
    }

    fn napi_id(&self) -> u32 {
        // Relaxed: the id is a hint that orders nothing.
        self.napi_id.load(Ordering::Relaxed)
    }
}
