//! A connection: smoltcp's socket, what smoltcp does not do for it, and who is told.
//!
//! Whoever has something for a connection (a received segment, a program's call, the timer) takes its lock, lets smoltcp
//! work, sends, and *settles*: what changed is counted, the conditions that hold are published, the next deadline is
//! put into the wheel. Programs and event contexts are told after the lock is left, from a [`News`].
//!
//! Lock order: a connection, then the name space's writers or the wheel. Nobody takes a connection while holding another.

mod guarded;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use napier_core::sockopt::{SocketBusy, record_napi_id};
use napier_core::time::{Deadline, Instant, Span};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};

use super::super::counters::Counter;
use super::super::netns::Inner;
use super::super::options;
use super::super::wire::flag;
use super::flows::Flow;
use super::listener::ListenerInner;
use super::outlet::{Outlet, Route};
use super::rules::{self, Cause, KeepAlive};
use super::wheel::NOT_QUEUED;
use super::workspace::smol_span;
use crate::event::{Interest, Source, Watched};
use crate::park::Parker;
use crate::sys::prefetch::prefetch;

/// When a segment that could not leave is tried again, if nothing else comes before.
const STUCK_RETRY: Span = Span { ns: 1_000_000 };
/// When a FIN is sent again whose timer smoltcp has lost (see `Core::remind`). Source: `include/net/tcp.h TCP_RTO_MIN`.
const FORGOTTEN_RETRY: Span = Span { ns: 200_000_000 };
/// How long an acknowledgement may wait for data that takes it along. Source: `include/net/tcp.h TCP_DELACK_MIN`.
const ACK_DELAY: Span = Span { ns: 40_000_000 };

/// Where the memory of a connection is, known without a look at it: reading an address from one line before the next can
/// be asked for is what takes the time. Addresses only, which keep nothing alive.
#[derive(Copy, Clone)]
pub(super) struct Memory {
    conn_at: usize,
    socket_at: usize,
    send_at: usize,
}

impl Memory {
    /// Asks for the connection, its socket, and the line of the send buffer where data begins that finds it empty.
    #[inline]
    pub(super) fn fetch(&self) {
        prefetch(self.conn_at, size_of::<Conn>());
        prefetch(self.socket_at, size_of::<Socket<'_>>());
        prefetch(self.send_at, 1);
    }
}

/// Sizes of a connection's buffers, in bytes.
#[derive(Copy, Clone, Debug)]
pub(super) struct Buffers {
    pub(super) receive: usize,
    pub(super) send: usize,
}

/// What the tables, the timer and the handles of one connection share.
#[repr(C, align(64))]
pub(crate) struct Conn {
    pub(super) flow: Flow,
    /// Where smoltcp's socket lies, for `Memory` alone; it never moves.
    socket_at: usize,
    /// Where the send buffer begins, likewise.
    send_at: usize,
    /// Where the next byte received goes, for `fetch_buffer` alone.
    receive_at: AtomicUsize,
    /// The conditions that hold; written with the lock held.
    ready: AtomicU32,
    /// The recorded NAPI id, valid or not.
    napi_id: AtomicU32,
    core: Mutex<Core>,
    /// Wakes who waits to read, and to write or connect.
    pub(super) reader: Parker,
    pub(super) writer: Parker,
    pub(super) source: Source,
    pub(super) nonblocking: AtomicBool,
    /// 0: none.
    pub(super) read_timeout_ns: AtomicU64,
    pub(super) write_timeout_ns: AtomicU64,
    /// The busy-poll settings, all but the id.
    pub(super) busy: AtomicU64,
}

/// What the lock guards.
pub(super) struct Core {
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    pub(super) outlet: Outlet,
    /// State at the end of the last settling.
    state: State,
    /// smoltcp is not asked any more.
    pub(super) dead: bool,
    /// Out of the tables, or about to be.
    released: bool,
    /// The listener, until the connection is established.
    embryo: Option<Arc<ListenerInner>>,
    /// No handle is left.
    pub(super) orphan: bool,
    fin: bool,
    pub(super) read_shut: bool,
    pub(super) write_shut: bool,
    pub(super) error: i32,
    pub(super) reset_on_close: bool,
    pub(super) nagle: bool,
    pub(super) keep: Option<KeepAlive>,
    heard: Instant,
    /// Since when an answer is wanted.
    asked: Option<Instant>,
    /// When the wheel has to call.
    deadline: Deadline,
    /// Place in the wheel.
    queued: u64,
    /// Bytes read since a segment left, which told the peer of the window.
    pub(super) read_since_sent: usize,
    /// Place of the next byte in the receive buffer.
    received: usize,
}

/// Whom to tell of what, once the lock is left.
#[derive(Default)]
#[must_use]
pub(super) struct News {
    told: Interest,
    established: Option<Arc<ListenerInner>>,
    time_wait: bool,
    dead: bool,
}

/// What came of a segment.
pub(super) enum Input {
    Taken,
    /// A SYN for a connection that only waits out its end: it is gone now, and the SYN may begin another.
    Reopen,
}

impl Conn {
    pub(super) fn new(ns: &Inner, flow: Flow, route: Route, buffers: Buffers, busy: &SocketBusy) -> Self {
        let (receive, send) = (vec![0; buffers.receive], vec![0; buffers.send]);
        let (receive_at, send_at) = (receive.as_ptr().addr(), send.as_ptr().addr());
        let mut socket = Socket::new(SocketBuffer::new(receive), SocketBuffer::new(send));
        socket.set_ack_delay(Some(smol_span(ACK_DELAY)));
        let mut sockets = SocketSet::new(Vec::with_capacity(1));
        let handle = sockets.add(socket);
        let socket_at = std::ptr::from_ref(sockets.get::<Socket<'_>>(handle)).addr();
        let core = Core {
            sockets,
            handle,
            outlet: Outlet::new(route),
            state: State::Closed,
            dead: false,
            released: false,
            embryo: None,
            orphan: false,
            fin: false,
            read_shut: false,
            write_shut: false,
            error: 0,
            reset_on_close: false,
            nagle: true,
            keep: None,
            heard: ns.host.clock().now(),
            asked: None,
            deadline: Deadline::NEVER,
            queued: NOT_QUEUED,
            read_since_sent: 0,
            received: 0,
        };
        Self {
            flow,
            socket_at,
            receive_at: AtomicUsize::new(receive_at),
            send_at,
            ready: AtomicU32::new(0),
            napi_id: AtomicU32::new(busy.napi_id),
            core: Mutex::new(core),
            reader: Parker::new(),
            writer: Parker::new(),
            source: Source::new(),
            nonblocking: AtomicBool::new(false),
            read_timeout_ns: AtomicU64::new(0),
            write_timeout_ns: AtomicU64::new(0),
            busy: AtomicU64::new(options::pack(busy)),
        }
    }

    /// Where the connection's memory is.
    pub(super) fn memory(self: &Arc<Self>) -> Memory {
        let Self { socket_at, send_at, .. } = **self;
        Memory { conn_at: Arc::as_ptr(self).addr(), socket_at, send_at }
    }

    /// Asks for the connection itself, without a look at it.
    #[inline]
    pub(super) fn fetch(self: &Arc<Self>) {
        prefetch(Arc::as_ptr(self).addr(), size_of::<Self>());
    }

    /// Asks for the line of the receive buffer that the next segment will touch.
    #[inline]
    pub(super) fn fetch_buffer(&self) {
        // Relaxed: a hint.
        prefetch(self.receive_at.load(Ordering::Relaxed), 1);
    }

    /// A panic of smoltcp is caught inside, and our own leave nothing half done that another holder would trip over.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(super) fn is_ready(&self, any_of: Interest) -> bool {
        // Acquire: pairs with the Release in `publish_ready`.
        Interest::from_bits(self.ready.load(Ordering::Acquire)).intersects(any_of)
    }

    /// The busy-poll settings with the id that is recorded now.
    pub(super) fn busy(&self) -> SocketBusy {
        // Relaxed: the settings order nothing, nor does the id.
        let napi_id = self.napi_id.load(Ordering::Relaxed);
        SocketBusy { napi_id, ..options::unpack(self.busy.load(Ordering::Relaxed)) }
    }

    /// Takes one received segment: an IP packet, which may be longer than the MTU.
    pub(super) fn input(self: &Arc<Self>, ns: &Inner, napi_id: u32, now: Instant, flags: u8, packet: &[u8]) -> Input {
        // Relaxed: the id is a hint that orders nothing. The plain look first keeps the line unshared.
        let current = self.napi_id.load(Ordering::Relaxed);
        if current != napi_id {
            self.napi_id.store(record_napi_id(current, napi_id, true), Ordering::Relaxed);
        }
        let mut core = self.lock();
        let opening = flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN;
        if opening && !core.dead && core.state == State::TimeWait {
            ns.counters.count(Counter::TcpTimeWaitRecycled);
            core.dead = true;
            let news = self.settle(ns, &mut core, now, Cause::Program);
            drop(core);
            self.tell(ns, news);
            return Input::Reopen;
        }
        if core.dead {
            return if opening { Input::Reopen } else { Input::Taken };
        }
        if let Some(listener) = &core.embryo
            && flags & flag::RST == 0
            && listener.is_full()
        {
            ns.counters.count(Counter::ListenOverflows);
            ns.counters.count(Counter::ListenDrops);
            return Input::Taken;
        }
        core.heard = now;
        if let Some(keep) = core.keep {
            core.socket().set_keep_alive(Some(smol_span(keep.idle)));
        }
        let before = core.socket().recv_queue();
        core.drive(ns, now, Some(packet));
        let bytes = core.socket().recv_queue().saturating_sub(before);
        let arrived = bytes > 0;
        if arrived {
            self.received(&mut core, bytes);
        }
        if arrived && core.orphan {
            ns.counters.count(Counter::TcpAbortOnData);
            core.abort(ns, now);
        }
        let mut news = self.settle(ns, &mut core, now, Cause::Segment);
        drop(core);
        if arrived {
            news.told = news.told | Interest::IN;
        }
        self.tell(ns, news);
        Input::Taken
    }

    /// The next byte goes `bytes` further in the receive buffer.
    #[inline]
    fn received(&self, core: &mut Core, bytes: usize) {
        // Relaxed: a hint, written with the lock held.
        let at = self.receive_at.load(Ordering::Relaxed);
        let next = core.received + bytes;
        let capacity = core.socket().recv_capacity();
        let wrapped = if next >= capacity { next - capacity } else { next };
        self.receive_at.store(at.wrapping_sub(core.received).wrapping_add(wrapped), Ordering::Relaxed);
        core.received = wrapped;
    }

    /// The wheel has come to place `tick`.
    pub(super) fn on_timer(self: &Arc<Self>, ns: &Inner, tick: u64, now: Instant) {
        let mut core = self.lock();
        if core.queued != tick {
            return;
        }
        core.queued = NOT_QUEUED;
        if core.dead {
            return;
        }
        // Most deadlines have moved on since: with many connections, to look at all of one would cost more than its turn.
        if !core.deadline.is_due(now) {
            if let (Some(at), Some(tcp)) = (core.deadline.instant(), ns.tcp.get()) {
                core.queued = tcp.wheel.call_at(self, NOT_QUEUED, at);
            }
            return;
        }
        let cause = if core.silence_ends().is_due(now) {
            ns.counters.count(Counter::TcpAbortOnTimeout);
            core.abort(ns, now);
            Cause::Silence
        } else {
            if let Some(keep) = core.keep
                && now >= core.heard + keep.idle
            {
                core.socket().set_keep_alive(Some(smol_span(keep.interval)));
            }
            if core.is_owed() && core.next_poll(ns, now).is_never() {
                core.remind(ns, now);
            } else {
                core.drive(ns, now, None);
            }
            Cause::Segment
        };
        let news = self.settle(ns, &mut core, now, cause);
        drop(core);
        self.tell(ns, news);
    }

    /// Counts what changed, publishes the conditions, sees to the next deadline.
    pub(super) fn settle(self: &Arc<Self>, ns: &Inner, core: &mut Core, now: Instant, cause: Cause) -> News {
        let mut news = News::default();
        if std::mem::take(&mut core.outlet.unreachable) && core.state == State::SynSent {
            (core.error, core.dead) = (libc::EHOSTUNREACH, true);
        }
        core.dead |= core.is_finished();
        let state = core.live_state();
        if state != core.state {
            core.changed(ns, state, cause, &mut news);
        }
        if core.dead && !std::mem::replace(&mut core.released, true) {
            news.dead = true;
            if let Some(listener) = core.embryo.take() {
                listener.embryo_gone();
            }
        }
        if core.released && core.orphan {
            core.free_buffers();
        }
        let before = Interest::from_bits(self.ready.load(Ordering::Relaxed));
        news.told = self.publish_ready(core).without(before);
        if !core.dead {
            self.set_timer(ns, core, now);
        }
        news
    }

    /// Publishes the conditions that hold, and gives them.
    #[inline]
    pub(super) fn publish_ready(&self, core: &mut Core) -> Interest {
        let ready = rules::ready(&core.view());
        // Release: pairs with the Acquire in `is_ready`; what a reader finds then is behind the lock anyhow.
        self.ready.store(ready.bits(), Ordering::Release);
        ready
    }

    #[inline]
    fn set_timer(self: &Arc<Self>, ns: &Inner, core: &mut Core, now: Instant) {
        let wanted = core.next_poll(ns, now);
        let stuck = core.outlet.is_stuck() || wanted.is_due(now);
        let next = if stuck { Deadline::after(now, STUCK_RETRY) } else { wanted };
        let answering = core.wants_answer();
        core.asked = if answering { core.asked.or(Some(now)) } else { None };
        let forgotten = wanted.is_never() && core.is_owed();
        let next = if forgotten { Deadline::after(now, FORGOTTEN_RETRY) } else { next };
        let next = next.earliest(core.silence_ends());
        core.deadline = next;
        if let (Some(at), Some(tcp)) = (next.instant(), ns.tcp.get()) {
            core.queued = tcp.wheel.call_at(self, core.queued, at);
        }
    }

    /// Tells everybody, with no lock held.
    pub(super) fn tell(self: &Arc<Self>, ns: &Inner, news: News) {
        let News { told, established, time_wait, dead } = news;
        if let Some(listener) = established {
            listener.established(ns, self);
        }
        if !told.is_empty() {
            // Relaxed: the id is a hint that orders nothing.
            self.source.notify(self.napi_id.load(Ordering::Relaxed), told);
            if told.intersects(Interest::IN | Interest::ERR | Interest::HUP) {
                self.reader.wake();
            }
            if told.intersects(Interest::OUT | Interest::ERR | Interest::HUP) {
                self.writer.wake();
            }
        }
        if let Some(tcp) = ns.tcp.get() {
            if time_wait {
                tcp.time_wait_begins(ns, self);
            }
            if dead {
                tcp.flows.remove(self);
            }
        }
    }

    /// Gives up a connection in TIME-WAIT; others stay.
    pub(super) fn recycle(self: &Arc<Self>, ns: &Inner) {
        let mut core = self.lock();
        if core.dead || core.state != State::TimeWait {
            return;
        }
        ns.counters.count(Counter::TcpTimeWaitRecycled);
        core.dead = true;
        let news = self.settle(ns, &mut core, ns.host.clock().now(), Cause::Program);
        drop(core);
        self.tell(ns, news);
    }
}

impl Watched for Conn {
    fn source(&self) -> &Source {
        &self.source
    }

    fn ready(&self) -> Interest {
        Interest::from_bits(self.ready.load(Ordering::Acquire))
    }

    fn napi_id(&self) -> u32 {
        // Relaxed: the id is a hint that orders nothing.
        self.napi_id.load(Ordering::Relaxed)
    }
}
