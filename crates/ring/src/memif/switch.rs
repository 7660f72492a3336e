//! The interrupt of a ring as its consumer's side switches it, without being the one who reads the ring.
//!
//! The thread that finishes a poll gives the queue up first and unmasks then, so the switch must work beside
//! the thread that owns the queue next.

use super::protocol::{RingMemory, RingWord, mask, unmask};
use super::{FLAG_MASK_INT, RingView};
use crate::sync::{AtomicU16, Ordering};

/// Switches the interrupt of one ring. Made by the end that consumes its packets.
pub struct InterruptSwitch(Switch<RingView>);

impl InterruptSwitch {
    pub(super) fn new(view: RingView, produced: RingWord, start: u16) -> Self {
        Self(Switch::new(view, produced, start))
    }

    /// The consumer has taken all packets before `index`. Called before it gives the queue up.
    #[inline]
    pub fn note_consumed(&self, index: u16) {
        self.0.note_consumed(index);
    }

    /// No interrupts from now on; one may be on its way.
    #[inline]
    pub fn mask(&self) {
        self.0.mask();
    }

    /// Interrupts from now on. `true` = packets were there already, for which there may be no interrupt.
    #[must_use = "true means that packets wait and no interrupt may come"]
    pub fn unmask(&self) -> bool {
        self.0.unmask()
    }

    /// Whether there are no interrupts. A producer whose packets were published before, with the full fence behind that,
    /// need tell no thread then: who unmasks later sees them.
    #[inline]
    #[must_use]
    pub fn is_masked(&self) -> bool {
        self.0.is_masked()
    }

    /// Whether packets wait that were not taken.
    #[inline]
    #[must_use]
    pub fn packets_wait(&self) -> bool {
        self.0.packets_wait()
    }

    /// Whether the producer's index is not what was taken: packets wait, or it cannot be, which the end is to see and count.
    #[inline]
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.0.has_news()
    }

    /// The interrupt is on and packets wait: it was raised and not heard yet, or never. For a look now and then where the
    /// producer does not fence.
    #[must_use]
    pub fn is_overlooked(&self) -> bool {
        self.0.is_overlooked()
    }
}

/// The switch over any memory, so that loom can run it as well.
///
/// An unmask that comes late, when the next owner has masked already, leaves the interrupt on while that owner polls:
/// an interrupt too many. Each mask is before its owner's unmask, so the last word is never a mask.
pub(crate) struct Switch<M> {
    memory: M,
    /// The index that the packets' producer moves.
    produced: RingWord,
    /// What of it has been consumed, as of the last `note_consumed`.
    consumed: AtomicU16,
}

impl<M: RingMemory> Switch<M> {
    pub(crate) fn new(memory: M, produced: RingWord, start: u16) -> Self {
        Self { memory, produced, consumed: AtomicU16::new(start) }
    }

    pub(crate) fn note_consumed(&self, index: u16) {
        // Release: pairs with the Acquire in `unmask`; the caller of that owned the queue last, or a later
        // owner wrote a newer value and looks for itself.
        self.consumed.store(index, Ordering::Release);
    }

    pub(crate) fn mask(&self) {
        mask(&self.memory);
    }

    pub(crate) fn unmask(&self) -> bool {
        unmask(&self.memory);
        // The full fence inside is before this look.
        self.packets_wait()
    }

    pub(crate) fn is_masked(&self) -> bool {
        // Relaxed: ordered by the producer's fence, which pairs with the one in `unmask`.
        self.memory.load(RingWord::Flags, Ordering::Relaxed) & FLAG_MASK_INT != 0
    }

    pub(crate) fn is_overlooked(&self) -> bool {
        !self.is_masked() && self.packets_wait()
    }

    fn has_news(&self) -> bool {
        // Acquire: as in `packets_wait`.
        self.memory.load(self.produced, Ordering::Acquire) != self.consumed.load(Ordering::Acquire)
    }

    /// An index that the ring cannot hold is no packet: nothing is read by it, so the thread that came for it would come again
    /// and again. The end counts it. Seen beside an owner who has released slots and not noted it yet, an honest index
    /// can look like that too; that owner looks for himself.
    fn packets_wait(&self) -> bool {
        // Acquire: pairs with the producer's Release store, and with `note_consumed`.
        let produced = self.memory.load(self.produced, Ordering::Acquire);
        let waiting = produced.wrapping_sub(self.consumed.load(Ordering::Acquire));
        (1..=self.memory.slots()).contains(&waiting)
    }
}
