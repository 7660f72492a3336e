//! Byte-queue limits: how many bytes wait in the driver's ring. Source: `lib/dynamic_queue_limits.c`,
//! `include/linux/netdevice.h netdev_tx_sent_queue`, `netdev_tx_completed_queue` (Linux 7.3).
//!
//! Two sides work on it. The sender's is [`BqlSent`], a value of two counters; the completion's is [`Bql`], which owns
//! the limit and publishes [`Bql::adjusted_limit`]. The difference of the two is the allowance. An executor may keep
//! each in one atomic and needs no lock.
//!
//! The limit follows what is needed to keep the ring from running empty:
//!
//! * It **grows** when the ring was starved: the sender was held back by the limit and everything has left since. It
//!   grows by what left beyond the last look, and by what had exceeded the limit before.
//! * It **shrinks** when the ring stayed busy from one completion to the next: the least surplus seen is taken away once
//!   per hold time.
//!
//! Counters wrap.

use crate::time::{Deadline, Instant, Span};

/// How long the least surplus is watched before the limit shrinks. Source: `lib/dynamic_queue_limits.c dql_init`, the
/// tick rate, one second.
pub const SLACK_HOLD: Span = Span::from_secs(1);
/// Most bytes of one call of [`BqlSent::queued`]. Source: `include/linux/dynamic_queue_limits.h DQL_MAX_OBJECT`.
pub const OBJECT_BYTES_MAX: u32 = u32::MAX / 16;
/// Largest limit. Source: `include/linux/dynamic_queue_limits.h DQL_MAX_LIMIT`.
pub const LIMIT_BYTES_MAX: u32 = u32::MAX / 2 - OBJECT_BYTES_MAX;

/// The sender's side: changed by the holder of the transmit lock.
#[derive(Copy, Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct BqlSent {
    /// Bytes ever given to the ring, modulo 2^32.
    pub total_bytes: u32,
    /// Bytes of the last call.
    pub last_bytes: u32,
}

impl BqlSent {
    /// `bytes` were given to the ring. If [`available`] is negative afterwards: stop
    /// ([`crate::tx::queue::QueueBits::stop_stack`]), full fence, look again, and take the stop back if it is not.
    ///
    /// # Panics
    /// If `bytes` exceeds [`OBJECT_BYTES_MAX`].
    #[inline]
    #[must_use]
    pub const fn queued(self, bytes: u32) -> Self {
        assert!(bytes <= OBJECT_BYTES_MAX, "more bytes at once than the counters can tell apart");
        Self { total_bytes: self.total_bytes.wrapping_add(bytes), last_bytes: bytes }
    }
}

/// Bytes that may still be given to the ring; negative: the limit is exceeded, as the last packet may do. This is the
/// bulk allowance of a run ([`crate::tx::run::TxQueueView`]).
#[inline]
#[must_use]
pub const fn available(sent: BqlSent, adjusted_limit: u32) -> i32 {
    adjusted_limit.wrapping_sub(sent.total_bytes) as i32
}

/// The completion's side.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Bql {
    limit_bytes: u32,
    limit_min_bytes: u32,
    limit_max_bytes: u32,
    completed_bytes: u32,
    /// What the sender had given at the last completion, and in its last call before.
    seen: BqlSent,
    /// By how much the limit was exceeded then.
    seen_over_bytes: u32,
    slack_min_bytes: u32,
    slack_since: Instant,
    slack_hold: Span,
}

impl Bql {
    /// No limit learnt yet: the first packet is allowed, whatever its length, and the next waits for its completion.
    #[must_use]
    pub const fn new(now: Instant) -> Self {
        Self {
            limit_bytes: 0,
            limit_min_bytes: 0,
            limit_max_bytes: LIMIT_BYTES_MAX,
            completed_bytes: 0,
            seen: BqlSent { total_bytes: 0, last_bytes: 0 },
            seen_over_bytes: 0,
            slack_min_bytes: u32::MAX,
            slack_since: now,
            slack_hold: SLACK_HOLD,
        }
    }

    /// As [`Self::new`] and [`Self::configure`], with the least limit in force from the start: nothing waits for a first
    /// completion.
    ///
    /// # Panics
    /// As [`Self::configure`].
    #[must_use]
    pub const fn beginning_at_min(now: Instant, min_bytes: u32, max_bytes: u32, slack_hold: Span) -> Self {
        let mut bql = Self::new(now);
        bql.configure(min_bytes, max_bytes, slack_hold);
        bql.limit_bytes = min_bytes;
        bql
    }

    /// Bounds for the limit (`byte_queue_limits/limit_min`, `limit_max`) and the hold time; the limit in force follows
    /// at the next completion.
    ///
    /// # Panics
    /// If the bounds are the wrong way round or beyond [`LIMIT_BYTES_MAX`].
    pub const fn configure(&mut self, min_bytes: u32, max_bytes: u32, slack_hold: Span) {
        assert!(min_bytes <= max_bytes && max_bytes <= LIMIT_BYTES_MAX, "no such bounds for a byte limit");
        (self.limit_min_bytes, self.limit_max_bytes, self.slack_hold) = (min_bytes, max_bytes, slack_hold);
    }

    /// The ring was emptied without completions: forget what was learnt. The sender's side begins at
    /// `BqlSent::default()` again, and a stop by the stack is taken back.
    pub const fn reset(&mut self, now: Instant) {
        let (min, max, hold) = (self.limit_min_bytes, self.limit_max_bytes, self.slack_hold);
        *self = Self::new(now);
        self.configure(min, max, hold);
    }

    /// The limit in force.
    #[inline]
    #[must_use]
    pub const fn limit_bytes(&self) -> u32 {
        self.limit_bytes
    }

    /// Limit plus completed bytes: what [`available`] compares with.
    #[inline]
    #[must_use]
    pub const fn adjusted_limit(&self) -> u32 {
        self.limit_bytes.wrapping_add(self.completed_bytes)
    }

    /// Bytes that are in the ring.
    #[inline]
    #[must_use]
    pub const fn in_flight_bytes(&self, sent: BqlSent) -> u32 {
        sent.total_bytes.wrapping_sub(self.completed_bytes)
    }

    /// `bytes` have left the ring; the limit is computed anew. Call it once per completion run, not with 0. Then, behind
    /// a full fence, wake the queue if [`available`] is not negative ([`crate::tx::queue::QueueBits::wake_stack`]).
    ///
    /// # Panics
    /// If more is completed than was given.
    pub fn completed(&mut self, now: Instant, sent: BqlSent, bytes: u32) {
        assert!(bytes <= self.in_flight_bytes(sent), "more bytes completed than were given to the ring");
        let completed = self.completed_bytes.wrapping_add(bytes);
        let mut over = excess(self.in_flight_bytes(sent), self.limit_bytes);
        let left = sent.total_bytes.wrapping_sub(completed);
        let all_seen_left = completed.wrapping_sub(self.seen.total_bytes) as i32 >= 0;

        let starved = (over > 0 && left == 0) || (self.seen_over_bytes > 0 && all_seen_left);
        // Some of what was there at the last look still is, so the ring was not empty in between.
        let busy = !all_seen_left;
        let mut limit = self.limit_bytes;
        if starved {
            let newly = excess(completed, self.seen.total_bytes);
            limit = limit.saturating_add(newly).saturating_add(self.seen_over_bytes);
            self.watch_slack(now);
        } else if busy {
            self.slack_min_bytes = self.slack_min_bytes.min(self.slack(bytes));
            // Strictly after, as the kernel compares ticks.
            if Deadline::after(self.slack_since, self.slack_hold + Span::from_ns(1)).is_due(now) {
                limit = limit.saturating_sub(self.slack_min_bytes);
                self.watch_slack(now);
            }
        }
        limit = limit.clamp(self.limit_min_bytes, self.limit_max_bytes);
        if limit != self.limit_bytes {
            // What exceeded the old limit says nothing about the new one.
            (self.limit_bytes, over) = (limit, 0);
        }
        (self.completed_bytes, self.seen, self.seen_over_bytes) = (completed, sent, over);
    }

    /// The surplus: what the ring held beyond twice the bytes that left, or that part of the last call which was still
    /// within the limit, if that is more.
    const fn slack(&self, bytes: u32) -> u32 {
        let held = self.limit_bytes.saturating_add(self.seen_over_bytes);
        let beyond_need = held.saturating_sub(bytes.saturating_mul(2));
        let within =
            if self.seen_over_bytes == 0 { 0 } else { self.seen.last_bytes.saturating_sub(self.seen_over_bytes) };
        if beyond_need > within { beyond_need } else { within }
    }

    const fn watch_slack(&mut self, now: Instant) {
        (self.slack_since, self.slack_min_bytes) = (now, u32::MAX);
    }
}

/// `a - b` on wrapping counters, 0 if `a` is behind.
const fn excess(a: u32, b: u32) -> u32 {
    let difference = a.wrapping_sub(b);
    if (difference as i32) > 0 { difference } else { 0 }
}

#[cfg(test)]
#[path = "bql_tests.rs"]
mod tests;
