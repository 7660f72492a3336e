//! What a receiver has out of order, and how it tells the sender (RFC 2018, RFC 2883).
//!
//! | what comes | kept | the blocks begin with |
//! |---|---|---|
//! | bytes behind a hole | joined with what they touch | the range that they are in |
//! | bytes that are there | as it was | what came twice (RFC 2883 section 4), once |
//! | bytes that would make range number [`RANGES_MAX`] + 1 | no: they are sent again | as before |
//! | the bytes of the hole | all up to the next hole is in order | the ranges as before |
//!
//! Behind the first come the ranges that were told last, most recent first (RFC 2018 section 4), so that each range is told three
//! times, and an acknowledgement that gets lost hides nothing.

use crate::tcp::options::BLOCKS_MAX;
use crate::tcp::runs::Runs;
pub use crate::tcp::runs::SackBlock;
use crate::tcp::seq::Seq;

/// Most ranges out of order: a peer that leaves more holes sends some bytes twice.
pub const RANGES_MAX: usize = 256;

/// The ranges behind the first hole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ranges {
    all: Runs,
    /// What was told last, most recent first.
    told: [SackBlock; BLOCKS_MAX],
    told_count: u8,
    /// What came twice, to be told once.
    twice: Option<SackBlock>,
}

impl Ranges {
    /// Nothing is out of order.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Nothing is to be told.
    #[inline]
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.all.is_empty() && self.twice.is_none()
    }

    /// Behind the last byte that is there.
    #[must_use]
    pub fn end(&self) -> Option<Seq> {
        self.all.last().map(|last| last.end)
    }

    /// Bytes of `new` came behind a hole. Whether they are to be kept.
    pub fn insert(&mut self, new: SackBlock) -> bool {
        if new.start == new.end {
            return true;
        }
        let touched = self.all.touching(&new);
        if touched.is_empty() && self.all.len() >= RANGES_MAX {
            return false;
        }
        for old in self.all.range(touched) {
            let inside = SackBlock { start: new.start.later(old.start), end: new.end.earlier(old.end) };
            if inside.start.is_before(inside.end) && self.twice.is_none() {
                self.twice = Some(inside);
            }
        }
        let joined = self.all.join(new);
        self.tell_first(joined);
        true
    }

    /// Bytes of `block` came that had been in order already.
    pub fn came_twice(&mut self, block: SackBlock) {
        if block.start.is_before(block.end) {
            self.twice = Some(block);
        }
    }

    /// Everything up to `next` is in order. Up to where it is with what was behind the hole.
    #[inline]
    pub fn advance(&mut self, next: Seq) -> Seq {
        if self.all.is_empty() { next } else { self.advance_over(next) }
    }

    fn advance_over(&mut self, mut next: Seq) -> Seq {
        while let Some(first) = self.all.first().filter(|first| !first.start.is_after(next)) {
            next = next.later(first.end);
            self.all.drop_before(next);
        }
        self.keep_told(|block| block.end.is_after(next));
        next
    }

    /// The blocks of the next acknowledgement, in their order. What came twice is told by them.
    pub fn tell(&mut self) -> impl Iterator<Item = SackBlock> + '_ {
        self.twice.take().into_iter().chain(self.told[..usize::from(self.told_count)].iter().copied())
    }

    /// All ranges, in their order.
    pub fn iter(&self) -> impl Iterator<Item = SackBlock> + '_ {
        self.all.iter().copied()
    }

    fn tell_first(&mut self, block: SackBlock) {
        self.keep_told(|told| !told.touches(&block));
        let count = (usize::from(self.told_count) + 1).min(BLOCKS_MAX);
        self.told.copy_within(..count - 1, 1);
        self.told[0] = block;
        self.told_count = count as u8;
    }

    fn keep_told(&mut self, keep: impl Fn(&SackBlock) -> bool) {
        let mut kept = 0;
        for at in 0..usize::from(self.told_count) {
            if keep(&self.told[at]) {
                self.told[kept] = self.told[at];
                kept += 1;
            }
        }
        self.told_count = kept as u8;
    }
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
