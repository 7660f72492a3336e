//! Frames of an arena whose memory is cut into chunks, and which of them are with the kernel.

use super::HEADROOM_BYTES;
use crate::frame::FramePlaces;
use crate::{ArenaId, Frame, FrameTable};

/// The chunks of one arena.
pub(super) struct Chunks {
    pub(super) arena: ArenaId,
    place: FramePlaces,
    held: WithKernel,
}

impl Chunks {
    /// None is with the kernel.
    ///
    /// # Panics
    ///
    /// If the arena is not cut as the socket's memory is.
    pub(super) fn new(table: &FrameTable, arena: ArenaId) -> Self {
        let place = table.places_of(arena);
        let chunk = place.stride();
        assert!(chunk.is_power_of_two() && place.capacity() <= chunk - HEADROOM_BYTES, "frames are not cut as chunks");
        assert_eq!(place.first_offset() % chunk, HEADROOM_BYTES, "frames begin elsewhere than the kernel's packets");
        let held = WithKernel::new(place.frames());
        Self { arena, place, held }
    }

    /// Most bytes of a packet.
    #[inline]
    pub(super) fn capacity(&self) -> u32 {
        self.place.capacity()
    }

    /// The kernel has this frame from now on, whose bytes begin there.
    #[inline]
    pub(super) fn give(&mut self, frame: Frame) -> u32 {
        let address = self.place.offset_of(&frame);
        assert!(self.held.insert(frame.index()), "the kernel has this frame already");
        address
    }

    /// The frame whose bytes begin at `address`, if it is this arena's and with the kernel, which has it no more.
    #[inline]
    pub(super) fn take(&mut self, address: u64) -> Option<Frame> {
        let from_first = u32::try_from(address).ok()?.checked_sub(self.place.first_offset())?;
        let chunk = from_first >> self.place.stride().trailing_zeros();
        let begins = from_first & (self.place.stride() - 1) == 0 && chunk < self.place.frames();
        (begins && self.held.remove(chunk)).then(|| Frame::mint(Frame::raw_of(self.arena, chunk), self.place.table()))
    }
}

/// Which chunks are with the kernel: one bit each.
struct WithKernel(Box<[u64]>);

impl WithKernel {
    fn new(chunks: u32) -> Self {
        Self((0..chunks.div_ceil(64)).map(|_| 0).collect())
    }

    /// Notes a chunk; false if it was there already.
    #[inline]
    fn insert(&mut self, chunk: u32) -> bool {
        let (word, bit) = (&mut self.0[chunk as usize / 64], 1 << (chunk % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// Takes a chunk away; false if it is not there.
    #[inline]
    fn remove(&mut self, chunk: u32) -> bool {
        let Some(word) = self.0.get_mut(chunk as usize / 64) else { return false };
        let bit = 1 << (chunk % 64);
        let there = *word & bit != 0;
        *word &= !bit;
        there
    }
}
