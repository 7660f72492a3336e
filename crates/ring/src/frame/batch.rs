//! Giving back many frames at once.

use std::sync::Arc;

use super::arena::Arena;
use super::{ArenaId, Frame, FramePool, FrameTable};
use crate::list::Chain;

/// Homes that a batch keeps apart; a frame of one more home sends the oldest chain on its way.
const HOMES_MAX: usize = 4;

struct HomeChain {
    arena: ArenaId,
    home: u16,
    chain: Chain,
}

/// Frames on their way home: one compare-and-swap per home, not per frame. Dropping the batch gives them back.
pub struct FrameBatch<'a> {
    table: &'a FrameTable,
    chains: [Option<HomeChain>; HOMES_MAX],
    evict: usize,
}

impl FrameTable {
    /// A batch that collects frames and gives them back with one compare-and-swap per home.
    #[must_use]
    pub fn batch(&self) -> FrameBatch<'_> {
        FrameBatch::new(self)
    }
}

impl<'a> FrameBatch<'a> {
    fn new(table: &'a FrameTable) -> Self {
        Self { table, chains: [const { None }; HOMES_MAX], evict: 0 }
    }

    /// Adds a frame.
    ///
    /// # Panics
    ///
    /// If the frame is of another table.
    #[inline]
    pub fn push(&mut self, frame: Frame) {
        let arena = self.table.arena_for(&frame);
        let (id, index) = (frame.arena(), frame.index());
        let home = arena.home_of(index);
        // Mostly all frames of a batch come from one home.
        match &mut self.chains[0] {
            Some(there) if there.arena == id && there.home == home => there.chain.push(&arena.links, index),
            _ => self.push_apart(arena, id, home, index),
        }
    }

    /// Adds a frame that is not of the first chain's home. Apart, so that the registers it needs are not saved for every
    /// frame.
    #[inline(never)]
    fn push_apart(&mut self, arena: &Arena, id: ArenaId, home: u16, index: u32) {
        for slot in &mut self.chains {
            match slot {
                Some(there) if there.arena == id && there.home == home => {
                    return there.chain.push(&arena.links, index);
                }
                Some(_) => {}
                None => {
                    *slot = Some(HomeChain { arena: id, home, chain: Chain::new(&arena.links, index) });
                    return;
                }
            }
        }
        let chain = Chain::new(&arena.links, index);
        let evicted = self.chains[self.evict].replace(HomeChain { arena: id, home, chain });
        self.evict = (self.evict + 1) % HOMES_MAX;
        send(self.table, evicted);
    }

    /// Gives everything back now; the batch can be filled again.
    pub fn flush(&mut self) {
        for slot in &mut self.chains {
            send(self.table, slot.take());
        }
    }
}

/// Frames of one arena on their way home, kept apart by home however many homes there are: one compare-and-swap per
/// home. Its memory is one chain per home, so that it is worth keeping.
pub struct FrameSorter {
    table: Arc<FrameTable>,
    arena_id: ArenaId,
    arena: Arc<Arena>,
    chains: Box<[Option<Chain>]>,
    /// Homes that have a chain.
    used: Vec<u16>,
}

impl FrameSorter {
    /// A sorter for the frames of the pool's arena, with nothing in it.
    #[must_use]
    pub fn new(pool: &FramePool) -> Self {
        let (table, arena_id) = (pool.table().clone(), pool.arena());
        let arena = table.arena(arena_id).clone();
        let homes = arena.homes();
        Self { table, arena_id, arena, chains: (0..homes).map(|_| None).collect(), used: Vec::with_capacity(homes) }
    }

    /// Adds a frame.
    ///
    /// # Panics
    ///
    /// If the frame is of another arena.
    #[inline]
    pub fn push(&mut self, frame: Frame) {
        assert_eq!(self.table.raw_for(&frame), Frame::raw_of(self.arena_id, frame.index()), "a frame of another arena");
        let index = frame.index();
        let home = self.arena.home_of(index);
        match &mut self.chains[usize::from(home)] {
            Some(chain) => chain.push(&self.arena.links, index),
            empty => {
                *empty = Some(Chain::new(&self.arena.links, index));
                self.used.push(home);
            }
        }
    }

    /// Gives everything back now; dropping the sorter does it too.
    #[inline]
    pub fn flush(&mut self) {
        for home in self.used.drain(..) {
            if let Some(chain) = self.chains[usize::from(home)].take() {
                self.arena.returned(home).push_chain(&self.arena.links, chain.newest, chain.oldest);
            }
        }
    }

    /// The arena whose frames it takes.
    #[must_use]
    #[inline]
    pub fn arena(&self) -> ArenaId {
        self.arena_id
    }
}

impl Drop for FrameSorter {
    fn drop(&mut self) {
        self.flush();
    }
}

fn send(table: &FrameTable, chain: Option<HomeChain>) {
    if let Some(HomeChain { arena, home, chain }) = chain {
        let arena = table.arena(arena);
        arena.returned(home).push_chain(&arena.links, chain.newest, chain.oldest);
    }
}

impl Drop for FrameBatch<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}
