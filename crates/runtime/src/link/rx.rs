//! The receive side of a queue.

use std::sync::Arc;

use napier_ring::memif::{C2sConsumer, S2cConsumer};
use napier_ring::{Frame, FramePool, FrameTable};

use super::counters::{FrameAccount, RxCounters};
use super::irq::IrqLine;

/// Packets between two publications of freed slots, so that the peer gets room during a long poll and its cache
/// line is not touched per packet.
const REFILL_BATCH: u32 = 32;

/// A queue that packets come out of. One owner at a time.
pub(crate) struct RxQueue {
    end: End,
    pool: FramePool,
    table: Arc<FrameTable>,
    irq: Arc<IrqLine>,
    counters: Arc<RxCounters>,
    unpublished: u32,
    /// Counted since the last publication; shown with it.
    unpublished_bytes: u64,
}

enum End {
    Client(S2cConsumer),
    Server(C2sConsumer),
}

impl RxQueue {
    /// The client's side: all slots of its ring are filled with frames of `pool`, and stay filled.
    pub(super) fn client(ring: S2cConsumer, pool: FramePool, irq: Arc<IrqLine>) -> Self {
        Self::new(End::Client(ring), pool, irq)
    }

    /// The server's side: packets are copied into frames of `pool`.
    pub(super) fn server(ring: C2sConsumer, pool: FramePool, irq: Arc<IrqLine>) -> Self {
        Self::new(End::Server(ring), pool, irq)
    }

    fn new(end: End, pool: FramePool, irq: Arc<IrqLine>) -> Self {
        let table = pool.table().clone();
        let mut queue = Self { end, pool, table, irq, counters: Arc::default(), unpublished: 0, unpublished_bytes: 0 };
        queue.irq.serve(match &queue.end {
            End::Client(ring) => ring.interrupt_switch(),
            End::Server(ring) => ring.interrupt_switch(),
        });
        queue.irq.mask();
        if let End::Client(ring) = &mut queue.end {
            while ring.free_slots() > 0 {
                let Some(frame) = queue.pool.alloc() else { panic!("a home has fewer frames than its ring slots") };
                assert!(ring.post(frame).is_ok(), "a free slot refused a frame");
            }
        }
        queue.refill();
        queue
    }

    /// Takes the oldest packet: its frame and its length in bytes.
    ///
    /// If no frame is free (sockets hold them all), packets are dropped and counted, and their slots go back to the
    /// peer: a queue that kept them would run dry and never be woken again.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(Frame, u32)> {
        let taken = match &mut self.end {
            End::Client(ring) => take_posted(ring, &mut self.pool, &self.counters),
            End::Server(ring) => take_copied(ring, &self.table, &mut self.pool, &self.counters),
        };
        let Some((frame, length)) = taken else {
            self.refill();
            return None;
        };
        self.unpublished += 1;
        self.unpublished_bytes += u64::from(length);
        if self.unpublished >= REFILL_BATCH {
            self.refill();
        }
        Some((frame, length))
    }

    /// Gives the peer the slots of the packets taken so far. `take` does it now and then, and when the queue is
    /// empty; call it at the end of a poll that stops before that.
    pub(crate) fn refill(&mut self) {
        if self.unpublished > 0 {
            self.counters.packets.add(u64::from(std::mem::take(&mut self.unpublished)));
            self.counters.bytes.add(std::mem::take(&mut self.unpublished_bytes));
        }
        let consumed = match &mut self.end {
            End::Client(ring) => {
                ring.publish_posts();
                self.counters.bad_descriptors.set(ring.bad_descriptors());
                self.counters.index_errors.set(ring.index_errors());
                ring.consumed()
            }
            End::Server(ring) => {
                ring.release();
                self.counters.index_errors.set(ring.index_errors());
                ring.consumed()
            }
        };
        self.irq.note_consumed(consumed);
    }

    /// Packets that wait, with a look at the peer's index. [`take`](Self::take) looks again only when it has taken them.
    #[inline]
    pub(crate) fn pending(&mut self) -> u32 {
        match &mut self.end {
            End::Client(ring) => ring.pending(),
            End::Server(ring) => ring.pending(),
        }
    }

    /// The pool that received frames come from.
    pub(crate) fn frames_home(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    /// Where this home's frames are.
    pub(crate) fn account(&mut self) -> FrameAccount {
        let in_ring = match &self.end {
            End::Client(ring) => u64::from(ring.posted()),
            End::Server(_) => 0,
        };
        FrameAccount { total: u64::from(self.pool.total()), pooled: self.pool.available() as u64, in_ring }
    }

    /// The queue's counters.
    pub(crate) fn counters(&self) -> &Arc<RxCounters> {
        &self.counters
    }
}

#[cfg(test)]
impl RxQueue {
    /// As the engine does before it polls.
    pub(super) fn mask(&mut self) {
        self.irq.mask();
    }

    /// As the engine does after a poll that ended the work.
    pub(super) fn unmask(&mut self) -> bool {
        self.refill();
        self.irq.unmask()
    }
}

/// The client's way: the packet is in one of our frames; a fresh one takes its place. Ends within one ring size, for
/// what is posted here is not published yet.
#[inline]
fn take_posted(ring: &mut S2cConsumer, pool: &mut FramePool, counters: &RxCounters) -> Option<(Frame, u32)> {
    ring.exchange(|| pool.alloc(), || counters.no_frame_drops.add(1))
}

/// The server's way: the packet is copied into one of our frames. Ends within one ring size, for what is taken here
/// is not released yet.
fn take_copied(
    ring: &mut C2sConsumer,
    table: &FrameTable,
    pool: &mut FramePool,
    counters: &RxCounters,
) -> Option<(Frame, u32)> {
    let Some(mut frame) = pool.alloc() else {
        // An empty buffer takes no packet, but it ends with the slot.
        while ring.take_into(&mut []).is_some() {
            counters.no_frame_drops.add(1);
        }
        return None;
    };
    loop {
        match ring.take_into(table.data_mut(&mut frame)) {
            Some(Ok(length)) => return Some((frame, length as u32)), // at most a frame
            Some(Err(_)) => counters.bad_descriptors.add(1),
            None => break,
        }
    }
    pool.free(frame);
    None
}
