//! What keeps softirq threads from standing in the way, or from being stood in the way of, how late a CPU's timer may be, and when
//! a stopped transmit queue is looked at. Not the kernel's: there a softirq runs on the processor that it interrupts, nobody can be put before
//! it, and a NIC interrupts when it has sent.

use crate::time::{Instant, Span};

/// First look at a transmit ring that was full, whose peer does not say that it has read.
const RECHECK_MIN: Span = Span::from_us(20);
/// Longest time between two looks, as a power of two of the first: 20 us * 2^6 = 1.28 ms.
const RECHECK_DOUBLINGS_MAX: u32 = 6;

/// Time until the next look at a stopped transmit queue after `in_vain` looks in a row that found it still stopped: less
/// and less often while the peer reads nothing.
#[inline]
#[must_use]
pub const fn recheck_after(in_vain: u32) -> Span {
    let doublings = if in_vain < RECHECK_DOUBLINGS_MAX { in_vain } else { RECHECK_DOUBLINGS_MAX };
    Span::from_ns(RECHECK_MIN.ns << doublings)
}

/// First step of the slack of a CPU's timer.
const SLACK_MIN: Span = Span::from_us(8);
/// Most lateness of a timer that a running thread keeps re-arming and then abandons: a tick of a kernel with HZ=250.
pub const SLACK_MAX: Span = Span::from_ms(4);
/// Expiries closer than this are not worth another system call.
pub const SLACK_NONE: Span = Span::from_us(2);

/// How late the CPU's timer may be set from now on for instances that a program looks after, after it was allowed `before`; the
/// CPU's thread is about to sleep. `for_nothing`: whether the timer woke it for nothing (the instance had been re-armed, or its
/// program found by itself what came), `None` if the timer did not wake it. Slack doubles if so; a timer that was needed only halves
/// it, for the program will mostly go on as before.
#[must_use]
pub fn timer_slack(before: Span, for_nothing: Option<bool>) -> Span {
    Span::from_ns(match for_nothing {
        Some(true) => (before.ns * 2).clamp(SLACK_MIN.ns, SLACK_MAX.ns),
        Some(false) => before.ns / 2,
        None => before.ns,
    })
}

/// How long work of a softirq CPU may wait for its thread before somebody else does it.
pub const OVERDUE_AFTER: Span = Span::from_ms(10);

/// Whether the thread of a softirq CPU is being kept from its work: judged by looks from outside, some time apart.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Overdue {
    /// First look in a row that found the same work, and the thread's progress then.
    since: Option<(Instant, u64)>,
}

impl Overdue {
    /// Nothing seen yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { since: None }
    }

    /// One look: whether something waits for the thread, and how often the thread has done something up to now. True:
    /// [`OVERDUE_AFTER`] has gone by with work and without progress, and the caller is to take it over; the count begins
    /// anew.
    #[must_use = "true means that the work is to be taken over"]
    pub fn look(&mut self, now: Instant, waiting: bool, progress: u64) -> bool {
        let since = self.since.take().filter(|(_, before)| waiting && *before == progress);
        match since {
            Some((since, _)) if now - since >= OVERDUE_AFTER => true,
            Some(since) => {
                self.since = Some(since);
                false
            }
            None => {
                self.since = waiting.then_some((now, progress));
                false
            }
        }
    }
}

/// Over what time a softirq thread's share of its processor is computed. As the kernel's limit for real-time threads, a
/// share of a period (`kernel/sched/rt.c`), but of a shorter one.
pub const SHARE_PERIOD: Span = Span::from_ms(100);
/// Share of a period, in percent, above which the thread leaves its real-time class.
pub const SHARE_LEAVE_PERCENT: u64 = 70;
/// Share of a period, in percent, below which it comes back.
pub const SHARE_RETURN_PERCENT: u64 = 50;

/// Whether a softirq thread may run in a real-time class: not while it takes most of its processor, however short each of
/// its runs is. Between the two limits it stays as it is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Share {
    begun: Instant,
    used_before: Span,
    real_time: bool,
}

/// Answer of [`Share::look`].
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ShareVerdict {
    /// As before.
    Stay,
    /// To the class of programs.
    Leave,
    /// Back to the real-time class.
    Return,
}

impl Share {
    /// Begins in the real-time class, with the CPU time that the thread has used up to now.
    #[must_use]
    pub const fn begin(now: Instant, used: Span) -> Self {
        Self { begun: now, used_before: used, real_time: true }
    }

    /// True if the period is over, so that [`Self::look`] will judge: asking for CPU time costs more than for the time.
    #[inline]
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        now.ns.saturating_sub(self.begun.ns) >= SHARE_PERIOD.ns
    }

    /// Judges a period that is over by the CPU time `used` since the thread began. Before its end nothing changes.
    pub fn look(&mut self, now: Instant, used: Span) -> ShareVerdict {
        if !self.is_due(now) {
            return ShareVerdict::Stay;
        }
        let period_ns = now.ns - self.begun.ns;
        let percent = u128::from(used.ns.saturating_sub(self.used_before.ns)) * 100 / u128::from(period_ns);
        (self.begun, self.used_before) = (now, used);
        if self.real_time && percent > u128::from(SHARE_LEAVE_PERCENT) {
            self.real_time = false;
            ShareVerdict::Leave
        } else if !self.real_time && percent < u128::from(SHARE_RETURN_PERCENT) {
            self.real_time = true;
            ShareVerdict::Return
        } else {
            ShareVerdict::Stay
        }
    }
}

#[cfg(test)]
#[path = "upkeep_tests.rs"]
mod tests;
