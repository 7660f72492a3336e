//! The table: from a frame to its bytes.

use std::sync::{Arc, Mutex, OnceLock};

use super::arena::{Arena, ArenaConfig, ArenaError, FramePlaces};
use super::{ArenaId, Frame, arena_of, index_of};
use crate::Mapping;
use crate::list::{Linked, sealed};
use crate::sync::{AtomicU32, Ordering, StaticU32};

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

    /// Adds an arena whose frames are `frame_bytes` long, at most the stride.
    ///
    /// # Errors
    ///
    /// See [`ArenaError`]; nothing is added then.
    pub(super) fn insert(&self, config: ArenaConfig, frame_bytes: usize) -> Result<(ArenaId, Arc<Arena>), ArenaError> {
        let extent = config.extent(frame_bytes)?;
        let mut used = self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let number = used.checked_add(1).ok_or(ArenaError::TableFull)?;
        let arena = Arc::new(Arena::claim(config, frame_bytes, extent)?);
        *used = number;
        let taken = self.arenas[usize::from(number)].set(arena.clone());
        assert!(taken.is_ok(), "arena numbers are given out once");
        Ok((ArenaId(number), arena))
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
        assert!(len <= arena.frame_bytes(), "asked for more bytes than a frame has");
        let start = arena.address(frame.index());
        // SAFETY: the bytes are inside the mapping, which `self` keeps alive; they are initialised; the frame is the
        // only handle to them and is borrowed, so nothing writes them meanwhile.
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
        unsafe { core::slice::from_raw_parts_mut(start, arena.frame_bytes()) }
    }

    /// The frame's word of metadata, as last set by an owner. 0 at first.
    #[must_use]
    #[inline]
    pub fn meta(&self, frame: &Frame) -> u64 {
        // Relaxed: the frame's owner wrote it; handing the frame over ordered that.
        self.arena_for(frame).meta(frame.index()).load(Ordering::Relaxed)
    }

    /// Sets the frame's word of metadata.
    #[inline]
    pub fn set_meta(&self, frame: &mut Frame, meta: u64) {
        self.arena_for(frame).meta(frame.index()).store(meta, Ordering::Relaxed);
    }

    /// Bytes of a frame.
    #[must_use]
    #[inline]
    pub fn capacity(&self, frame: &Frame) -> usize {
        self.arena_for(frame).frame_bytes()
    }

    /// Where the frame starts in its mapping, in bytes.
    #[must_use]
    #[inline]
    pub fn offset_of(&self, frame: &Frame) -> u32 {
        self.arena_for(frame).offset_of(frame.index()) as u32 // an arena ends before 4 GiB
    }

    /// Gives a frame back to the pool that it came from. Any thread; one compare-and-swap.
    #[inline]
    pub fn give_back(&self, frame: Frame) {
        let arena = self.arena_for(&frame);
        let index = frame.index();
        arena.returned(arena.home_of(index)).push(&arena.links, index);
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
        self.arena(arena).places(self.id)
    }

    /// Whether the arena lies in `mapping`.
    pub(crate) fn arena_is_in(&self, arena: ArenaId, mapping: &Arc<Mapping>) -> bool {
        self.arena(arena).is_in(mapping)
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
