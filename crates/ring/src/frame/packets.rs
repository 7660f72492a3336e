//! Received packets on their way to one program, and their frames on the way back: arrays both ways, no list.

use std::sync::Arc;

use super::arena::Arena;
use super::{Frame, FramePool, FrameTable, arena_of, index_of};
use crate::spsc::{self, Consumer, Producer};

/// Most packets of a [`PacketBurst`].
pub const PACKET_BURST_MAX: usize = 32;

/// A packet as one word: the frame's number, and its length in the upper half.
#[inline]
fn word(raw: u32, len: u32) -> u64 {
    u64::from(len) << 32 | u64::from(raw)
}

/// A queue for packets in frames of the pool's arena, with room for all frames of the pool: from the pool's owner to a
/// program, and back.
#[must_use]
pub fn packet_queue(pool: &FramePool) -> (PacketSender, PacketReceiver) {
    let (packets, received) = spsc::channel(pool.total());
    let (returns, returned) = spsc::channel(pool.total());
    let (table, arena) = (pool.table().clone(), pool.table().arena(pool.arena()).clone());
    let sender = PacketSender { packets, returned, arena: pool.arena(), table: table.clone() };
    (sender, PacketReceiver { received, returns, arena, table })
}

/// The end of the pool's owner.
pub struct PacketSender {
    packets: Producer<u64>,
    returned: Consumer<u64>,
    arena: super::ArenaId,
    table: Arc<FrameTable>,
}

impl PacketSender {
    /// Adds the packet of `len` bytes in `frame`. The program sees it after [`publish`](Self::publish).
    ///
    /// # Panics
    ///
    /// If the frame is of another arena, or the queue holds all that its pool has.
    #[inline]
    pub fn push(&mut self, frame: Frame, len: u32) {
        let raw = self.table.raw_for(&frame);
        assert_eq!(arena_of(raw), self.arena, "a frame of another arena");
        let staged = self.packets.stage(word(raw, len));
        assert!(staged.is_ok(), "a queue of packets holds all frames of their home");
    }

    /// The program sees what was pushed.
    #[inline]
    pub fn publish(&mut self) {
        self.packets.publish();
    }

    /// Puts the frames that came back into `pool`; others than its own go to their home.
    ///
    /// # Panics
    ///
    /// If the pool is of another table.
    #[inline]
    pub fn collect(&mut self, pool: &mut FramePool) {
        assert_eq!(pool.table().id(), self.table.id(), "a pool of another table");
        self.returned.pop_many(u32::MAX, |raw| pool.put(raw as u32)); // the lower half
    }
}

/// The program's end.
///
/// Frames of packets that are in the queue when it is dropped are lost to their pool: take them before.
pub struct PacketReceiver {
    received: Consumer<u64>,
    returns: Producer<u64>,
    arena: Arc<Arena>,
    table: Arc<FrameTable>,
}

impl PacketReceiver {
    /// Whether no packet waits.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// Takes the oldest packet: its frame and its length in bytes.
    #[inline]
    pub fn pop(&mut self) -> Option<(Frame, u32)> {
        let word = self.received.pop()?;
        Some((Frame::mint(word as u32, self.table.id()), (word >> 32) as u32)) // the two halves
    }

    /// Gives the frame of a packet that was popped back to the owner of the pool.
    ///
    /// # Panics
    ///
    /// If the frame is of another arena.
    #[inline]
    pub fn give_back(&mut self, frame: Frame) {
        let raw = self.raw_for(&frame);
        self.send_home(raw);
        self.returns.publish();
    }

    /// The number of a frame of the queue's arena.
    #[inline]
    fn raw_for(&self, frame: &Frame) -> u32 {
        let raw = self.table.raw_for(frame);
        assert!(Arc::ptr_eq(self.table.arena(arena_of(raw)), &self.arena), "a frame of another arena");
        raw
    }

    /// Takes at most `max` packets, and at most [`PACKET_BURST_MAX`]. What is left of them when the burst is dropped goes
    /// back to the owner of the pool.
    #[inline]
    pub fn take_burst(&mut self, max: usize) -> PacketBurst<'_> {
        let (mut words, mut len) = ([0; PACKET_BURST_MAX], 0);
        let max = max.min(PACKET_BURST_MAX) as u32;
        self.received.pop_many(max, |word| {
            words[len] = word;
            len += 1;
        });
        PacketBurst { queue: self, words, len }
    }

    /// Takes at most `max` packets, shows the bytes of each to `each`, to be changed, and gives the frames back together to the
    /// owner of the pool; returns how many. As [`take_burst`](Self::take_burst) where no packet is taken out, and without
    /// the array.
    #[inline]
    pub fn drain(&mut self, max: u32, mut each: impl FnMut(&mut [u8])) -> u32 {
        let Self { received, returns, arena, .. } = self;
        let drained = received.pop_many(max, |word| {
            let (start, len) = place(arena, word);
            // Before the call: should it panic, the frame goes home with the next ones. The owner does not see it until then.
            let staged = returns.stage(u64::from(word as u32)); // the lower half
            assert!(staged.is_ok(), "more frames came home than left");
            // SAFETY: `place` checked that the bytes are inside the frame, whose arena the queue keeps alive; they are
            // initialised; the frame was moved into this queue, and its number is shown to no thread before the reference has
            // ended: `publish` needs `self`, which is borrowed.
            each(unsafe { core::slice::from_raw_parts_mut(start, len) });
        });
        returns.publish();
        drained
    }

    #[inline]
    fn send_home(&mut self, raw: u32) {
        let staged = self.returns.stage(u64::from(raw));
        assert!(staged.is_ok(), "more frames came home than left");
    }
}

/// Some packets in hand, as an array.
pub struct PacketBurst<'a> {
    queue: &'a mut PacketReceiver,
    /// 0: the frame was taken out.
    words: [u64; PACKET_BURST_MAX],
    len: usize,
}

impl PacketBurst<'_> {
    /// How many there were when the burst was taken.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there was none.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of all packets that were not taken out, to be changed.
    #[inline]
    pub fn each_mut(&mut self, mut each: impl FnMut(&mut [u8])) {
        for word in self.words[..self.len].iter().filter(|word| **word != 0) {
            let (start, len) = place(&self.queue.arena, *word);
            // SAFETY: as in `iter`; the burst is borrowed mutably, and the reference ends with this turn.
            each(unsafe { core::slice::from_raw_parts_mut(start, len) });
        }
    }

    /// The bytes of all packets that were not taken out, oldest first.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.words[..self.len].iter().filter(|word| **word != 0).map(|word| {
            let (start, len) = place(&self.queue.arena, *word);
            // SAFETY: `place` checked that the bytes are inside the frame, whose arena the queue keeps alive; they are
            // initialised; the frame was moved into this burst, which is borrowed, so no thread writes them meanwhile.
            unsafe { core::slice::from_raw_parts(start.cast_const(), len) }
        })
    }

    /// Takes a packet out: its frame and its length in bytes. `None`: it was taken out before, or there was none.
    #[inline]
    pub fn take(&mut self, at: usize) -> Option<(Frame, u32)> {
        let word = core::mem::take(self.words[..self.len].get_mut(at)?);
        (word != 0).then(|| (Frame::mint(word as u32, self.queue.table.id()), (word >> 32) as u32)) // the two halves
    }

    /// Puts a packet that was taken out back.
    ///
    /// # Panics
    ///
    /// If it is not the one that was taken out there: of another table or arena, or its place is not empty.
    #[inline]
    pub fn put_back(&mut self, at: usize, frame: Frame, len: u32) {
        let raw = self.queue.raw_for(&frame);
        let place = &mut self.words[..self.len][at];
        assert_eq!(*place, 0, "the place of a packet that was not taken out");
        *place = word(raw, len);
    }
}

/// Where the bytes of a packet are, and how many.
#[inline]
fn place(arena: &Arena, word: u64) -> (*mut u8, usize) {
    let len = (word >> 32) as usize;
    assert!(len <= arena.frame_bytes(), "a packet that is longer than a frame");
    (arena.address(index_of(word as u32)), len) // the lower half
}

impl Drop for PacketBurst<'_> {
    #[inline]
    fn drop(&mut self) {
        for &word in &self.words[..self.len] {
            if word != 0 {
                self.queue.send_home(word as u32); // the lower half
            }
        }
        self.queue.returns.publish();
    }
}
