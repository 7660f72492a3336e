//! Segments of one poll that wait for each other, so that the memory of several connections is fetched at once.
//!
//! With many connections hardly any of a connection's memory is in the cache when its segment comes, and what a poll costs
//! is mostly waiting for memory, one line after the other. So the pass puts up to [`WINDOW`] segments aside, asks for
//! everything that they will touch, and takes them then, in the order in which they came. The way to a connection has three
//! steps, each known only when the one before has arrived; each is taken for all segments before the next.
//!
//! Nothing is looked at here that the segment itself does not look at again: a connection that comes or goes in between
//! costs a needless fetch, no more.

use napier_ring::Frame;

use crate::tcp::FETCH_MAX;
use crate::wire::Segment;

/// Most segments that wait: as many as memory is asked for at once.
const WINDOW: usize = FETCH_MAX;

/// A parsed segment in its frame.
pub(crate) struct Waiting {
    pub(crate) frame: Frame,
    pub(crate) len: u32,
    pub(crate) segment: Segment,
}

/// Segments put aside, in order; an instance's, and empty between two polls.
pub(crate) struct Ahead {
    waiting: Vec<Waiting>,
}

impl Ahead {
    /// With room for as many as ever wait.
    pub(crate) fn new() -> Self {
        Self { waiting: Vec::with_capacity(WINDOW) }
    }

    /// Puts a segment aside; true if no other has room.
    #[inline]
    pub(crate) fn put(&mut self, waiting: Waiting) -> bool {
        self.waiting.push(waiting);
        self.waiting.len() >= WINDOW
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// All that wait, in order; [`give_back`](Self::give_back) returns their room.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.waiting)
    }

    #[inline]
    pub(crate) fn give_back(&mut self, room: Vec<Waiting>) {
        assert!(room.is_empty(), "all that waited were taken");
        self.waiting = room;
    }
}
