//! Runs of numbers in their order, none touching another: what a receiver has behind a hole, and what a sender knows of that.

use alloc::collections::VecDeque;
use core::ops::Range;

use crate::tcp::seq::Seq;

/// A run of bytes, from `start` up to `end`, which does not belong to it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct SackBlock {
    /// The first number.
    pub start: Seq,
    /// Behind the last.
    pub end: Seq,
}

impl SackBlock {
    /// How many bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.end - self.start
    }

    /// Whether all of it is in the other.
    #[must_use]
    pub const fn is_in(&self, other: &Self) -> bool {
        !self.start.is_before(other.start) && !self.end.is_after(other.end)
    }

    /// Whether both have a number in common, or one begins where the other ends.
    pub(super) const fn touches(&self, other: &Self) -> bool {
        !self.start.is_after(other.end) && !other.start.is_after(self.end)
    }
}

/// The runs. No memory before there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Runs {
    all: VecDeque<SackBlock>,
}

impl Runs {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn first(&self) -> Option<&SackBlock> {
        self.all.front()
    }

    pub(super) fn last(&self) -> Option<&SackBlock> {
        self.all.back()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SackBlock> {
        self.all.iter()
    }

    /// Those at these places.
    pub(super) fn range(&self, places: Range<usize>) -> impl Iterator<Item = &SackBlock> {
        self.all.range(places)
    }

    /// The first that ends behind `seq`.
    pub(super) fn first_behind(&self, seq: Seq) -> Option<&SackBlock> {
        self.all.get(self.all.partition_point(|run| !run.end.is_after(seq)))
    }

    /// The places of those that have a number in common with `new`, or begin where it ends, or end where it begins.
    pub(super) fn touching(&self, new: &SackBlock) -> Range<usize> {
        let first = self.all.partition_point(|run| run.end.is_before(new.start));
        first..self.all.partition_point(|run| !run.start.is_after(new.end)).max(first)
    }

    /// Adds `new`, joined with what it touches; gives what it is a part of then.
    pub(super) fn join(&mut self, new: SackBlock) -> SackBlock {
        let touched = self.touching(&new);
        let mut joined = new;
        for old in self.all.range(touched.clone()) {
            joined = SackBlock { start: joined.start.earlier(old.start), end: joined.end.later(old.end) };
        }
        if touched.is_empty() {
            self.all.insert(touched.start, joined);
        } else {
            self.all[touched.start] = joined;
            self.all.drain(touched.start + 1..touched.end);
        }
        joined
    }

    /// All before `next` is over.
    #[inline]
    pub(super) fn drop_before(&mut self, next: Seq) {
        while let Some(first) = self.all.front_mut() {
            if first.end.is_after(next) {
                first.start = first.start.later(next);
                return;
            }
            self.all.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }
}
