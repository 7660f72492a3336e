//! Counters of one instance. Written by its owner, readable from anywhere.

use napier_core::context::{PerContext, PollContext};
use napier_core::counters;
use napier_core::counters::CounterReading;

use crate::tx::PerThread;

counters! {
    /// Written by the instance's owner, readable from anywhere.
    pub(crate) struct NapiCounters;
    /// Counters of one NAPI instance since it was added. What `ksoftirqd` polls counts as [`PollContext::Softirq`]'s.
    #[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
    pub struct NapiStats {
        /// Calls of the driver's poll.
        pub polls: PerContext<u64>,
        /// Polls that found nothing.
        pub empty_polls: PerContext<u64>,
        /// Packets received.
        pub packets: PerContext<u64>,
        /// Times that ownership was taken to be polled by a softirq CPU or a thread.
        pub schedules: u64,
        /// Timer callbacks that ran.
        pub timer_fires: u64,
        /// Sum over `timer_fires` of how late the callback ran, in ns.
        pub timer_lateness_ns: u64,
        /// Times the interrupt was unmasked.
        pub unmasks: u64,
        /// Of these, how often coalescing held the next interrupt back (not counted where the line counts frames).
        pub irq_holds: u64,
        /// Interrupts that arrived when no packet waited and no thread polled; they cost no poll.
        pub irq_needless: u64,
        /// Times that the interrupt stayed masked and the timer was armed instead: by a completion, or by a busy poller that
        /// prefers it so and left.
        pub deferrals: u64,
        /// Times that an event context suspended the interrupt, or prolonged that, because it had events
        /// (`irq-suspend-timeout`).
        pub suspensions: u64,
        /// Times that an event context found nothing and ended that: the instance was polled once more.
        pub resumes: u64,
        /// Packets that busy-loop iterations received (`TcpExt BusyPollRxPackets`).
        pub busy_poll_rx_packets: u64,
        /// Ticks of the engine's tick counter spent in polls that found nothing.
        pub spin_ticks: u64,
        /// Packets that were merged into one before them of their flow.
        pub gro_merged: u64,
        /// Completions that found packets held for merging, refused ones not counted.
        pub gro_held: u64,
    }
    elsewhere {
        /// Interrupts taken: doorbells and coalescing timers.
        pub interrupts: u64,
    }
}

impl NapiCounters {
    #[inline]
    pub(crate) fn polled(&self, context: PollContext, work: u32) {
        self.polls[context].add(1);
        if work == 0 {
            self.empty_polls[context].add(1);
        } else {
            self.packets[context].add(u64::from(work));
        }
    }

    #[inline]
    pub(crate) fn busy_packets(&self, work: u32) {
        self.busy_poll_rx_packets.add(u64::from(work));
    }

    /// Polls by busy-polling applications.
    #[inline]
    pub(crate) fn busy_polls(&self) -> u64 {
        self.polls[PollContext::User].get()
    }

    /// Ticks that the calling thread has spent polling in vain; several threads may add.
    #[inline]
    pub(crate) fn spun(&self, ticks: u64) {
        PerThread::spun(ticks);
        self.spin_ticks.add_shared(ticks);
    }

    /// Packets that became part of another.
    pub(crate) fn merged(&self, packets: u64) {
        self.gro_merged.add(packets);
    }

    /// A completion while packets were held.
    pub(crate) fn completed_holding(&self) {
        self.gro_held.add(1);
    }

    pub(crate) fn scheduled(&self) {
        self.schedules.add_shared(1);
    }

    pub(crate) fn unmasked(&self) {
        self.unmasks.add_shared(1);
    }

    /// The line stays masked for now, though it was to be unmasked.
    pub(crate) fn held_back(&self) {
        self.irq_holds.add_shared(1);
    }

    /// An interrupt was heard for what another owner had taken.
    pub(crate) fn needless_interrupt(&self) {
        self.irq_needless.add_shared(1);
    }

    /// The interrupt stays masked, and the timer is armed.
    pub(crate) fn deferred(&self) {
        self.deferrals.add_shared(1);
    }

    /// An event context suspends the interrupt, or prolongs that.
    pub(crate) fn suspended(&self) {
        self.suspensions.add_shared(1);
    }

    /// An event context found nothing and gave the interrupt back.
    pub(crate) fn resumed(&self) {
        self.resumes.add_shared(1);
    }

    pub(crate) fn timer_fired(&self, late_ns: u64) {
        self.timer_fires.add_shared(1);
        self.timer_lateness_ns.add_shared(late_ns);
    }

    pub(crate) fn snapshot(&self, interrupts: u64) -> NapiStats {
        NapiStats { interrupts, ..NapiStats::read(self) }
    }
}

impl NapiStats {
    /// Polls in all contexts.
    #[must_use]
    pub fn polls_total(&self) -> u64 {
        self.polls.total()
    }

    /// Polls in all contexts that found nothing.
    #[must_use]
    pub fn empty_polls_total(&self) -> u64 {
        self.empty_polls.total()
    }

    /// Packets received in all contexts.
    #[must_use]
    pub fn packets_total(&self) -> u64 {
        self.packets.total()
    }
}
