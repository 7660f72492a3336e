//! The receive side of a queue.

use std::sync::Arc;

use napier_ring::memif::remote::Receiver;
use napier_ring::memif::{BadDescriptor, C2sConsumer, S2cConsumer};
use napier_ring::{Frame, FramePool, FrameTable};

use super::counters::{FrameAccount, RxCounters};
use super::irq::IrqLine;
use crate::port::Tap;
use crate::port::xsk::XskRxEnd;

/// Packets between two publications of freed slots, so that the peer gets room during a long poll and its cache
/// line is not touched per packet.
const REFILL_BATCH: u32 = 32;

/// A queue that packets come out of. One owner at a time.
pub(crate) struct RxQueue {
    end: RxEnd,
    pool: FramePool,
    table: Arc<FrameTable>,
    irq: IrqLine,
    counters: Arc<RxCounters>,
    unpublished: u32,
    /// Counted since the last publication; shown with it.
    unpublished_bytes: u64,
    /// Index errors of the ends before this one.
    index_errors_before: u64,
    tap: Arc<Tap>,
    /// The tap is on in this poll.
    captures: bool,
}

/// Where packets come from.
pub(crate) enum RxEnd {
    /// The client of a link: packets are in frames that it posted.
    LinkClient(S2cConsumer),
    /// The server of a link: packets are copied out of the client's memory.
    LinkServer(C2sConsumer),
    /// A memif peer in another process: packets of at most `frame_bytes` are copied out of memory that it can write.
    Remote { ring: Receiver, frame_bytes: usize },
    /// An AF_XDP socket: packets are in frames that the kernel was given.
    Xsk(Box<XskRxEnd>),
    /// Nowhere: the peer is not there.
    Detached,
}

impl RxQueue {
    /// A queue whose interrupt is masked. Its end gets the frames that it needs from `pool`.
    pub(crate) fn new(end: RxEnd, pool: FramePool, irq: IrqLine) -> Self {
        let table = pool.table().clone();
        let mut queue = Self {
            end: RxEnd::Detached,
            pool,
            table,
            irq,
            counters: Arc::default(),
            unpublished: 0,
            unpublished_bytes: 0,
            index_errors_before: 0,
            tap: Tap::new(),
            captures: false,
        };
        queue.attach(end);
        queue
    }

    /// Packets come from `end` from now on. Returns the end that they came from before, with whatever it holds.
    pub(crate) fn attach(&mut self, end: RxEnd) -> RxEnd {
        self.index_errors_before = self.counters.index_errors.get();
        let before = std::mem::replace(&mut self.end, end);
        self.irq.mask();
        if let RxEnd::Xsk(end) = &mut self.end {
            end.fill(&mut self.pool);
        }
        if let RxEnd::LinkClient(ring) = &mut self.end {
            // All slots are filled with frames, and stay filled.
            while ring.free_slots() > 0 {
                let Some(frame) = self.pool.alloc() else { panic!("a home has fewer frames than its ring slots") };
                assert!(ring.post(frame).is_ok(), "a free slot refused a frame");
            }
        }
        self.refill();
        before
    }

    /// Takes the oldest packet: its frame and its length in bytes.
    ///
    /// If no frame is free (sockets hold them all), packets are dropped and counted, and their slots go back to the
    /// peer: a queue that kept them would run dry and never be woken again.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(Frame, u32)> {
        let taken = match &mut self.end {
            RxEnd::LinkClient(ring) => take_posted(ring, &mut self.pool, &self.counters),
            RxEnd::LinkServer(ring) => {
                take_copied(|to| ring.take_into(to), &self.table, &mut self.pool, &self.counters)
            }
            RxEnd::Remote { ring, frame_bytes } => {
                let take_into = |to: &mut [u8]| {
                    let room = to.len().min(*frame_bytes);
                    ring.take_into(&mut to[..room])
                };
                take_copied(take_into, &self.table, &mut self.pool, &self.counters)
            }
            RxEnd::Xsk(end) => end.take(&mut self.pool, &self.counters),
            RxEnd::Detached => None,
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
        if self.captures {
            return Some(self.capture(frame, length));
        }
        Some((frame, length))
    }

    /// Takes at most `max` packets, and hands each to `each`; returns how many. As many calls of [`take`](Self::take), but
    /// cheaper where the peer is in another process.
    #[inline]
    pub(crate) fn take_burst(&mut self, max: u32, mut each: impl FnMut(Frame, u32)) -> u32 {
        let mut taken = 0;
        if matches!(self.end, RxEnd::Remote { .. }) && !self.captures {
            while taken < max {
                let more = self.take_remote((max - taken).min(REFILL_BATCH), &mut each);
                // Slots go back in time, and what was dropped on the way is counted.
                self.refill();
                if more == 0 {
                    break;
                }
                taken += more;
            }
            return taken;
        }
        while taken < max
            && let Some((frame, length)) = self.take()
        {
            each(frame, length);
            taken += 1;
        }
        taken
    }

    /// At most `max` packets from a peer in another process; 0 = there are none, or no frame is free.
    #[inline]
    fn take_remote(&mut self, max: u32, each: &mut impl FnMut(Frame, u32)) -> u32 {
        let RxEnd::Remote { ring, frame_bytes } = &mut self.end else { return 0 };
        let (frame_bytes, table, pool, counters) = (*frame_bytes, &*self.table, &mut self.pool, &*self.counters);
        let (mut taken, mut bytes) = (0, 0);
        while taken < max && ring.has_packets() {
            let take_into = |to: &mut [u8]| {
                let room = to.len().min(frame_bytes);
                ring.take_into(&mut to[..room])
            };
            let Some((frame, length)) = take_copied(take_into, table, pool, counters) else { break };
            each(frame, length);
            taken += 1;
            bytes += u64::from(length);
        }
        self.unpublished += taken;
        self.unpublished_bytes += bytes;
        taken
    }

    // The frame comes and goes by value, so that it can stay in a register where nobody captures.
    #[cold]
    #[inline(never)]
    fn capture(&self, frame: Frame, length: u32) -> (Frame, u32) {
        self.tap.record(self.table.data(&frame, length as usize));
        (frame, length)
    }

    /// Gives the peer the slots of the packets taken so far. `take` does it now and then, and when the queue is
    /// empty; call it at the end of a poll that stops before that.
    pub(crate) fn refill(&mut self) {
        if self.unpublished > 0 {
            self.counters.packets.add(u64::from(std::mem::take(&mut self.unpublished)));
            self.counters.bytes.add(std::mem::take(&mut self.unpublished_bytes));
        }
        let consumed = match &mut self.end {
            RxEnd::LinkClient(ring) => {
                ring.publish_posts();
                self.counters.bad_descriptors.set(ring.bad_descriptors());
                self.counters.index_errors.set(ring.index_errors());
                ring.consumed()
            }
            RxEnd::LinkServer(ring) => {
                ring.release();
                self.counters.index_errors.set(ring.index_errors());
                ring.consumed()
            }
            RxEnd::Remote { ring, .. } => {
                let released = ring.release();
                self.counters.index_errors.set(self.index_errors_before + ring.index_errors());
                // An empty poll changes nothing.
                if released == 0 {
                    return;
                }
                ring.consumed()
            }
            RxEnd::Xsk(end) => return end.refill(&mut self.pool, &self.counters),
            RxEnd::Detached => return,
        };
        self.irq.note_consumed(consumed);
    }

    /// A poll begins: what it takes is captured if somebody captures now. Where packets wait elsewhere until somebody asks
    /// for them, it is asked for here.
    #[inline]
    pub(crate) fn poll_begins(&mut self) {
        self.captures = self.tap.is_on();
        if let RxEnd::Xsk(end) = &mut self.end {
            end.poll_begins(self.counters.packets.get());
        }
    }

    /// Packets that wait, with a look at the peer's index. [`take`](Self::take) looks again only when it has taken them.
    #[inline]
    pub(crate) fn pending(&mut self) -> u32 {
        match &mut self.end {
            RxEnd::LinkClient(ring) => ring.pending(),
            RxEnd::LinkServer(ring) => ring.pending(),
            RxEnd::Remote { ring, .. } => ring.pending(),
            RxEnd::Xsk(end) => end.pending(),
            RxEnd::Detached => 0,
        }
    }

    /// The pool that received frames come from.
    pub(crate) fn frames_home(&mut self) -> &mut FramePool {
        &mut self.pool
    }

    /// Where this home's frames are.
    pub(crate) fn account(&mut self) -> FrameAccount {
        let in_ring = match &self.end {
            RxEnd::LinkClient(ring) => u64::from(ring.posted()),
            RxEnd::Xsk(end) => u64::from(end.posted()),
            RxEnd::LinkServer(_) | RxEnd::Remote { .. } | RxEnd::Detached => 0,
        };
        FrameAccount { total: u64::from(self.pool.total()), pooled: self.pool.available() as u64, in_ring }
    }

    /// The queue's counters.
    pub(crate) fn counters(&self) -> &Arc<RxCounters> {
        &self.counters
    }

    /// Where what is taken can be captured.
    pub(crate) fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }
}

#[cfg(test)]
impl RxQueue {
    /// As the engine does before it polls.
    pub(crate) fn mask(&mut self) {
        self.irq.mask();
    }

    /// As the engine does after a poll that ended the work.
    pub(crate) fn unmask(&mut self) -> bool {
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

/// The other way: the packet is copied into one of our frames by `take_into`. Ends within one ring size, for what is
/// taken here is not released yet.
#[inline]
fn take_copied(
    mut take_into: impl FnMut(&mut [u8]) -> Option<Result<usize, BadDescriptor>>,
    table: &FrameTable,
    pool: &mut FramePool,
    counters: &RxCounters,
) -> Option<(Frame, u32)> {
    let Some(mut frame) = pool.alloc() else {
        // An empty buffer takes no packet, but it ends with the slot.
        while take_into(&mut []).is_some() {
            counters.no_frame_drops.add(1);
        }
        return None;
    };
    loop {
        match take_into(table.data_mut(&mut frame)) {
            Some(Ok(length)) => return Some((frame, length as u32)), // at most a frame
            Some(Err(_)) => counters.bad_descriptors.add(1),
            None => break,
        }
    }
    pool.free(frame);
    None
}
