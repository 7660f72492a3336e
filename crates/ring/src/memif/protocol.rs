//! The protocol of both kinds of ring, over any memory, so that loom can run it as well.
//!
//! The leader (client) offers slots by moving head; the follower (server) answers them in order by moving tail.
//! Index arithmetic is modulo 2^16.

use super::{DESCRIPTOR_NEXT, FLAG_MASK_INT, Publish};
use crate::indices::{BadIndex, Indices};
use crate::sync::{Ordering, Point, full_fence, order};

/// A 16-bit word of a ring's header.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum RingWord {
    Flags,
    Head,
    Tail,
}

/// Where a ring's words live.
pub(crate) trait RingMemory {
    /// A power of two, at most 2^14.
    fn slots(&self) -> u16;
    fn load(&self, word: RingWord, ordering: Ordering) -> u16;
    fn store(&self, word: RingWord, value: u16, ordering: Ordering);
    fn load_low(&self, index: u16) -> u64;
    fn load_high(&self, index: u16) -> u64;
    fn store_low(&self, index: u16, low: u64);
    fn store_high(&self, index: u16, high: u64);
}

/// The low half of a descriptor, read once.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Low {
    pub(crate) region: u16,
    pub(crate) length: u32,
    pub(crate) chained: bool,
}

impl Low {
    #[inline]
    pub(crate) fn unpack(low: u64) -> Self {
        let flags = low as u16; // bits 0..16
        Self { region: (low >> 16) as u16, length: (low >> 32) as u32, chained: flags & DESCRIPTOR_NEXT != 0 }
    }

    /// A descriptor of region 0 without flags.
    #[inline]
    pub(crate) fn pack(length: u32) -> u64 {
        u64::from(length) << 32
    }
}

/// The end that offers slots: it writes head, and takes back what was answered. `oldest` is at most what was seen of tail.
pub(crate) struct Leader<M> {
    pub(crate) memory: M,
    /// Of head, as the side that fills.
    head: Indices<u16>,
    oldest: u16, // first slot not taken back
}

impl<M: RingMemory> Leader<M> {
    pub(crate) fn new(memory: M, start: u16) -> Self {
        Self { memory, head: Indices::new(start), oldest: start }
    }

    /// Slots that can be offered. A slot is free once it was taken back, not when it was answered.
    #[inline]
    pub(crate) fn free(&self) -> u16 {
        self.memory.slots() - self.outstanding()
    }

    /// The first slot that was not taken back.
    #[inline]
    pub(crate) fn oldest(&self) -> u16 {
        self.oldest
    }

    /// Slots offered and not taken back.
    #[inline]
    pub(crate) fn outstanding(&self) -> u16 {
        self.head.next().wrapping_sub(self.oldest)
    }

    /// The slot that `offer` will use.
    #[inline]
    pub(crate) fn next(&self) -> u16 {
        self.head.next()
    }

    /// Offers the next slot; the peer sees it after `publish`.
    #[inline]
    pub(crate) fn offer(&mut self, offset: u32, length: u32) {
        assert!(self.free() > 0, "offered a slot that is not free");
        self.fill(offset, length);
    }

    /// Takes the oldest answered slot back and offers it again in the same step. Only while all slots are offered or
    /// answered: then the oldest slot is also the next one to offer.
    #[inline]
    pub(crate) fn recycle(&mut self, offset: u32, length: u32) {
        debug_assert!(self.free() == 0 && self.answered() > 0);
        self.oldest = self.oldest.wrapping_add(1);
        self.fill(offset, length);
    }

    #[inline]
    fn fill(&mut self, offset: u32, length: u32) {
        let index = self.head.step();
        self.memory.store_high(index, u64::from(offset));
        self.memory.store_low(index, Low::pack(length));
    }

    /// Shows the peer what was offered; returns how many slots that were.
    #[inline]
    pub(crate) fn publish(&mut self) -> u16 {
        // Release: pairs with the Acquire in `Follower::refresh`: descriptors and bytes are seen there.
        let release = order(Point::RingHeadStore, Ordering::Release);
        self.head.publish(|head| self.memory.store(RingWord::Head, head, release))
    }

    /// Looks at the peer's tail; returns how many answered slots can be taken back.
    #[inline]
    pub(crate) fn refresh(&mut self) -> Result<u16, BadIndex> {
        // Acquire: pairs with the Release in `Follower::publish`: answers are seen, and bytes are no longer used.
        let tail = self.memory.load(RingWord::Tail, Ordering::Acquire);
        self.head.see_emptied(tail).map(|()| self.answered())
    }

    /// As `refresh`; an impossible index is counted, and what was known stays.
    #[inline]
    pub(crate) fn look(&mut self) -> u32 {
        let seen = self.refresh().map(|_| ());
        self.head.count(seen);
        self.answered().into()
    }

    /// Whether there are answered slots; looks at the peer if none are known.
    #[inline]
    pub(crate) fn has_answered(&mut self) -> bool {
        self.answered() > 0 || self.look() > 0
    }

    /// Times that the peer's index was impossible.
    #[inline]
    pub(crate) fn index_errors(&self) -> u64 {
        self.head.errors()
    }

    /// Shows the peer the packets that were offered, and tells whether it wants an interrupt for them.
    #[inline]
    pub(crate) fn announce(&mut self) -> Publish {
        let published = self.publish();
        announced(published, &self.memory)
    }

    /// Answered slots as far as known, without a look at the peer's cache line.
    #[inline]
    pub(crate) fn answered(&self) -> u16 {
        self.head.seen().wrapping_sub(self.oldest)
    }

    /// Takes back all slots that were answered as far as known.
    #[inline]
    pub(crate) fn take_back_all(&mut self) {
        self.oldest = self.head.seen();
    }

    /// Takes back the oldest answered slot.
    #[inline]
    pub(crate) fn take_back(&mut self) -> Option<u16> {
        if self.oldest == self.head.seen() {
            return None;
        }
        let index = self.oldest;
        self.oldest = self.oldest.wrapping_add(1);
        Some(index)
    }
}

/// The end that answers slots: it writes tail.
pub(crate) struct Follower<M> {
    pub(crate) memory: M,
    /// Of tail, as the side that empties.
    tail: Indices<u16>,
}

impl<M: RingMemory> Follower<M> {
    pub(crate) fn new(memory: M, start: u16) -> Self {
        Self { memory, tail: Indices::new(start) }
    }

    /// Looks at the peer's head; returns how many slots wait.
    #[inline]
    pub(crate) fn refresh(&mut self) -> Result<u16, BadIndex> {
        // Acquire: pairs with the Release in `Leader::publish`.
        let head = self.memory.load(RingWord::Head, Ordering::Acquire);
        self.tail.see_filled(head, self.memory.slots()).map(|()| self.waiting())
    }

    /// As `refresh`; an impossible index is counted, and what was known stays.
    #[inline]
    pub(crate) fn look(&mut self) -> u32 {
        let seen = self.refresh().map(|_| ());
        self.tail.count(seen);
        self.waiting().into()
    }

    /// Whether slots wait; looks at the peer if none do as far as is known.
    #[inline]
    pub(crate) fn has_waiting(&mut self) -> bool {
        self.waiting() > 0 || self.look() > 0
    }

    /// Times that the peer's index was impossible.
    #[inline]
    pub(crate) fn index_errors(&self) -> u64 {
        self.tail.errors()
    }

    /// Shows the peer the packets that were answered with, and tells whether it wants an interrupt for them.
    #[inline]
    pub(crate) fn announce(&mut self) -> Publish {
        let published = self.publish();
        announced(published, &self.memory)
    }

    /// Waiting slots as far as known, without a look at the peer's cache line.
    #[inline]
    pub(crate) fn waiting(&self) -> u16 {
        self.tail.seen().wrapping_sub(self.tail.next())
    }

    /// The next slot to answer.
    #[inline]
    pub(crate) fn tail(&self) -> u16 {
        self.tail.next()
    }

    /// The oldest waiting slot.
    #[inline]
    pub(crate) fn next(&self) -> Option<u16> {
        (!self.tail.is_level()).then_some(self.tail.next())
    }

    /// Ends with the slot that `next` told.
    #[inline]
    pub(crate) fn answer(&mut self) {
        assert!(!self.tail.is_level(), "answered a slot that was not offered");
        self.tail.step();
    }

    /// Gives the answered slots to the peer; returns how many that were.
    #[inline]
    pub(crate) fn publish(&mut self) -> u16 {
        // Release: pairs with the Acquire in `Leader::refresh`.
        let release = order(Point::RingTailStore, Ordering::Release);
        self.tail.publish(|tail| self.memory.store(RingWord::Tail, tail, release))
    }
}

#[inline]
fn announced(published: u16, memory: &impl RingMemory) -> Publish {
    let peer_wants_interrupt = published > 0 && wants_interrupt(memory);
    Publish { published: published.into(), peer_wants_interrupt }
}

/// The packets' producer, after it published: whether the consumer wants an interrupt.
#[inline]
pub(crate) fn wants_interrupt(memory: &impl RingMemory) -> bool {
    // Pairs with the fence in `unmask`: either the consumer's second look sees the packets, or we see the flag clear.
    full_fence(Point::RingPublishFence);
    memory.load(RingWord::Flags, Ordering::Relaxed) & FLAG_MASK_INT == 0
}

/// The packets' consumer: no interrupts from now on. One may be on its way.
#[inline]
pub(crate) fn mask(memory: &impl RingMemory) {
    // Relaxed: a late interrupt is harmless. The consumer is the flags' only writer.
    memory.store(RingWord::Flags, FLAG_MASK_INT, Ordering::Relaxed);
}

/// The packets' consumer: interrupts from now on. The caller has to look at the ring again after this.
#[inline]
pub(crate) fn unmask(memory: &impl RingMemory) {
    memory.store(RingWord::Flags, 0, Ordering::Relaxed);
    // Pairs with the fence in `wants_interrupt`.
    full_fence(Point::RingUnmaskFence);
}
