//! One account for the memory of a server: records, and what connections hold (requests that have come in part, answers
//! that were not taken, buffers). Records make room for both, down to a quarter of the whole; beyond that a connection
//! gets nothing, so that clients that hold memory cannot take all records away.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Store;

/// Connections may hold this much of the whole.
const HELD_SHARE: (usize, usize) = (3, 4);

/// Memory that was held and is not any more is worth giving back to the operating system from so many bytes on.
const SLACK_BYTES: usize = 2 << 20;

/// There is no memory for it, even without records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connections hold all memory that they may; give the server more of it, or fewer connections")]
pub struct NoMemory;

/// All is Relaxed: sums that order no other memory. Each change is one addition, so none gets lost.
pub(super) struct Account {
    pub(super) bytes_max: usize,
    pub(super) records: AtomicUsize,
    pub(super) held: AtomicUsize,
    /// The most that was held since memory was last given back to the operating system.
    held_peak: AtomicUsize,
}

impl Account {
    pub(super) fn new(bytes_max: usize) -> Self {
        let [records, held, held_peak] = std::array::from_fn(|_| AtomicUsize::new(0));
        Self { bytes_max, records, held, held_peak }
    }

    pub(super) fn is_over(&self) -> bool {
        self.records.load(Ordering::Relaxed) + self.held.load(Ordering::Relaxed) > self.bytes_max
    }

    fn hold(&self, bytes: usize) -> Result<(), NoMemory> {
        // In one step: what is refused must not make others be refused meanwhile.
        let max = self.bytes_max / HELD_SHARE.1 * HELD_SHARE.0;
        let with = |held: usize| held.checked_add(bytes).filter(|held| *held <= max);
        let before = self.held.try_update(Ordering::Relaxed, Ordering::Relaxed, with).map_err(|_| NoMemory)?;
        self.held_peak.fetch_max(before + bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Whether much less is held than was.
    pub(super) fn has_slack(&self) -> bool {
        let (peak, held) = (self.held_peak.load(Ordering::Relaxed), self.held.load(Ordering::Relaxed));
        peak.saturating_sub(held) >= SLACK_BYTES
    }

    /// Counts slack from here on; true for the one who did it.
    pub(super) fn take_slack(&self) -> bool {
        let (peak, held) = (self.held_peak.load(Ordering::Relaxed), self.held.load(Ordering::Relaxed));
        peak.saturating_sub(held) >= SLACK_BYTES
            && self.held_peak.compare_exchange(peak, held, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// A part of a server's memory that a connection holds; given back when it is dropped.
pub struct Held<'a> {
    store: &'a Store,
    bytes: usize,
}

impl<'a> Held<'a> {
    pub(super) fn new(store: &'a Store) -> Self {
        Self { store, bytes: 0 }
    }

    /// Holds so many bytes from now on, for which records make room if need be.
    ///
    /// # Errors
    /// [`NoMemory`]; as much is held as before then. Holding less, or as much, never fails.
    pub fn set(&mut self, bytes: usize) -> Result<(), NoMemory> {
        if bytes > self.bytes {
            self.store.account.hold(bytes - self.bytes)?;
            if self.store.account.is_over() {
                self.store.make_room();
            }
        } else {
            self.store.account.held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// What is held, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.store.account.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
