//! What came of a run.

use napier_core::histogram::Histogram;

macro_rules! counts {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// What was counted.
        #[derive(Clone, Default, PartialEq, Eq, Debug)]
        pub struct Counts { $($(#[doc = $doc])* pub $name: u64),* }

        impl Counts {
            /// Each with its name, in order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counts! {
    /// Packets that were made, their memory charged to their sender.
    made_pkts,
    /// Packets that entered `__dev_queue_xmit`.
    entered_pkts,
    /// Packets that the device has sent and whose memory was given back.
    completed_pkts,
    /// Packets that were dropped, by the list or by the discipline.
    dropped_pkts,
    /// Senders that found the discipline running and took the other lock first.
    contended_pkts,
    /// Batches that a flusher took off the list.
    batches,
    /// Packets in them.
    batch_pkts,
    /// Swaps of the list's head that failed.
    swaps_failed,
    /// Chains that were given to the driver.
    chains,
    /// Packets in them.
    chain_pkts,
    /// Runs that ended with packets left: quota used up, or the device full in mid-chain.
    unfinished_runs,
    /// Interrupts of the device.
    interrupts,
    /// Times that a sender fell asleep.
    sleeps,
}

/// What came of a plan: the sum over its placements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Virtual time that was counted, in ns.
    pub run_ns: u64,
    /// CPUs of the machine.
    pub cpus: u16,
    /// Time that they were busy, in ns.
    pub busy_ns: u64,
    /// What was counted.
    pub counts: Counts,
    /// Times in `__dev_queue_xmit`, with what a probe adds.
    pub stays: Histogram,
    /// Packets with memory charged to a sender when counting began.
    pub before_pkts: u64,
    /// And when it ended.
    pub after_pkts: u64,
    /// Events of the simulation, warm-up included.
    pub events: u64,
}

impl Outcome {
    /// Packets sent, in millions per second.
    #[must_use]
    pub fn mpps(&self) -> f64 {
        self.per_second(self.counts.completed_pkts) / 1e6
    }

    /// Share of the machine's CPUs that was busy, in percent.
    #[must_use]
    pub fn cpu_pct(&self) -> f64 {
        100.0 * self.busy_ns as f64 / (self.run_ns as f64 * f64::from(self.cpus))
    }

    /// How often something happened, per second.
    #[must_use]
    pub fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.run_ns as f64
    }

    pub(super) fn add(&mut self, other: &Self) {
        assert!(self.cpus == other.cpus, "placements on one machine");
        self.run_ns += other.run_ns;
        self.busy_ns += other.busy_ns;
        self.counts.add(&other.counts);
        self.stays.merge(&other.stays);
        self.before_pkts += other.before_pkts;
        self.after_pkts += other.after_pkts;
        self.events += other.events;
    }
}
