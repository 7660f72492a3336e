//! A connection: its protocol machine, the way out, and who is told.
//!
//! A thread that has something for a connection (a received segment, a program's call, the timer) owns it, lets the machine work,
//! sends, and *settles*: what changed is counted, the conditions that hold are published, the next deadline is put into
//! the wheel. Who finds it owned and may not wait leaves a note (`owned`). Devices are kicked, and programs and event
//! contexts told, when the connection is free again.
//!
//! Order: a connection, then the name space's writers. No thread owns two connections.

pub(super) mod calls;
pub(super) mod challenge;
mod errors;
mod guarded;
mod note;
mod owned;
mod served;
mod settle;

use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use napier_core::backlog;
use napier_core::icmp::BlackHole;
use napier_core::sockopt::{SocketBusy, record_napi_id};
use napier_core::tcp::seq::Seq;
use napier_core::time::{Deadline, Instant, Span};
use napier_ring::Owned;
use napier_sys::clock::Clock;
use napier_sys::prefetch::prefetch;

use super::Tcp;
use crate::device::OnRoom;
use crate::event::{Interest, Source, Watched};
use crate::options;
use crate::tcp::by_age::LimitKind;
use crate::tcp::flow::Flow;
use crate::tcp::listener::ListenerInner;
use crate::tcp::machine::{TcpMachine, TcpState};
use crate::tcp::memory::Lender;
use crate::tcp::outlet::Outlet;
use crate::tcp::outlet::route::Route;
use crate::tcp::rules::Patience;
use crate::wait::Nonblocking;
use crate::wait::park::Parker;
pub(super) use note::{Arrived, IcmpReport, Note};
#[cfg(test)]
pub(super) use owned::OwnedConn;
use settle::News;

/// No place in the wheel. Never a place's number: the first tick is that of a clock that has run for a millisecond.
pub(super) const NOT_QUEUED: u64 = 0;

/// Where the memory of a connection is, known without a look at it: reading an address from one line before the next can
/// be asked for is what takes the time. Addresses only, which keep nothing alive.
#[derive(Copy, Clone)]
pub(super) struct Memory {
    conn_at: usize,
}

impl Memory {
    /// Asks for what a request touches of the connection.
    #[inline]
    pub(super) fn fetch(&self) {
        prefetch(self.conn_at, Conn::USED_BYTES);
    }
}

/// What the tables, the timer and the handles of one connection share.
///
/// In the order of use: up to [`Conn::USED_BYTES`] lies what a request and its answer touch, behind it what they do not. With
/// many connections each line of it comes from memory, so `bench tcp-rr` with 10,000 feels a field that is moved.
#[repr(C, align(64))]
pub(crate) struct Conn {
    pub(super) flow: Flow,
    /// Where the next byte received goes and the first one to send is, for `fetch_buffer` alone; 0: nowhere.
    receive_at: AtomicUsize,
    send_at: AtomicUsize,
    /// The conditions that hold; written by the owner.
    ready: AtomicU32,
    /// The recorded NAPI id, valid or not.
    napi_id: AtomicU32,
    /// A [`LimitKind`]; written by the owner.
    pub(super) kind: AtomicU8,
    pub(super) nonblocking: Nonblocking,
    /// The busy-poll settings, all but the id.
    pub(super) busy: AtomicU64,
    pub(super) source: Source,
    /// Wakes who waits to read.
    pub(super) reader: Parker,
    core: Owned<Core, Note>,
    /// Wakes who waits to write or connect.
    pub(super) writer: Parker,
    /// Interface of a link-local peer; 0: any.
    pub(super) scope: u32,
    /// Most bytes of segments that wait for the owner.
    backlog_max: AtomicU64,
    /// Wakes programs that wait until no thread owns it.
    free: Parker,
    /// 0: none.
    pub(super) read_timeout_ns: AtomicU64,
    pub(super) write_timeout_ns: AtomicU64,
    /// A program that has closed it waits for the peer; written by the owner.
    lingers: AtomicBool,
    /// For a device that has room, which knows the connection alone.
    tcp: Weak<Tcp>,
}

/// What the owner has; in the order of use as [`Conn`].
#[repr(C)]
pub(super) struct Core {
    pub(super) machine: TcpMachine,
    heard: Instant,
    /// When something was acknowledged last, or a probe of a closed window answered; of an orphan: when it got on last.
    got_on: Instant,
    /// Since when an answer is wanted.
    asked: Option<Instant>,
    /// When the wheel has to call.
    deadline: Deadline,
    /// Tuple in the wheel.
    queued: u64,
    /// The listener, until the connection is established.
    embryo: Option<Arc<ListenerInner<Conn>>>,
    pub(super) patience: Patience,
    pub(super) error: i32,
    /// State at the end of the last settling.
    state: TcpState,
    /// The machine is not asked any more.
    pub(super) dead: bool,
    /// Out of the tables, or about to be.
    released: bool,
    /// No handle is left.
    pub(super) orphan: bool,
    fin: bool,
    pub(super) read_shut: bool,
    pub(super) write_shut: bool,
    /// The transmit queue will tell when it has room.
    awaits_room: bool,
    pub(super) outlet: Outlet,
    pub(super) reset_on_close: bool,
    /// What was left to do for the peer when an orphan got on last.
    left: (TcpState, usize),
    /// When the peer was challenged last.
    pub(super) challenged: Option<Instant>,
    hole: BlackHole,
    /// What was said of a segment, and when: why the peer is silent, if it is.
    soft: (i32, Instant),
    /// How long closing waits; zero: not at all.
    pub(super) linger: Span,
}

/// What came of a segment.
pub(super) enum Input {
    Taken,
    /// A SYN for a connection that is gone, or has gone now because it only waited out its end: it may begin another, of which our first number
    /// is then this.
    Reopen(Option<Seq>),
}

impl Conn {
    /// How much of a connection a request and its answer touch, from its beginning.
    const USED_BYTES: usize =
        offset_of!(Self, core) + Owned::<Core, Note>::VALUE_OFFSET + offset_of!(Core, outlet) + Outlet::USED_BYTES;

    pub(super) fn new(tcp: &Tcp, flow: Flow, route: Route, mut machine: TcpMachine, busy: &SocketBusy) -> Self {
        machine.charge_to(&Lender::of(&tcp.memory));
        let scope = route.scope();
        let backlog_max = backlog_max(&machine);
        let core = Core {
            machine,
            outlet: Outlet::new(route),
            state: TcpState::Closed,
            dead: false,
            released: false,
            embryo: None,
            orphan: false,
            fin: false,
            read_shut: false,
            write_shut: false,
            error: 0,
            reset_on_close: false,
            patience: Patience::default(),
            left: (TcpState::Closed, 0),
            got_on: Instant::ZERO,
            heard: Clock.now(),
            asked: None,
            deadline: Deadline::NEVER,
            queued: NOT_QUEUED,
            awaits_room: false,
            challenged: None,
            hole: BlackHole::default(),
            soft: (0, Instant::ZERO),
            linger: Span::ZERO,
        };
        Self {
            flow,
            scope,
            receive_at: AtomicUsize::new(0),
            send_at: AtomicUsize::new(0),
            ready: AtomicU32::new(0),
            napi_id: AtomicU32::new(busy.napi_id),
            core: Owned::new(core),
            backlog_max: AtomicU64::new(backlog_max),
            free: Parker::new(),
            kind: AtomicU8::new(LimitKind::Plain as u8),
            reader: Parker::new(),
            writer: Parker::new(),
            source: Source::new(),
            nonblocking: Nonblocking::default(),
            read_timeout_ns: AtomicU64::new(0),
            write_timeout_ns: AtomicU64::new(0),
            lingers: AtomicBool::new(false),
            tcp: tcp.this.clone(),
            busy: AtomicU64::new(options::pack(busy)),
        }
    }

    /// Where the connection's memory is.
    pub(super) fn memory(self: &Arc<Self>) -> Memory {
        Memory { conn_at: Arc::as_ptr(self).addr() }
    }

    /// Asks for the connection itself, without a look at it.
    #[inline]
    pub(super) fn fetch(self: &Arc<Self>) {
        prefetch(Arc::as_ptr(self).addr(), Self::USED_BYTES);
    }

    /// Asks for the lines of both buffers that the next segment and its answer will touch.
    #[inline]
    pub(super) fn fetch_buffer(&self) {
        // Relaxed: a hint.
        prefetch(self.receive_at.load(Ordering::Relaxed), 1);
        prefetch(self.send_at.load(Ordering::Relaxed), 1);
    }

    #[inline]
    pub(super) fn is_ready(&self, any_of: Interest) -> bool {
        // Acquire: pairs with the Release in `publish_ready`.
        Interest::from_bits(self.ready.load(Ordering::Acquire)).intersects(any_of)
    }

    /// Whether the program that has closed it is to wait on.
    pub(super) fn is_lingering(&self) -> bool {
        // Acquire: pairs with the Release in `settle`.
        self.lingers.load(Ordering::Acquire)
    }

    /// The busy-poll settings with the id that is recorded now.
    pub(super) fn busy(&self) -> SocketBusy {
        // Relaxed: the settings order nothing, nor does the id.
        let napi_id = self.napi_id.load(Ordering::Relaxed);
        SocketBusy { napi_id, ..options::unpack(self.busy.load(Ordering::Relaxed)) }
    }

    /// Takes one received segment, or leaves it to the owner.
    #[inline]
    pub(super) fn input(self: &Arc<Self>, tcp: &Tcp, arrived: &Arrived<'_>) -> Input {
        let napi_id = arrived.napi_id;
        // Relaxed: the id is a hint that orders nothing. The plain look first keeps the line unshared.
        let current = self.napi_id.load(Ordering::Relaxed);
        if current != napi_id {
            self.napi_id.store(record_napi_id(current, napi_id, true), Ordering::Relaxed);
        }
        match self.try_own(tcp) {
            Some(mut held) => held.input(arrived),
            None => {
                self.leave_segment(tcp, arrived);
                Input::Taken
            }
        }
    }

    /// What others see of the buffers is as it is: they have moved or grown.
    #[inline]
    fn publish_buffers(&self, core: &Core) {
        // Relaxed: hints, written by the owner. Looked at first, so that the line stays unshared.
        let publish = |place: &AtomicUsize, is: usize| {
            if place.load(Ordering::Relaxed) != is {
                place.store(is, Ordering::Relaxed);
            }
        };
        publish(&self.receive_at, core.machine.receiver.address());
        publish(&self.send_at, core.machine.sender.address());
        let max = backlog_max(&core.machine);
        if self.backlog_max.load(Ordering::Relaxed) != max {
            self.backlog_max.store(max, Ordering::Relaxed);
        }
    }
}

impl OnRoom for Conn {
    fn on_room(self: Arc<Self>) -> bool {
        if let Some(tcp) = self.tcp.upgrade() {
            self.leave(&tcp, Note::Room);
        }
        true
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

/// Most bytes of segments that wait for the owner.
#[inline]
fn backlog_max(machine: &TcpMachine) -> u64 {
    backlog::bytes_max(machine.receiver.limit().into(), machine.sender.limit().into())
}
