//! Which members may have something to report: pushed by deliveries without a lock, taken by waits.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use napier_ring::{Links, List};

/// The side of the ready list that deliveries see.
///
/// A slot is in at most one of: the list, the hands of a wait, a [`Backlog`]; its flag is true while it is. The flag
/// belongs to the slot and not to the member in it, so a delivery that comes late, after its member was deleted and
/// the slot given to another, costs that other one needless look and nothing else.
pub(super) struct ReadyQueue {
    list: List,
    links: Links,
    queued: Box<[AtomicBool]>,
    /// A wait has slots in hand, or the backlog is not empty.
    held: AtomicBool,
}

/// The side that only the holder of the membership lock sees: slots taken off the list and not yet looked at, and
/// level-triggered ones that were ready at the last look. Oldest first.
#[derive(Default)]
pub(super) struct Backlog {
    slots: VecDeque<u32>,
}

impl ReadyQueue {
    pub(super) fn new(slots_max: u32) -> Self {
        Self {
            list: List::new(),
            links: Links::new(slots_max),
            queued: (0..slots_max).map(|_| AtomicBool::new(false)).collect(),
            held: AtomicBool::new(false),
        }
    }

    /// Puts a slot on the list unless it is queued already; true if it was put there.
    ///
    /// The caller has published the reason, with a full fence after that.
    #[inline]
    pub(super) fn offer(&self, slot: u32) -> bool {
        let flag = &self.queued[slot as usize];
        // Relaxed: the caller's fence pairs with the one in `release`. If we read true here, the wait that clears the
        // flag looks at the member after that, and sees what the caller published.
        // Release (of AcqRel): pairs with Acquire in `reclaim`, for the same reason.
        if flag.load(Ordering::Relaxed) || flag.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.list.push(&self.links, slot);
        true
    }

    /// Whether a wait has reason to look (`fs/eventpoll.c` `ep_events_available`).
    #[inline]
    pub(super) fn available(&self) -> bool {
        if !self.list.is_empty() {
            return true;
        }
        // Acquire: pairs with the Release fence in `collect` — a list emptied by a wait shows its `held`.
        fence(Ordering::Acquire);
        // Acquire: pairs with Release in `settle`.
        self.held.load(Ordering::Acquire)
    }

    /// Moves everything on the list to the backlog's end. The caller holds the lock and calls [`settle`](Self::settle).
    pub(super) fn collect(&self, backlog: &mut Backlog) {
        self.held.store(true, Ordering::Relaxed);
        // Release: pairs with the Acquire fence in `available`, through the list's head as we leave it.
        fence(Ordering::Release);
        let mut taken = self.list.take(&self.links);
        while let Some(slot) = taken.pop(&self.links) {
            backlog.slots.push_back(slot);
        }
    }

    /// Declares the backlog's state to those that do not hold the lock.
    pub(super) fn settle(&self, backlog: &Backlog) {
        // Release: pairs with Acquire in `available`.
        self.held.store(!backlog.slots.is_empty(), Ordering::Release);
    }

    /// Lets deliveries queue the slot again. The caller looks at the member after this, not before.
    #[inline]
    pub(super) fn release(&self, slot: u32) {
        self.queued[slot as usize].store(false, Ordering::Relaxed);
        // Pairs with the fence before `offer`: a delivery either sees the flag false, or its news is seen by our look.
        fence(Ordering::SeqCst);
    }

    /// Takes a released slot back; false if a delivery was faster and has it on the list now.
    #[inline]
    pub(super) fn reclaim(&self, slot: u32) -> bool {
        !self.queued[slot as usize].swap(true, Ordering::AcqRel)
    }
}

impl Backlog {
    /// Makes room for this many slots, so that no wait has to.
    pub(super) fn reserve(&mut self, slots: usize) {
        self.slots.reserve(slots.saturating_sub(self.slots.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        self.slots.pop_front()
    }

    pub(super) fn push(&mut self, slot: u32) {
        self.slots.push_back(slot);
    }
}
