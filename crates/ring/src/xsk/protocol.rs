//! Index publication and the flag of a ring, over any memory, so that loom can run it as well.
//!
//! Both indices count modulo 2^32. One side writes the producer's, the other the consumer's, and each reads the other's
//! through a check, for the kernel's word is read like a peer's.

use super::RING_NEED_WAKEUP;
use crate::sync::{Ordering, Point, full_fence, order};

/// A word of a ring.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    Producer,
    Consumer,
    Flags,
}

/// A descriptor of a ring of packets; address rings have only the first half.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Descriptor {
    /// Where the packet is in the memory, in bytes.
    pub(crate) address: u64,
    /// Bytes of the packet.
    pub(crate) length: u32,
    /// `XDP_PKT_CONTD` and so on.
    pub(crate) options: u32,
}

/// Where a ring's words live.
pub(crate) trait XskMemory {
    /// A power of two.
    fn slots(&self) -> u32;
    fn load(&self, word: Word, ordering: Ordering) -> u32;
    fn store(&self, word: Word, value: u32, ordering: Ordering);
    fn read_address(&self, index: u32) -> u64;
    fn write_address(&self, index: u32, address: u64);
    fn read_packet(&self, index: u32) -> Descriptor;
    fn write_packet(&self, index: u32, descriptor: Descriptor);
}

/// The other side's index says more than the ring can hold.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct BadIndex;

/// The side that writes slots. `consumed <= published <= next`, all within one ring size.
pub(crate) struct Producer<M> {
    pub(crate) memory: M,
    next: u32,      // next slot to write
    published: u32, // what the other side knows of it
    consumed: u32,  // taken as far as this, checked
    index_errors: u64,
}

impl<M: XskMemory> Producer<M> {
    /// A ring that nobody has used.
    pub(crate) fn new(memory: M) -> Self {
        let start = memory.load(Word::Producer, Ordering::Relaxed);
        Self { memory, next: start, published: start, consumed: start, index_errors: 0 }
    }

    /// Slots that can be written, as far as is known.
    #[inline]
    pub(crate) fn free(&self) -> u32 {
        self.memory.slots() - self.next.wrapping_sub(self.consumed)
    }

    /// Looks at the consumer's index.
    #[inline]
    pub(crate) fn refresh(&mut self) -> Result<(), BadIndex> {
        // Acquire: pairs with the Release in `Consumer::release`: what was read is not written over before.
        let consumed = self.memory.load(Word::Consumer, Ordering::Acquire);
        if self.published.wrapping_sub(consumed) > self.published.wrapping_sub(self.consumed) {
            return Err(BadIndex);
        }
        self.consumed = consumed;
        Ok(())
    }

    /// As `refresh`; an impossible index is counted, and what was known stays.
    #[inline]
    pub(crate) fn look(&mut self) {
        if self.refresh().is_err() {
            self.index_errors += 1;
        }
    }

    /// Times that the other side's index was impossible.
    pub(crate) fn index_errors(&self) -> u64 {
        self.index_errors
    }

    /// Slots that were published and not taken, as far as is known.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.published.wrapping_sub(self.consumed)
    }

    /// The next slot, which is the caller's to write. The other side sees it after `publish`.
    #[inline]
    pub(crate) fn claim(&mut self) -> u32 {
        assert!(self.free() > 0, "wrote a slot that is not free");
        let index = self.next;
        self.next = index.wrapping_add(1);
        index
    }

    /// Shows the other side what was written; returns how many slots that were.
    #[inline]
    pub(crate) fn publish(&mut self) -> u32 {
        let news = self.next.wrapping_sub(self.published);
        if news > 0 {
            // Release: pairs with the Acquire in `Consumer::refresh`: descriptors and bytes are seen there.
            self.memory.store(Word::Producer, self.next, order(Point::XskPublish, Ordering::Release));
            self.published = self.next;
        }
        news
    }
}

/// The side that reads slots. `released <= next <= produced`, all within one ring size.
pub(crate) struct Consumer<M> {
    pub(crate) memory: M,
    next: u32,     // next slot to read
    released: u32, // what the other side knows of it
    produced: u32, // written as far as this, checked
    index_errors: u64,
}

impl<M: XskMemory> Consumer<M> {
    /// A ring that nobody has used.
    pub(crate) fn new(memory: M) -> Self {
        let start = memory.load(Word::Consumer, Ordering::Relaxed);
        Self { memory, next: start, released: start, produced: start, index_errors: 0 }
    }

    /// Slots that wait, as far as is known.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.produced.wrapping_sub(self.next)
    }

    /// Looks at the producer's index.
    #[inline]
    pub(crate) fn refresh(&mut self) -> Result<(), BadIndex> {
        // Acquire: pairs with the Release in `Producer::publish`.
        let produced = self.memory.load(Word::Producer, Ordering::Acquire);
        let written = produced.wrapping_sub(self.released);
        if written > self.memory.slots() || written < self.produced.wrapping_sub(self.released) {
            return Err(BadIndex);
        }
        self.produced = produced;
        Ok(())
    }

    /// As `refresh`; an impossible index is counted, and what was known stays.
    #[inline]
    pub(crate) fn look(&mut self) {
        if self.refresh().is_err() {
            self.index_errors += 1;
        }
    }

    /// Times that the other side's index was impossible.
    pub(crate) fn index_errors(&self) -> u64 {
        self.index_errors
    }

    /// The oldest waiting slot, which is read by this.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.next == self.produced {
            return None;
        }
        let index = self.next;
        self.next = index.wrapping_add(1);
        Some(index)
    }

    /// Gives what was read back to the producer.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.released != self.next {
            // Release: pairs with the Acquire in `Producer::refresh`.
            self.memory.store(Word::Consumer, self.next, order(Point::XskRelease, Ordering::Release));
            self.released = self.next;
        }
    }

    /// Index of the oldest slot that was not read.
    #[inline]
    pub(crate) fn position(&self) -> u32 {
        self.next
    }
}

/// The producer, after it published: whether the consumer sleeps and has to be woken.
#[inline]
pub(crate) fn wants_wakeup(memory: &impl XskMemory) -> bool {
    // Pairs with the consumer's fence between setting the flag and its last look at the ring: either it sees the slots,
    // or we see the flag.
    full_fence(Point::XskWakeLook);
    memory.load(Word::Flags, Ordering::Relaxed) & RING_NEED_WAKEUP != 0
}
