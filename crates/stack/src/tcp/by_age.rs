//! Connections in the order in which they became something that there may be only so many of.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use napier_ring::{Owned, Owner};

/// A line is cleaned when it is longer than twice its members and this.
pub(super) const SLACK: usize = 64;

/// What a connection counts as, for its limit.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum LimitKind {
    /// No limit of these here.
    Plain = 0,
    /// Its handshake goes on.
    Embryo = 1,
    /// The program has closed it.
    Orphan = 2,
}

/// What stands in a line.
pub(super) trait Limited {
    /// What it counts as now.
    fn kind(&self) -> LimitKind;
}

/// Connections of one kind, in the order in which they became it. No thread waits for the one that looks after them.
pub(super) struct ByAge<C> {
    /// Some may be of another kind by now, or gone.
    members: Owned<VecDeque<Weak<C>>, Weak<C>>,
    count: AtomicUsize,
}

impl<C> Default for ByAge<C> {
    fn default() -> Self {
        Self { members: Owned::new(VecDeque::new()), count: AtomicUsize::new(0) }
    }
}

impl<C: Limited> ByAge<C> {
    pub(super) fn count(&self) -> usize {
        // Relaxed: a limit, not a hand-over.
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn enter(&self, conn: &Arc<C>, kind: LimitKind) {
        if let Some(members) = self.members.post(Arc::downgrade(conn)) {
            self.leave(members, kind);
        }
    }

    /// Takes in who came meanwhile, and lets go.
    fn leave(&self, members: Members<'_, C>, kind: LimitKind) {
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

    /// Ends the oldest; false if there is none, or another thread is at it.
    pub(super) fn end_oldest(&self, kind: LimitKind, give_way: impl Fn(&Arc<C>) -> bool) -> bool {
        loop {
            let Some(mut members) = self.members.try_own() else { return false };
            let new = members.messages();
            members.extend(new);
            let oldest = members.pop_front();
            self.leave(members, kind);
            let Some(oldest) = oldest else { return false };
            if oldest.upgrade().as_ref().is_some_and(&give_way) {
                return true;
            }
        }
    }
}

type Members<'a, C> = Owner<'a, VecDeque<Weak<C>>, Weak<C>>;
