//! Which members of a set may have something to report: offered by any thread, collected by one at a time.

use crate::sync::{AtomicBool, Ordering, Point, full_fence};
use crate::{Links, List, Remainder};

/// A list of slots, each on it once at most.
///
/// A slot is in at most one of: the list, the hands of a collector, what that has left; its flag is true while it is. The
/// flag belongs to the slot and not to the member in it, so an offer that comes late, after its member was removed and the
/// slot given to another, costs that other one needless look and nothing else.
///
/// A collector, one at a time: [`collect`](Self::collect), look at members, [`settle`](Self::settle). A slot that it does not
/// keep is [released](Self::release) *before* the last look at its member.
pub struct ReadyQueue {
    list: List,
    links: Links,
    queued: Box<[AtomicBool]>,
    held: Remainder,
}

impl ReadyQueue {
    /// A queue of the slots `0..slots_max`, none of which is on it.
    #[must_use]
    pub fn new(slots_max: u32) -> Self {
        Self {
            list: List::new(),
            links: Links::new(slots_max),
            queued: (0..slots_max).map(|_| AtomicBool::new(false)).collect(),
            held: Remainder::new(),
        }
    }

    /// Puts a slot on the list unless it is queued already; true if it was put there.
    ///
    /// The caller has published the reason, with a full fence after that ([`Demand::after_news`](crate::Demand::after_news)).
    #[inline]
    pub fn offer(&self, slot: u32) -> bool {
        let flag = &self.queued[slot as usize];
        // Relaxed: the caller's fence pairs with the one in `release`. If we read true here, the collector that clears the
        // flag looks at the member after that, and sees what the caller published.
        // AcqRel: pairs with itself in `reclaim`, for the same reason.
        if flag.load(Ordering::Relaxed) || flag.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.list.push(&self.links, slot);
        true
    }

    /// Whether there is reason to look.
    #[must_use]
    #[inline]
    pub fn available(&self) -> bool {
        !self.list.is_empty() || self.held.is_left()
    }

    /// Takes all slots off the list, oldest first. The caller ends with [`settle`](Self::settle).
    #[inline]
    pub fn collect(&self, mut keep: impl FnMut(u32)) {
        self.held.begin();
        let mut taken = self.list.take(&self.links);
        while let Some(slot) = taken.pop(&self.links) {
            keep(slot);
        }
    }

    /// Tells the others whether the collector has slots left.
    #[inline]
    pub fn settle(&self, left: bool) {
        self.held.settle(left);
    }

    /// Lets the slot be offered again. The caller looks at the member after this, not before.
    #[inline]
    pub fn release(&self, slot: u32) {
        self.queued[slot as usize].store(false, Ordering::Relaxed);
        // Pairs with the fence before `offer`: either the flag is seen false there, or the news are seen by our look.
        full_fence(Point::ReadyRelease);
    }

    /// Takes a released slot back; false if an offer was faster and has it on the list now.
    #[must_use = "false means that the slot is not the caller's"]
    #[inline]
    pub fn reclaim(&self, slot: u32) -> bool {
        !self.queued[slot as usize].swap(true, Ordering::AcqRel)
    }
}
