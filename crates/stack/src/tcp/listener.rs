//! The shared half of a socket that listens: who waits to be accepted, and how many may.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napier_core::sockopt::{SocketBusy, record_napi_id};
use napier_ring::Inbox;
use smoltcp::wire::{IpEndpoint, IpListenEndpoint};

use super::super::addr::End;
use super::super::builder::ReusePort;
use super::super::counters::Counter;
use super::super::demux::Member;
use super::super::netns::Inner;
use super::super::options;
use super::super::send::Target;
use super::super::stop::STOPPED;
use super::Tcp;
use super::conn::{Arrived, Conn};
use super::flows::Flow;
use super::limits::{Kind, Line};
use super::outlet::Route;
use super::rules::Cause;
use super::settings::Settings;
use crate::event::{Interest, Source, Watched};
use crate::park::Parker;

/// What a listener is made with.
#[derive(Copy, Clone, Debug)]
pub(super) struct Limits {
    /// Connections that may wait to be accepted; one more than this fits, as in the kernel (`sk_acceptq_is_full`).
    pub(super) backlog: usize,
    /// Handshakes that may be under way.
    pub(super) syns: usize,
    /// Of the connections; they inherit it.
    pub(super) settings: Settings,
}

/// What the tables, the connections and the handle of one listener share.
pub(crate) struct ListenerInner {
    pub(super) local: End,
    pub(super) reuse: ReusePort,
    limits: Limits,
    /// The recorded NAPI id, valid or not.
    napi_id: AtomicU32,
    /// Connections that nobody has accepted, as they became established: softirqs leave them here and go on.
    ready: Inbox<Arc<Conn>>,
    /// The same, taken over by programs that accept, which alone wait for each other.
    queue: Mutex<VecDeque<Arc<Conn>>>,
    /// How many there are in both; less for the moment between a push and its count.
    waiting: AtomicIsize,
    embryos: Line,
    closed: AtomicBool,
    /// The engine has stopped.
    pub(super) stopped: AtomicBool,
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
            ready: Inbox::new(),
            queue: Mutex::new(VecDeque::new()),
            waiting: AtomicIsize::new(0),
            embryos: Line::default(),
            closed: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            nonblocking: AtomicBool::new(false),
            busy: AtomicU64::new(options::pack(busy)),
            parker: Parker::new(),
            source: Source::new(),
        }
    }

    /// Whether no more connections may wait to be accepted.
    pub(super) fn is_full(&self) -> bool {
        // Relaxed: a limit, not a hand-over; instances that look at the same time may exceed it by one each.
        self.waiting.load(Ordering::Relaxed) > self.limits.backlog.cast_signed()
    }

    pub(super) fn has_waiting(&self) -> bool {
        // Acquire: pairs with the Release in `established`.
        self.waiting.load(Ordering::Acquire) > 0
    }

    pub(super) fn embryo_gone(&self) {
        self.embryos.uncounted();
    }

    /// A SYN that no connection wants.
    #[cold]
    pub(super) fn open(self: &Arc<Self>, ns: &Inner, tcp: &Tcp, arrived: &Arrived<'_>) {
        let Arrived { napi_id, ifindex, now, segment, packet } = *arrived;
        if self.is_full() {
            ns.counters.count(Counter::ListenOverflows);
            return ns.counters.count(Counter::ListenDrops);
        }
        // A flood must not keep others out: who has not answered for longest goes.
        if self.embryos.count() >= self.limits.syns && !self.embryos.end_oldest(ns, Kind::Embryo) {
            return ns.counters.count(Counter::ListenDrops);
        }
        // Relaxed: the id is a hint that orders nothing.
        let current = self.napi_id.load(Ordering::Relaxed);
        self.napi_id.store(record_napi_id(current, napi_id, false), Ordering::Relaxed);
        let flow = Flow { local: segment.dst, peer: segment.src };
        let scope = if flow.peer.addr.is_link_local_v6() { ifindex } else { 0 };
        let route = Route::new(ns, flow.local, Target { dst: flow.peer, scope });
        let busy = SocketBusy { napi_id, ..options::unpack(self.busy.load(Ordering::Relaxed)) };
        let conn = Arc::new(Conn::new(flow, route, self.limits.settings.buffers, &busy));
        self.embryos.counted();
        let mut core = conn.try_own(ns).expect("nobody knows it yet");
        core.adopt(self.clone(), self.limits.settings.patience);
        core.set_congestion(self.limits.settings.congestion);
        let local: IpEndpoint = (flow.local.addr.ip(), flow.local.port).into();
        core.socket_mut()
            .listen(IpListenEndpoint::from(local))
            .expect("a new socket may listen, and the port is not 0");
        // With the connection in hand: the answer to our answer may come before we are done.
        let alone = tcp.flows.insert(&conn);
        if alone {
            core.open(ns, now, packet, tcp.secret(&flow, now));
        } else {
            core.dead = true;
        }
        core.settle(now, Cause::Segment);
        drop(core);
        self.embryos.enter(&conn, Kind::Embryo);
    }

    /// A handshake is complete.
    pub(super) fn established(&self, ns: &Inner, conn: &Arc<Conn>) {
        // Before it is counted: whoever is told of it finds it.
        self.ready.push(conn.clone());
        // Release: pairs with the Acquire in `has_waiting`.
        self.waiting.fetch_add(1, Ordering::Release);
        // Relaxed: if `close` has taken the list before our push, the push shows what it wrote (`Inbox::push`).
        if self.closed.load(Ordering::Relaxed) {
            return self.reset_all(ns, self.ready.take());
        }
        self.source.notify(self.napi_id.load(Ordering::Relaxed), Interest::IN);
        self.parker.wake();
    }

    pub(super) fn accept(&self) -> Option<Arc<Conn>> {
        let mut queue = self.queue();
        queue.extend(self.ready.take_any());
        let conn = queue.pop_front()?;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(conn)
    }

    #[cfg(test)]
    pub(super) fn first_waiting(&self) -> Option<Arc<Conn>> {
        let mut queue = self.queue();
        queue.extend(self.ready.take());
        queue.front().cloned()
    }

    /// Nobody will accept any more: who waits is reset.
    pub(super) fn close(&self, ns: &Inner) {
        self.source.close();
        self.closed.store(true, Ordering::Relaxed);
        let accepted = std::mem::take(&mut *self.queue());
        self.reset_all(ns, accepted.into_iter().chain(self.ready.take()));
    }

    fn reset_all(&self, ns: &Inner, waiting: impl Iterator<Item = Arc<Conn>>) {
        for conn in waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
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
        let ready = if self.has_waiting() { Interest::IN } else { Interest::NONE };
        if self.is_stopped() { ready | STOPPED } else { ready }
    }

    fn napi_id(&self) -> u32 {
        // Relaxed: the id is a hint that orders nothing.
        self.napi_id.load(Ordering::Relaxed)
    }
}
