//! How many connections there may be of a kind that costs memory and that a peer can make at will.
//!
//! | kind | limit | beyond it |
//! |---|---|---|
//! | handshakes of a listener | `TcpListenerBuilder::syn_limit` | the oldest goes without a word (its sender may be forged) |
//! | closed by the program, not by the peer | `NetNs::set_tcp_max_orphans` | the oldest is reset |
//! | waiting in TIME-WAIT, closed by the program | `NetNs::set_tcp_max_tw_buckets` | the oldest goes |
//! | any | `NetNs::set_tcp_mem`: the memory of all buffers | `memory` has the table; orphans with much of it are reset |
//!
//! And what goes with a device whose peer went: see [`Tcp::link_lost`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use napier_core::tcp::memory::MemoryLimits;
use napier_core::tcp::seq::Seq;
use napier_core::tcp::time_wait::Reuse;
use napier_core::time::Instant;

use super::Tcp;
use super::by_age::{ByAge, LimitKind};
use super::conn::{Conn, Note};

/// Connections that the program has closed and the peer has not. Source: `net.ipv4.tcp_max_orphans` with 4 GiB of memory.
const ORPHANS_MAX_DEFAULT: usize = 16_384;

/// The orphans of a name space.
pub(super) struct Orphans {
    pub(super) line: ByAge<Conn>,
    pub(super) max: AtomicUsize,
}

impl Orphans {
    pub(super) fn new() -> Self {
        Self { line: ByAge::default(), max: AtomicUsize::new(ORPHANS_MAX_DEFAULT) }
    }

    /// There is one more; no connection may be held.
    pub(super) fn enter(&self, tcp: &Tcp, conn: &Arc<Conn>) {
        self.line.enter(conn, LimitKind::Orphan);
        self.trim(tcp);
    }

    pub(crate) fn trim(&self, tcp: &Tcp) {
        while self.line.count() > self.max.load(Ordering::Relaxed)
            && self.line.end_oldest(LimitKind::Orphan, |conn| conn.give_way(tcp, LimitKind::Orphan))
        {}
    }
}

impl Tcp {
    /// Whether a connection that we open may take the place of this one, if it waits out its end and its program still has it; the number of its first
    /// byte then. The place is free after that.
    pub(super) fn takes_place(&self, conn: &Arc<Conn>, now: Instant) -> Option<Seq> {
        // One that a thread holds is not waiting.
        let mut held = conn.try_own(self)?;
        let in_process = held.outlet.route.is_in_process();
        let first = held.gives_way_to(now, self.time_waits.reuse(), in_process)?;
        held.recycle();
        Some(first)
    }

    /// How many connections may wait out their end.
    pub(crate) fn set_max_tw_buckets(&self, connections: usize) {
        // It is looked at when the next one begins to wait.
        self.time_waits.set_max(connections);
    }

    /// Whether what is opened may take the place of what waits out its end.
    pub(crate) fn set_tw_reuse(&self, reuse: Reuse) {
        self.time_waits.set_reuse(reuse);
    }

    /// Memory is short: all connections are asked to give back what they do not use. The thread of the timers does.
    pub(super) fn sweep(&self) {
        self.flows.all().iter().for_each(|conn| conn.leave(self, Note::Memory));
    }

    /// How much memory the buffers of all connections have together.
    pub(crate) fn set_memory(&self, limits: MemoryLimits) {
        self.memory.set_limits(limits);
    }

    /// Ends the connections over an interface whose peer is gone. Gives how many.
    pub(crate) fn link_lost(&self, ifindex: u32) -> usize {
        self.flows.all().iter().filter(|conn| conn.link_lost(self, ifindex)).count() + self.waits_lost(ifindex)
    }

    /// How many orphans there may be.
    pub(crate) fn set_max_orphans(&self, connections: usize) {
        self.orphans.max.store(connections, Ordering::Relaxed);
        self.orphans.trim(self);
    }
}
