//! When an acknowledgement of data waits for data that takes it along (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).
//!
//! | what came | the acknowledgement |
//! |---|---|
//! | something out of order, or that fills a hole | at once (RFC 5681 section 4.2), and so are the next [`QUICK`] full segments: a window that was halved is small |
//! | something twice | at once |
//! | a second full segment since the last one | at once (RFC 9293: at least every second) |
//! | a full segment, one of the first [`QUICK`] | at once: the sender's window is small, and it waits for each. Source: `tcp_enter_quickack_mode` |
//! | FIN | at once |
//! | else | with the next segment, or after [`DELAY`] |
//!
//! A short segment at the beginning is a question, and its answer takes the acknowledgement along.

use crate::time::{Deadline, Instant, Span};

/// How long an acknowledgement waits. Source: `include/net/tcp.h TCP_DELACK_MIN`.
pub const DELAY: Span = Span::from_ms(40);
/// Full segments at the beginning that are acknowledged at once. Source: `TCP_MAX_QUICKACKS`.
pub const QUICK: u8 = 16;

/// What is owed to the peer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Acks {
    /// It leaves with the next packet, and makes one.
    now: bool,
    /// When it leaves at the latest.
    at: Deadline,
    quick: u8,
}

impl Default for Acks {
    fn default() -> Self {
        Self { now: false, at: Deadline::NEVER, quick: QUICK }
    }
}

impl Acks {
    /// `bytes` came in order. `owed`: what came since the last acknowledgement, with them; `segment`: what the peer's full segments have.
    #[inline]
    pub fn came(&mut self, now: Instant, bytes: u32, owed: u32, segment: u32) {
        let full = bytes >= segment;
        if owed >= 2 * segment || full && self.quick > 0 {
            self.quick = self.quick.saturating_sub(1);
            self.now = true;
        } else if self.at.is_never() {
            self.at = Deadline::after(now, DELAY);
        }
    }

    /// Something came that is acknowledged at once.
    #[inline]
    pub fn at_once(&mut self) {
        self.now = true;
    }

    /// Something came behind a hole, or filled one.
    #[inline]
    pub fn out_of_order(&mut self) {
        (self.now, self.quick) = (true, QUICK);
    }

    /// An acknowledgement leaves.
    #[inline]
    pub fn told(&mut self) {
        self.now = false;
        self.at = Deadline::NEVER;
    }

    /// Whether a packet is to be made for it.
    #[inline]
    #[must_use]
    pub const fn is_due(&self, now: Instant) -> bool {
        self.now || self.at.is_due(now)
    }

    /// Whether it waits, or is due.
    #[must_use]
    pub const fn is_owed(&self) -> bool {
        self.now || !self.at.is_never()
    }

    /// When it leaves at the latest.
    #[inline]
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Deadline {
        if self.now { Deadline::at(now) } else { self.at }
    }
}

#[cfg(test)]
#[path = "acks_tests.rs"]
mod tests;
