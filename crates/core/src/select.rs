//! The flow of `poll` and `select`: scans, busy polling between them, the sleep. Source: `fs/select.c do_poll`,
//! `do_select`, `net/socket.c sock_poll` (Linux 7.3).
//!
//! ```text
//! Scan{busy} --something ready, a signal, or timed out--> Return
//!     |  \--nothing; some socket may busy poll; in time--> Scan{busy} ...
//!     \--nothing else to do--> Sleep --woken or timed out--> Scan{busy: false} ...
//! ```
//! Only scans return. The time for busy polling counts from the end of the first scan; the time-out of the call is
//! looked at in the sleep alone, so a call may spin past it. Once the call has slept it busy polls no more.

use crate::busy::{busy_clock, busy_expired};
use crate::time::{Deadline, Instant, Span};

/// What the executor does next.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ScanStep {
    /// Look at every member, in order. Answer: [`PollScan::on_scanned`].
    Scan {
        /// Before looking at a socket that may busy poll ([`crate::sockopt`]), run one iteration of its busy loop
        /// ([`crate::busy::BusyLimit::Once`]) and its stop, as a call that does not block. The first member found ready
        /// ends this for the rest of the scan.
        busy: bool,
    },
    /// Sleep until a member has news, a signal comes or this deadline passes (it may have). Answer:
    /// [`PollScan::on_woken`].
    Sleep {
        /// When to give up.
        until: Deadline,
    },
    /// Return this.
    Return(ScanEnd),
}

/// How a call ends.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub enum ScanEnd {
    /// With what the last scan found ready.
    Ready,
    /// With nothing: the time is over.
    TimedOut,
    /// EINTR.
    Signal,
}

/// What a scan came to, all as seen at its end.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug, Hash)]
pub struct Scanned {
    /// At least one member is ready.
    pub ready: bool,
    /// At least one socket among the members may busy poll.
    pub may_busy_poll: bool,
    /// Another thread wants this CPU.
    pub need_resched: bool,
    /// A signal is pending.
    pub signal: bool,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
enum SelectPhase {
    Scanning,
    Sleeping,
    Ended(ScanEnd),
}

/// One call of `poll` or `select`.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct PollScan {
    phase: SelectPhase,
    until: Deadline,
    timed_out: bool,
    /// `net.core.busy_poll` while the call may still busy poll; 0 afterwards.
    busy_poll: u32,
    /// End of the first scan, by the busy-poll clock.
    busy_start: Option<u64>,
}

impl PollScan {
    /// A call begins at `now`. `timeout`: `None` waits for ever; with zero there is exactly one scan, and it busy polls
    /// as any first scan does. `sysctl_busy_poll`: `net.core.busy_poll`, in units of 1024 ns; 0 is off.
    #[inline]
    #[must_use]
    pub const fn new(now: Instant, timeout: Option<Span>, sysctl_busy_poll: u32) -> Self {
        let (until, timed_out) = match timeout {
            None => (Deadline::NEVER, false),
            Some(span) => (Deadline::after(now, span), span.is_zero()),
        };
        Self { phase: SelectPhase::Scanning, until, timed_out, busy_poll: sysctl_busy_poll, busy_start: None }
    }

    /// What to do next.
    #[inline]
    pub const fn next(&self) -> ScanStep {
        match self.phase {
            SelectPhase::Scanning => ScanStep::Scan { busy: self.busy_poll != 0 },
            SelectPhase::Sleeping => ScanStep::Sleep { until: self.until },
            SelectPhase::Ended(end) => ScanStep::Return(end),
        }
    }

    /// A scan was made and ended at `now`.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub fn on_scanned(&mut self, now: Instant, seen: Scanned) {
        assert!(self.phase == SelectPhase::Scanning, "on_scanned answers Scan");
        self.phase = if seen.ready {
            SelectPhase::Ended(ScanEnd::Ready)
        } else if seen.signal {
            SelectPhase::Ended(ScanEnd::Signal)
        } else if self.timed_out {
            SelectPhase::Ended(ScanEnd::TimedOut)
        } else if seen.may_busy_poll && !seen.need_resched && self.busy_time_left(now) {
            SelectPhase::Scanning
        } else {
            self.busy_poll = 0;
            SelectPhase::Sleeping
        };
    }

    /// The sleep is over. `timed_out`: nothing woke it before the deadline.
    ///
    /// # Panics
    /// If it was not asked for, or a sleep without deadline timed out.
    #[inline]
    pub fn on_woken(&mut self, timed_out: bool) {
        assert!(self.phase == SelectPhase::Sleeping, "on_woken answers Sleep");
        assert!(!(timed_out && self.until.is_never()), "a sleep without deadline does not time out");
        self.timed_out = timed_out;
        self.phase = SelectPhase::Scanning;
    }

    /// The first scan starts the clock, and another one follows in any case.
    const fn busy_time_left(&mut self, now: Instant) -> bool {
        match self.busy_start {
            None => {
                self.busy_start = Some(busy_clock(now));
                self.busy_poll != 0
            }
            Some(start) => !busy_expired(start, self.busy_poll, busy_clock(now)),
        }
    }
}

#[cfg(test)]
#[path = "select_tests.rs"]
mod tests;
