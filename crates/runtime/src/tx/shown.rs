//! What a queue has counted, for readers without a lock: the holder of the root lock writes it down before it lets go.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use napier_core::counters;
use napier_core::counters::{Counter, CounterReading};
use napier_core::histogram::Histogram;
use napier_core::tx::DropReason;

use super::stats::{Runs, ShownRuns};
use super::{Guarded, TxQueueStats, TxVariant};

/// As [`ShownStats::limit_bytes`]: there is no limit.
const NO_LIMIT: u32 = u32::MAX;

counters! {
    pub(super) struct ShownQueue;
    /// What a discipline has in its own books.
    pub(super) struct QueueFigures {
        packets: u64,
        bytes: u64,
        qlen: u64,
        backlog_bytes: u64,
        requeues: u64,
    }
}

/// On lines of its own: who reads it takes no line from senders but from the holder of the root lock, for one store.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct ShownStats {
    queue: ShownQueue,
    runs: ShownRuns,
    drops: [Counter; DropReason::ALL.len()],
    /// What disciplines before this one dropped.
    former_drops: Counter,
    /// With those of disciplines before this one.
    dropped_ever: Counter,
    /// Burst drops of the time before the discipline.
    bursts_before: Counter,
    /// Drops that were told to their senders.
    told: Counter,
    /// Name of the discipline. Only the control path and readers take it; `None`: there never was one.
    qdisc: Mutex<Option<&'static str>>,
}

/// The byte limit in force. The holder of the transmit lock writes it.
pub(super) struct ShownLimit(AtomicU32);

impl ShownLimit {
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(NO_LIMIT))
    }

    #[inline]
    pub(super) fn store(&self, limit_bytes: Option<u32>) {
        self.0.store(limit_bytes.unwrap_or(NO_LIMIT), Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Option<u32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|bytes| *bytes != NO_LIMIT)
    }
}

impl ShownStats {
    /// Writes down what the holder of the root lock has counted; `dropped`: packets may have been dropped.
    #[inline]
    pub(super) fn write(&self, held: &Guarded, dropped: bool) {
        let Guarded { root, ledger } = held;
        let stats = root.stats();
        let queue = QueueFigures {
            packets: stats.packets,
            bytes: stats.bytes,
            qlen: root.qlen() as u64,
            backlog_bytes: root.backlog_bytes(),
            requeues: stats.requeues,
        };
        queue.publish(&self.queue);
        ledger.counts.publish(&self.runs);
        if dropped {
            self.write_drops(held);
        }
    }

    #[cold]
    fn write_drops(&self, held: &Guarded) {
        let drops = &held.root.stats().drops;
        for (reason, pkts) in drops.iter() {
            self.drops[reason as usize].set(pkts);
        }
        self.dropped_ever.set(self.former_drops.get() + drops.total());
    }

    /// Another discipline is to take the place of this one, whose drops are not forgotten.
    pub(super) fn write_former(&self, held: &Guarded) {
        self.former_drops.add(held.root.stats().drops.total());
    }

    /// Another discipline is in place; its counters begin at 0. `bursts`: what the defer list has refused so far.
    pub(super) fn write_replaced(&self, held: &Guarded, bursts: u64) {
        self.bursts_before.set(bursts);
        *self.qdisc.lock().unwrap_or_else(PoisonError::into_inner) = Some(held.root.qdisc().name());
        self.write(held, true);
    }

    /// A sender was told that its packet was dropped.
    pub(super) fn note_told(&self) {
        self.told.add_shared(1);
    }

    /// Packets that the queue's disciplines have dropped, and of how many their senders were told; `bursts`: what the defer
    /// list has refused.
    pub(super) fn drops(&self, bursts: u64) -> (u64, u64) {
        let told = self.told.get();
        (self.dropped_ever.get() + bursts, told)
    }

    /// The counters as they were written down last, without the sizes of batches and what is counted elsewhere; no lock of
    /// a sender is taken.
    pub(super) fn read(&self, variant: TxVariant, bursts: u64, ticks_per_us: f64) -> TxQueueStats {
        let drops = DropReason::ALL.map(|reason| (reason, self.drops[reason as usize].get()));
        let QueueFigures { packets, bytes, qlen, backlog_bytes, requeues } = QueueFigures::read(&self.queue);
        let runs = Runs::read(&self.runs);
        #[expect(clippy::cast_precision_loss, reason = "durations for reports")]
        let lock_wait_ns = runs.lock_wait_ticks as f64 * 1000.0 / ticks_per_us;
        TxQueueStats {
            qdisc: self.qdisc.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or("noqueue"),
            variant,
            packets,
            bytes,
            qlen,
            backlog_bytes,
            requeues,
            drops: drops.to_vec(),
            burst_drops: bursts.saturating_sub(self.bursts_before.get()),
            batches: Histogram::default(),
            flushes: runs.flushes,
            runs: runs.runs,
            run_pkts: runs.run_pkts,
            softirq_runs: runs.softirq_runs,
            schedules: runs.schedules,
            lock_waits: runs.lock_waits,
            lock_wait_ns,
            stops: 0,
            left: 0,
            left_refused: 0,
            limit_bytes: None,
        }
    }
}
