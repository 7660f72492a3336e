//! Fifos: one, or one per band. Source: `net/sched/sch_fifo.c pfifo_enqueue`, `net/sched/sch_generic.c
//! pfifo_fast_enqueue`, `pfifo_fast_dequeue` (Linux 7.3).

use alloc::collections::VecDeque;

use super::prio::{BANDS, priority_band};
use crate::tx::{DropReason, DroppedPacket, TxPacket};

/// Packets that a device lets wait by default; the limit of a fifo, and of each band. Source:
/// `include/net/pkt_sched.h DEFAULT_TX_QUEUE_LEN`.
pub const TX_QUEUE_LEN: usize = 1000;

/// First in, first out, up to a number of packets.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Fifo<P> {
    waiting: VecDeque<P>,
    limit_pkts: usize,
}

impl<P> Fifo<P> {
    /// An empty one, with room for as many packets as a device lets wait by default: queueing them asks for no memory.
    #[must_use]
    pub fn new(limit_pkts: usize) -> Self {
        Self { waiting: VecDeque::with_capacity(limit_pkts.min(TX_QUEUE_LEN)), limit_pkts }
    }

    /// Queues a packet; `outside_pkts` count as if they waited here.
    ///
    /// # Errors
    /// The packet, if there is no room.
    #[inline]
    pub fn enqueue(&mut self, packet: P, outside_pkts: usize) -> Result<(), DroppedPacket<P>> {
        if self.waiting.len() + outside_pkts >= self.limit_pkts {
            return Err(DroppedPacket { packet, reason: DropReason::Overlimit });
        }
        self.waiting.push_back(packet);
        Ok(())
    }

    /// Takes the oldest packet.
    #[inline]
    #[must_use]
    pub fn dequeue(&mut self) -> Option<P> {
        self.waiting.pop_front()
    }

    /// Packets that wait.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// True if nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The limit, in packets.
    #[inline]
    #[must_use]
    pub const fn limit_pkts(&self) -> usize {
        self.limit_pkts
    }

    /// Takes everything away.
    pub fn reset(&mut self, dropped: &mut impl FnMut(P)) {
        self.waiting.drain(..).for_each(dropped);
    }
}

/// A fifo per band; each has the whole limit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Prio<P> {
    bands: [Fifo<P>; BANDS],
}

impl<P: TxPacket> Prio<P> {
    /// Empty bands.
    #[must_use]
    pub fn new(limit_pkts: usize) -> Self {
        Self { bands: core::array::from_fn(|_| Fifo::new(limit_pkts)) }
    }

    /// Queues a packet in the band of its priority.
    ///
    /// # Errors
    /// The packet, if the band is full.
    #[inline]
    pub fn enqueue(&mut self, packet: P) -> Result<(), DroppedPacket<P>> {
        self.bands[priority_band(packet.priority())].enqueue(packet, 0)
    }

    /// Takes the oldest packet of the first band that has one.
    #[inline]
    #[must_use]
    pub fn dequeue(&mut self) -> Option<P> {
        self.bands.iter_mut().find_map(Fifo::dequeue)
    }

    /// Packets that wait.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bands.iter().map(Fifo::len).sum()
    }

    /// True if nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes everything away.
    pub fn reset(&mut self, dropped: &mut impl FnMut(P)) {
        self.bands.iter_mut().for_each(|band| band.reset(dropped));
    }
}
