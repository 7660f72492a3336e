//! What happened on a queue, readable from any thread.

use core::iter::Sum;
use core::ops::Add;

pub(crate) use napier_core::counters::Counter;
use napier_ring::FramePool;
use napier_ring::memif::BadDescriptor;

/// Counters of a receive queue.
#[derive(Debug, Default)]
pub(crate) struct RxCounters {
    /// Packets handed to the poll.
    pub(crate) packets: Counter,
    /// Their bytes.
    pub(crate) bytes: Counter,
    /// Packets dropped because no frame was free: sockets hold them all.
    pub(crate) no_frame_drops: Counter,
    /// Packets dropped because the peer described them wrongly.
    pub(crate) bad_descriptors: Counter,
    /// Packets dropped because they are longer than a frame, in one piece or in several.
    pub(crate) too_long: Counter,
    /// Times that the peer's ring index was impossible; nothing was read then.
    pub(crate) index_errors: Counter,
}

impl RxCounters {
    /// A packet in memory that is shared could not be taken.
    #[cold]
    pub(crate) fn refused(&self, why: BadDescriptor) {
        match why {
            BadDescriptor::TooLong => self.too_long.add(1),
            BadDescriptor::Empty | BadDescriptor::OutOfRegion | BadDescriptor::Chained => self.bad_descriptors.add(1),
        }
    }
}

/// Counters of a transmit queue.
#[derive(Debug, Default)]
pub(crate) struct TxCounters {
    /// Packets put into the ring.
    pub(crate) packets: Counter,
    /// Their bytes.
    pub(crate) bytes: Counter,
    /// Packets refused because the peer's ring had no room: the peer is too slow.
    pub(crate) tx_full_drops: Counter,
    /// Packets dropped because they exceed the peer's buffers.
    pub(crate) too_long_drops: Counter,
    /// Packets refused because no frame was free, though the ring had room.
    pub(crate) no_frame_drops: Counter,
    /// Buffers of the peer that could not be used.
    pub(crate) bad_descriptors: Counter,
    /// Times that the peer's ring index was impossible; nothing was read then.
    pub(crate) index_errors: Counter,
    /// Interrupts and interrupt timers that this end started for its peer.
    pub(crate) kicks: Counter,
}

/// Where the frames of a queue's home are. Sums over the queues of an end; a single queue may hold frames that were
/// given to it by another.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameAccount {
    /// Frames that were made for this queue.
    pub(crate) total: u64,
    /// Frames in its pool.
    pub(crate) pooled: u64,
    /// Frames in its ring: posted to receive, or sent and not reclaimed.
    pub(crate) in_ring: u64,
}

impl FrameAccount {
    /// A home without a ring.
    pub(crate) fn pooled(pool: &mut FramePool) -> Self {
        Self { total: pool.total().into(), pooled: pool.available() as u64, in_ring: 0 }
    }

    /// Frames that are elsewhere: in sockets, in a program's hands, or lost. 0 at rest, over all queues of an end.
    pub(crate) fn out(&self) -> i64 {
        self.total as i64 - self.pooled as i64 - self.in_ring as i64 // at most 2^24 frames
    }
}

impl Add for FrameAccount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            total: self.total + other.total,
            pooled: self.pooled + other.pooled,
            in_ring: self.in_ring + other.in_ring,
        }
    }
}

impl Sum for FrameAccount {
    fn sum<I: Iterator<Item = Self>>(accounts: I) -> Self {
        accounts.fold(Self::default(), Add::add)
    }
}
