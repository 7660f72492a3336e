//! Segments in the order of their numbers, and two lines through them.
//!
//! | line | order | who is in it |
//! |---|---|---|
//! | under way | when they were sent last; of those that were sent at one time the lower number first | neither there nor lost |
//! | lost | their numbers | lost |
//!
//! A line is followed from one end, and an entry leaves it without a search: what an acknowledgement costs is what it changes, however much is under way.
//! Source: `include/net/tcp.h struct tcp_sock` `tsorted_sent_queue`.
//!
//! An entry is named by its place, a number that it keeps while others before it go.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Fate, Sent, is_sent_after};
use crate::tcp::seq::Seq;

/// No place.
const NONE: u32 = u32::MAX;
/// Places are numbers of 31 bits, which begin anew.
const PLACES: u32 = u32::MAX >> 1;

#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
struct Linked {
    sent: Sent,
    /// The places of its neighbours in its line.
    before: u32,
    behind: u32,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
struct SentLine {
    first: u32,
    last: u32,
}

const EMPTY: SentLine = SentLine { first: NONE, last: NONE };
const UNDER_WAY: usize = 0;
const LOST: usize = 1;

/// The line of a segment, if it is in one.
const fn line_of(fate: Fate) -> Option<usize> {
    match (fate.there, fate.lost) {
        (true, _) => None,
        (false, true) => Some(LOST),
        (false, false) => Some(UNDER_WAY),
    }
}

/// All entries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entries {
    all: VecDeque<Linked>,
    /// The place of the first one.
    base: u32,
    lines: [SentLine; 2],
    /// Entries that were looked at one after the other.
    #[cfg(test)]
    pub(super) looks: u64,
}

impl Default for Entries {
    fn default() -> Self {
        Self {
            all: VecDeque::new(),
            base: 0,
            lines: [EMPTY; 2],
            #[cfg(test)]
            looks: 0,
        }
    }
}

impl Entries {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<&Sent> {
        self.all.get(at).map(|entry| &entry.sent)
    }

    #[inline]
    pub(super) fn last(&self) -> Option<&Sent> {
        self.all.back().map(|entry| &entry.sent)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.all.iter().map(|entry| &entry.sent)
    }

    /// Where the first one is that ends behind `seq`.
    pub(super) fn behind(&self, seq: Seq) -> usize {
        self.all.partition_point(|entry| !entry.sent.end.is_after(seq))
    }

    /// The one that was sent before all others that are under way.
    #[inline]
    pub(super) fn oldest(&self) -> Option<usize> {
        self.index(self.lines[UNDER_WAY].first)
    }

    /// The one that was sent next after one that is under way.
    #[inline]
    pub(super) fn younger(&self, at: usize) -> Option<usize> {
        self.index(self.all[at].behind)
    }

    /// The first one that is lost.
    #[inline]
    pub(super) fn first_lost(&self) -> Option<&Sent> {
        self.get(self.index(self.lines[LOST].first)?)
    }

    /// A step along a line, or along the numbers.
    #[inline]
    pub(super) fn look(&mut self) {
        #[cfg(test)]
        {
            self.looks += 1;
        }
    }

    /// Adds one behind all others.
    #[inline]
    pub(super) fn push(&mut self, sent: Sent) {
        if self.all.capacity() == 0 {
            // Most connections never have more.
            self.all.reserve_exact(4);
        }
        self.all.push_back(Linked { sent, before: NONE, behind: NONE });
        self.link(self.all.len() - 1);
    }

    /// The first one goes.
    #[inline]
    pub(super) fn pop_front(&mut self) {
        if self.all.is_empty() {
            return;
        }
        self.unlink(0);
        self.all.pop_front();
        self.base = (self.base + 1) & PLACES;
    }

    /// All before `next`, a number of the first one, goes.
    pub(super) fn shorten_first(&mut self, next: Seq) {
        if let Some(first) = self.all.front_mut() {
            first.sent.start = next;
        }
    }

    /// What is known of one is this from now on; its numbers stay.
    #[inline]
    pub(super) fn change(&mut self, at: usize, sent: Sent) {
        self.unlink(at);
        self.all[at].sent = sent;
        self.link(at);
    }

    /// One becomes two, of which the second begins at `middle`. Looks at all of them.
    #[cold]
    pub(super) fn split(&mut self, at: usize, middle: Seq) {
        let whole = self.all[at].sent;
        self.change(at, Sent { end: middle, ..whole });
        let second = at + 1;
        self.all.insert(second, Linked { sent: Sent { start: middle, ..whole }, before: NONE, behind: NONE });
        let base = self.base;
        let moves = |place: &mut u32| {
            if *place != NONE && (place.wrapping_sub(base) & PLACES) as usize >= second {
                *place = (*place + 1) & PLACES;
            }
        };
        for entry in &mut self.all {
            moves(&mut entry.before);
            moves(&mut entry.behind);
        }
        for line in &mut self.lines {
            moves(&mut line.first);
            moves(&mut line.last);
        }
        self.link(second);
    }

    /// Makes others of all of them: `each` hands over what has the numbers of one.
    #[cold]
    pub(super) fn remake(&mut self, mut each: impl FnMut(Sent, &mut dyn FnMut(Sent))) {
        let old = core::mem::take(&mut self.all);
        for entry in old {
            each(entry.sent, &mut |sent| self.all.push_back(Linked { sent, before: NONE, behind: NONE }));
        }
        self.relink();
    }

    /// Puts all of them into their lines.
    #[cold]
    fn relink(&mut self) {
        self.lines = [EMPTY; 2];
        let Some(start) = self.all.front().map(|first| first.sent.start) else { return };
        let mut under_way = Vec::new();
        for at in 0..self.all.len() {
            (self.all[at].before, self.all[at].behind) = (NONE, NONE);
            match line_of(self.all[at].sent.fate) {
                None => {}
                Some(LOST) => self.put(at, LOST, self.lines[LOST].last, NONE),
                Some(_) => under_way.push(at),
            }
        }
        under_way.sort_unstable_by_key(|at| (self.all[*at].sent.at, self.all[*at].sent.end - start));
        for at in under_way {
            self.put(at, UNDER_WAY, self.lines[UNDER_WAY].last, NONE);
        }
    }

    #[inline]
    fn index(&self, place: u32) -> Option<usize> {
        (place != NONE).then(|| (place.wrapping_sub(self.base) & PLACES) as usize)
    }

    #[inline]
    fn place(&self, at: usize) -> u32 {
        // There are far fewer than places.
        self.base.wrapping_add(at as u32) & PLACES
    }

    /// Takes one out of its line.
    #[inline]
    fn unlink(&mut self, at: usize) {
        let Linked { sent, before, behind } = self.all[at];
        let Some(line) = line_of(sent.fate) else { return };
        match self.index(before) {
            None => self.lines[line].first = behind,
            Some(before) => self.all[before].behind = behind,
        }
        match self.index(behind) {
            None => self.lines[line].last = before,
            Some(behind) => self.all[behind].before = before,
        }
    }

    /// Puts one into a line, between these.
    #[inline]
    fn put(&mut self, at: usize, line: usize, before: u32, behind: u32) {
        let place = self.place(at);
        (self.all[at].before, self.all[at].behind) = (before, behind);
        match self.index(before) {
            None => self.lines[line].first = place,
            Some(before) => self.all[before].behind = place,
        }
        match self.index(behind) {
            None => self.lines[line].last = place,
            Some(behind) => self.all[behind].before = place,
        }
    }

    /// Puts one where it belongs.
    #[inline]
    fn link(&mut self, at: usize) {
        match line_of(self.all[at].sent.fate) {
            None => {}
            Some(LOST) => self.link_lost(at),
            Some(_) => self.link_under_way(at),
        }
    }

    /// It was sent last, but others may have been at the same time.
    #[inline]
    fn link_under_way(&mut self, at: usize) {
        let Sent { at: time, end, .. } = self.all[at].sent;
        let (mut before, mut behind) = (self.lines[UNDER_WAY].last, NONE);
        while let Some(other) = self.index(before) {
            let Linked { sent, before: next, .. } = self.all[other];
            if !is_sent_after((sent.at, sent.end), (time, end)) {
                break;
            }
            self.look();
            (before, behind) = (next, before);
        }
        self.put(at, UNDER_WAY, before, behind);
    }

    /// From both ends: what is lost first has low numbers, and so has what is lost again.
    fn link_lost(&mut self, at: usize) {
        let start = self.all[at].sent.start;
        let SentLine { first: mut low, last: mut high } = self.lines[LOST];
        loop {
            self.look();
            let (Some(lower), Some(higher)) = (self.index(low), self.index(high)) else {
                return self.put(at, LOST, NONE, NONE);
            };
            if start.is_after(self.all[higher].sent.start) {
                return self.put(at, LOST, high, self.all[higher].behind);
            }
            if start.is_before(self.all[lower].sent.start) {
                return self.put(at, LOST, self.all[lower].before, low);
            }
            (low, high) = (self.all[lower].behind, self.all[higher].before);
        }
    }

    /// The numbers of those in a line, in its order.
    #[cfg(test)]
    pub(super) fn line(&self, lost: bool) -> Vec<Seq> {
        let mut line = Vec::new();
        let mut next = self.index(self.lines[usize::from(lost)].first);
        let mut before = NONE;
        while let Some(at) = next {
            assert_eq!(self.all[at].before, before);
            line.push(self.all[at].sent.start);
            before = self.place(at);
            next = self.index(self.all[at].behind);
        }
        assert_eq!(self.lines[usize::from(lost)].last, before);
        line
    }
}
