//! A home of frames, from its owner's side.

use core::ops::Range;
use std::sync::Arc;

use super::arena::{Arena, ArenaConfig, ArenaError, FramePlaces};
use super::{ArenaId, Frame, FrameTable, index_of};

/// The frames of one home that are not in use. One owner; frames given back by others are collected when it runs dry.
pub struct FramePool {
    table: Arc<FrameTable>,
    arena: Arc<Arena>,
    arena_id: ArenaId,
    home: u16,
    /// The number of the home's first frame: those of a home follow one another.
    first_raw: u32,
    frames: u32,
    free: Vec<u32>, // indices; room for all frames of the home, so it never grows
}

impl FrameTable {
    /// Adds an arena and returns its pools, one per home, each holding all frames of its home.
    ///
    /// # Errors
    ///
    /// See [`ArenaError`]; nothing is added then.
    pub fn add_arena(self: &Arc<Self>, config: ArenaConfig) -> Result<(ArenaId, Vec<FramePool>), ArenaError> {
        let frame_bytes = config.stride;
        self.add_arena_with_gaps(config, frame_bytes)
    }

    /// Adds an arena whose frames are `frame_bytes` long, less than the stride: what is between them belongs to none.
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
        let (id, arena) = self.insert(config, frame_bytes)?;
        let homes = 0..arena.homes() as u16; // as the configuration had them
        let pools = homes.map(|home| FramePool::new(self.clone(), arena.clone(), id, home, arena.frames_of(home)));
        Ok((id, pools.collect()))
    }
}

impl FramePool {
    fn new(table: Arc<FrameTable>, arena: Arc<Arena>, arena_id: ArenaId, home: u16, frames: Range<u32>) -> Self {
        // Reversed, so that the lowest frames go out first.
        let first_raw = Frame::raw_of(arena_id, frames.start);
        Self { table, arena, arena_id, home, first_raw, frames: frames.len() as u32, free: frames.rev().collect() }
    }

    /// Takes a frame: the one freed last, else from those given back, else `None`.
    #[inline]
    pub fn alloc(&mut self) -> Option<Frame> {
        if self.free.is_empty() {
            self.collect();
        }
        let index = self.free.pop()?;
        Some(Frame::mint(Frame::raw_of(self.arena_id, index), self.table.id()))
    }

    /// Frames that can be taken without another look, at least `wanted` of them if there are so many.
    #[inline]
    pub fn ready(&mut self, wanted: usize) -> usize {
        if self.free.len() < wanted {
            self.collect();
        }
        self.free.len()
    }

    /// The bytes of the frame that [`alloc`](Self::alloc) would give, to be filled before it is taken. `None`: there is none.
    #[inline]
    pub fn next_bytes(&mut self) -> Option<&mut [u8]> {
        if self.free.is_empty() {
            self.collect();
        }
        let start = self.arena.address(*self.free.last()?);
        // SAFETY: the bytes are inside the mapping, which the arena keeps alive; they are initialised; the frame is in this
        // pool, which is borrowed mutably, so there is no handle to it and no other reference.
        Some(unsafe { core::slice::from_raw_parts_mut(start, self.arena.frame_bytes()) })
    }

    /// Puts a frame back: straight into this pool if it is its home, else as [`FrameTable::give_back`].
    #[inline]
    pub fn free(&mut self, frame: Frame) {
        self.put(self.table.raw_for(&frame)); // checks the table
    }

    /// As [`free`](Self::free), by the number that a frame of this table left behind.
    #[inline]
    pub(super) fn put(&mut self, raw: u32) {
        let at_home = raw.wrapping_sub(self.first_raw) < self.frames;
        if !at_home {
            return self.put_elsewhere(raw);
        }
        assert!((self.free.len() as u32) < self.frames, "more frames came home than left");
        self.free.push(index_of(raw));
    }

    #[cold]
    fn put_elsewhere(&self, raw: u32) {
        self.table.give_back(Frame::mint(raw, self.table.id()));
    }

    /// Frames at home now, those given back included.
    pub fn available(&mut self) -> usize {
        self.collect();
        self.free.len()
    }

    /// Frames that belong here, wherever they are.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.frames
    }

    /// The home's number within its arena.
    #[must_use]
    pub fn home(&self) -> u16 {
        self.home
    }

    /// The arena of this pool's frames.
    #[must_use]
    pub fn arena(&self) -> ArenaId {
        self.arena_id
    }

    /// Whether these are places of the pool's table.
    #[inline]
    pub(crate) fn is_of(&self, places: &FramePlaces) -> bool {
        self.table.id() == places.table()
    }

    /// The table of this pool's frames.
    #[must_use]
    pub fn table(&self) -> &Arc<FrameTable> {
        &self.table
    }

    fn collect(&mut self) {
        let mut returned = self.arena.returned(self.home).take_newest_first();
        while let Some(index) = returned.pop(&self.arena.links) {
            assert!((self.free.len() as u32) < self.frames, "more frames came home than left");
            self.free.push(index);
        }
    }
}

impl core::fmt::Debug for FramePool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "FramePool({}:{}, {} of {} free)", self.arena_id.0, self.home, self.free.len(), self.frames)
    }
}
