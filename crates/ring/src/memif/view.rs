//! A ring in mapped memory.

use std::sync::Arc;

use super::layout::ring_bytes;
use super::protocol::{RingMemory, RingWord};
use super::{
    COOKIE, COOKIE_OFFSET, DESCRIPTOR_BYTES, FLAGS_OFFSET, HEAD_OFFSET, LOG2_RING_SIZE_MAX, RING_HEADER_BYTES,
    TAIL_OFFSET,
};
use crate::Mapping;
use crate::mapping::{ClaimError, Holder, MAPPING_ALIGN};
use crate::sync::{MappedU16, MappedU32, MappedU64, Ordering};

/// Which end of a ring: the client writes the head, the server the tail.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum RingEnd {
    /// Connects, owns the memory.
    Client,
    /// Listens, uses the client's memory.
    Server,
}

/// Why a ring cannot be used.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum RingError {
    /// The log2 size is not 1 to 14.
    Size,
    /// The ring does not start on a cache line of 64 bytes.
    Unaligned,
    /// Outside the mapping, or this end of it is in use.
    Range(ClaimError),
    /// The peer did not write the cookie: no memif ring, or not initialised.
    NoCookie,
}

impl core::fmt::Display for RingError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Size => f.write_str("a ring has 2 to 16384 slots, a power of two"),
            Self::Unaligned => f.write_str("a ring starts at a multiple of 64 bytes: the peer's layout is wrong"),
            Self::Range(error) => error.fmt(f),
            Self::NoCookie => f.write_str("no memif cookie: the peer announced a ring that it did not initialise"),
        }
    }
}

impl std::error::Error for RingError {}

/// One end of one ring. There is at most one view per ring and end, so indices have one writer.
pub struct RingView {
    mapping: Arc<Mapping>,
    base: *mut u8,
    log2_size: u8,
    end: RingEnd,
}

impl RingView {
    /// A second view of the same ring and end, for its interrupt switch; it writes no index.
    pub(super) fn for_switch(&self) -> Self {
        Self { mapping: self.mapping.clone(), base: self.base, log2_size: self.log2_size, end: self.end }
    }
}

// SAFETY: `base` points into `mapping`, which is `Sync`, and is only used for atomic accesses.
unsafe impl Send for RingView {}
// SAFETY: as above.
unsafe impl Sync for RingView {}

impl RingView {
    /// The ring of `2^log2_size` slots at `offset`.
    ///
    /// # Errors
    ///
    /// See [`RingError`]; the cookie is not looked at here.
    pub fn new(mapping: &Arc<Mapping>, offset: usize, log2_size: u8, end: RingEnd) -> Result<Self, RingError> {
        if !(1..=LOG2_RING_SIZE_MAX).contains(&log2_size) {
            return Err(RingError::Size);
        }
        if !offset.is_multiple_of(MAPPING_ALIGN) {
            return Err(RingError::Unaligned);
        }
        let holder = match end {
            RingEnd::Client => Holder::RingClient,
            RingEnd::Server => Holder::RingServer,
        };
        mapping.claim(offset, ring_bytes(log2_size), holder).map_err(RingError::Range)?;
        Ok(Self { mapping: mapping.clone(), base: mapping.at(offset), log2_size, end })
    }

    /// Writes the cookie and zeroes flags, head and tail: the client does it before it connects, and never after.
    pub fn init(&self) {
        self.store(RingWord::Flags, 0, Ordering::Relaxed);
        self.store(RingWord::Head, 0, Ordering::Relaxed);
        self.store(RingWord::Tail, 0, Ordering::Relaxed);
        // Release: pairs with the Acquire in `check_cookie`.
        self.cookie().store(COOKIE, Ordering::Release);
    }

    /// Looks for the cookie; the server does it before it uses a ring.
    ///
    /// # Errors
    ///
    /// [`RingError::NoCookie`].
    pub fn check_cookie(&self) -> Result<(), RingError> {
        // Acquire: pairs with the Release in `init`.
        if self.cookie().load(Ordering::Acquire) == COOKIE { Ok(()) } else { Err(RingError::NoCookie) }
    }

    /// Slots of the ring.
    #[must_use]
    #[inline]
    pub fn size(&self) -> u32 {
        1 << self.log2_size
    }

    /// Which end this is.
    #[must_use]
    pub fn end(&self) -> RingEnd {
        self.end
    }

    /// The memory that the ring is in.
    #[must_use]
    #[inline]
    pub fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    fn cookie(&self) -> &MappedU32 {
        let at = self.base.wrapping_add(COOKIE_OFFSET).cast::<MappedU32>();
        // SAFETY: inside the claimed range, aligned (the ring to 64 bytes, the cookie to 4), atomics only.
        unsafe { &*at }
    }

    #[inline]
    fn word(&self, word: RingWord) -> &MappedU16 {
        let offset = match word {
            RingWord::Flags => FLAGS_OFFSET,
            RingWord::Head => HEAD_OFFSET,
            RingWord::Tail => TAIL_OFFSET,
        };
        let at = self.base.wrapping_add(offset).cast::<MappedU16>();
        // SAFETY: inside the claimed range, aligned (the ring to 64 bytes, the words to 2), atomics only.
        unsafe { &*at }
    }

    /// The line of a descriptor, which a hint may name.
    #[inline]
    pub(super) fn descriptor(&self, index: u16) -> *const u8 {
        (&raw const *self.half(index, 0)).cast()
    }

    /// Half of a descriptor: 0 = flags, region, length; 1 = offset, metadata.
    #[inline]
    fn half(&self, index: u16, half: usize) -> &MappedU64 {
        let slot = usize::from(index) & ((1 << self.log2_size) - 1);
        let offset = RING_HEADER_BYTES + slot * DESCRIPTOR_BYTES + half * 8;
        let at = self.base.wrapping_add(offset).cast::<MappedU64>();
        // SAFETY: the slot is masked, so this is inside the claimed range; aligned to 8; atomics only.
        unsafe { &*at }
    }
}

impl RingMemory for RingView {
    #[inline]
    fn slots(&self) -> u16 {
        1 << self.log2_size
    }

    #[inline]
    fn load(&self, word: RingWord, ordering: Ordering) -> u16 {
        self.word(word).load(ordering)
    }

    #[inline]
    fn store(&self, word: RingWord, value: u16, ordering: Ordering) {
        self.word(word).store(value, ordering);
    }

    // memif's integers are in host order. A descriptor is written and read as two 64-bit words: each half is read
    // once by construction, and a peer that writes it field by field is ordered by head and tail.
    #[inline]
    fn load_low(&self, index: u16) -> u64 {
        self.half(index, 0).load(Ordering::Relaxed)
    }

    #[inline]
    fn load_high(&self, index: u16) -> u64 {
        self.half(index, 1).load(Ordering::Relaxed)
    }

    #[inline]
    fn store_low(&self, index: u16, low: u64) {
        self.half(index, 0).store(low, Ordering::Relaxed);
    }

    #[inline]
    fn store_high(&self, index: u16, high: u64) {
        self.half(index, 1).store(high, Ordering::Relaxed);
    }
}

#[cfg(target_endian = "big")]
compile_error!("memif descriptors are packed little-endian here");
