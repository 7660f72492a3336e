//! What comes to a connection from the network, the wheel and other connections: taken at once, or by its owner later.

use napier_core::time::Instant;
use napier_sys::clock::Clock;

use crate::counters::Counter;
use crate::tcp::by_age::LimitKind;
use crate::tcp::conn::note::Arrived;
use crate::tcp::conn::owned::OwnedConn;
use crate::tcp::conn::{Input, NOT_QUEUED};
use crate::tcp::machine::{Inbound, TcpState};
use crate::tcp::rules::Cause;
use crate::wire::flag;

impl OwnedConn<'_> {
    /// Takes one received segment.
    pub(super) fn input(&mut self, arrived: &Arrived<'_>) -> Input {
        let now = arrived.now;
        let flags = arrived.segment.flags;
        let counters = &self.tables().counters;
        let opening = flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN;
        if self.dead {
            return if opening { Input::Reopen(None) } else { Input::Taken };
        }
        if self.state == TcpState::Closed {
            // In the tables, and its SYN has not left: what comes is for one before it.
            return Input::Taken;
        }
        let (tcp, tables) = (self.tcp, self.tables());
        let Some(seg) = Inbound::of_packet(arrived.packet) else { return Input::Taken };
        if opening
            && let Some(first) = self.machine.reopens(now, &seg)
            && tcp.is_listened_to(arrived)
        {
            self.recycle();
            return Input::Reopen(Some(first));
        }
        if flags & (flag::SYN | flag::RST) != 0 && self.parries(tcp, now, &seg) {
            self.settle(now, Cause::Segment);
            return Input::Taken;
        }
        if let Some(listener) = &self.embryo
            && flags & flag::RST == 0
            && listener.is_full()
        {
            counters.count(Counter::ListenOverflows);
            counters.count(Counter::ListenDrops);
            return Input::Taken;
        }
        let taken = self.machine.input(now, &seg);
        if taken.heard {
            self.heard = now;
        }
        if taken.advances {
            if !self.orphan {
                self.got_on = now;
            }
            if self.outlet.route.is_doubted() {
                let (una, _) = self.machine.sender.under_way();
                self.outlet.route.confirm(tables, una);
            }
        }
        if taken.bytes > 0 {
            self.received();
            if self.orphan {
                tables.counters.count(Counter::TcpAbortOnData);
                self.abort(tables, now);
            }
        }
        self.drive(tables, now);
        self.settle(now, Cause::Segment);
        Input::Taken
    }

    /// The wheel has come to place `tick`.
    pub(super) fn on_timer(&mut self, tick: u64, now: Instant) {
        if self.queued != tick {
            return;
        }
        self.queued = NOT_QUEUED;
        if self.dead {
            return;
        }
        let (tables, conn) = (self.tables(), self.conn());
        // Most deadlines have moved on since: with many connections, to look at all of one would cost more than its turn.
        if !self.deadline.is_due(now) {
            if let Some(at) = self.deadline.instant() {
                self.queued = self.tcp.wheel.call_at(conn, NOT_QUEUED, at, now);
            }
            return;
        }
        let unsent = self.machine.unacknowledged();
        let cause = if self.silence_ends(unsent).is_due(now) {
            tables.counters.count(Counter::TcpAbortOnTimeout);
            self.abort(tables, now);
            Cause::Silence
        } else {
            self.machine.on_timer(now);
            self.drive_by_timer(tables, now);
            Cause::Segment
        };
        self.settle(now, cause);
    }

    /// The transmit queue has room again.
    pub(super) fn on_room(&mut self) {
        self.awaits_room = false;
        if self.dead || !self.outlet.is_stuck() {
            return;
        }
        let (tables, now) = (self.tables(), Clock.now());
        self.drive(tables, now);
        self.settle(now, Cause::Segment);
    }

    /// A connection in TIME-WAIT gives way to a newer one between the same ends. Others stay.
    pub(in crate::tcp) fn recycle(&mut self) {
        if self.dead || self.state != TcpState::TimeWait {
            return;
        }
        self.tables().counters.count(Counter::TcpTimeWaitRecycled);
        self.dead = true;
        self.settle(Clock.now(), Cause::Program);
    }

    /// The last handle is gone. Unread data, or a linger time of 0, resets the connection (RFC 2525 section 2.17).
    pub(in crate::tcp) fn close(&mut self) {
        let (tables, now) = (self.tables(), Clock.now());
        self.orphaned(now);
        let unread = self.machine.unread() > 0;
        match self.live_state() {
            TcpState::Closed => {}
            TcpState::SynSent => self.abort(tables, now),
            TcpState::TimeWait => {}
            _ if unread || self.reset_on_close => {
                tables.counters.count(Counter::TcpAbortOnClose);
                self.abort(tables, now);
            }
            _ => {
                self.machine.close();
                self.drive(tables, now);
                self.gives_up_memory(now);
            }
        }
        self.settle(now, Cause::Program);
    }

    /// An orphan that has much while all have too much is reset. Source: `net/ipv4/tcp.c tcp_check_oom`.
    fn gives_up_memory(&mut self, now: Instant) -> bool {
        let unacknowledged = self.machine.unacknowledged();
        let gives_up = self.orphan && !self.dead && self.tcp.memory.is_too_much_for_an_orphan(unacknowledged);
        if gives_up {
            let tables = self.tables();
            tables.counters.count(Counter::TcpAbortOnMemory);
            self.abort(tables, now);
        }
        gives_up
    }

    /// Memory is short: what is not used goes back now.
    pub(super) fn saves_memory(&mut self) {
        let now = Clock.now();
        if self.gives_up_memory(now) {
            return self.settle(now, Cause::Program);
        }
        self.machine.fit();
        self.publish_buffers();
    }

    /// Ends the connection in favour of others, if it still is of this kind.
    pub(in crate::tcp) fn give_way(&mut self, kind: LimitKind) -> bool {
        if self.kind() != kind {
            return false;
        }
        let (tables, now) = (self.tables(), Clock.now());
        match kind {
            LimitKind::Plain => unreachable!("there is no line of plain connections"),
            LimitKind::Embryo => {
                tables.counters.count(Counter::TcpEmbryosEvicted);
                self.dead = true;
            }
            LimitKind::Orphan => {
                tables.counters.count(Counter::TcpAbortOnMemory);
                self.abort(tables, now);
            }
        }
        self.settle(now, Cause::Program);
        true
    }

    /// The engine has stopped.
    pub(super) fn engine_stopped(&mut self) {
        if !self.dead {
            // An error that is not fetched yet says why the connection ended before.
            if self.error == 0 {
                self.error = libc::ESHUTDOWN;
            }
            self.dead = true;
        }
        self.settle(Clock.now(), Cause::Program);
    }

    /// The peer of its device is gone, and its end of the connection with it.
    pub(super) fn link_lost(&mut self) {
        if self.dead {
            return;
        }
        self.tables().counters.count(Counter::TcpAbortOnLink);
        self.error = libc::ENETRESET;
        self.dead = true;
        self.settle(Clock.now(), Cause::Program);
    }
}
