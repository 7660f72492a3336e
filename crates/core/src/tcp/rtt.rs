//! Round trips, and how long an answer may take before a segment is sent again (RFC 6298, RFC 7323 section 4).
//!
//! The way of the kernel, which takes a sample with each acknowledgement: the mean deviation gets a new sample's excess, a smaller round
//! trip lowers it slowly, and the largest deviation of a round trip is what counts. The time-out is the smoothed round trip and
//! four deviations, of which the latter are never less than [`RTO_MIN`]. Source: `net/ipv4/tcp_input.c tcp_rtt_estimator`,
//! `tcp_set_rto`, `include/net/tcp.h`.

use crate::tcp::seq::Seq;
use crate::time::{Deadline, Instant, Span};

/// Least part of a time-out that is added to the round trip. Source: `TCP_RTO_MIN`.
pub const RTO_MIN: Span = Span::from_ms(200);
/// Longest time-out. Source: `TCP_RTO_MAX`.
pub const RTO_MAX: Span = Span::from_secs(120);
/// The time-out before a round trip was seen (RFC 6298 section 2.1).
pub const RTO_FIRST: Span = Span::from_secs(1);
/// How long the least round trip is believed. Source: `net.ipv4.tcp_min_rtt_wlen`.
const LEAST_FOR: Span = Span::from_secs(300);
/// Doublings of a time-out; more change nothing.
const BACKOFF_MAX: u8 = 10;

/// The round trips of one connection. All of it is nanoseconds; `smoothed` is times 8, the deviations times 4.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RoundTrips {
    smoothed: u64,
    deviation: u64,
    largest: u64,
    variation: u64,
    /// A round trip ends when this is acknowledged.
    round_end: Seq,
    backoff: u8,
    least: Span,
    least_until: Deadline,
}

impl Default for RoundTrips {
    fn default() -> Self {
        Self {
            smoothed: 0,
            deviation: 0,
            largest: 0,
            variation: 0,
            round_end: Seq(0),
            backoff: 0,
            least: Span::ZERO,
            least_until: Deadline::NEVER,
        }
    }
}

impl RoundTrips {
    /// One took `rtt`. `acknowledged` and `sent` are the ends of what is acknowledged and of what was sent.
    #[inline]
    pub fn sample(&mut self, now: Instant, rtt: Span, acknowledged: Seq, sent: Seq) {
        if self.smoothed == 0 || rtt <= self.least || self.least_until.is_due(now) {
            (self.least, self.least_until) = (rtt, Deadline::after(now, LEAST_FOR));
        }
        // A round trip of no time at all is one below the clock's grain. An hour is longer than any time-out.
        let measured = rtt.ns.clamp(1, 3_600_000_000_000);
        if self.smoothed == 0 {
            self.smoothed = measured << 3;
            self.deviation = measured << 1;
            self.variation = self.deviation.max(RTO_MIN.ns);
            self.largest = self.variation;
            self.round_end = sent;
            return;
        }
        let mean = self.smoothed >> 3;
        let spread = self.deviation >> 2;
        self.smoothed = self.smoothed - mean + measured;
        self.deviation = match mean.checked_sub(measured).filter(|less| *less > 0) {
            // A round trip that got shorter does not make the next time-out longer.
            Some(less) if less > spread => self.deviation + ((less - spread) >> 3),
            Some(less) => self.deviation - (spread - less),
            None => self.deviation - spread + (measured - mean),
        };
        if self.deviation > self.largest {
            self.largest = self.deviation;
            self.variation = self.variation.max(self.largest);
        }
        if acknowledged.is_after(self.round_end) {
            self.variation -= self.variation.saturating_sub(self.largest) >> 2;
            self.round_end = sent;
            self.largest = RTO_MIN.ns;
        }
    }

    /// The smoothed round trip; zero: none was seen.
    #[inline]
    #[must_use]
    pub const fn smoothed(&self) -> Span {
        Span { ns: self.smoothed >> 3 }
    }

    /// Mean deviation.
    #[must_use]
    pub const fn deviation(&self) -> Span {
        Span { ns: self.deviation >> 2 }
    }

    /// The least round trip of the last minutes; zero: none was seen.
    #[inline]
    #[must_use]
    pub const fn least(&self) -> Span {
        self.least
    }

    /// Whether one was seen.
    #[inline]
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.smoothed > 0
    }

    /// The time-out, doubled as often as it ran out in a row (RFC 6298 sections 2.3 and 5.5).
    #[inline]
    #[must_use]
    pub fn timeout(&self) -> Span {
        let once = if self.smoothed == 0 { RTO_FIRST.ns } else { (self.smoothed >> 3) + self.variation };
        Span { ns: (once.min(RTO_MAX.ns) << self.backoff).min(RTO_MAX.ns) }
    }

    /// The same without doublings.
    #[must_use]
    pub fn timeout_once(&self) -> Span {
        Self { backoff: 0, ..*self }.timeout()
    }

    /// It ran out.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    /// How often it ran out in a row.
    #[must_use]
    pub const fn backoffs(&self) -> u8 {
        self.backoff
    }

    /// An answer came: doublings are over (RFC 6298 section 5.7; Linux `tcp_ack`).
    #[inline]
    pub fn answered(&mut self) {
        self.backoff = 0;
    }
}

#[cfg(test)]
#[path = "rtt_tests.rs"]
mod tests;
