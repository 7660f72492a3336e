//! How many connections there may be of a kind that costs memory and that a peer can make at will.
//!
//! | kind | limit | beyond it |
//! |---|---|---|
//! | handshakes of a listener | `TcpListenerBuilder::syn_limit` | the oldest goes without a word (its sender may be forged) |
//! | closed by the program, not by the peer | `NetNs::set_tcp_max_orphans` | the oldest is reset |
//! | waiting in TIME-WAIT | `NetNs::set_tcp_max_tw_buckets` | the oldest goes |
//! | any | `NetNs::set_tcp_mem`: the memory of all buffers | `memory` has the table; orphans with much of it are reset |
//!
//! And what goes with a device whose peer went: see [`Tcp::link_lost`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use napier_core::tcp::memory::MemoryLimits;
use napier_core::tcp::seq::Seq;
use napier_core::tcp::time_wait::{BUCKETS_MAX, Remains, Reuse, may_reuse};
use napier_core::time::Instant;
use napier_ring::Owned;

use super::Tcp;
use super::by_age::{ByAge, LimitKind, SLACK};
use super::conn::{Conn, Note};
use super::machine::TcpState;

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

/// The connections of a name space that wait out their end.
pub(super) struct TimeWaits {
    /// Oldest first, and some that wait no more; new ones are left for the thread that looks after them.
    line: Owned<VecDeque<Weak<Conn>>, Weak<Conn>>,
    count: AtomicUsize,
    max: AtomicUsize,
    /// A [`Reuse`].
    reuse: AtomicU8,
}

impl TimeWaits {
    pub(super) fn new() -> Self {
        let reuse = AtomicU8::new(Reuse::default() as u8);
        let (count, max) = (AtomicUsize::new(0), AtomicUsize::new(BUCKETS_MAX));
        Self { line: Owned::new(VecDeque::new()), count, max, reuse }
    }

    /// A connection goes from one state to another.
    pub(super) fn counts(&self, before: TcpState, next: TcpState) {
        // Relaxed: a limit, not a hand-over.
        if next == TcpState::TimeWait {
            self.count.fetch_add(1, Ordering::Relaxed);
        } else if before == TcpState::TimeWait {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A connection waits out its end: the oldest that does so may have to make room. No connection may be held.
    pub(super) fn enter(&self, tcp: &Tcp, conn: &Arc<Conn>) {
        let Some(waiting) = self.line.post(Arc::downgrade(conn)) else { return };
        // Relaxed, here and below: settings, which order nothing.
        let (count, max) = (self.count.load(Ordering::Relaxed), self.max.load(Ordering::Relaxed));
        let mut ended = Vec::new();
        waiting.line_up(|waiting| {
            // What has ended holds memory as long as it stands here.
            while waiting.front().is_some_and(|oldest| oldest.strong_count() == 0) {
                waiting.pop_front();
            }
            while ended.len() < count.saturating_sub(max)
                && let Some(oldest) = waiting.pop_front()
            {
                ended.extend(oldest.upgrade());
            }
            if waiting.len() > 2 * count + SLACK {
                waiting.retain(|one| one.strong_count() > 0);
            }
        });
        for oldest in ended {
            oldest.leave(tcp, Note::Recycle);
        }
    }

    fn reuse(&self) -> Reuse {
        [Reuse::Never, Reuse::Always, Reuse::InProcess][usize::from(self.reuse.load(Ordering::Relaxed))]
    }

    /// Whether a connection that is opened now may take the place of this one, which waits out its end, if it does; the number of its first byte
    /// then. The place is free after that.
    pub(super) fn take_place(&self, tcp: &Tcp, conn: &Arc<Conn>, now: Instant) -> Option<Seq> {
        let reuse = self.reuse();
        // One that a thread holds is not waiting.
        let mut held = conn.try_own(tcp)?;
        let (silent, first) = held.succession(now)?;
        let in_process = held.outlet.route.is_in_process();
        if !may_reuse(reuse, &Remains { in_process, silent }) {
            return None;
        }
        held.recycle();
        Some(first)
    }
}

impl Tcp {
    /// How many connections may wait out their end.
    pub(crate) fn set_max_tw_buckets(&self, connections: usize) {
        // It is looked at when the next one begins to wait.
        self.time_waits.max.store(connections, Ordering::Relaxed);
    }

    /// Whether what is opened may take the place of what waits out its end.
    pub(crate) fn set_tw_reuse(&self, reuse: Reuse) {
        self.time_waits.reuse.store(reuse as u8, Ordering::Relaxed);
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
        self.flows.all().iter().filter(|conn| conn.link_lost(self, ifindex)).count()
    }

    /// How many orphans there may be.
    pub(crate) fn set_max_orphans(&self, connections: usize) {
        self.orphans.max.store(connections, Ordering::Relaxed);
        self.orphans.trim(self);
    }
}
