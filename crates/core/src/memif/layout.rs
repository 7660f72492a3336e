//! Where a copying client puts rings and buffers in its one region: `[C2S rings][S2C rings][buffers]`.

use super::{DESCRIPTOR_BYTES, LOG2_RING_SIZE_MAX, RING_ALIGN, RING_HEADER_BYTES};

/// Bytes of a ring of `2^log2` slots, header included.
#[must_use]
pub fn ring_bytes(log2_ring_size: u8) -> u64 {
    RING_HEADER_BYTES + (DESCRIPTOR_BYTES << log2_ring_size)
}

/// The region of a client that copies: each slot of each ring has a buffer of its own.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RegionLayout {
    c2s_rings: u16,
    s2c_rings: u16,
    log2_ring_size: u8,
    buffer_bytes: u32,
}

/// A region that cannot be.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum RegionLayoutError {
    /// No ring in a direction, or more than 256.
    Rings,
    /// The ring's log2 size is not 1 to 14.
    RingSize,
    /// A buffer is not 64 to 65536 bytes, a multiple of 64.
    BufferBytes,
    /// The region would exceed 4 GiB, which a descriptor cannot address.
    TooLarge,
}

impl core::fmt::Display for RegionLayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Rings => "a memif has 1 to 256 rings in each direction",
            Self::RingSize => "a memif ring has 2 to 16384 slots, a power of two",
            Self::BufferBytes => "a memif buffer has 64 to 65536 bytes, a multiple of 64",
            Self::TooLarge => "the shared memory exceeds 4 GiB: use fewer rings, smaller rings or smaller buffers",
        })
    }
}

impl core::error::Error for RegionLayoutError {}

impl RegionLayout {
    /// A region with so many rings of `2^log2_ring_size` slots, each slot with a buffer of `buffer_bytes`.
    ///
    /// # Errors
    ///
    /// See [`RegionLayoutError`].
    pub fn new(
        c2s_rings: u16,
        s2c_rings: u16,
        log2_ring_size: u8,
        buffer_bytes: u32,
    ) -> Result<Self, RegionLayoutError> {
        if !(1..=256).contains(&c2s_rings) || !(1..=256).contains(&s2c_rings) {
            return Err(RegionLayoutError::Rings);
        }
        if !(1..=LOG2_RING_SIZE_MAX).contains(&log2_ring_size) {
            return Err(RegionLayoutError::RingSize);
        }
        if !(64..=65536).contains(&buffer_bytes) || !buffer_bytes.is_multiple_of(64) {
            return Err(RegionLayoutError::BufferBytes);
        }
        let layout = Self { c2s_rings, s2c_rings, log2_ring_size, buffer_bytes };
        if layout.len() > u64::from(u32::MAX) { Err(RegionLayoutError::TooLarge) } else { Ok(layout) }
    }

    /// Rings from client to server.
    #[must_use]
    pub fn c2s_rings(&self) -> u16 {
        self.c2s_rings
    }

    /// Rings from server to client.
    #[must_use]
    pub fn s2c_rings(&self) -> u16 {
        self.s2c_rings
    }

    /// Log2 of the slots of a ring.
    #[must_use]
    pub fn log2_ring_size(&self) -> u8 {
        self.log2_ring_size
    }

    /// Bytes of a buffer.
    #[must_use]
    pub fn buffer_bytes(&self) -> u32 {
        self.buffer_bytes
    }

    /// Where a ring starts; C2S rings first, each on a cache line of its own.
    ///
    /// # Panics
    ///
    /// If there is no such ring.
    #[must_use]
    pub fn ring(&self, c2s: bool, index: u16) -> u32 {
        (u64::from(self.ordinal(c2s, index)) * self.ring_stride()) as u32 // below 4 GiB, checked in `new`
    }

    /// Where the buffers of a ring start: one per slot, in order.
    ///
    /// # Panics
    ///
    /// If there is no such ring.
    #[must_use]
    pub fn buffers(&self, c2s: bool, index: u16) -> u32 {
        (self.buffers_offset() + u64::from(self.ordinal(c2s, index)) * self.ring_buffers_bytes()) as u32 // as above
    }

    /// Bytes of the region.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> u64 {
        self.buffers_offset() + self.rings() * self.ring_buffers_bytes()
    }

    fn ordinal(&self, c2s: bool, index: u16) -> u16 {
        assert!(index < if c2s { self.c2s_rings } else { self.s2c_rings }, "no such ring");
        if c2s { index } else { self.c2s_rings + index }
    }

    fn rings(&self) -> u64 {
        u64::from(self.c2s_rings) + u64::from(self.s2c_rings)
    }

    fn ring_stride(&self) -> u64 {
        ring_bytes(self.log2_ring_size).next_multiple_of(RING_ALIGN)
    }

    fn buffers_offset(&self) -> u64 {
        self.rings() * self.ring_stride()
    }

    fn ring_buffers_bytes(&self) -> u64 {
        u64::from(self.buffer_bytes) << self.log2_ring_size
    }
}
