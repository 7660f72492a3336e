//! What is under way: one entry for each segment, in the order of its numbers, and what is known of it.
//!
//! | event | entry | counted as |
//! |---|---|---|
//! | sent | new | under way |
//! | told of selectively | *there* | not under way |
//! | taken for lost | *lost* | not under way |
//! | sent again | *lost* no more, *again* | under way |
//! | the time ran out | *lost* and never *again*, unless it is *there* | |
//! | acknowledged up to its end | gone | |
//! | acknowledged in the middle | its rest | |
//!
//! A selective block counts for an entry if it covers all of it: a receiver keeps segments as they were sent, and what it says of a part of
//! one is not needed (RFC 2018 section 8: it is advice). So what a peer says never makes entries, and there are at most
//! [`SEGMENTS_MAX`] of them and those that a path with shorter packets made of one.

use alloc::collections::VecDeque;

use crate::tcp::ranges::SackBlock;
use crate::tcp::seq::Seq;
use crate::time::Instant;

/// Most segments under way.
pub const SEGMENTS_MAX: usize = 8192;

/// What is known of a segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Fate {
    /// The peer has said that it is there.
    pub there: bool,
    /// It is taken for lost, and not sent again since.
    pub lost: bool,
    /// It was sent again, and is under way.
    pub again: bool,
    /// It was sent again at some time.
    pub ever_again: bool,
}

/// A segment that was sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sent {
    /// When it was sent last.
    pub at: Instant,
    /// Its first number.
    pub start: Seq,
    /// Behind its last.
    pub end: Seq,
    /// What is known of it.
    pub fate: Fate,
}

impl Sent {
    fn bytes(&self) -> u32 {
        self.end - self.start
    }

    /// Bytes of it that are under way: as first sent and not lost, and again.
    fn under_way(&self) -> u32 {
        let Fate { there, lost, .. } = self.fate;
        if there || lost { 0 } else { self.bytes() }
    }
}

/// All segments under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SentQueue {
    entries: VecDeque<Sent>,
    /// Bytes under way.
    pipe: u32,
    /// Bytes that are there, selectively.
    there: u32,
    /// Bytes that are lost and not sent again.
    lost: u32,
    /// No entry before this is lost and not sent again.
    again_from: Seq,
    /// The blocks that came last: what they said is known.
    known: [SackBlock; 4],
}

impl SentQueue {
    /// Nothing is under way.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many segments.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// No more segments may be sent before some are acknowledged.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.entries.len() >= SEGMENTS_MAX
    }

    /// Bytes that are believed to be in the network (RFC 6675 `pipe`).
    #[inline]
    #[must_use]
    pub const fn pipe(&self) -> u32 {
        self.pipe
    }

    /// Bytes that the peer has selectively.
    #[inline]
    #[must_use]
    pub const fn there(&self) -> u32 {
        self.there
    }

    /// Bytes that are lost and not sent again.
    #[inline]
    #[must_use]
    pub const fn lost(&self) -> u32 {
        self.lost
    }

    /// The first segment.
    #[inline]
    #[must_use]
    pub fn first(&self) -> Option<&Sent> {
        self.entries.front()
    }

    /// The last segment.
    #[must_use]
    pub fn last(&self) -> Option<&Sent> {
        self.entries.back()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.entries.iter()
    }

    /// A segment was sent for the first time, behind all others.
    ///
    /// # Panics
    /// If it does not begin where the last one ends.
    #[inline]
    pub fn push(&mut self, start: Seq, end: Seq, at: Instant) {
        match self.entries.back() {
            Some(last) => assert_eq!(last.end, start, "segments are sent in order"),
            // Most connections never have more.
            None if self.entries.capacity() == 0 => self.entries.reserve_exact(4),
            None => {}
        }
        if self.entries.is_empty() {
            self.again_from = start;
        }
        self.entries.push_back(Sent { at, start, end, fate: Fate::default() });
        self.pipe += end - start;
    }

    /// All before `next` is acknowledged. Each segment that is gone by it, or its part that is, is handed over as it was.
    #[inline]
    pub fn acknowledge(&mut self, next: Seq, mut each: impl FnMut(&Sent)) {
        while let Some(first) = self.entries.front_mut() {
            if !first.start.is_before(next) {
                break;
            }
            let whole = *first;
            let part = Sent { end: whole.end.earlier(next), ..whole };
            each(&part);
            self.pipe -= part.under_way();
            self.there -= if part.fate.there { part.bytes() } else { 0 };
            self.lost -= if part.fate.lost { part.bytes() } else { 0 };
            if part.end == whole.end {
                self.entries.pop_front();
            } else {
                first.start = next;
                break;
            }
        }
        // It would be far behind one day, and look as if it were ahead.
        self.again_from = self.again_from.later(next);
    }

    /// The place of the first entry that ends behind `seq`.
    fn place(&self, seq: Seq) -> usize {
        self.entries.partition_point(|entry| !entry.end.is_after(seq))
    }

    /// The peer has said that it has `blocks`. Each segment that is there for the first time is handed over as it was.
    pub fn tell(&mut self, blocks: &[SackBlock], mut each: impl FnMut(&Sent)) {
        let known = self.known;
        for block in blocks {
            // Most blocks are as the last time but for one that has grown.
            if known.iter().any(|old| block.is_in(old) && old.start.is_before(old.end)) {
                continue;
            }
            let grown = known.iter().find(|old| old.start == block.start && old.end.is_before(block.end));
            let from = grown.map_or(block.start, |old| old.end);
            // An entry across the end of what was known has not been counted: the search finds it.
            let first = self.place(from);
            for entry in self.entries.range_mut(first..) {
                if entry.end.is_after(block.end) {
                    break;
                }
                if entry.fate.there || entry.start.is_before(block.start) {
                    continue;
                }
                each(entry);
                self.pipe -= entry.under_way();
                self.lost -= if entry.fate.lost { entry.bytes() } else { 0 };
                self.there += entry.bytes();
                entry.fate = Fate { there: true, lost: false, again: false, ..entry.fate };
            }
        }
        self.known = [SackBlock::default(); 4];
        for (known, block) in self.known.iter_mut().zip(blocks) {
            *known = *block;
        }
    }

    /// Looks at segments from the first on, as far as `look` wants to: `None` ends it. Those for which it is true are lost.
    pub fn judge(&mut self, mut look: impl FnMut(&Sent) -> Option<bool>) {
        let mut first_lost = None;
        for entry in &mut self.entries {
            if entry.fate.there || entry.fate.lost {
                continue;
            }
            let Some(is_lost) = look(entry) else { break };
            if is_lost {
                self.pipe -= entry.under_way();
                self.lost += entry.bytes();
                (entry.fate.lost, entry.fate.again) = (true, false);
                first_lost = first_lost.or(Some(entry.start));
            }
        }
        if let Some(first) = first_lost {
            self.again_from = self.again_from.earlier(first);
        }
    }

    /// What the peer said that it had, it may have thrown away (RFC 2018 section 8).
    pub fn forget_told(&mut self) {
        for entry in &mut self.entries {
            if core::mem::take(&mut entry.fate.there) {
                self.there -= entry.bytes();
                self.pipe += entry.bytes();
            }
        }
        self.known = [SackBlock::default(); 4];
    }

    /// Nothing is lost after all.
    pub fn forget_lost(&mut self) {
        for entry in &mut self.entries {
            if core::mem::take(&mut entry.fate.lost) {
                self.lost -= entry.bytes();
                self.pipe += entry.bytes();
            }
        }
    }

    /// The first segment that is lost and not sent again.
    #[must_use]
    pub fn first_lost(&mut self) -> Option<Sent> {
        if self.lost == 0 {
            return None;
        }
        let from = self.place(self.again_from);
        let behind = self.entries.range(from..).find(|entry| entry.fate.lost);
        let found = behind.or_else(|| self.entries.iter().find(|entry| entry.fate.lost)).copied();
        if let Some(found) = found {
            self.again_from = found.start;
        }
        found
    }

    /// The segment that begins at `start` is sent again, up to `end` of it: a longer one becomes two.
    pub fn send_again(&mut self, start: Seq, end: Seq, at: Instant) {
        let place = self.place(start);
        let Some(entry) = self.entries.get_mut(place).filter(|entry| entry.start == start) else { return };
        let rest = Sent { start: end, ..*entry };
        if end.is_before(entry.end) {
            self.pipe -= if entry.under_way() > 0 { end - start } else { 0 };
            self.lost -= if entry.fate.lost { end - start } else { 0 };
            entry.end = end;
        } else {
            self.pipe -= entry.under_way();
            self.lost -= if entry.fate.lost { entry.bytes() } else { 0 };
        }
        entry.at = at;
        entry.fate = Fate { lost: false, again: true, ever_again: true, ..entry.fate };
        self.pipe += entry.under_way();
        if rest.start.is_before(rest.end) {
            self.entries.insert(place + 1, rest);
        }
    }
}

#[cfg(test)]
#[path = "sent_tests.rs"]
mod tests;
