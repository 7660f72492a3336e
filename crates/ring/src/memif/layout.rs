//! Where things are in region 0: `[C2S rings][S2C rings][frames]`.

use core::ops::Range;

use super::{DESCRIPTOR_BYTES, LOG2_RING_SIZE_MAX, RING_HEADER_BYTES};

/// The layout of region 0, as every memif client lays it out in copy mode.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    queues: u16,
    log2_ring_size: u8,
    frames: u32,
    frame_stride: u32,
}

/// Why a layout cannot be.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LayoutError {
    /// No queue, or more than 256 per direction.
    Queues,
    /// The ring's log2 size is not 1 to 14.
    RingSize,
    /// No frame, or a stride that is 0 or no multiple of 64 bytes.
    Frames,
    /// The region would exceed 4 GiB, which a descriptor cannot address.
    TooLarge,
}

impl core::fmt::Display for LayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Queues => "a link has 1 to 256 queues per direction",
            Self::RingSize => "a ring has 2 to 16384 slots, a power of two",
            Self::Frames => "a region needs frames, each a multiple of 64 bytes",
            Self::TooLarge => "the region exceeds 4 GiB: use fewer queues, smaller rings or smaller frames",
        })
    }
}

impl std::error::Error for LayoutError {}

impl Layout {
    /// A region with `queues` rings of `2^log2_ring_size` slots per direction and `frames` frames.
    ///
    /// # Errors
    ///
    /// See [`LayoutError`].
    pub fn new(queues: u16, log2_ring_size: u8, frames: u32, frame_stride: u32) -> Result<Self, LayoutError> {
        if !(1..=256).contains(&queues) {
            return Err(LayoutError::Queues);
        }
        if !(1..=LOG2_RING_SIZE_MAX).contains(&log2_ring_size) {
            return Err(LayoutError::RingSize);
        }
        if frames == 0 || frame_stride == 0 || !frame_stride.is_multiple_of(64) {
            return Err(LayoutError::Frames);
        }
        let layout = Self { queues, log2_ring_size, frames, frame_stride };
        let frame_bytes = u64::from(frames) * u64::from(frame_stride);
        if frame_bytes + layout.frames_offset() as u64 > u64::from(u32::MAX) {
            return Err(LayoutError::TooLarge);
        }
        Ok(layout)
    }

    /// Bytes of one ring, header included.
    #[must_use]
    pub fn ring_bytes(&self) -> usize {
        ring_bytes(self.log2_ring_size)
    }

    /// Log2 of the slots of a ring.
    #[must_use]
    pub fn log2_ring_size(&self) -> u8 {
        self.log2_ring_size
    }

    /// Slots of a ring.
    #[must_use]
    pub fn ring_size(&self) -> u32 {
        1 << self.log2_ring_size
    }

    /// Rings per direction.
    #[must_use]
    pub fn queues(&self) -> u16 {
        self.queues
    }

    /// Where the C2S ring of a queue starts.
    ///
    /// # Panics
    ///
    /// If there is no such queue.
    #[must_use]
    pub fn c2s_ring(&self, queue: u16) -> usize {
        assert!(queue < self.queues, "no such queue");
        usize::from(queue) * self.ring_bytes()
    }

    /// Where the S2C ring of a queue starts.
    ///
    /// # Panics
    ///
    /// If there is no such queue.
    #[must_use]
    pub fn s2c_ring(&self, queue: u16) -> usize {
        usize::from(self.queues) * self.ring_bytes() + self.c2s_ring(queue)
    }

    /// Where the frames start.
    #[must_use]
    pub fn frames_offset(&self) -> usize {
        2 * usize::from(self.queues) * self.ring_bytes() // a multiple of 64 if a ring has four slots or more
    }

    /// From one frame to the next, in bytes.
    #[must_use]
    pub fn frame_stride(&self) -> u32 {
        self.frame_stride
    }

    /// The bytes of all frames.
    #[must_use]
    pub fn frames(&self) -> Range<usize> {
        let start = self.frames_offset();
        start..start + self.frames as usize * self.frame_stride as usize
    }

    /// Bytes of the region.
    #[must_use]
    pub fn region_len(&self) -> usize {
        self.frames().end
    }
}

pub(super) fn ring_bytes(log2_ring_size: u8) -> usize {
    // A ring of two slots is padded, so that the next ring starts on a cache line too.
    (RING_HEADER_BYTES + (DESCRIPTOR_BYTES << log2_ring_size)).next_multiple_of(64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_queue_of_1024_with_2048_byte_frames_is_the_usual_region() {
        let layout = Layout::new(1, 10, 2048, 2048).expect("layout");
        assert_eq!(layout.ring_bytes(), 16512);
        assert_eq!(layout.s2c_ring(0), 16512);
        assert_eq!(layout.region_len(), 4_227_328);
    }

    #[test]
    fn rings_and_frames_do_not_overlap() {
        let layout = Layout::new(3, 1, 5, 64).expect("layout");
        let starts = [0, 1, 2].map(|q| layout.c2s_ring(q)).into_iter().chain([0, 1, 2].map(|q| layout.s2c_ring(q)));
        assert!(starts.eq((0..6).map(|ring| ring * 192)));
        assert_eq!(layout.frames(), 6 * 192..6 * 192 + 5 * 64);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(Layout::new(0, 10, 1, 64), Err(LayoutError::Queues));
        assert_eq!(Layout::new(257, 10, 1, 64), Err(LayoutError::Queues));
        assert_eq!(Layout::new(1, 0, 1, 64), Err(LayoutError::RingSize));
        assert_eq!(Layout::new(1, 15, 1, 64), Err(LayoutError::RingSize));
        assert_eq!(Layout::new(1, 10, 0, 64), Err(LayoutError::Frames));
        assert_eq!(Layout::new(1, 10, 1, 100), Err(LayoutError::Frames));
        assert_eq!(Layout::new(1, 10, 1 << 21, 2048), Err(LayoutError::TooLarge));
    }
}
