//! What a queue has counted, for readers without a lock: the holder of the root lock writes it down before it lets go.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use napier_core::histogram::Histogram;
use napier_core::tx::DropReason;

use super::{Guarded, Mode, TxPath, TxQueueStats, TxVariant};

/// As [`Shown::limit_bytes`]: there is no limit.
const NO_LIMIT: u32 = u32::MAX;

/// On lines of its own: who reads it takes no line from senders but from the holder of the root lock, for one store.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Shown {
    packets: AtomicU64,
    bytes: AtomicU64,
    qlen: AtomicU64,
    backlog_bytes: AtomicU64,
    requeues: AtomicU64,
    flushes: AtomicU64,
    runs: AtomicU64,
    run_pkts: AtomicU64,
    softirq_runs: AtomicU64,
    schedules: AtomicU64,
    lock_waits: AtomicU64,
    lock_wait_ticks: AtomicU64,
    drops: [AtomicU64; DropReason::ALL.len()],
    /// With those of disciplines before this one.
    dropped_ever: AtomicU64,
    /// Burst drops of the time before the discipline.
    bursts_before: AtomicU64,
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

    fn get(&self) -> Option<u32> {
        Some(self.0.load(Ordering::Relaxed)).filter(|bytes| *bytes != NO_LIMIT)
    }
}

impl TxPath {
    /// Writes down what the holder of the root lock has counted; `dropped`: packets may have been dropped.
    #[inline]
    pub(super) fn show(&self, held: &Guarded, dropped: bool) {
        let Guarded { root, ledger } = held;
        // Relaxed: figures, ordered with nothing.
        let put = |to: &AtomicU64, value: u64| to.store(value, Ordering::Relaxed);
        let shown = &self.shown;
        put(&shown.packets, root.stats().packets);
        put(&shown.bytes, root.stats().bytes);
        put(&shown.qlen, root.qlen() as u64);
        put(&shown.backlog_bytes, root.backlog_bytes());
        put(&shown.requeues, root.stats().requeues);
        put(&shown.flushes, ledger.flushes);
        put(&shown.runs, ledger.runs);
        put(&shown.run_pkts, ledger.run_pkts);
        put(&shown.softirq_runs, ledger.softirq_runs);
        put(&shown.schedules, ledger.schedules);
        put(&shown.lock_waits, ledger.lock_waits);
        put(&shown.lock_wait_ticks, ledger.lock_wait_ticks);
        if dropped {
            self.show_drops(held);
        }
    }

    #[cold]
    fn show_drops(&self, held: &Guarded) {
        let drops = &held.root.stats().drops;
        for (reason, pkts) in drops.iter() {
            self.shown.drops[reason as usize].store(pkts, Ordering::Relaxed);
        }
        let ever = self.former_drops.load(Ordering::Relaxed) + drops.total();
        self.shown.dropped_ever.store(ever, Ordering::Relaxed);
    }

    /// Another discipline is in place; its counters begin at 0.
    pub(super) fn show_replaced(&self, held: &Guarded) {
        let bursts = self.defer.burst_drops.load(Ordering::Relaxed);
        self.shown.bursts_before.store(bursts, Ordering::Relaxed);
        *self.shown.qdisc.lock().unwrap_or_else(PoisonError::into_inner) = Some(held.root.qdisc().name());
        self.show(held, true);
    }

    /// Packets that the queue's disciplines and its defer list have dropped, and of how many their senders were told.
    pub(crate) fn drops(&self) -> (u64, u64) {
        let told = self.told.load(Ordering::Relaxed);
        let dropped = self.shown.dropped_ever.load(Ordering::Relaxed);
        (dropped + self.defer.burst_drops.load(Ordering::Relaxed), told)
    }

    /// Packets of the time since the discipline is there that the defer list refused.
    pub(super) fn burst_drops(&self) -> u64 {
        let ever = self.defer.burst_drops.load(Ordering::Relaxed);
        ever.saturating_sub(self.shown.bursts_before.load(Ordering::Relaxed))
    }

    pub(super) fn variant(&self) -> TxVariant {
        match self.mode() {
            Mode::Locked => TxVariant::Locked,
            Mode::Owner => TxVariant::Owner,
            Mode::Llist | Mode::Noqueue => TxVariant::Llist,
        }
    }

    /// The counters as they were written down last, without the sizes of batches; no lock of a sender is taken.
    pub(crate) fn shown(&self, ticks_per_us: f64) -> TxQueueStats {
        let get = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let shown = &self.shown;
        let drops = DropReason::ALL.map(|reason| (reason, get(&shown.drops[reason as usize])));
        #[expect(clippy::cast_precision_loss, reason = "durations for reports")]
        let lock_wait_ns = get(&shown.lock_wait_ticks) as f64 * 1000.0 / ticks_per_us;
        TxQueueStats {
            qdisc: shown.qdisc.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or("noqueue"),
            variant: self.variant(),
            packets: get(&shown.packets),
            bytes: get(&shown.bytes),
            qlen: get(&shown.qlen),
            backlog_bytes: get(&shown.backlog_bytes),
            requeues: get(&shown.requeues),
            drops: drops.to_vec(),
            burst_drops: self.burst_drops(),
            batches: Histogram::default(),
            flushes: get(&shown.flushes),
            runs: get(&shown.runs),
            run_pkts: get(&shown.run_pkts),
            softirq_runs: get(&shown.softirq_runs),
            schedules: get(&shown.schedules),
            lock_waits: get(&shown.lock_waits),
            lock_wait_ns,
            stops: self.stops.load(Ordering::Relaxed),
            left: self.left.load(Ordering::Relaxed),
            left_refused: self.left_refused.load(Ordering::Relaxed),
            limit_bytes: self.limit_bytes.get(),
        }
    }
}
