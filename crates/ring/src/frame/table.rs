//! The table: from a frame to its bytes.

use std::sync::{Arc, Mutex, OnceLock};

use super::{ArenaId, FRAMES_MAX, Frame, FrameBatch, FramePool, arena_of, index_of};
use crate::Mapping;
use crate::list::{Linked, Links, List, sealed};
use crate::mapping::{ClaimError, Holder};
use crate::sync::{AtomicU32, AtomicU64, Line, Ordering, StaticU32};

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
    /// Homes: each has one [`FramePool`], and frames return to the pool that they came from.
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
    returned: Box<[Line<List>]>,
}

impl Arena {
    /// The address of a frame. In bounds: `add_arena` claimed all frames, and the index is checked.
    #[inline]
    pub(super) fn address(&self, index: u32) -> *mut u8 {
        self.mapping.at(self.offset_of(index))
    }

    #[inline]
    fn offset_of(&self, index: u32) -> usize {
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

    /// Whether the pool's frames are of the arena's table.
    #[inline]
    pub(crate) fn is_of(&self, pool: &FramePool) -> bool {
        pool.table().id() == self.table
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

static NEXT_TABLE: StaticU32 = StaticU32::new(1);

/// Up to 255 arenas of frames. Looking up a frame is one array load.
pub struct FrameTable {
    id: u32,
    arenas: [OnceLock<Arc<Arena>>; 256], // slot 0 stays empty
    used: Mutex<u8>,
}

impl Default for FrameTable {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        // Relaxed: only uniqueness counts.
        let id = NEXT_TABLE.fetch_add(1, Ordering::Relaxed);
        assert_ne!(id, 0, "2^32 frame tables were made");
        Self { id, arenas: [const { OnceLock::new() }; 256], used: Mutex::new(0) }
    }

    /// Adds an arena and returns its pools, one per home, each holding all frames of its home.
    ///
    /// # Errors
    ///
    /// See [`ArenaError`]; nothing is added then.
    pub fn add_arena(self: &Arc<Self>, config: ArenaConfig) -> Result<(ArenaId, Vec<FramePool>), ArenaError> {
        let frame_bytes = config.stride;
        self.add_arena_with_gaps(config, frame_bytes)
    }

    /// Adds an arena whose frames are `frame_bytes` long, less than the stride: what is between them is nobody's.
    ///
    /// # Errors
    ///
    /// See [`ArenaError`]; nothing is added then.
    ///
    /// # Panics
    ///
    /// If a frame is longer than the stride.
    pub fn add_arena_with_gaps(
        self: &Arc<Self>,
        config: ArenaConfig,
        frame_bytes: usize,
    ) -> Result<(ArenaId, Vec<FramePool>), ArenaError> {
        let ArenaConfig { mapping, offset, stride, frames_per_home, homes } = config;
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

        let mut used = self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let number = used.checked_add(1).ok_or(ArenaError::TableFull)?;
        mapping.claim(offset, bytes, Holder::Frames).map_err(ArenaError::Range)?;
        let arena = Arc::new(Arena {
            mapping,
            offset,
            stride,
            frame_bytes,
            frames,
            frames_per_home,
            home_shift: frames_per_home.is_power_of_two().then(|| frames_per_home.ilog2()),
            links: Links::new(frames),
            meta: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            returned: (0..homes).map(|_| Line(List::new())).collect(),
        });
        *used = number;
        let taken = self.arenas[usize::from(number)].set(arena.clone());
        assert!(taken.is_ok(), "arena numbers are given out once");
        let id = ArenaId(number);
        let pools = (0..homes).map(|home| {
            let first = u32::from(home) * frames_per_home;
            FramePool::new(self.clone(), arena.clone(), id, home, first..first + frames_per_home)
        });
        Ok((id, pools.collect()))
    }

    /// The first `len` bytes of a frame.
    ///
    /// # Panics
    ///
    /// If the frame is shorter, or of another table.
    #[must_use]
    #[inline]
    pub fn data<'a>(&'a self, frame: &'a Frame, len: usize) -> &'a [u8] {
        let arena = self.arena_for(frame);
        assert!(len <= arena.frame_bytes, "asked for more bytes than a frame has");
        let start = arena.address(frame.index());
        // SAFETY: the bytes are inside the mapping, which `self` keeps alive; they are initialised; the frame is the
        // only handle to them and is borrowed, so nobody writes them meanwhile.
        unsafe { core::slice::from_raw_parts(start, len) }
    }

    /// All bytes of a frame, to write.
    ///
    /// # Panics
    ///
    /// If the frame is of another table.
    #[must_use]
    #[inline]
    pub fn data_mut<'a>(&'a self, frame: &'a mut Frame) -> &'a mut [u8] {
        let arena = self.arena_for(frame);
        let start = arena.address(frame.index());
        // SAFETY: as in `data`; the frame is borrowed mutably, so this is the only reference.
        unsafe { core::slice::from_raw_parts_mut(start, arena.frame_bytes) }
    }

    /// The frame's word of metadata, as last set by an owner. 0 at first.
    #[must_use]
    #[inline]
    pub fn meta(&self, frame: &Frame) -> u64 {
        // Relaxed: the frame's owner wrote it; handing the frame over ordered that.
        self.arena_for(frame).meta[frame.index() as usize].load(Ordering::Relaxed)
    }

    /// Sets the frame's word of metadata.
    #[inline]
    pub fn set_meta(&self, frame: &mut Frame, meta: u64) {
        self.arena_for(frame).meta[frame.index() as usize].store(meta, Ordering::Relaxed);
    }

    /// Bytes of a frame.
    #[must_use]
    #[inline]
    pub fn capacity(&self, frame: &Frame) -> usize {
        self.arena_for(frame).frame_bytes
    }

    /// Where the frame starts in its mapping, in bytes.
    #[must_use]
    #[inline]
    pub fn offset_of(&self, frame: &Frame) -> u32 {
        self.arena_for(frame).offset_of(frame.index()) as u32 // `add_arena` refuses more than 4 GiB
    }

    /// Gives a frame back to the pool that it came from. Any thread; one compare-and-swap.
    #[inline]
    pub fn give_back(&self, frame: Frame) {
        let arena = self.arena_for(&frame);
        let index = frame.index();
        arena.returned(arena.home_of(index)).push(&arena.links, index);
    }

    /// A batch that collects frames and gives them back with one compare-and-swap per home.
    #[must_use]
    pub fn batch(&self) -> FrameBatch<'_> {
        FrameBatch::new(self)
    }

    #[inline]
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// The number that stands for a frame inside a list.
    #[inline]
    pub(super) fn raw_for(&self, frame: &Frame) -> u32 {
        self.check(frame);
        frame.raw.get()
    }

    #[inline]
    pub(super) fn arena_for(&self, frame: &Frame) -> &Arena {
        self.check(frame);
        self.arena(frame.arena())
    }

    #[inline]
    pub(super) fn arena(&self, id: ArenaId) -> &Arc<Arena> {
        match self.arenas[usize::from(id.0)].get() {
            Some(arena) => arena,
            None => panic!("no arena {} in this table", id.0),
        }
    }

    #[inline]
    fn check(&self, frame: &Frame) {
        assert_eq!(frame.table, self.id, "a frame of another table");
    }

    /// Where the frames of an arena are, for the ring code.
    pub(crate) fn places_of(&self, arena: ArenaId) -> FramePlaces {
        let Arena { offset, stride, frame_bytes, frames, .. } = &**self.arena(arena);
        FramePlaces {
            table: self.id,
            // `add_arena` refuses more than 4 GiB.
            offset: *offset as u32,
            stride: *stride as u32,
            frame_bytes: *frame_bytes as u32,
            frames: *frames,
        }
    }

    /// Whether the arena lies in `mapping`.
    pub(crate) fn arena_is_in(&self, arena: ArenaId, mapping: &Arc<Mapping>) -> bool {
        Arc::ptr_eq(&self.arena(arena).mapping, mapping)
    }
}

impl core::fmt::Debug for FrameTable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let arenas = self.arenas.iter().filter(|slot| slot.get().is_some()).count();
        f.debug_struct("FrameTable").field("arenas", &arenas).finish_non_exhaustive()
    }
}

/// The links of all arenas as one, for lists that hold frames of any arena. Not public: links decide which frames
/// come out of a list.
pub(super) struct TableLinks<'a>(pub(super) &'a FrameTable);

impl sealed::Sealed for TableLinks<'_> {}

impl Linked for TableLinks<'_> {
    fn next_of(&self, raw: u32) -> &AtomicU32 {
        self.0.arena(arena_of(raw)).links.next_of(index_of(raw))
    }
}
