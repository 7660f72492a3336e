//! The receive softirq of one CPU: its poll list, one run over it, and the loop that decides between another run and
//! ksoftirqd. Source: `net/core/dev.c net_rx_action`, `kernel/softirq.c handle_softirqs` (Linux 7.3).
//!
//! Everything here belongs to one CPU and is used by it alone. The three lists keep their memory, so that a run
//! allocates nothing once the lists have grown to the number of instances.

use alloc::collections::VecDeque;
use core::marker::PhantomData;

use crate::time::{Deadline, Instant, Span};

/// Packets of one run. Source: `net/core/hotdata.c netdev_budget`.
pub const NETDEV_BUDGET_PKTS: i32 = 300;
/// Longest time for which the softirq core repeats before it wakes ksoftirqd. Source: `kernel/softirq.c
/// MAX_SOFTIRQ_TIME`.
pub const SOFTIRQ_TIME_MAX: Span = Span::from_ms(2);
/// Most passes before ksoftirqd is woken. Source: `kernel/softirq.c MAX_SOFTIRQ_RESTART`.
pub const SOFTIRQ_PASSES_MAX: u32 = 10;

/// Time limit of one run: two ticks. Source: `net/core/hotdata.c netdev_budget_usecs`.
///
/// # Panics
/// If `hz` is 0.
#[must_use]
pub const fn netdev_budget_span(hz: u32) -> Span {
    Span::from_us(2_000_000 / hz as u64)
}

/// Time limit of one run by a value for `netdev_budget_usecs`.
///
/// # Errors
/// EINVAL: it is below two ticks, which is this many us. Source: `net/core/sysctl_net_core.c`, `netdev_budget_usecs`.
pub const fn netdev_budget_of(usecs: u64, hz: u32) -> Result<Span, u64> {
    let (wanted_ns, least_ns) = (usecs.saturating_mul(1000), netdev_budget_span(hz).ns);
    if wanted_ns < least_ns { Err(least_ns / 1000) } else { Ok(Span::from_ns(wanted_ns)) }
}

/// The poll list of a CPU, with the two private lists of a run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PollLists<Id> {
    scheduled: VecDeque<Id>,
    run: VecDeque<Id>,
    repoll: VecDeque<Id>,
    in_rx_action: bool,
}

impl<Id> Default for PollLists<Id> {
    fn default() -> Self {
        Self::new()
    }
}

impl<Id> PollLists<Id> {
    /// Empty lists.
    #[must_use]
    pub const fn new() -> Self {
        Self { scheduled: VecDeque::new(), run: VecDeque::new(), repoll: VecDeque::new(), in_rx_action: false }
    }

    /// Empty lists with room for `instances`, so that not even the first runs allocate.
    #[must_use]
    pub fn with_capacity(instances: usize) -> Self {
        Self {
            scheduled: VecDeque::with_capacity(instances),
            run: VecDeque::with_capacity(instances),
            repoll: VecDeque::with_capacity(instances),
            in_rx_action: false,
        }
    }

    /// Appends an instance that the caller owns. `true`: raise the receive softirq; `false`: a run is under way on this
    /// CPU, or raised again already, and will see it.
    #[inline]
    #[must_use = "true means that the receive softirq must be raised"]
    pub fn push_back(&mut self, id: Id) -> bool {
        self.scheduled.push_back(id);
        !self.in_rx_action
    }

    /// True if no instance waits on this CPU, in any of the lists.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scheduled.is_empty() && self.run.is_empty() && self.repoll.is_empty()
    }

    /// Number of instances that wait on this CPU, in any of the lists.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.scheduled.len() + self.run.len() + self.repoll.len()
    }

    /// The instances that wait, in the order in which the CPU would poll them.
    pub fn iter(&self) -> impl Iterator<Item = &Id> {
        self.run.iter().chain(&self.scheduled).chain(&self.repoll)
    }

    /// Takes away what is asked of the iterator, in order: the CPU goes offline and the instances move to another one.
    /// Source: `net/core/dev.c dev_cpu_dead`.
    pub fn drain(&mut self) -> impl Iterator<Item = Id> {
        self.in_rx_action = false;
        let Self { run, scheduled, repoll, .. } = self;
        core::iter::from_fn(|| run.pop_front().or_else(|| scheduled.pop_front()).or_else(|| repoll.pop_front()))
    }
}

/// What to do next in a run.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum NetRxStep<Id> {
    /// Poll this instance with its weight, then report by [`NetRxRun::polled`].
    Poll(Id),
    /// The run is over.
    Finish {
        /// Raise the receive softirq again: instances are left.
        reraise: bool,
    },
}

/// One receive run. Budget and time limit are fixed at its beginning and looked at only after a poll, so that one poll
/// may overshoot both.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NetRxRun<Id> {
    budget_pkts: i64,
    deadline: Deadline,
    squeezed: bool,
    /// An instance was handed out and not reported back.
    polling: bool,
    id: PhantomData<Id>,
}

impl<Id: Copy> NetRxRun<Id> {
    /// Begins a run: takes the CPU's poll list. `budget_pkts` may be anything, as in the kernel; zero and less end the
    /// run after one poll.
    ///
    /// # Panics
    /// If another run on these lists is under way.
    #[inline]
    #[must_use]
    pub fn begin(lists: &mut PollLists<Id>, now: Instant, budget_pkts: i32, time_limit: Span) -> Self {
        assert!(lists.run.is_empty() && lists.repoll.is_empty(), "one run at a time on a CPU");
        lists.in_rx_action = true;
        core::mem::swap(&mut lists.scheduled, &mut lists.run);
        Self {
            budget_pkts: i64::from(budget_pkts),
            deadline: Deadline::after(now, time_limit),
            squeezed: false,
            polling: false,
            id: PhantomData,
        }
    }

    /// The next step. Instances polled to their full weight wait for the next run; instances scheduled meanwhile are
    /// taken into this one only if nothing waits for being polled again.
    ///
    /// # Panics
    /// If the instance of the last step was not reported by [`NetRxRun::polled`].
    #[inline]
    pub fn next(&mut self, lists: &mut PollLists<Id>) -> NetRxStep<Id> {
        assert!(!self.polling, "the instance that was handed out must be reported by polled()");
        if self.squeezed {
            return Self::finish(lists);
        }
        if lists.run.is_empty() {
            if !lists.repoll.is_empty() || lists.scheduled.is_empty() {
                return Self::finish(lists);
            }
            core::mem::swap(&mut lists.scheduled, &mut lists.run);
        }
        match lists.run.pop_front() {
            Some(id) => {
                self.polling = true;
                NetRxStep::Poll(id)
            }
            None => Self::finish(lists),
        }
    }

    /// Reports the poll of `id`: `work` packets; `repoll` if it goes to the tail of the repoll list
    /// ([`crate::poll::AfterPoll::Repoll`]).
    ///
    /// # Panics
    /// If no instance was handed out.
    #[inline]
    pub fn polled(&mut self, lists: &mut PollLists<Id>, now: Instant, id: Id, work: u32, repoll: bool) {
        assert!(self.polling, "polled() without Poll");
        self.polling = false;
        self.budget_pkts -= i64::from(work);
        if repoll {
            lists.repoll.push_back(id);
        }
        if self.budget_pkts <= 0 || self.deadline.is_due(now) {
            self.squeezed = true;
        }
    }

    /// True if the run ended because its budget or its time was used up. Count it once per run (`time_squeeze` of
    /// `/proc/net/softnet_stat`).
    #[inline]
    #[must_use]
    pub const fn squeezed(&self) -> bool {
        self.squeezed
    }

    /// Leaves the rest in the order: not polled, newly scheduled, to be polled again.
    fn finish(lists: &mut PollLists<Id>) -> NetRxStep<Id> {
        lists.run.append(&mut lists.scheduled);
        lists.run.append(&mut lists.repoll);
        core::mem::swap(&mut lists.scheduled, &mut lists.run);
        let reraise = !lists.scheduled.is_empty();
        // While a raise is pending new instances need none.
        lists.in_rx_action = reraise;
        NetRxStep::Finish { reraise }
    }
}

/// The softirq core's own loop around the runs of a CPU.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct SoftirqLoop {
    until: Deadline,
    passes_left: u32,
}

/// Answer of [`SoftirqLoop::again`].
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum SoftirqNext {
    /// Make another pass.
    Run,
    /// Nothing is pending: leave.
    Done,
    /// Leave the rest to ksoftirqd, which the scheduler may preempt.
    WakeKsoftirqd,
}

impl SoftirqLoop {
    /// The first pass begins.
    #[inline]
    #[must_use]
    pub const fn begin(now: Instant) -> Self {
        Self { until: Deadline::after(now, SOFTIRQ_TIME_MAX), passes_left: SOFTIRQ_PASSES_MAX }
    }

    /// A pass ended. `need_resched`: another thread should have this CPU; `pending`: softirqs are raised.
    #[inline]
    pub const fn again(&mut self, now: Instant, need_resched: bool, pending: bool) -> SoftirqNext {
        if !pending {
            return SoftirqNext::Done;
        }
        if self.until.is_due(now) || need_resched || self.passes_left <= 1 {
            return SoftirqNext::WakeKsoftirqd;
        }
        self.passes_left -= 1;
        SoftirqNext::Run
    }
}

#[cfg(test)]
#[path = "softirq_tests.rs"]
mod tests;
