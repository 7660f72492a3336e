//! The transmit softirq of one CPU: the disciplines that wait for a run. Source: `net/core/dev.c __netif_reschedule`,
//! `net_tx_action` (Linux 7.3).
//!
//! For each discipline that [`OutputQueue::take`] hands out: take the root lock, apply
//! [`crate::tx::state::QdiscState::unschedule`], begin a run ([`crate::tx::run::TxRun::begin`]; another thread may run
//! it, and looks again), carry it out, release the lock, and give back the memory of drops. Completed packets are freed
//! before.

use alloc::collections::VecDeque;

/// The output queue of a CPU, used by it alone. It keeps its memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OutputQueue<Id> {
    scheduled: VecDeque<Id>,
    /// How many of the front belong to the run under way.
    in_run: usize,
}

impl<Id> OutputQueue<Id> {
    /// Nothing waits.
    #[must_use]
    pub const fn new() -> Self {
        Self { scheduled: VecDeque::new(), in_run: 0 }
    }

    /// Appends a discipline for which [`crate::tx::state::QdiscState::schedule`] said so. Raise the transmit softirq.
    #[inline]
    pub fn push_back(&mut self, id: Id) {
        self.scheduled.push_back(id);
    }

    /// A run begins: it handles what waits now; what comes during it is left to the next.
    ///
    /// # Panics
    /// If a run is under way.
    #[inline]
    pub fn begin(&mut self) {
        assert!(self.in_run == 0, "one run at a time on a CPU");
        self.in_run = self.scheduled.len();
    }

    /// The next discipline of the run; `None`: it is over.
    #[inline]
    #[must_use]
    pub fn take(&mut self) -> Option<Id> {
        self.in_run = self.in_run.checked_sub(1)?;
        self.scheduled.pop_front()
    }

    /// True if nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scheduled.is_empty()
    }

    /// What waits, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Id> {
        self.scheduled.iter()
    }

    /// Takes everything away, in order: the CPU goes offline. Source: `net/core/dev.c dev_cpu_dead`.
    pub fn drain(&mut self) -> impl Iterator<Item = Id> {
        self.in_run = 0;
        self.scheduled.drain(..)
    }
}

impl<Id> Default for OutputQueue<Id> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn what_comes_during_a_run_waits_for_the_next() {
        let mut queue = OutputQueue::new();
        for id in [1, 2] {
            queue.push_back(id);
        }
        queue.begin();
        assert_eq!(queue.take(), Some(1));
        queue.push_back(1);
        assert_eq!(queue.take(), Some(2));
        assert_eq!(queue.take(), None);
        assert!(!queue.is_empty());
        queue.begin();
        assert_eq!((queue.take(), queue.take()), (Some(1), None));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_cpu_that_goes_hands_over_everything() {
        let mut queue = OutputQueue::new();
        for id in [3, 1, 2] {
            queue.push_back(id);
        }
        queue.begin();
        assert_eq!(queue.take(), Some(3));
        assert_eq!(queue.drain().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(queue.take(), None);
    }
}
