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

use super::super::netns::Inner;
use super::super::wire::Segment;
use super::flows::Flow;

/// Most segments that wait: their connections' memory fits into the first-level cache, and as many are on their way at
/// once as a processor can ask for.
const WINDOW: usize = 8;

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

/// Asks for the memory of the connections that these segments are for.
pub(crate) fn fetch(ns: &Inner, waiting: &[Waiting]) {
    // One alone gains nothing.
    if waiting.len() < 2 {
        return;
    }
    let Some(tcp) = ns.tcp.get() else { return };
    let flows = &tcp.flows;
    let mut hashes = [0; WINDOW];
    for (hash, Waiting { segment, .. }) in hashes.iter_mut().zip(waiting) {
        *hash = flows.hash(&Flow { local: segment.dst, peer: segment.src });
        flows.fetch_place(*hash);
    }
    let hashes = &hashes[..waiting.len().min(WINDOW)];
    hashes.iter().for_each(|hash| flows.fetch_shard(*hash));
    hashes.iter().for_each(|hash| flows.fetch_conn(*hash));
    hashes.iter().for_each(|hash| flows.fetch_buffer(*hash));
}
