//! The defer list: packets that senders have pushed and no thread has taken to the discipline yet.

use std::sync::atomic::{AtomicU64, Ordering};

use napier_core::tx::push::exceeds_burst;
use napier_ring::{Frame, FrameFifo, FrameList, FrameTable, flush_fence};

/// The list and how many are on it, on a line of their own: every sender writes it.
#[repr(align(128))]
pub(super) struct DeferList {
    list: FrameList,
    count: AtomicU64,
    /// Packets refused in all (`QDISC_BURST_DROP`), which no counter of the kernel holds.
    burst_drops: AtomicU64,
}

impl DeferList {
    pub(super) fn new() -> Self {
        Self { list: FrameList::new(), count: AtomicU64::new(0), burst_drops: AtomicU64::new(0) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// So much waits to be taken that the list will soon refuse, with `max_burst` of `net.core.qdisc_max_burst`.
    #[inline]
    pub(super) fn is_behind(&self, max_burst: i32) -> bool {
        max_burst > 0 && self.count.load(Ordering::Relaxed) >= u64::from(max_burst.unsigned_abs() / 4 * 3)
    }

    /// Adds a packet; true if the list was empty, so that its sender is to flush it.
    ///
    /// # Errors
    /// The list is full.
    #[inline]
    pub(super) fn push(&self, table: &FrameTable, frame: Frame, max_burst: impl Fn() -> i32) -> Result<bool, Frame> {
        self.list.push_admitted(table, frame, || {
            let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
            !exceeds_burst(count, max_burst())
        })
    }

    /// A packet that was refused is dropped.
    pub(super) fn note_burst_drop(&self) {
        self.burst_drops.fetch_add(1, Ordering::Relaxed);
    }

    /// Packets refused in all.
    pub(super) fn burst_drops(&self) -> u64 {
        self.burst_drops.load(Ordering::Relaxed)
    }

    /// Takes all that is there, oldest first; `None` if it is empty.
    pub(super) fn take(&self, table: &FrameTable) -> Option<FrameFifo> {
        let fifo = self.list.take(table);
        if fifo.is_empty() {
            return None;
        }
        self.count.store(0, Ordering::Relaxed);
        flush_fence();
        Some(fifo)
    }
}
