//! Segments of one poll that wait for each other, so that the memory of several connections is fetched at once.
//!
//! With many connections hardly any of a connection's memory is in the cache when its segment comes, and what a poll costs
//! is mostly waiting for memory, one line after the other. So the pass puts up to [`WINDOW`] segments aside, and takes them
//! then, in the order in which they came. The way to a connection has steps, each known only when the one before has arrived:
//! its place in the table, its list, itself, its receive buffer. The first two are taken for all segments at once; the
//! connections themselves are asked for [`LEAD`] segments ahead, and come while the ones before them are worked on.
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

/// How many segments ahead of the one that is taken a connection is asked for. A processor asks for a dozen lines at once, and
/// a connection has some twenty: to ask for all of them before the first is taken would be to wait for the last.
const LEAD: usize = 2;

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

/// The way to the connections of segments that wait, and how far it has been gone for each.
pub(crate) struct Way {
    hashes: [u32; WINDOW],
    /// How many segments wait; 0 if nothing is to be asked for.
    count: usize,
    /// The one that is taken next.
    next: usize,
}

impl Way {
    /// Asks for the lists that name the connections of these segments, and for the first of the connections.
    pub(crate) fn begin(ns: &Inner, waiting: &[Waiting]) -> Self {
        let mut way = Self { hashes: [0; WINDOW], count: 0, next: 0 };
        // One alone gains nothing.
        if waiting.len() < 2 {
            return way;
        }
        let Some(tcp) = ns.tcp.get() else { return way };
        let flows = &tcp.flows;
        for (hash, Waiting { segment, .. }) in way.hashes.iter_mut().zip(waiting) {
            *hash = flows.hash(&Flow { local: segment.dst, peer: segment.src });
            flows.fetch_place(*hash);
        }
        way.count = waiting.len().min(WINDOW);
        let hashes = &way.hashes[..way.count];
        hashes.iter().for_each(|hash| flows.fetch_shard(*hash));
        hashes.iter().take(LEAD).for_each(|hash| flows.fetch_conn(*hash));
        hashes.iter().take(1).for_each(|hash| flows.fetch_buffer(*hash));
        way
    }

    /// One more segment is about to be taken: asks for the connection of a later one, which is on its way meanwhile.
    #[inline]
    pub(crate) fn step(&mut self, ns: &Inner) {
        let at = self.next;
        self.next += 1;
        let Some(tcp) = ns.tcp.get() else { return };
        let hashes = &self.hashes[..self.count];
        if let Some(hash) = hashes.get(at + LEAD) {
            tcp.flows.fetch_conn(*hash);
        }
        if let Some(hash) = hashes.get(at + 1) {
            tcp.flows.fetch_buffer(*hash);
        }
    }
}
