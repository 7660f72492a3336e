//! How many connections there may be of a kind that costs memory and that a peer can make at will.
//!
//! | kind | limit | beyond it |
//! |---|---|---|
//! | handshakes of a listener | `TcpListenerBuilder::syn_limit` | the oldest goes without a word (its sender may be forged) |
//! | closed by the program, not by the peer | `NetNs::set_tcp_max_orphans` | the oldest is reset |
//! | waiting in TIME-WAIT | `TIME_WAITS_MAX` | the oldest goes |
//!
//! And what goes with a device whose peer went: see [`Tcp::link_lost`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use napier_ring::{Owned, Owner};

use super::super::netns::{Inner, NetNs, Snapshot};
use super::super::path;
use super::super::send::Target;
use super::Tcp;
use super::conn::{Conn, Core, Note};

/// Connections that the program has closed and the peer has not. Source: `net.ipv4.tcp_max_orphans` with 4 GiB of memory.
const ORPHANS_MAX_DEFAULT: usize = 16_384;
/// A line is cleaned when it is longer than twice its members and this.
const SLACK: usize = 64;

/// What a connection counts as, for its limit.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// No limit of these here.
    Plain = 0,
    /// Its handshake goes on.
    Embryo = 1,
    /// The program has closed it.
    Orphan = 2,
}

/// Connections of one kind, in the order in which they became it. Nobody waits for whoever looks after them.
pub(super) struct Line {
    /// Some may be of another kind by now, or gone.
    members: Owned<VecDeque<Weak<Conn>>, Weak<Conn>>,
    count: AtomicUsize,
}

impl Default for Line {
    fn default() -> Self {
        Self { members: Owned::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }
}

impl Line {
    pub(super) fn count(&self) -> usize {
        // Relaxed: a limit, not a hand-over.
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn enter(&self, conn: &Arc<Conn>, kind: Kind) {
        if let Some(members) = self.members.post(Arc::downgrade(conn)) {
            self.leave(members, kind);
        }
    }

    /// Takes in who came meanwhile, and lets go.
    fn leave(&self, members: Members<'_>, kind: Kind) {
        members.line_up(|members| {
            if members.len() > 2 * self.count() + SLACK {
                members.retain(|member| member.upgrade().is_some_and(|conn| conn.kind() == kind));
            }
        });
    }

    pub(super) fn counted(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn uncounted(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends the oldest; false if there is none, or somebody else is at it.
    pub(super) fn end_oldest(&self, ns: &Inner, kind: Kind) -> bool {
        loop {
            let Some(mut members) = self.members.try_own() else { return false };
            let new = members.messages();
            members.extend(new);
            let oldest = members.pop_front();
            self.leave(members, kind);
            let Some(oldest) = oldest else { return false };
            if oldest.upgrade().is_some_and(|conn| conn.give_way(ns, kind)) {
                return true;
            }
        }
    }
}

type Members<'a> = Owner<'a, VecDeque<Weak<Conn>>, Weak<Conn>>;

/// The orphans of a name space.
pub(super) struct Orphans {
    pub(super) line: Line,
    max: AtomicUsize,
}

impl Orphans {
    pub(super) fn new() -> Self {
        Self { line: Line::default(), max: AtomicUsize::new(ORPHANS_MAX_DEFAULT) }
    }

    /// There is one more; no connection may be held.
    pub(super) fn enter(&self, ns: &Inner, conn: &Arc<Conn>) {
        self.line.enter(conn, Kind::Orphan);
        self.trim(ns);
    }

    fn trim(&self, ns: &Inner) {
        while self.line.count() > self.max.load(Ordering::Relaxed) && self.line.end_oldest(ns, Kind::Orphan) {}
    }
}

impl Core {
    /// What the connection counts as now.
    #[inline]
    pub(super) fn kind(&self) -> Kind {
        match () {
            () if self.dead => Kind::Plain,
            () if self.is_embryo() => Kind::Embryo,
            () if self.orphan && self.is_open() => Kind::Orphan,
            () => Kind::Plain,
        }
    }
}

impl Conn {
    pub(super) fn kind(&self) -> Kind {
        // Relaxed: who acts on it looks again with the connection in hand.
        match self.kind.load(Ordering::Relaxed) {
            1 => Kind::Embryo,
            2 => Kind::Orphan,
            _ => Kind::Plain,
        }
    }

    /// Sees to it that the connection counts as `kind`; whether it is an orphan from now on.
    #[inline]
    pub(super) fn count_kind(&self, ns: &Inner, kind: Kind) -> bool {
        let before = self.kind();
        if before == kind {
            return false;
        }
        self.kind.store(kind as u8, Ordering::Relaxed);
        let Some(tcp) = ns.tcp.get() else { return false };
        if before == Kind::Orphan {
            tcp.orphans.line.uncounted();
        }
        if kind == Kind::Orphan {
            tcp.orphans.line.counted();
        }
        kind == Kind::Orphan
    }

    /// Ends the connection in favour of others, if it still is of this kind. Its owner does, if it has one.
    fn give_way(self: &Arc<Self>, ns: &Inner, kind: Kind) -> bool {
        if self.kind() != kind {
            return false;
        }
        if let Some(mut held) = self.try_own(ns) {
            return held.give_way(kind);
        }
        self.leave(ns, Note::GiveWay(kind));
        true
    }

    /// The peer of the device that the connection goes over is gone, and the connection with it. False if it goes over
    /// another.
    fn link_lost(self: &Arc<Self>, ns: &Inner, ifindex: u32) -> bool {
        // Looked up, not asked of the connection, which may be in other hands.
        let target = Target { dst: self.flow.peer, scope: self.scope };
        let leads =
            |snapshot: &Snapshot| path::route(snapshot, target).is_ok_and(|way| way.interface.ifindex == ifindex);
        if !leads(&ns.snapshot.load()) {
            return false;
        }
        self.leave(ns, Note::LinkLost);
        true
    }
}

impl Tcp {
    fn link_lost(&self, ns: &Inner, ifindex: u32) -> usize {
        self.flows.all().iter().filter(|conn| conn.link_lost(ns, ifindex)).count()
    }
}

impl NetNs {
    /// Ends all TCP connections that go over an interface, without a word to their peers: for an interface whose peer is
    /// gone and has taken its ends of them along. Their programs get `ENETRESET`. Gives how many.
    ///
    /// A memif device does this by itself when its peer goes, see
    /// `MemifConfig::keep_connections`.
    pub fn tcp_drop(&self, ifindex: u32) -> usize {
        self.0.tcp.get().map_or(0, |tcp| tcp.link_lost(&self.0, ifindex))
    }

    /// How many connections there may be that the program has closed and the peer has not (default 16384, as
    /// `net.ipv4.tcp_max_orphans`). Beyond this the oldest is reset.
    ///
    /// # Errors
    /// `EAGAIN` if the timer's thread cannot be started.
    pub fn set_tcp_max_orphans(&self, connections: usize) -> std::io::Result<()> {
        let orphans = &Tcp::of(&self.0)?.orphans;
        orphans.max.store(connections, Ordering::Relaxed);
        orphans.trim(&self.0);
        Ok(())
    }
}
