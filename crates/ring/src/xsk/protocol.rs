//! Index publication and the flag of a ring, over any memory, so that loom can run it as well.
//!
//! Both indices count modulo 2^32. One side writes the producer's, the other the consumer's, and each reads the other's
//! through a check, for the kernel's word is read like a peer's.

use super::RING_NEED_WAKEUP;
use crate::indices::{BadIndex, Indices};
use crate::sync::{Ordering, Point, full_fence, order};

/// A word of a ring.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum XskWord {
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
    fn load(&self, word: XskWord, ordering: Ordering) -> u32;
    fn store(&self, word: XskWord, value: u32, ordering: Ordering);
    fn read_address(&self, index: u32) -> u64;
    fn write_address(&self, index: u32, address: u64);
    fn read_packet(&self, index: u32) -> Descriptor;
    fn write_packet(&self, index: u32, descriptor: Descriptor);
}

/// The side that fills slots.
pub(crate) struct Producer<M> {
    pub(crate) memory: M,
    indices: Indices<u32>,
}

impl<M: XskMemory> Producer<M> {
    /// A ring that has not been used.
    pub(crate) fn new(memory: M) -> Self {
        let indices = Indices::new(memory.load(XskWord::Producer, Ordering::Relaxed));
        Self { memory, indices }
    }

    /// Slots that can be written, as far as is known.
    #[inline]
    pub(crate) fn free(&self) -> u32 {
        self.memory.slots() - self.indices.next().wrapping_sub(self.indices.seen())
    }

    /// Looks at the consumer's index.
    #[inline]
    pub(crate) fn refresh(&mut self) -> Result<(), BadIndex> {
        // Acquire: pairs with the Release in `Consumer::release`: what was read is not written over before.
        let consumed = self.memory.load(XskWord::Consumer, Ordering::Acquire);
        self.indices.see_emptied(consumed)
    }

    /// As `refresh`; an impossible index is counted, and what was known stays.
    #[inline]
    pub(crate) fn look(&mut self) {
        let seen = self.refresh();
        self.indices.count(seen);
    }

    /// Times that the other side's index was impossible.
    pub(crate) fn index_errors(&self) -> u64 {
        self.indices.errors()
    }

    /// Slots that were published and not taken, as far as is known.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.indices.published().wrapping_sub(self.indices.seen())
    }

    /// The next slot, which is the caller's to write. The other side sees it after `publish`.
    #[inline]
    pub(crate) fn claim(&mut self) -> u32 {
        assert!(self.free() > 0, "wrote a slot that is not free");
        self.indices.step()
    }

    /// Shows the other side what was written; returns how many slots that were.
    #[inline]
    pub(crate) fn publish(&mut self) -> u32 {
        // Release: pairs with the Acquire in `Consumer::refresh`: descriptors and bytes are seen there.
        let release = order(Point::XskPublish, Ordering::Release);
        self.indices.publish(|next| self.memory.store(XskWord::Producer, next, release))
    }
}

/// The side that empties slots.
pub(crate) struct Consumer<M> {
    pub(crate) memory: M,
    indices: Indices<u32>,
}

impl<M: XskMemory> Consumer<M> {
    /// A ring that has not been used.
    pub(crate) fn new(memory: M) -> Self {
        let indices = Indices::new(memory.load(XskWord::Consumer, Ordering::Relaxed));
        Self { memory, indices }
    }

    /// Slots that wait, as far as is known.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.indices.seen().wrapping_sub(self.indices.next())
    }

    /// Looks at the producer's index.
    #[inline]
    pub(crate) fn refresh(&mut self) -> Result<(), BadIndex> {
        // Acquire: pairs with the Release in `Producer::publish`.
        let produced = self.memory.load(XskWord::Producer, Ordering::Acquire);
        self.indices.see_filled(produced, self.memory.slots())
    }

    /// As `refresh`; an impossible index is counted, and what was known stays.
    #[inline]
    pub(crate) fn look(&mut self) {
        let seen = self.refresh();
        self.indices.count(seen);
    }

    /// Times that the other side's index was impossible.
    pub(crate) fn index_errors(&self) -> u64 {
        self.indices.errors()
    }

    /// The oldest waiting slot, which is read by this.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.indices.is_level() {
            return None;
        }
        Some(self.indices.step())
    }

    /// Gives what was read back to the producer.
    #[inline]
    pub(crate) fn release(&mut self) {
        // Release: pairs with the Acquire in `Producer::refresh`.
        let release = order(Point::XskRelease, Ordering::Release);
        let _ = self.indices.publish(|next| self.memory.store(XskWord::Consumer, next, release));
    }

    /// Index of the oldest slot that was not read.
    #[inline]
    pub(crate) fn position(&self) -> u32 {
        self.indices.next()
    }
}

/// The producer, after it published: whether the consumer sleeps and has to be woken.
#[inline]
pub(crate) fn wants_wakeup(memory: &impl XskMemory) -> bool {
    // Pairs with the consumer's fence between setting the flag and its last look at the ring: either it sees the slots,
    // or we see the flag.
    full_fence(Point::XskWakeLook);
    memory.load(XskWord::Flags, Ordering::Relaxed) & RING_NEED_WAKEUP != 0
}
