//! How a connection settles: what changed is counted, the conditions that hold are published, the next deadline is put
//! into the wheel, and who has to know of it is told when the connection is free.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::time::{Deadline, Instant, Span};

use crate::event::Interest;
use crate::tables::path::Destination;
use crate::tcp::Tcp;
use crate::tcp::by_age::{LimitKind, Limited};
use crate::tcp::conn::{Conn, Core, Note};
use crate::tcp::listener::ListenerInner;
use crate::tcp::machine::TcpState;
use crate::tcp::remnant::Remnant;
use crate::tcp::rules::{self, Cause};
use crate::wait::park::{Sleeper, Whom};

/// When a segment that could not leave is tried again, if nothing else comes before.
const STUCK_RETRY: Span = Span { ns: 1_000_000 };
/// The same if the transmit queue tells when it has room.
const ROOM_RETRY: Span = Span { ns: 50_000_000 };

/// What the machine says of itself, asked once.
pub(super) struct SocketFacts {
    pub(super) state: TcpState,
    /// Bytes to read.
    pub(super) queued: usize,
    /// Bytes that the peer has not acknowledged.
    pub(super) unsent: usize,
    /// A third of the send buffer is free.
    pub(super) room: bool,
    /// A reset is to be sent.
    pub(super) speaks: bool,
}

impl SocketFacts {
    /// Closed, with nothing left to say.
    fn is_over(&self) -> bool {
        self.state == TcpState::Closed && !self.speaks
    }
}

/// Whom to tell of what, once the connection is free.
#[derive(Default)]
#[must_use]
pub(super) struct News {
    told: Interest,
    pub(super) established: Option<Arc<ListenerInner<Conn>>>,
    orphaned: bool,
    /// The program that has closed it waits no more.
    closed: bool,
    dead: bool,
}

impl Conn {
    /// Counts what changed, publishes the conditions, sees to the next deadline.
    pub(super) fn settle(self: &Arc<Self>, tcp: &Tcp, core: &mut Core, now: Instant, cause: Cause, news: &mut News) {
        let look = core.look();
        if std::mem::take(&mut core.outlet.unreachable) && core.state == TcpState::SynSent {
            (core.error, core.dead) = (libc::EHOSTUNREACH, true);
        }
        core.dead |= look.is_over() && !core.outlet.is_stuck();
        let state = core.live(look.state);
        if state != core.state {
            core.changed(&tcp.tables, state, cause, news);
        }
        if self.lingers.load(Ordering::Relaxed) && !rules::lingers(state) {
            // Release: pairs with the Acquire in `is_lingering`.
            self.lingers.store(false, Ordering::Release);
            news.closed = true;
        }
        if core.dead && !std::mem::replace(&mut core.released, true) {
            news.dead = true;
            if let Some(listener) = core.embryo.take() {
                listener.embryo_gone();
                // Nobody has a handle on it: its buffers go now, not when the wheel lets go of it.
                core.orphan = true;
            }
        }
        if core.orphan && state == TcpState::TimeWait && !core.outlet.is_stuck() {
            self.leaves_remnant(tcp, core, now);
        }
        if core.orphan && (core.released || state == TcpState::TimeWait) {
            core.free_buffers();
        }
        news.orphaned |= self.count_kind(tcp, core.kind());
        let before = Interest::from_bits(self.ready.load(Ordering::Relaxed));
        news.told = news.told | self.publish_ready(core, &look).without(before);
        if !core.dead {
            self.set_timer(tcp, core, now, &look);
        }
    }

    /// A connection that waits out its end, and that no program has, ends; what has to be known of it stays.
    #[cold]
    fn leaves_remnant(self: &Arc<Self>, tcp: &Tcp, core: &mut Core, now: Instant) {
        let Some(rest) = core.machine.rest() else { return };
        (core.state, core.dead, core.released) = (TcpState::Closed, true, true);
        // First the one, then the other: a segment that finds this one in between is lost, and comes again.
        tcp.waits_out(&Remnant::new(self.flow, self.scope, rest), now);
        tcp.flows.remove(self);
    }

    /// Publishes the conditions that hold, and gives them.
    #[inline]
    pub(super) fn publish_ready(&self, core: &Core, look: &SocketFacts) -> Interest {
        let ready = rules::ready(&core.view(look));
        // Release: pairs with the Acquire in `is_ready`; what a reader finds then it has to own anyhow.
        self.ready.store(ready.bits(), Ordering::Release);
        ready
    }

    /// Publishes that it is over, without a look at the socket, which may be what a panic is about.
    pub(super) fn publish_end(&self, core: &Core) {
        // Release: as in `settle`.
        self.lingers.store(false, Ordering::Release);
        let look = SocketFacts { state: TcpState::Closed, queued: 0, unsent: 0, room: true, speaks: false };
        let _ = self.publish_ready(core, &look);
    }

    #[inline]
    fn set_timer(self: &Arc<Self>, tcp: &Tcp, core: &mut Core, now: Instant, look: &SocketFacts) {
        let wanted = core.machine.next_at(now);
        // A handshake has turns of its own, and a peer can begin any number of them.
        if core.outlet.is_stuck() && !core.awaits_room && !core.is_embryo() {
            core.awaits_room = core.outlet.await_room(self.clone());
        }
        let next = match () {
            () if core.awaits_room => Deadline::after(now, ROOM_RETRY),
            () if core.outlet.is_stuck() || wanted.is_due(now) => Deadline::after(now, STUCK_RETRY),
            () => wanted,
        };
        core.note_progress(now, look.unsent);
        let owed = core.is_owed(look.unsent);
        core.asked = if owed || core.orphan { core.asked.or(Some(now)) } else { None };
        let next = next.earliest(core.silence_ends(look.unsent));
        core.deadline = next;
        if let Some(at) = next.instant() {
            core.queued = tcp.wheel.call_at(self, core.queued, at, now);
        }
    }

    /// Tells everybody, and owns nothing.
    pub(super) fn tell(self: &Arc<Self>, tcp: &Tcp, news: &mut News) {
        let News { told, established, orphaned, closed, dead } = std::mem::take(news);
        if let Some(listener) = established {
            listener.established(self, &tcp.tables).iter().for_each(|abandoned| abandoned.reset(tcp));
        }
        if !told.is_empty() {
            // Relaxed: the id is a hint that orders nothing.
            self.source.notify(self.napi_id.load(Ordering::Relaxed), told);
            if told.intersects(Interest::IN | Interest::ERR | Interest::HUP) {
                self.reader.wake_told(&*tcp.tables.host, &|| Some(self.clone()), Whom::Reader);
            }
            if told.intersects(Interest::OUT | Interest::ERR | Interest::HUP) {
                self.writer.wake_told(&*tcp.tables.host, &|| Some(self.clone()), Whom::Writer);
            }
        }
        if closed {
            self.writer.wake_told(&*tcp.tables.host, &|| Some(self.clone()), Whom::Writer);
        }
        if orphaned {
            tcp.orphans.enter(tcp, self);
        }
        if dead {
            tcp.flows.remove(self);
        }
    }

    /// Sees to it that the connection counts as `kind`; whether it is an orphan from now on.
    #[inline]
    pub(super) fn count_kind(&self, tcp: &Tcp, kind: LimitKind) -> bool {
        let before = self.kind();
        if before == kind {
            return false;
        }
        self.kind.store(kind as u8, Ordering::Relaxed);
        if before == LimitKind::Orphan {
            tcp.orphans.line.uncounted();
        }
        if kind == LimitKind::Orphan {
            tcp.orphans.line.counted();
        }
        kind == LimitKind::Orphan
    }

    /// Ends the connection in favour of others, if it still is of this kind. Its owner does, if it has one.
    pub(in crate::tcp) fn give_way(self: &Arc<Self>, tcp: &Tcp, kind: LimitKind) -> bool {
        if self.kind() != kind {
            return false;
        }
        if let Some(mut held) = self.try_own(tcp) {
            return held.give_way(kind);
        }
        self.leave(tcp, Note::GiveWay(kind));
        true
    }

    /// The peer of the device that the connection goes over is gone, and the connection with it. False if it goes over
    /// another.
    pub(in crate::tcp) fn link_lost(self: &Arc<Self>, tcp: &Tcp, ifindex: u32) -> bool {
        // Looked up, not asked of the connection, which may be in other hands.
        let target = Destination { dst: self.flow.peer, scope: self.scope };
        if !target.leads_over(&tcp.tables.snapshot.load(), ifindex) {
            return false;
        }
        self.leave(tcp, Note::LinkLost);
        true
    }
}

impl Sleeper for Conn {
    fn call(&self, whom: Whom) {
        match whom {
            Whom::Reader => self.reader.call_owed(),
            Whom::Writer => self.writer.call_owed(),
        }
    }
}

impl Limited for Conn {
    fn kind(&self) -> LimitKind {
        // Relaxed: who acts on it looks again with the connection in hand.
        match self.kind.load(Ordering::Relaxed) {
            1 => LimitKind::Embryo,
            2 => LimitKind::Orphan,
            _ => LimitKind::Plain,
        }
    }
}

impl News {
    /// There are none, as after most calls to read.
    #[inline]
    pub(super) fn are_none(&self) -> bool {
        let Self { told, established, orphaned, closed, dead } = self;
        told.is_empty() && established.is_none() && !(*orphaned | *closed | *dead)
    }

    #[inline]
    pub(super) fn data_came(&mut self) {
        self.told = self.told | Interest::IN;
    }
}
