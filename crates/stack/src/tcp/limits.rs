//! How many connections there may be of a kind that costs memory and that a peer can make at will.
//!
//! | kind | limit | beyond it |
//! |---|---|---|
//! | handshakes of a listener | `TcpListenerBuilder::syn_limit` | the oldest goes without a word (its sender may be forged) |
//! | closed by the program, not by the peer | `NetNs::set_tcp_max_orphans` | the oldest is reset |
//! | waiting in TIME-WAIT | `TIME_WAITS_MAX` | the oldest goes |
//!
//! And what goes with a device whose peer went: see [`Tcp::link_lost`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Tcp;
use super::by_age::{ByAge, LimitKind};
use super::conn::Conn;

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
    /// Ends the connections over an interface whose peer is gone. Gives how many.
    pub(crate) fn link_lost(&self, ifindex: u32) -> usize {
        self.flows.all().iter().filter(|conn| conn.link_lost(self, ifindex)).count()
    }

    /// How many orphans there may be.
    pub(crate) fn set_max_orphans(&self, connections: usize) {
        self.orphans.max.store(connections, Ordering::Relaxed);
        self.orphans.trim(self);
    }
}
