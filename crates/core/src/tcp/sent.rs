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
//! What an acknowledgement costs depends on what it changes, not on how much is under way: segments stand in lines by when they were sent and by
//! what is lost (`entries`), and what is known to be there is known as runs of numbers, of which only the gaps between them are looked at.
//!
//! A selective block counts for an entry if it covers all of it: a receiver keeps segments as they were sent, and what it says of a part of
//! one is not needed (RFC 2018 section 8: it is advice). So what a peer says never makes entries, and there are at most
//! [`SEGMENTS_MAX`] of them and those that a path with shorter packets made of one.

mod entries;

use crate::tcp::ranges::SackBlock;
use crate::tcp::runs::Runs;
use crate::tcp::seq::Seq;
use crate::time::Instant;
use entries::Entries;

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

/// Whether one that was sent at `a.0` and ends at `a.1` was sent after the other. Source: `net/ipv4/tcp_input.c tcp_rack_sent_after`.
#[inline]
pub(super) const fn is_sent_after(a: (Instant, Seq), b: (Instant, Seq)) -> bool {
    a.0.ns > b.0.ns || a.0.ns == b.0.ns && a.1.is_after(b.1)
}

/// All segments under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SentQueue {
    entries: Entries,
    /// Bytes under way.
    pipe: u32,
    /// Bytes that are there, selectively.
    there: u32,
    /// Bytes that are lost and not sent again.
    lost: u32,
    /// The numbers of those that are there.
    told: Runs,
}

impl SentQueue {
    /// Nothing is under way.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.len() == 0
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
        self.entries.get(0)
    }

    /// The last segment.
    #[must_use]
    pub fn last(&self) -> Option<&Sent> {
        self.entries.last()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.entries.iter()
    }

    /// The first segment that is lost and not sent again.
    #[must_use]
    pub fn first_lost(&self) -> Option<&Sent> {
        self.entries.first_lost()
    }

    /// Whether the segment that has this number was sent again at some time.
    #[must_use]
    pub fn was_sent_again(&self, seq: Seq) -> bool {
        let sent = self.entries.get(self.entries.behind(seq));
        sent.is_some_and(|sent| !sent.start.is_after(seq) && sent.fate.ever_again)
    }

    /// A segment was sent for the first time, behind all others.
    ///
    /// # Panics
    /// If it does not begin where the last one ends.
    #[inline]
    pub fn push(&mut self, start: Seq, end: Seq, at: Instant) {
        if let Some(last) = self.entries.last() {
            assert_eq!(last.end, start, "segments are sent in order");
        }
        self.entries.push(Sent { at, start, end, fate: Fate::default() });
        self.pipe += end - start;
    }

    /// All before `next` is acknowledged. Each segment that is gone by it, or its part that is, is handed over as it was.
    #[inline]
    pub fn acknowledge(&mut self, next: Seq, mut each: impl FnMut(&Sent)) {
        while let Some(whole) = self.entries.get(0).copied() {
            if !whole.start.is_before(next) {
                break;
            }
            let part = Sent { end: whole.end.earlier(next), ..whole };
            each(&part);
            self.pipe -= part.under_way();
            self.there -= if part.fate.there { part.bytes() } else { 0 };
            self.lost -= if part.fate.lost { part.bytes() } else { 0 };
            if part.end == whole.end {
                self.entries.pop_front();
            } else {
                self.entries.shorten_first(next);
                break;
            }
        }
        self.told.drop_before(next);
    }

    /// The peer has said that it has `blocks`. Each segment that is there for the first time is handed over as it was.
    pub fn tell(&mut self, blocks: &[SackBlock], mut each: impl FnMut(&Sent)) {
        for block in blocks {
            let mut from = block.start;
            // A gap between two runs is closed in each turn.
            for _ in 0..=self.told.len() {
                if !from.is_before(block.end) {
                    break;
                }
                let (gap_end, next) = match self.told.first_behind(from) {
                    Some(run) if run.start.is_before(block.end) => (run.start, run.end),
                    _ => (block.end, block.end),
                };
                if from.is_before(gap_end) {
                    self.fill(SackBlock { start: from, end: gap_end }, &mut each);
                }
                from = next;
            }
        }
    }

    /// All whole segments of a gap, none of which is there, are there from now on.
    fn fill(&mut self, gap: SackBlock, each: &mut impl FnMut(&Sent)) {
        let mut filled: Option<SackBlock> = None;
        for at in self.entries.behind(gap.start)..self.entries.len() {
            self.entries.look();
            let Some(sent) = self.entries.get(at).copied().filter(|sent| !sent.end.is_after(gap.end)) else { break };
            if sent.fate.there || sent.start.is_before(gap.start) {
                continue;
            }
            each(&sent);
            self.pipe -= sent.under_way();
            self.lost -= if sent.fate.lost { sent.bytes() } else { 0 };
            self.there += sent.bytes();
            let fate = Fate { there: true, lost: false, again: false, ..sent.fate };
            self.entries.change(at, Sent { fate, ..sent });
            filled = Some(SackBlock { start: filled.map_or(sent.start, |filled| filled.start), end: sent.end });
        }
        if let Some(filled) = filled {
            self.told.join(filled);
        }
    }

    /// Looks at what is under way in the order in which it was sent, and takes it for lost up to the first that is not.
    pub fn lose_oldest(&mut self, mut is_lost: impl FnMut(&Sent) -> bool) {
        let mut next = self.entries.oldest();
        while let Some(at) = next {
            self.entries.look();
            if !self.entries.get(at).is_some_and(&mut is_lost) {
                break;
            }
            next = self.entries.younger(at);
            self.lose(at);
        }
    }

    /// Looks at all that is under way.
    #[cold]
    pub fn lose_each(&mut self, mut is_lost: impl FnMut(&Sent) -> bool) {
        let Self { entries, pipe, lost, .. } = self;
        entries.remake(|mut sent, keep| {
            if sent.under_way() > 0 && is_lost(&sent) {
                *pipe -= sent.bytes();
                *lost += sent.bytes();
                (sent.fate.lost, sent.fate.again) = (true, false);
            }
            keep(sent);
        });
    }

    /// The first segment is lost, if it is under way.
    pub fn lose_first(&mut self) {
        if self.first().is_some_and(|first| first.under_way() > 0) {
            self.lose(0);
        }
    }

    /// One that is under way is lost.
    fn lose(&mut self, at: usize) {
        let Some(sent) = self.entries.get(at).copied() else { return };
        self.pipe -= sent.under_way();
        self.lost += sent.bytes();
        self.entries.change(at, Sent { fate: Fate { lost: true, again: false, ..sent.fate }, ..sent });
    }

    /// What the peer said that it had, it may have thrown away (RFC 2018 section 8).
    #[cold]
    pub fn forget_told(&mut self) {
        let Self { entries, pipe, there, told, .. } = self;
        entries.remake(|mut sent, keep| {
            if core::mem::take(&mut sent.fate.there) {
                *there -= sent.bytes();
                *pipe += sent.bytes();
            }
            keep(sent);
        });
        told.clear();
    }

    /// Nothing is lost after all.
    #[cold]
    pub fn forget_lost(&mut self) {
        let Self { entries, pipe, lost, .. } = self;
        entries.remake(|mut sent, keep| {
            if core::mem::take(&mut sent.fate.lost) {
                *lost -= sent.bytes();
                *pipe += sent.bytes();
            }
            keep(sent);
        });
    }

    /// Segments may have `full` bytes from now on; those under way that have more are lost, and what is lost is cut. A FIN, which stands at
    /// `data_end` or behind it, needs no room. Whether something is lost by that.
    #[cold]
    pub fn cut(&mut self, full: u32, data_end: Seq) -> bool {
        let full = full.max(1);
        let before = self.lost;
        let too_long = |sent: &Sent| sent.end.earlier(data_end).beyond(sent.start) > full;
        self.lose_each(too_long);
        self.entries.remake(|mut sent, keep| {
            while sent.fate.lost && too_long(&sent) {
                let middle = sent.start + full;
                keep(Sent { end: middle, ..sent });
                sent.start = middle;
            }
            keep(sent);
        });
        self.lost > before
    }

    /// The segment that begins at `start` is sent again, up to `end` of it: a longer one becomes two.
    pub fn send_again(&mut self, start: Seq, end: Seq, at: Instant) {
        let place = self.entries.behind(start);
        let Some(mut sent) = self.entries.get(place).copied().filter(|sent| sent.start == start) else { return };
        if end.is_before(sent.end) {
            self.entries.split(place, end);
            sent.end = end;
        }
        self.pipe -= sent.under_way();
        self.lost -= if sent.fate.lost { sent.bytes() } else { 0 };
        let fate = Fate { lost: false, again: true, ever_again: true, ..sent.fate };
        let again = Sent { at, fate, ..sent };
        self.entries.change(place, again);
        self.pipe += again.under_way();
    }
}

#[cfg(test)]
#[path = "sent_tests.rs"]
mod tests;
