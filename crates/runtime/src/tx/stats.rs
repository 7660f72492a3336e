//! What happened on the transmit path.

use std::fmt;

use napier_core::counters;
use napier_core::counters::ShownNumber as _;
use napier_core::histogram::Histogram;
use napier_core::tx::DropReason;

/// Durations in ticks.
#[derive(Clone, Default)]
pub(crate) struct CallTimes {
    all: Histogram,
    pub(crate) stay_max_ticks: u64,
}

impl CallTimes {
    #[inline]
    pub(crate) fn add(&mut self, ticks: u64, flushed: bool) {
        self.all.add(ticks);
        if flushed {
            self.stay_max_ticks = self.stay_max_ticks.max(ticks);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.all.merge(&other.all);
        self.stay_max_ticks = self.stay_max_ticks.max(other.stay_max_ticks);
    }

    pub(crate) fn finish(&self, ticks_per_us: f64) -> XmitTimes {
        #[expect(clippy::cast_precision_loss, reason = "durations for reports")]
        let ns = |ticks: u64| ticks as f64 * 1000.0 / ticks_per_us;
        let buckets = self.all.filled().map(|(first, last, calls)| XmitBucket {
            from_ns: ns(first),
            below_ns: ns(last.saturating_add(1)),
            calls,
        });
        XmitTimes { buckets: buckets.collect(), max_ns: ns(self.all.max()), stay_max_ns: ns(self.stay_max_ticks) }
    }
}

/// Durations of transmit calls: from a packet that is built to the return code, the queueing discipline and whatever the
/// caller did for others included (what `__dev_queue_xmit` takes in the kernel). Two readings of the tick counter, about
/// 20 ns, are within.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct XmitTimes {
    /// Buckets that are not empty: from this many ns, below the next sixteenth of a power of two, and how many calls.
    pub buckets: Vec<XmitBucket>,
    /// The longest call, in ns.
    pub max_ns: f64,
    /// The longest call that flushed for others, or found no thread to flush for it, in ns; 0 with the variants in which
    /// none does.
    pub stay_max_ns: f64,
}

/// One bucket of [`XmitTimes`].
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct XmitBucket {
    /// Least duration in ns.
    pub from_ns: f64,
    /// Duration that belongs to the next bucket, in ns.
    pub below_ns: f64,
    /// Calls.
    pub calls: u64,
}

counters! {
    /// As the holder wrote it down last.
    pub(crate) struct ShownRuns;
    /// What the holder of the root lock counts besides the rules' own counters and the sizes of batches.
    #[derive(Copy, Clone, Default)]
    pub(crate) struct Runs {
        pub(crate) flushes: u64,
        pub(crate) runs: u64,
        pub(crate) run_pkts: u64,
        pub(crate) softirq_runs: u64,
        pub(crate) schedules: u64,
        pub(crate) lock_waits: u64,
        pub(crate) lock_wait_ticks: u64,
    }
}

/// What the holder of the root lock counts.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) batches: Histogram,
    pub(crate) counts: Runs,
}

impl Ledger {
    #[inline]
    pub(crate) fn waited(&mut self, ticks: u64) {
        if ticks > 0 {
            self.counts.lock_waits += 1;
            self.counts.lock_wait_ticks += ticks;
        }
    }

    #[inline]
    pub(crate) fn batch(&mut self, pkts: u32) {
        self.counts.flushes += 1;
        self.batches.add(pkts.into());
    }
}

/// Counters of one transmit queue since it got its discipline, as `tc -s qdisc` shows them and beyond.
#[derive(Clone, PartialEq, Debug)]
pub struct TxQueueStats {
    /// `noqueue`, `pfifo`, `fq` or `pfifo_fast`.
    pub qdisc: &'static str,
    /// How senders hand over.
    pub variant: super::TxVariant,
    /// Packets that left the discipline.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that wait now.
    pub qlen: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Packets that came back because the ring was full.
    pub requeues: u64,
    /// Packets that the discipline dropped, by reason; those without any are left out.
    pub drops: Vec<(DropReason, u64)>,
    /// Packets that the defer list refused because more than `net.core.qdisc_max_burst` waited for the flusher: the kernel
    /// drops them with the reason `QDISC_BURST_DROP` and counts them nowhere.
    pub burst_drops: u64,
    /// Batches by size in packets.
    pub batches: Histogram,
    /// Batches: the number of flushes.
    pub flushes: u64,
    /// Runs of the queue, by any thread.
    pub runs: u64,
    /// Packets that runs gave to the ring.
    pub run_pkts: u64,
    /// Runs in softirq context.
    pub softirq_runs: u64,
    /// Times that a run was asked for in softirq context.
    pub schedules: u64,
    /// Times that a thread waited for one of the locks.
    pub lock_waits: u64,
    /// How long together, in ns.
    pub lock_wait_ns: f64,
    /// Times that the ring was full and the queue stopped.
    pub stops: u64,
    /// Frames that a thread which works for others found the transmit lock taken for, and left to its holder.
    pub left: u64,
    /// Frames that it could not leave because too many were; refused as by a full ring.
    pub left_refused: u64,
    /// The byte limit in force; `None` without limits.
    pub limit_bytes: Option<u32>,
}

/// The discipline and the variant, then one line per counter that is not 0, with its name and its unit; drops by reason, batches by their middle and most.
impl fmt::Display for TxQueueStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { qdisc, variant, packets, bytes, qlen, backlog_bytes, requeues, drops, burst_drops, .. } = self;
        let Self { batches, flushes, runs, run_pkts, softirq_runs, schedules, lock_waits, lock_wait_ns, .. } = self;
        let Self { stops, left, left_refused, limit_bytes, .. } = self;
        writeln!(f, "{:<32}{qdisc}", "qdisc")?;
        writeln!(f, "{:<32}{}", "variant", variant.name())?;
        packets.show("packets", f)?;
        bytes.show("bytes", f)?;
        qlen.show("qlen", f)?;
        backlog_bytes.show("backlog_bytes", f)?;
        requeues.show("requeues", f)?;
        drops.iter().try_for_each(|(reason, packets)| packets.show(&format!("drops {}", reason.name()), f))?;
        burst_drops.show("burst_drops", f)?;
        if batches.count() > 0 {
            let (middle, most) = (batches.percentile(0.5), batches.percentile(1.0));
            writeln!(f, "{:<32}{middle} (at most {most}) packets", "batches")?;
        }
        flushes.show("flushes", f)?;
        runs.show("runs", f)?;
        run_pkts.show("run_pkts", f)?;
        softirq_runs.show("softirq_runs", f)?;
        schedules.show("schedules", f)?;
        lock_waits.show("lock_waits", f)?;
        (*lock_wait_ns as u64).show("lock_wait_ns", f)?; // a sum of short times
        stops.show("stops", f)?;
        left.show("left", f)?;
        left_refused.show("left_refused", f)?;
        limit_bytes.map_or(Ok(()), |limit| u64::from(limit).show("limit_bytes", f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_counts_and_the_longest() {
        let (mut one, mut two) = (CallTimes::default(), CallTimes::default());
        (0..10).for_each(|_| one.add(100, true));
        two.add(4000, false);
        one.merge(&two);
        let times = one.finish(1000.0);
        assert_eq!(times.buckets.iter().map(|bucket| bucket.calls).collect::<Vec<_>>(), [10, 1]);
        assert!(times.buckets[0].from_ns <= 100.0 && 100.0 < times.buckets[0].below_ns);
        assert!((times.max_ns - 4000.0).abs() < 1e-9 && (times.stay_max_ns - 100.0).abs() < 1e-9);
    }
}
