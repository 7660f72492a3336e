//! An arena: frames of one size in one mapping.

use std::sync::Arc;

use super::{FRAMES_MAX, Frame};
use crate::Mapping;
use crate::list::{Links, List};
use crate::mapping::{ClaimError, Holder};
use crate::sync::{AtomicU64, CacheLine};

/// Where the frames of a new arena lie and who owns them at first.
#[derive(Clone, Debug)]
pub struct ArenaConfig {
    /// The memory.
    pub mapping: Arc<Mapping>,
    /// Where the first frame starts, in bytes.
    pub offset: usize,
    /// From one frame to the next, in bytes; the whole stride is the frame's. Not a power of two if it can be
    /// helped: with one, all packet heads compete for a few cache sets.
    pub stride: usize,
    /// Frames that each home owns.
    pub frames_per_home: u32,
    /// Homes: each has one [`FramePool`](super::FramePool), and frames return to the pool that they came from.
    pub homes: u16,
}

/// Why an arena cannot be added.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ArenaError {
    /// The table has 255 arenas.
    TableFull,
    /// No frames, no homes or no bytes per frame.
    Empty,
    /// More than 2^24 - 1 frames, or a frame that ends after 4 GiB.
    TooLarge,
    /// The range is outside the mapping or in use.
    Range(ClaimError),
}

impl core::fmt::Display for ArenaError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::TableFull => f.write_str("the frame table holds 255 arenas: use fewer links per engine"),
            Self::Empty => f.write_str("an arena needs at least one home, one frame per home and one byte per frame"),
            Self::TooLarge => {
                f.write_str("an arena has at most 16777215 frames and ends before 4 GiB: use fewer or smaller frames")
            }
            Self::Range(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ArenaError {}

/// One arena: fixed after it was made, except for links, metadata and the lists of returned frames.
pub(super) struct Arena {
    mapping: Arc<Mapping>,
    offset: usize,
    stride: usize,
    /// Bytes of each frame, at most the stride.
    frame_bytes: usize,
    frames: u32,
    frames_per_home: u32,
    /// `frames_per_home` as a power of two, if it is one.
    home_shift: Option<u32>,
    pub(super) links: Links,
    meta: Box<[AtomicU64]>,
    /// Per home: frames given back and not yet collected by the pool.
    returned: Box<[CacheLine<List>]>,
}

/// How much an arena is.
#[derive(Copy, Clone)]
pub(super) struct Extent {
    frames: u32,
    /// From the beginning of the first frame to the end of the last.
    bytes: usize,
}

impl ArenaConfig {
    /// How much an arena is whose frames are `frame_bytes` long.
    ///
    /// # Errors
    ///
    /// There are none, or too many.
    ///
    /// # Panics
    ///
    /// If a frame is longer than the stride.
    pub(super) fn extent(&self, frame_bytes: usize) -> Result<Extent, ArenaError> {
        let Self { offset, stride, frames_per_home, homes, .. } = *self;
        if frames_per_home == 0 || homes == 0 || frame_bytes == 0 {
            return Err(ArenaError::Empty);
        }
        assert!(frame_bytes <= stride, "frames of {frame_bytes} bytes overlap at a stride of {stride}");
        let frames = frames_per_home.checked_mul(u32::from(homes)).filter(|&n| n <= FRAMES_MAX);
        let frames = frames.ok_or(ArenaError::TooLarge)?;
        let bytes = stride.checked_mul(frames as usize - 1).and_then(|bytes| bytes.checked_add(frame_bytes));
        let bytes = bytes.ok_or(ArenaError::TooLarge)?;
        let end = offset.checked_add(bytes).ok_or(ArenaError::TooLarge)?;
        u32::try_from(end).map_err(|_| ArenaError::TooLarge)?;
        Ok(Extent { frames, bytes })
    }
}

impl Arena {
    /// The arena, whose frames nothing else may use from now on. `extent` is that of the configuration.
    ///
    /// # Errors
    ///
    /// The range is outside the mapping or in use.
    pub(super) fn claim(config: ArenaConfig, frame_bytes: usize, extent: Extent) -> Result<Self, ArenaError> {
        let ArenaConfig { mapping, offset, stride, frames_per_home, homes } = config;
        let Extent { frames, bytes } = extent;
        mapping.claim(offset, bytes, Holder::Frames).map_err(ArenaError::Range)?;
        Ok(Self {
            mapping,
            offset,
            stride,
            frame_bytes,
            frames,
            frames_per_home,
            home_shift: frames_per_home.is_power_of_two().then(|| frames_per_home.ilog2()),
            links: Links::new(frames),
            meta: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            returned: (0..homes).map(|_| CacheLine(List::new())).collect(),
        })
    }

    /// The number of a home's first frame, and how many it has.
    pub(super) fn frames_of(&self, home: u16) -> core::ops::Range<u32> {
        let first = u32::from(home) * self.frames_per_home;
        first..first + self.frames_per_home
    }

    /// The word of metadata of a frame.
    #[inline]
    pub(super) fn meta(&self, index: u32) -> &AtomicU64 {
        &self.meta[index as usize]
    }

    /// Whether it lies in `mapping`.
    pub(super) fn is_in(&self, mapping: &Arc<Mapping>) -> bool {
        Arc::ptr_eq(&self.mapping, mapping)
    }

    /// Where its frames are, of the table with this number.
    pub(super) fn places(&self, table: u32) -> FramePlaces {
        FramePlaces {
            table,
            // `extent` refuses more than 4 GiB.
            offset: self.offset as u32,
            stride: self.stride as u32,
            frame_bytes: self.frame_bytes as u32,
            frames: self.frames,
        }
    }

    /// The address of a frame. In bounds: `claim` claimed all frames, and the index is checked.
    #[inline]
    pub(super) fn address(&self, index: u32) -> *mut u8 {
        self.mapping.at(self.offset_of(index))
    }

    #[inline]
    pub(super) fn offset_of(&self, index: u32) -> usize {
        assert!(index < self.frames, "frame number outside its arena");
        self.offset + index as usize * self.stride
    }

    #[inline]
    pub(super) fn home_of(&self, index: u32) -> u16 {
        // A shift where it can be: a division per frame shows.
        match self.home_shift {
            Some(shift) => (index >> shift) as u16, // fewer homes than 2^16
            None => (index / self.frames_per_home) as u16,
        }
    }

    #[inline]
    pub(super) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    pub(super) fn homes(&self) -> usize {
        self.returned.len()
    }

    #[inline]
    pub(super) fn returned(&self, home: u16) -> &List {
        &self.returned[usize::from(home)].0
    }
}

/// Where the frames of one arena are in its region.
pub(crate) struct FramePlaces {
    table: u32,
    offset: u32,
    stride: u32,
    frame_bytes: u32,
    frames: u32,
}

impl FramePlaces {
    /// Where a frame of the arena starts in the region, in bytes.
    #[inline]
    pub(crate) fn offset_of(&self, frame: &Frame) -> u32 {
        assert_eq!(frame.table, self.table, "a frame of another table");
        self.offset_at(frame.index())
    }

    /// Where the arena's frame of this number starts in the region, in bytes.
    #[inline]
    pub(crate) fn offset_at(&self, index: u32) -> u32 {
        assert!(index < self.frames, "frame number outside its arena");
        self.offset + index * self.stride
    }

    /// Bytes of each frame.
    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.frame_bytes
    }

    /// From one frame to the next, in bytes.
    pub(crate) fn stride(&self) -> u32 {
        self.stride
    }

    /// Where the first frame starts, in bytes.
    pub(crate) fn first_offset(&self) -> u32 {
        self.offset
    }

    /// Frames of the arena.
    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    /// The table of the arena.
    pub(crate) fn table(&self) -> u32 {
        self.table
    }
}
