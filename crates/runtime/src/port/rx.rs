//! The receive side of a queue.

use std::sync::Arc;

use napier_ring::memif::BadDescriptor;
use napier_ring::{Frame, FramePool, FrameTable};

use super::counters::{FrameAccount, RxCounters};
use super::{Detached, IrqLine, RxEnd, Tap};

/// Packets between two publications of freed slots, so that the peer gets room during a long poll and its cache
/// line is not touched per packet.
const REFILL_BATCH: u32 = 32;

/// A queue that packets come out of. One owner at a time.
pub(crate) struct RxQueue {
    end: RxEnd,
    home: RxHome,
    irq: IrqLine,
    unpublished: u32,
    /// Counted since the last publication; shown with it.
    unpublished_bytes: u64,
    tap: Arc<Tap>,
    /// The tap is on in this poll.
    captures: bool,
}

/// The receive end of one kind of device.
pub(crate) trait RxRing {
    /// It is attached, and gets the frames that it needs.
    fn begin(&mut self, _pool: &mut FramePool) {}

    /// A poll begins. Where packets wait elsewhere until they are asked for, it is asked for here.
    #[inline]
    fn poll_begins(&mut self, _counters: &RxCounters) {}

    /// Packets that wait, with a look at the peer's index.
    fn pending(&mut self) -> u32;

    /// Takes the oldest packet. If no frame is free, packets are dropped and counted.
    fn receive(&mut self, home: &mut RxHome) -> Option<(Frame, u32)>;

    /// Whether to take many at once is cheaper.
    fn takes_many(&self) -> bool {
        false
    }

    /// Takes at most `max`; packets and bytes. Fewer: there are no more as far as is known, or no frame is free.
    fn take_many(&mut self, _max: u32, _home: &mut RxHome, _each: &mut impl FnMut(Frame, u32)) -> (u32, u64) {
        (0, 0)
    }

    /// Gives the peer the slots of what was taken. What was consumed so far, for the line, if that changed.
    fn refill(&mut self, home: &mut RxHome) -> Option<u16>;

    /// Frames of the home that are in the ring.
    fn in_ring(&self) -> u32 {
        0
    }
}

/// What an end needs of its queue. It stays when ends change; a packet gets it by one pointer.
pub(crate) struct RxHome {
    pub(crate) pool: FramePool,
    pub(crate) table: Arc<FrameTable>,
    pub(crate) counters: Arc<RxCounters>,
    /// Index errors of the ends before this one.
    pub(crate) index_errors_before: u64,
}

impl RxRing for Detached {
    #[inline]
    fn pending(&mut self) -> u32 {
        0
    }

    #[inline]
    fn receive(&mut self, _home: &mut RxHome) -> Option<(Frame, u32)> {
        None
    }

    #[inline]
    fn refill(&mut self, _home: &mut RxHome) -> Option<u16> {
        None
    }
}

impl RxQueue {
    /// A queue whose interrupt is masked. Its end gets the frames that it needs from `pool`.
    pub(crate) fn new(end: RxEnd, pool: FramePool, irq: IrqLine) -> Self {
        let table = pool.table().clone();
        let mut queue = Self {
            end: RxEnd::Detached,
            home: RxHome { pool, table, counters: Arc::default(), index_errors_before: 0 },
            irq,
            unpublished: 0,
            unpublished_bytes: 0,
            tap: Tap::new(),
            captures: false,
        };
        queue.attach(end);
        queue
    }

    /// Packets come from `end` from now on. Returns the end that they came from before, with whatever it holds.
    pub(crate) fn attach(&mut self, end: RxEnd) -> RxEnd {
        self.home.index_errors_before = self.home.counters.index_errors.get();
        let before = std::mem::replace(&mut self.end, end);
        self.irq.mask();
        on_end!(RxEnd, &mut self.end, end => end.begin(&mut self.home.pool));
        self.refill();
        before
    }

    /// Takes the oldest packet: its frame and its length in bytes.
    ///
    /// If no frame is free (sockets hold them all), packets are dropped and counted, and their slots go back to the
    /// peer: a queue that kept them would run dry and never be woken again.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(Frame, u32)> {
        let taken = on_end!(RxEnd, &mut self.end, end => end.receive(&mut self.home));
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

    /// Takes at most `max` packets, and hands each to `each`; returns how many. As calls of [`take`](Self::take), but
    /// cheaper where ends take many; there it may end with packets left that came meanwhile. The last slots go back, and drops
    /// are counted, by [`refill`](Self::refill) at the end of the poll.
    #[inline]
    pub(crate) fn take_burst(&mut self, max: u32, mut each: impl FnMut(Frame, u32)) -> u32 {
        let mut taken = 0;
        if !self.captures && on_end!(RxEnd, &self.end, end => end.takes_many()) {
            while taken < max {
                let wanted = (max - taken).min(REFILL_BATCH);
                let more = self.take_many(wanted, &mut each);
                taken += more;
                // Another look at the peer's index would fetch a line that the peer has in use.
                if more < wanted {
                    break;
                }
                // Slots go back in time.
                if taken < max {
                    self.refill();
                }
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

    #[inline]
    fn take_many(&mut self, max: u32, each: &mut impl FnMut(Frame, u32)) -> u32 {
        let (taken, bytes) = on_end!(RxEnd, &mut self.end, end => end.take_many(max, &mut self.home, each));
        self.unpublished += taken;
        self.unpublished_bytes += bytes;
        taken
    }

    // The frame comes and goes by value, so that it can stay in a register where no capture is on.
    #[cold]
    #[inline(never)]
    fn capture(&self, frame: Frame, length: u32) -> (Frame, u32) {
        self.tap.record(self.home.table.data(&frame, length as usize));
        (frame, length)
    }

    /// Gives the peer the slots of the packets taken so far. `take` does it now and then, and when the queue is
    /// empty; call it at the end of a poll that stops before that.
    pub(crate) fn refill(&mut self) {
        if self.unpublished > 0 {
            self.home.counters.packets.add(u64::from(std::mem::take(&mut self.unpublished)));
            self.home.counters.bytes.add(std::mem::take(&mut self.unpublished_bytes));
        }
        if let Some(consumed) = on_end!(RxEnd, &mut self.end, end => end.refill(&mut self.home)) {
            self.irq.note_consumed(consumed);
        }
    }

    /// A poll begins: what it takes is captured if a capture is on. Where packets wait elsewhere until they are asked
    /// for them, it is asked for here.
    #[inline]
    pub(crate) fn poll_begins(&mut self) {
        self.captures = self.tap.is_on();
        on_end!(RxEnd, &mut self.end, end => end.poll_begins(&self.home.counters));
    }

    /// Packets that wait, with a look at the peer's index. [`take`](Self::take) looks again only when it has taken them.
    #[inline]
    pub(crate) fn pending(&mut self) -> u32 {
        on_end!(RxEnd, &mut self.end, end => end.pending())
    }

    /// The pool that received frames come from.
    pub(crate) fn frames_home(&mut self) -> &mut FramePool {
        &mut self.home.pool
    }

    /// Where this home's frames are.
    pub(crate) fn account(&mut self) -> FrameAccount {
        let in_ring = on_end!(RxEnd, &self.end, end => end.in_ring()).into();
        FrameAccount { total: u64::from(self.home.pool.total()), pooled: self.home.pool.available() as u64, in_ring }
    }

    /// The queue's counters.
    pub(crate) fn counters(&self) -> &Arc<RxCounters> {
        &self.home.counters
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

/// Where a packet is copied into one of our frames by `take_into`. Ends within one ring size, for what is
/// taken here is not released yet.
#[inline]
pub(crate) fn take_copied(
    home: &mut RxHome,
    mut take_into: impl FnMut(&mut [u8]) -> Option<Result<usize, BadDescriptor>>,
) -> Option<(Frame, u32)> {
    let RxHome { pool, table, counters, .. } = home;
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
            Some(Err(why)) => counters.refused(why),
            None => break,
        }
    }
    pool.free(frame);
    None
}
