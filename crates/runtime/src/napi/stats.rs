//! Counters of one instance. Written by its owner, readable from anywhere.

use std::sync::atomic::{AtomicU64, Ordering};

use napier_core::context::{PerContext, PollContext};

#[derive(Default)]
pub(crate) struct NapiCounters {
    polls: PerContext<AtomicU64>,
    empty_polls: PerContext<AtomicU64>,
    packets: PerContext<AtomicU64>,
    schedules: AtomicU64,
    timer_fires: AtomicU64,
    timer_lateness_ns: AtomicU64,
    unmasks: AtomicU64,
    irq_holds: AtomicU64,
    irq_needless: AtomicU64,
    deferrals: AtomicU64,
    suspensions: AtomicU64,
    resumes: AtomicU64,
    /// `BusyPollRxPackets`: packets of busy-loop iterations; the poll that ends a loop does not count.
    busy_poll_rx_packets: AtomicU64,
    spin_ticks: AtomicU64,
    merged: AtomicU64,
    held: AtomicU64,
}

/// Adds without a locked instruction: each counter has one writer at a time, the owner of the instance.
#[inline]
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl NapiCounters {
    #[inline]
    pub(crate) fn polled(&self, context: PollContext, work: u32) {
        bump(&self.polls[context], 1);
        if work == 0 {
            bump(&self.empty_polls[context], 1);
        } else {
            bump(&self.packets[context], u64::from(work));
        }
    }

    #[inline]
    pub(crate) fn busy_packets(&self, work: u32) {
        bump(&self.busy_poll_rx_packets, u64::from(work));
    }

    /// Polls by busy-polling applications.
    #[inline]
    pub(crate) fn busy_polls(&self) -> u64 {
        self.polls[PollContext::User].load(Ordering::Relaxed)
    }

    /// Ticks that the calling thread has spent polling in vain; several threads may add.
    #[inline]
    pub(crate) fn spun(&self, ticks: u64) {
        crate::threads::spun(ticks);
        self.spin_ticks.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Packets that became part of another.
    pub(crate) fn merged(&self, packets: u64) {
        bump(&self.merged, packets);
    }

    /// A completion while packets were held.
    pub(crate) fn completed_holding(&self) {
        bump(&self.held, 1);
    }

    pub(crate) fn scheduled(&self) {
        self.schedules.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unmasked(&self) {
        self.unmasks.fetch_add(1, Ordering::Relaxed);
    }

    /// The line stays masked for now, though it was to be unmasked.
    pub(crate) fn held_back(&self) {
        self.irq_holds.fetch_add(1, Ordering::Relaxed);
    }

    /// An interrupt was heard for what another owner had taken.
    pub(crate) fn needless_interrupt(&self) {
        self.irq_needless.fetch_add(1, Ordering::Relaxed);
    }

    /// The interrupt stays masked, and the timer is armed.
    pub(crate) fn deferred(&self) {
        self.deferrals.fetch_add(1, Ordering::Relaxed);
    }

    /// An event context suspends the interrupt, or prolongs that.
    pub(crate) fn suspended(&self) {
        self.suspensions.fetch_add(1, Ordering::Relaxed);
    }

    /// An event context found nothing and gave the interrupt back.
    pub(crate) fn resumed(&self) {
        self.resumes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn timer_fired(&self, late_ns: u64) {
        self.timer_fires.fetch_add(1, Ordering::Relaxed);
        self.timer_lateness_ns.fetch_add(late_ns, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self, interrupts: u64) -> NapiStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let each = |counters: &PerContext<AtomicU64>| PerContext::from_fn(|context| read(&counters[context]));
        NapiStats {
            interrupts,
            polls: each(&self.polls),
            empty_polls: each(&self.empty_polls),
            packets: each(&self.packets),
            schedules: read(&self.schedules),
            timer_fires: read(&self.timer_fires),
            timer_lateness_ns: read(&self.timer_lateness_ns),
            unmasks: read(&self.unmasks),
            irq_holds: read(&self.irq_holds),
            irq_needless: read(&self.irq_needless),
            deferrals: read(&self.deferrals),
            suspensions: read(&self.suspensions),
            resumes: read(&self.resumes),
            busy_poll_rx_packets: read(&self.busy_poll_rx_packets),
            spin_ticks: read(&self.spin_ticks),
            gro_merged: read(&self.merged),
            gro_held: read(&self.held),
        }
    }
}

/// Counters of one NAPI instance since it was added. What `ksoftirqd` polls counts as [`PollContext::Softirq`]'s.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct NapiStats {
    /// Interrupts taken: doorbells and coalescing timers.
    pub interrupts: u64,
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
    /// Interrupts that were heard when nothing waited and nobody polled; they cost no poll.
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

impl NapiStats {
    fn combine(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        let each = |a: PerContext<u64>, b: PerContext<u64>| PerContext::from_fn(|context| f(a[context], b[context]));
        Self {
            interrupts: f(self.interrupts, other.interrupts),
            polls: each(self.polls, other.polls),
            empty_polls: each(self.empty_polls, other.empty_polls),
            packets: each(self.packets, other.packets),
            schedules: f(self.schedules, other.schedules),
            timer_fires: f(self.timer_fires, other.timer_fires),
            timer_lateness_ns: f(self.timer_lateness_ns, other.timer_lateness_ns),
            unmasks: f(self.unmasks, other.unmasks),
            irq_holds: f(self.irq_holds, other.irq_holds),
            irq_needless: f(self.irq_needless, other.irq_needless),
            deferrals: f(self.deferrals, other.deferrals),
            suspensions: f(self.suspensions, other.suspensions),
            resumes: f(self.resumes, other.resumes),
            busy_poll_rx_packets: f(self.busy_poll_rx_packets, other.busy_poll_rx_packets),
            spin_ticks: f(self.spin_ticks, other.spin_ticks),
            gro_merged: f(self.gro_merged, other.gro_merged),
            gro_held: f(self.gro_held, other.gro_held),
        }
    }

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

impl std::ops::AddAssign for NapiStats {
    /// Adds the counters of another instance.
    fn add_assign(&mut self, other: Self) {
        *self = self.combine(other, u64::wrapping_add);
    }
}

impl std::ops::Sub for NapiStats {
    type Output = Self;

    /// What was counted between two moments.
    fn sub(self, earlier: Self) -> Self {
        self.combine(earlier, u64::wrapping_sub)
    }
}
