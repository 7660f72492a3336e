//! Frames: buffers of fixed size that are moved from hand to hand.
//!
//! A [`Frame`] is the only handle to its bytes. It is neither `Copy` nor `Clone`, and only this crate makes one: when
//! an arena is added, and when a ring, a list or a pool hands one out that was moved in before. So a reference to
//! the bytes that borrows the frame (`&Frame` to read, `&mut Frame` to write) is as good as a reference into a box.
//! Memory that another process maps too is outside this argument: see [`Mapping`](crate::Mapping).
//!
//! Giving a frame away is losing it:
//!
//! ```compile_fail,E0382
//! # use napier_ring::{Frame, FramePool, FrameTable};
//! fn twice(table: &FrameTable, frame: Frame) {
//!     table.give_back(frame);
//!     table.give_back(frame);
//! }
//! ```
//!
//! ```compile_fail,E0382
//! # use napier_ring::{Frame, FrameList, FrameTable};
//! fn touch_after_push(table: &FrameTable, list: &FrameList, mut frame: Frame) {
//!     list.push(table, frame);
//!     table.data_mut(&mut frame)[0] = 1;
//! }
//! ```
//!
//! It cannot be copied, and its bytes cannot be kept beyond it:
//!
//! ```compile_fail,E0277
//! # use napier_ring::Frame;
//! fn copy(frame: &Frame) -> Frame {
//!     <Frame as Clone>::clone(frame)
//! }
//! ```
//!
//! ```compile_fail,E0507
//! # use napier_ring::Frame;
//! fn copy(frame: &Frame) -> Frame {
//!     *frame
//! }
//! ```
//!
//! ```compile_fail,E0505
//! # use napier_ring::{Frame, FrameTable};
//! fn keep(table: &FrameTable, frame: Frame) -> u8 {
//!     let bytes = table.data(&frame, 1);
//!     table.give_back(frame);
//!     bytes[0]
//! }
//! ```
//!
//! Nor can it be made out of a number:
//!
//! ```compile_fail,E0451
//! # use napier_ring::Frame;
//! let frame = Frame { raw: 1, table: 1 };
//! ```
//!
//! ```compile_fail,E0603
//! # use napier_ring::{Frame, spsc};
//! fn forge<T: spsc::Word>(word: u64) -> T {
//!     T::decode(word, napier_ring::spsc::codec::Inside(()))
//! }
//! ```

mod arena;
mod batch;
mod list;
mod packets;
mod pool;
mod table;

pub(crate) use arena::FramePlaces;
pub use arena::{ArenaConfig, ArenaError};
pub use batch::{FrameBatch, FrameSorter};
pub use list::{FrameChain, FrameFifo, FrameList};
pub use packets::{PACKET_BURST_MAX, PacketBurst, PacketReceiver, PacketSender, packet_queue};
pub use pool::FramePool;
pub use table::FrameTable;

use core::num::NonZeroU32;

use crate::spsc::Word;
use crate::spsc::codec::{Codec, Inside};

/// Bits of a frame number that count within an arena.
const INDEX_BITS: u32 = 24;
/// Most frames of one arena. One number is left out: it would be the end mark of a list.
pub(crate) const FRAMES_MAX: u32 = (1 << INDEX_BITS) - 1;

/// An arena of a [`FrameTable`], 1 to 255.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ArenaId(u8);

/// A buffer, owned. Dropping it loses the buffer until the process ends: give it back instead.
#[must_use = "a frame that is dropped is lost to its pool: give it back"]
pub struct Frame {
    raw: NonZeroU32, // arena << 24 | index; never 0, arenas start at 1
    table: u32,      // which table; makes a frame useless with any other
}

const _: () = assert!(size_of::<Option<Frame>>() == 8);

impl Frame {
    /// Makes the handle. Callers inside this crate make one only from a number that a moved-in frame left behind.
    #[inline]
    pub(crate) fn mint(raw: u32, table: u32) -> Self {
        let Some(raw) = NonZeroU32::new(raw) else { panic!("arena numbers start at 1") };
        Self { raw, table }
    }

    #[inline]
    pub(crate) fn raw_of(arena: ArenaId, index: u32) -> u32 {
        u32::from(arena.0) << INDEX_BITS | index
    }

    /// The arena that the frame lives in.
    #[must_use]
    #[inline]
    pub fn arena(&self) -> ArenaId {
        arena_of(self.raw.get())
    }

    /// The frame's number within its arena.
    #[must_use]
    #[inline]
    pub fn index(&self) -> u32 {
        index_of(self.raw.get())
    }
}

#[inline]
fn arena_of(raw: u32) -> ArenaId {
    ArenaId((raw >> INDEX_BITS) as u8) // 8 bits are left
}

#[inline]
fn index_of(raw: u32) -> u32 {
    raw & ((1 << INDEX_BITS) - 1)
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Frame({}:{})", self.arena().0, self.index())
    }
}

impl Codec for Frame {
    fn encode(self, _: Inside) -> u64 {
        u64::from(self.table) << 32 | u64::from(self.raw.get())
    }

    fn decode(word: u64, _: Inside) -> Self {
        Self::mint(word as u32, (word >> 32) as u32) // the two halves of `encode`
    }
}

impl Word for Frame {}

#[cfg(all(test, not(loom)))]
mod tests;
