//! The server's ends. The memory is the client's: packets are copied out of it or built in buffers it posted, and
//! what it says about them is hostile until checked.

use core::ops::Range;

use super::protocol::{Follower, Low, RingMemory, RingWord, mask, unmask};
use super::{BadDescriptor, InterruptSwitch, Publish, RingEnd, RingView};

/// A ring's follower, and the bytes of the region that descriptors may point to.
struct OfferedSlots {
    follower: Follower<RingView>,
    frames: Range<usize>,
}

impl OfferedSlots {
    fn new(ring: RingView, frames: Range<usize>, start: u16) -> Self {
        assert_eq!(ring.end(), RingEnd::Server, "the server's ends need the server's view");
        assert!(frames.start <= frames.end && frames.end <= ring.mapping().len(), "frames outside the region");
        Self { follower: Follower::new(ring, start), frames }
    }

    #[inline]
    fn next(&mut self) -> Option<u16> {
        if self.follower.has_waiting() { self.follower.next() } else { None }
    }

    /// Reads a descriptor, each half once, and checks it. Returns address, length and whether the packet goes on.
    #[inline]
    fn read(&self, index: u16) -> (Result<(*mut u8, usize), BadDescriptor>, bool) {
        let low = Low::unpack(self.follower.memory.load_low(index));
        let offset = self.follower.memory.load_high(index) as u32 as usize; // bits 0..32; the rest is metadata
        let length = low.length as usize;
        let end = offset.checked_add(length);
        let inside = low.region == 0 && offset >= self.frames.start && end.is_some_and(|end| end <= self.frames.end);
        let checked = match (length, inside) {
            (0, _) => Err(BadDescriptor::Empty),
            (_, false) => Err(BadDescriptor::OutOfRegion),
            (_, true) => Ok((self.follower.memory.mapping().at(offset), length)),
        };
        (checked, low.chained)
    }
}

/// The server's end of a C2S ring: packets are copied out of the client's memory.
pub struct C2sConsumer {
    window: OfferedSlots,
    in_chain: bool,
}

impl C2sConsumer {
    /// The end over a ring that is initialised and empty. `frames` are the bytes of the region that descriptors may
    /// point to.
    ///
    /// # Panics
    ///
    /// If the view is not the server's or `frames` is not inside the region.
    #[must_use]
    pub fn new(ring: RingView, frames: Range<usize>) -> Self {
        Self::starting_at(ring, frames, 0)
    }

    pub(super) fn starting_at(ring: RingView, frames: Range<usize>, start: u16) -> Self {
        Self { window: OfferedSlots::new(ring, frames, start), in_chain: false }
    }

    /// Packets that wait, with a look at the peer's index.
    pub fn pending(&mut self) -> u32 {
        self.window.follower.look()
    }

    /// Copies the oldest packet to the start of `to` and returns its length. `None` = no packet.
    ///
    /// # Errors
    ///
    /// [`BadDescriptor`]: nothing was copied and the slot is done with.
    #[inline]
    pub fn take_into(&mut self, to: &mut [u8]) -> Option<Result<usize, BadDescriptor>> {
        let index = self.window.next()?;
        let (checked, chained) = self.window.read(index);
        let part_of_chain = self.in_chain || chained;
        self.in_chain = chained;
        self.window.follower.answer();
        if part_of_chain {
            return Some(Err(BadDescriptor::Chained));
        }
        Some(checked.and_then(|(from, length)| {
            let to = to.get_mut(..length).ok_or(BadDescriptor::TooLong)?;
            // SAFETY: `read` checked that the bytes are in the frames of the region, where no ring word is; in one
            // process they belong to a frame that the client moved into the ring and gets back only after `release`.
            // `to` is a reference, so it is elsewhere.
            unsafe { core::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), length) };
            Ok(length)
        }))
    }

    /// Gives the slots of the packets taken so far back to the client; returns how many.
    #[inline]
    pub fn release(&mut self) -> u32 {
        u32::from(self.window.follower.publish())
    }

    /// The ring's interrupt, to be switched beside the owner of this end.
    #[must_use]
    pub fn interrupt_switch(&self) -> InterruptSwitch {
        InterruptSwitch::new(self.window.follower.memory.for_switch(), RingWord::Head, self.consumed())
    }

    /// Index of the oldest packet that was not taken, for [`InterruptSwitch::note_consumed`].
    #[must_use]
    #[inline]
    pub fn consumed(&self) -> u16 {
        self.window.follower.tail()
    }

    /// No interrupts from now on; one may be on its way.
    pub fn mask(&mut self) {
        mask(&self.window.follower.memory);
    }

    /// Interrupts from now on. `true` = packets were there already, for which there may be no interrupt.
    #[must_use = "true means that packets wait and no interrupt may come"]
    pub fn unmask(&mut self) -> bool {
        unmask(&self.window.follower.memory);
        self.window.follower.look() > 0
    }

    /// Times that the peer's index was impossible.
    #[must_use]
    pub fn index_errors(&self) -> u64 {
        self.window.follower.index_errors()
    }
}

/// The client posted no buffer that could be used.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RingFull;

impl core::fmt::Display for RingFull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the receiver has posted no empty buffer: it is too slow, or its ring too small")
    }
}

impl std::error::Error for RingFull {}

/// The server's end of an S2C ring: packets are built in the buffers that the client posted.
pub struct S2cProducer {
    window: OfferedSlots,
    bad_descriptors: u64,
}

impl S2cProducer {
    /// The end over a ring that is initialised and empty. `frames` are the bytes of the region that descriptors may
    /// point to.
    ///
    /// # Panics
    ///
    /// If the view is not the server's or `frames` is not inside the region.
    #[must_use]
    pub fn new(ring: RingView, frames: Range<usize>) -> Self {
        Self::starting_at(ring, frames, 0)
    }

    pub(super) fn starting_at(ring: RingView, frames: Range<usize>, start: u16) -> Self {
        Self { window: OfferedSlots::new(ring, frames, start), bad_descriptors: 0 }
    }

    /// Empty buffers that the client has posted, with a look at its index.
    #[inline]
    pub fn free_slots(&mut self) -> u32 {
        self.window.follower.look()
    }

    /// Builds a packet in the next empty buffer. `build` gets the whole buffer and returns the packet's length; 0
    /// sends nothing and keeps the buffer for the next packet. The peer sees the packet after
    /// [`publish`](Self::publish).
    ///
    /// # Errors
    ///
    /// [`RingFull`]; `build` was not called.
    ///
    /// # Panics
    ///
    /// If `build` returns more than it was given.
    #[inline]
    pub fn build(&mut self, build: impl FnOnce(&mut [u8]) -> usize) -> Result<usize, RingFull> {
        self.build_at_least(1, build)
    }

    /// As [`build`](Self::build), in a buffer of at least `len_min` bytes. Smaller ones are counted as bad and
    /// returned empty.
    ///
    /// # Errors
    ///
    /// [`RingFull`]; `build` was not called.
    ///
    /// # Panics
    ///
    /// If `build` returns more than it was given.
    #[inline]
    pub fn build_at_least(
        &mut self,
        len_min: usize,
        build: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, RingFull> {
        let (index, start, capacity) = self.next_buffer(len_min).ok_or(RingFull)?;
        // SAFETY: `read` checked that the bytes are in the frames of the region, where no ring word is; in one
        // process they belong to a frame that the client moved into the ring and gets back only after `publish`,
        // and this end has `&mut self`, so no other reference to them exists.
        let buffer = unsafe { core::slice::from_raw_parts_mut(start, capacity) };
        let length = build(buffer);
        assert!(length <= capacity, "built a packet beyond its buffer");
        if length > 0 {
            self.answer(index, length as u32); // at most the capacity, which was 32 bits
        }
        Ok(length)
    }

    /// Shows the peer what was built, and tells whether it wants an interrupt for it.
    #[inline]
    pub fn publish(&mut self) -> Publish {
        self.window.follower.announce()
    }

    /// Buffers that could not be used and went back empty.
    #[must_use]
    pub fn bad_descriptors(&self) -> u64 {
        self.bad_descriptors
    }

    /// Times that the peer's index was impossible.
    #[must_use]
    pub fn index_errors(&self) -> u64 {
        self.window.follower.index_errors()
    }

    /// The next buffer of at least `len_min` bytes; ends after one ring size, for that is all that can be posted.
    fn next_buffer(&mut self, len_min: usize) -> Option<(u16, *mut u8, usize)> {
        while let Some(index) = self.window.next() {
            match self.window.read(index) {
                (Ok((start, capacity)), _) if capacity >= len_min => {
                    return Some((index, start, capacity));
                }
                _ => {
                    self.bad_descriptors += 1;
                    self.answer(index, 0);
                }
            }
        }
        None
    }

    fn answer(&mut self, index: u16, length: u32) {
        self.window.follower.memory.store_low(index, Low::pack(length));
        self.window.follower.answer();
    }
}
