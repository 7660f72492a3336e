//! Interrupts that a producer owes its peer until it has let go of its queue.

use std::sync::Arc;

use super::LinkLine;
use super::counters::TxCounters;

/// An interrupt for a peer in this process. To raise it is a system call that may wake a thread which takes the caller's
/// processor: so it is rung when no thread waits for the caller any more.
#[must_use = "the peer sleeps until it is rung"]
pub(crate) struct Bell {
    line: Arc<LinkLine>,
    published: u32,
    counters: Arc<TxCounters>,
}

impl Bell {
    /// For `published` packets.
    pub(super) fn new(line: &Arc<LinkLine>, published: u32, counters: &Arc<TxCounters>) -> Self {
        Self { line: line.clone(), published, counters: counters.clone() }
    }

    /// Keeps `bell` in `slot`, together with one that is there. That is another peer's only where the queue got a new end
    /// meanwhile, and rings then.
    pub(crate) fn keep(slot: &mut Option<Self>, bell: Self) {
        match slot {
            Some(before) => before.merge(bell).unwrap_or_else(Self::ring),
            none => *none = Some(bell),
        }
    }

    /// Takes in one that is for the same peer.
    ///
    /// # Errors
    /// It is for another.
    pub(crate) fn merge(&mut self, other: Self) -> Result<(), Self> {
        if !Arc::ptr_eq(&self.line, &other.line) {
            return Err(other);
        }
        self.published = self.published.saturating_add(other.published);
        // One interrupt for both.
        self.line.note_masked();
        Ok(())
    }

    /// Interrupts the peer as its coalescing wants it, unless it polls meanwhile or was interrupted by another.
    pub(crate) fn ring(self) {
        if self.line.is_masked() {
            self.line.note_masked();
        } else if !self.line.is_announced() && self.line.announce(self.published) {
            self.counters.kicks.add_shared(1);
        }
    }
}
