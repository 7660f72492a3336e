//! Whether a thread takes most of its processor.

use crate::time::{Instant, Span};

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

    /// Whether the thread is to be in the real-time class.
    #[inline]
    #[must_use]
    pub const fn is_real_time(&self) -> bool {
        self.real_time
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
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant { ns: ms * 1_000_000 }
    }

    #[test]
    fn a_thread_that_takes_most_of_its_processor_leaves_and_returns() {
        let mut share = Share::begin(ms(0), Span::from_ms(5));
        let mut used_ms = 5;
        let mut period = |number: u64, took_ms| {
            used_ms += took_ms;
            share.look(ms(number * 100), Span::from_ms(used_ms))
        };
        assert_eq!(period(1, 70), ShareVerdict::Stay, "as much as is allowed");
        assert_eq!(period(2, 71), ShareVerdict::Leave);
        assert_eq!(period(3, 100), ShareVerdict::Stay);
        assert_eq!(period(4, 50), ShareVerdict::Stay, "between the limits");
        assert_eq!(period(5, 49), ShareVerdict::Return);
        assert_eq!(period(6, 70), ShareVerdict::Stay);
        assert_eq!(period(8, 142), ShareVerdict::Leave, "of two periods that were looked at once");
    }

    #[test]
    fn nothing_is_judged_within_a_period() {
        let mut share = Share::begin(ms(0), Span::ZERO);
        assert!(!share.is_due(ms(99)) && share.is_real_time());
        assert_eq!(share.look(ms(99), Span::from_ms(99)), ShareVerdict::Stay);
        assert!(share.is_due(ms(100)));
        assert_eq!(share.look(ms(100), Span::from_ms(99)), ShareVerdict::Leave);
        assert!(!share.is_due(ms(150)) && !share.is_real_time());
    }
}
