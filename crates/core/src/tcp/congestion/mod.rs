//! How much may be under way besides what the peer's window allows.
//!
//! | | below the threshold | above it | after a loss |
//! |---|---|---|---|
//! | none | the peer's window alone | | |
//! | Reno (RFC 5681) | what is acknowledged, more | a segment each round trip | half |
//! | CUBIC (RFC 9438) | the same, until round trips get longer (RFC 9406) | a cubic function of time | 0.7 |
//!
//! A window that was not used does not grow (RFC 7661 section 4.2, `tcp_is_cwnd_limited`), and one that was not used for a time-out is
//! halved for each (RFC 5681 section 4.1, `tcp_cwnd_restart`).

mod cubic;
mod hystart;

use crate::tcp::seq::Seq;
use crate::time::{Instant, Span};
use cubic::Cubic;
use hystart::HyStart;

/// Segments that may be under way at the beginning (RFC 6928).
const SEGMENTS_FIRST: u32 = 10;
/// Bytes that they have at most, unless two have more.
const BYTES_FIRST: u32 = 14_600;
/// Largest window (RFC 7323 section 2.3).
pub const WINDOW_MAX: u32 = 1 << 30;

/// Which congestion control a connection has.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Control {
    /// The peer's window alone.
    None,
    /// RFC 5681.
    Reno,
    /// RFC 9438.
    Cubic,
}

/// The window of one connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Congestion {
    window: u32,
    threshold: u32,
    segment: u32,
    /// Bytes acknowledged since the window grew last, or what they come to.
    credit: u64,
    control: Control,
    cubic: Cubic,
    start: HyStart,
}

/// What was acknowledged, and what is known then.
#[derive(Copy, Clone, Debug)]
pub struct Acked {
    /// Bytes, selectively or not.
    pub bytes: u32,
    /// Now.
    pub now: Instant,
    /// A round trip, if it gave one.
    pub rtt: Option<Span>,
    /// The smoothed one.
    pub smoothed: Span,
    /// The window kept something from leaving.
    pub limited: bool,
    /// The end of what is acknowledged.
    pub acknowledged: Seq,
    /// The end of what was sent.
    pub sent: Seq,
}

impl Congestion {
    /// The window of a connection that begins.
    #[must_use]
    pub fn new(control: Control, segment: u32) -> Self {
        let segment = segment.max(1);
        let window = if control == Control::None {
            WINDOW_MAX
        } else {
            (SEGMENTS_FIRST * segment).min(BYTES_FIRST.max(2 * segment))
        };
        let threshold = WINDOW_MAX;
        Self { window, threshold, segment, credit: 0, control, cubic: Cubic::default(), start: HyStart::default() }
    }

    /// Another one from now on.
    pub fn set_control(&mut self, control: Control) {
        let fresh = Self::new(control, self.segment);
        if control == Control::None || self.control == Control::None {
            *self = fresh;
        } else {
            self.control = control;
        }
    }

    /// Which it is.
    #[must_use]
    pub const fn control(&self) -> Control {
        self.control
    }

    /// Bytes that may be under way.
    #[inline]
    #[must_use]
    pub const fn window(&self) -> u32 {
        self.window
    }

    /// Where it begins to grow slowly.
    #[must_use]
    pub const fn threshold(&self) -> u32 {
        self.threshold
    }

    /// It grows by what is acknowledged.
    #[inline]
    #[must_use]
    pub const fn is_slow_start(&self) -> bool {
        self.window < self.threshold
    }

    /// Segments have so many bytes from now on. A window that nothing has come back of yet is that of such segments.
    pub fn set_segment(&mut self, segment: u32, untouched: bool) {
        let segment = segment.max(1);
        if segment == self.segment {
            return;
        }
        if untouched {
            *self = Self::new(self.control, segment);
        }
        self.segment = segment;
        if self.control != Control::None {
            self.window = self.window.max(segment);
        }
    }

    /// The window of a repair, and what comes after one.
    #[inline]
    pub(crate) fn set_window(&mut self, window: u32) {
        if self.control != Control::None {
            self.window = window.clamp(self.segment, WINDOW_MAX);
        }
    }

    /// Bytes were acknowledged, and nothing is lost.
    #[inline]
    pub fn acked(&mut self, ack: &Acked) {
        match self.control {
            Control::None => {}
            Control::Reno | Control::Cubic => self.grow(ack),
        }
    }

    fn grow(&mut self, ack: &Acked) {
        let mut bytes = ack.bytes;
        if self.control == Control::Cubic && self.is_slow_start() {
            // Only the first time does nothing else say where it ends (RFC 9406 section 4.3).
            let first = self.threshold == WINDOW_MAX;
            if first && self.start.acked(ack.rtt, ack.acknowledged, ack.sent) {
                self.threshold = self.window;
            }
        }
        if !ack.limited {
            return self.cubic.waits(ack.now);
        }
        if self.is_slow_start() {
            let step = self.start.step(bytes, self.segment).min(self.threshold - self.window);
            self.window = (self.window + step).min(WINDOW_MAX);
            if self.is_slow_start() {
                return;
            }
            bytes -= step.min(bytes);
        }
        let step = match self.control {
            Control::None => 0,
            Control::Reno => u64::from(self.segment) * u64::from(bytes),
            Control::Cubic => {
                let target = self.cubic.target(self.window, self.segment, bytes, ack.now, ack.smoothed);
                u64::from(target - self.window) * u64::from(bytes)
            }
        };
        self.credit += step;
        let grown = self.credit / u64::from(self.window);
        self.credit %= u64::from(self.window);
        self.window = self.window.saturating_add(u32::try_from(grown).unwrap_or(WINDOW_MAX)).min(WINDOW_MAX);
    }

    /// Something was lost: where the window goes (RFC 5681 section 3.2, RFC 9438 section 4.6). `under_way`: what was when it was seen.
    pub fn reduce(&mut self, under_way: u32) {
        let least = 2 * self.segment;
        self.credit = 0;
        match self.control {
            Control::None => {}
            Control::Reno => self.threshold = (self.window.min(under_way) / 2).max(least),
            Control::Cubic => {
                let kept = self.cubic.lost(self.window);
                self.threshold = kept.max(least);
            }
        }
    }

    /// Nothing was heard for a time-out (RFC 5681 section 3.1): a segment, and what is `under_way`.
    pub fn timed_out(&mut self, under_way: u32) {
        self.credit = 0;
        self.set_window(under_way.saturating_add(self.segment));
        self.cubic.restarts();
    }

    /// Nothing was sent for so long; `timeout` is the retransmission time-out.
    pub fn idle(&mut self, gap: Span, timeout: Span) {
        if self.control == Control::None || gap <= timeout {
            return;
        }
        let first = Self::new(self.control, self.segment).window;
        self.threshold = self.threshold.max(self.window / 4 * 3);
        let halvings = (gap.ns / timeout.ns.max(1)).min(31);
        self.window = (self.window >> halvings).max(first.min(self.window));
        self.cubic.restarts();
    }

    /// The loss was none: the window is as large as before.
    pub fn undo(&mut self, before: &Self) {
        self.window = self.window.max(before.window);
        self.threshold = self.threshold.max(before.threshold);
        self.cubic = before.cubic;
        self.cubic.restarts();
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
