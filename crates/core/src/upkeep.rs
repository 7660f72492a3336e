//! How late a CPU's timer may be, and when a stopped transmit queue is looked at. Not the kernel's: a NIC interrupts when it has sent.

use crate::time::Span;

#[deprecated(note = "use `serving`")]
pub use crate::serving::{
    OVERDUE_AFTER, Overdue, SHARE_LEAVE_PERCENT, SHARE_PERIOD, SHARE_RETURN_PERCENT, Share, ShareVerdict,
};

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

#[cfg(test)]
#[path = "upkeep_tests.rs"]
mod tests;
