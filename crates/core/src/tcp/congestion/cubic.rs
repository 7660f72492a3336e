//! CUBIC (RFC 9438): above the threshold the window is a cubic function of the time since the last loss, which is flat where that loss was.

use crate::time::{Instant, Span};

/// What of the window is left after a loss, in tenths (section 4.6).
const BETA_TENTHS: u64 = 7;

/// Part of the window by which it grows each round trip while nothing was lost yet: where a loss would be is not known, and the function is
/// flat at its beginning. Source: `net/ipv4/tcp_cubic.c bictcp_update`, `last_max_cwnd == 0 && cnt > 20`.
const UNKNOWN_PART: u32 = 20;

/// State of CUBIC. Windows are bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Cubic {
    /// The window at the last loss, less if others need room (section 4.7).
    largest: u32,
    /// When the window began to grow from `began`; `None`: with the next acknowledgement.
    epoch: Option<Instant>,
    /// Time until it is `largest` again, in ms (section 4.2 `K`).
    until_ms: u64,
    /// The window that Reno would have (section 4.3), in sixteenths of a byte.
    reno: u64,
    /// The window before the last loss; 0: nothing was lost yet.
    before: u32,
    /// When it was asked last.
    seen: Instant,
}

impl Cubic {
    /// Something was lost. What is left of the window.
    pub(super) fn lost(&mut self, window: u32) -> u32 {
        // Section 4.7: a window that did not come back to where it was leaves room to others.
        let converges = window < self.largest;
        self.before = window;
        self.largest = if converges { tenths(window, 17) / 2 } else { window };
        self.epoch = None;
        tenths(window, BETA_TENTHS)
    }

    /// Growth begins anew.
    pub(super) fn restarts(&mut self) {
        self.epoch = None;
    }

    /// The window is not used: time does not count (section 5.8).
    pub(super) fn waits(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.epoch {
            *epoch += now - self.seen;
        }
        self.seen = now;
    }

    /// Where the window goes within a round trip: from `window` to half as much more (section 4.2), and where nothing was lost yet, at least
    /// [`UNKNOWN_PART`] of it.
    pub(super) fn target(&mut self, window: u32, segment: u32, acked: u32, now: Instant, smoothed: Span) -> u32 {
        let target = self.cubic_target(window, segment, acked, now, smoothed);
        let least = if self.before == 0 { window.saturating_add(window / UNKNOWN_PART) } else { window };
        target.max(least).min(super::WINDOW_MAX)
    }

    fn cubic_target(&mut self, window: u32, segment: u32, acked: u32, now: Instant, smoothed: Span) -> u32 {
        self.seen = now;
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => {
                self.epoch = Some(now);
                self.reno = u64::from(window) * 16;
                let missing = self.largest.saturating_sub(window);
                self.largest = self.largest.max(window);
                // Seconds cubed are missing / segment / 0.4 (section 4.2), milliseconds cubed 10^9 times that.
                self.until_ms = cube_root(u64::from(missing) * 2_500_000_000 / u64::from(segment));
                now
            }
        };
        // Section 4.3: 3 * (1 - 0.7) / (1 + 0.7) of a segment each round trip until the window is as before the loss, then one.
        let nine_seventeenths = self.reno < u64::from(self.before) * 16;
        let step = u64::from(acked) * u64::from(segment) * 16 / u64::from(window.max(1));
        self.reno += if nine_seventeenths { step * 9 / 17 } else { step };
        let reno = u32::try_from(self.reno / 16).unwrap_or(u32::MAX);
        let elapsed = now - epoch;
        if self.at(elapsed, segment) < reno && reno > window {
            // Reached with what is acknowledged now, not within a round trip.
            let within = u64::from(reno - window) * u64::from(window) / u64::from(acked.max(1));
            return window.saturating_add(u32::try_from(within).unwrap_or(u32::MAX)).min(super::WINDOW_MAX);
        }
        let most = window.saturating_add(window / 2);
        self.at(elapsed + smoothed, segment).clamp(window, most)
    }

    /// The cubic function (section 4.2, figure 1).
    fn at(&self, elapsed: Span, segment: u32) -> u32 {
        let elapsed_ms = i128::from(elapsed.ns / 1_000_000).min(10_000_000);
        let from_flat = elapsed_ms - i128::from(self.until_ms);
        let grown = from_flat * from_flat * from_flat * i128::from(segment) * 4 / 10_000_000_000;
        let window = i128::from(self.largest) + grown;
        window.clamp(0, i128::from(super::WINDOW_MAX)) as u32
    }
}

fn tenths(window: u32, tenths: u64) -> u32 {
    (u64::from(window) * tenths / 10) as u32
}

/// The cube root, rounded down.
pub(super) fn cube_root(of: u64) -> u64 {
    let mut root = 0_u64;
    for bit in (0..22).rev() {
        let with = root | 1 << bit;
        if with.checked_pow(3).is_some_and(|cube| cube <= of) {
            root = with;
        }
    }
    root
}
