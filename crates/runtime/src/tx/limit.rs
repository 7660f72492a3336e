//! Byte-queue limits of one transmit queue: how much may wait in its ring, so that the rest waits in the discipline.

use std::collections::VecDeque;

use napier_core::time::{Instant, Span};
use napier_core::tx::bql::{self, Bql, BqlSent, LIMIT_BYTES_MAX, SLACK_HOLD};

/// Bounds of the limit, as `byte_queue_limits` in sysfs has them.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ByteLimits {
    /// `limit_min` in bytes: never less than this may wait in the ring.
    pub min_bytes: u32,
    /// `limit_max` in bytes.
    pub max_bytes: u32,
    /// `hold_time`: how long a surplus is watched before the limit shrinks, in ms.
    pub hold_ms: u64,
}

/// Bytes that may always wait in a ring. The kernel's is 0, and its driver hears of every packet that has left; here the
/// ring has to be looked at, and a short burst should not wait for that.
const LIMIT_MIN_BYTES: u32 = 32 * 1024;

impl Default for ByteLimits {
    /// At least 32 KiB; beyond that the limit is learnt, as the kernel does.
    fn default() -> Self {
        Self { min_bytes: LIMIT_MIN_BYTES, max_bytes: LIMIT_BYTES_MAX, hold_ms: SLACK_HOLD.ns / 1_000_000 }
    }
}

/// Both halves; under the transmit lock.
pub(crate) struct ByteLimit {
    bql: Bql,
    sent: BqlSent,
    /// Lengths of the packets in the ring, oldest first.
    lengths: VecDeque<u32>,
}

impl ByteLimit {
    pub(crate) fn new(limits: ByteLimits, now: Instant, ring_slots: usize) -> Self {
        let hold = Span::from_ms(limits.hold_ms);
        let bql = Bql::beginning_at_min(now, limits.min_bytes, limits.max_bytes, hold);
        Self { bql, sent: BqlSent::default(), lengths: VecDeque::with_capacity(ring_slots) }
    }

    #[inline]
    pub(crate) fn queued(&mut self, bytes: u32) {
        self.sent = self.sent.queued(bytes);
        self.lengths.push_back(bytes);
    }

    /// The ring holds `in_flight_pkts`, perhaps with others' among them: the rest has left.
    pub(crate) fn completed(&mut self, now: Instant, in_flight_pkts: u32) {
        let done = self.lengths.len().saturating_sub(in_flight_pkts as usize);
        let bytes: u32 = self.lengths.drain(..done).sum();
        if bytes > 0 {
            self.bql.completed(now, self.sent, bytes);
        }
    }

    /// Bytes that may still go into the ring.
    #[inline]
    pub(crate) fn available(&self) -> i32 {
        bql::available(self.sent, self.bql.adjusted_limit())
    }

    pub(crate) fn limit_bytes(&self) -> u32 {
        self.bql.limit_bytes()
    }
}
