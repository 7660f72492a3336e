//! The protocol of both kinds of ring, over any memory, so that loom can run it as well.
//!
//! The leader (client) offers slots by moving head; the follower (server) answers them in order by moving tail.
//! Index arithmetic is modulo 2^16.

use super::{DESCRIPTOR_NEXT, FLAG_MASK_INT, Publish};
use crate::sync::{Ordering, Point, full_fence, order};

/// A 16-bit word of a ring's header.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Flags,
    Head,
    Tail,
}

/// Where a ring's words live.
pub(crate) trait RingMemory {
    /// A power of two, at most 2^14.
    fn slots(&self) -> u16;
    fn load(&self, word: Word, ordering: Ordering) -> u16;
    fn store(&self, word: Word, value: u16, ordering: Ordering);
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

/// The peer's index says more than the ring can hold.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct BadIndex;

/// The end that offers slots: it writes head. `oldest <= tail_seen <= published <= head`, all within one ring size.
pub(crate) struct Leader<M> {
    pub(crate) memory: M,
    head: u16,      // next slot to offer
    published: u16, // what the peer knows of head
    tail_seen: u16, // answered as far as this, checked
    oldest: u16,    // first slot not taken back
    index_errors: u64,
}

impl<M: RingMemory> Leader<M> {
    pub(crate) fn new(memory: M, start: u16) -> Self {
        Self { memory, head: start, published: start, tail_seen: start, oldest: start, index_errors: 0 }
    }

    /// Slots that can be offered. A slot is free once it was taken back, not when it was answered.
    #[inline]
    pub(crate) fn free(&self) -> u16 {
        self.memory.slots() - self.head.wrapping_sub(self.oldest)
    }

    /// The first slot that was not taken back.
    #[inline]
    pub(crate) fn oldest(&self) -> u16 {
        self.oldest
    }

    /// Slots offered and not taken back.
    #[inline]
    pub(crate) fn outstanding(&self) -> u16 {
        self.head.wrapping_sub(self.oldest)
    }

    /// The slot that `offer` will use.
    #[inline]
    pub(crate) fn next(&self) -> u16 {
        self.head
    }

    /// Offers the next slot; the peer sees it after `publish`.
    #[inline]
    pub(crate) fn offer(&mut self, offset: u32, length: u32) {
        assert!(self.free() > 0, "offered a slot that is not free");
        self.memory.store_high(self.head, u64::from(offset));
        self.memory.store_low(self.head, Low::pack(length));
        self.head = self.head.wrapping_add(1);
    }

    /// Takes the oldest answered slot back and offers it again in the same step. Only while all slots are offered or
    /// answered: then the oldest slot is also the next one to offer.
    #[inline]
    pub(crate) fn recycle(&mut self, offset: u32, length: u32) {
        debug_assert!(self.free() == 0 && self.answered() > 0);
        self.oldest = self.oldest.wrapping_add(1);
        self.memory.store_high(self.head, u64::from(offset));
        self.memory.store_low(self.head, Low::pack(length));
        self.head = self.head.wrapping_add(1);
    }

    /// Shows the peer what was offered; returns how many slots that were.
    #[inline]
    pub(crate) fn publish(&mut self) -> u16 {
        let news = self.head.wrapping_sub(self.published);
        if news > 0 {
            // Release: pairs with the Acquire in `Follower::refresh`: descriptors and bytes are seen there.
            self.memory.store(Word::Head, self.head, order(Point::RingHeadStore, Ordering::Release));
            self.published = self.head;
        }
        news
    }

    /// Looks at the peer's tail; returns how many answered slots can be taken back.
    #[inline]
    pub(crate) fn refresh(&mut self) -> Result<u16, BadIndex> {
        // Acquire: pairs with the Release in `Follower::publish`: answers are seen, and bytes are no longer used.
        let tail = self.memory.load(Word::Tail, Ordering::Acquire);
        let answered = tail.wrapping_sub(self.oldest);
        if answered > self.published.wrapping_sub(self.oldest) || answered < self.answered() {
            return Err(BadIndex);
        }
        self.tail_seen = tail;
        Ok(answered)
    }

    /// As `refresh`; an impossible index is counted, and what was known stays.
    #[inline]
    pub(crate) fn look(&mut self) -> u32 {
        if self.refresh().is_err() {
            self.index_errors += 1;
        }
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
        self.index_errors
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
        self.tail_seen.wrapping_sub(self.oldest)
    }

    /// Takes back all slots that were answered as far as known.
    #[inline]
    pub(crate) fn take_back_all(&mut self) {
        self.oldest = self.tail_seen;
    }

    /// Takes back the oldest answered slot.
    #[inline]
    pub(crate) fn take_back(&mut self) -> Option<u16> {
        if self.oldest == self.tail_seen {
            return None;
        }
        let index = self.oldest;
        self.oldest = self.oldest.wrapping_add(1);
        Some(index)
    }
}

/// The end that answers slots: it writes tail. `published <= tail <= head_seen`, all within one ring size.
pub(crate) struct Follower<M> {
    pub(crate) memory: M,
    tail: u16,      // next slot to answer
    published: u16, // what the peer knows of tail
    head_seen: u16, // offered as far as this, checked
    index_errors: u64,
}

impl<M: RingMemory> Follower<M> {
    pub(crate) fn new(memory: M, start: u16) -> Self {
        Self { memory, tail: start, published: start, head_seen: start, index_errors: 0 }
    }

    /// Looks at the peer's head; returns how many slots wait.
    #[inline]
    pub(crate) fn refresh(&mut self) -> Result<u16, BadIndex> {
        // Acquire: pairs with the Release in `Leader::publish`.
        let head = self.memory.load(Word::Head, Ordering::Acquire);
        let offered = head.wrapping_sub(self.published);
        if offered > self.memory.slots() || offered < self.head_seen.wrapping_sub(self.published) {
            return Err(BadIndex);
        }
        self.head_seen = head;
        Ok(self.waiting())
    }

    /// As `refresh`; an impossible index is counted, and what was known stays.
    #[inline]
    pub(crate) fn look(&mut self) -> u32 {
        if self.refresh().is_err() {
            self.index_errors += 1;
        }
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
        self.index_errors
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
        self.head_seen.wrapping_sub(self.tail)
    }

    /// The next slot to answer.
    #[inline]
    pub(crate) fn tail(&self) -> u16 {
        self.tail
    }

    /// The oldest waiting slot.
    #[inline]
    pub(crate) fn next(&self) -> Option<u16> {
        (self.tail != self.head_seen).then_some(self.tail)
    }

    /// Ends with the slot that `next` told.
    #[inline]
    pub(crate) fn answer(&mut self) {
        assert_ne!(self.tail, self.head_seen, "answered a slot that was not offered");
        self.tail = self.tail.wrapping_add(1);
    }

    /// Gives the answered slots to the peer; returns how many that were.
    #[inline]
    pub(crate) fn publish(&mut self) -> u16 {
        let news = self.tail.wrapping_sub(self.published);
        if news > 0 {
            // Release: pairs with the Acquire in `Leader::refresh`.
            self.memory.store(Word::Tail, self.tail, order(Point::RingTailStore, Ordering::Release));
            self.published = self.tail;
        }
        news
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
    memory.load(Word::Flags, Ordering::Relaxed) & FLAG_MASK_INT == 0
}

/// The packets' consumer: no interrupts from now on. One may be on its way.
#[inline]
pub(crate) fn mask(memory: &impl RingMemory) {
    // Relaxed: a late interrupt is harmless. The consumer is the flags' only writer.
    memory.store(Word::Flags, FLAG_MASK_INT, Ordering::Relaxed);
}

/// The packets' consumer: interrupts from now on. The caller has to look at the ring again after this.
#[inline]
pub(crate) fn unmask(memory: &impl RingMemory) {
    memory.store(Word::Flags, 0, Ordering::Relaxed);
    // Pairs with the fence in `wants_interrupt`.
    full_fence(Point::RingUnmaskFence);
}
