//! The word of an interrupt that is raised through a descriptor which the peer has as well.
//!
//! A peer can make the write to such a descriptor wait. So who raises it says so before and after, and a guard that holds
//! no lock watches: what is under way for too long it frees. Who closes the peer *retires* the word first: from then on
//! no thread writes, and once nothing is under way none ever will.
//!
//! | | begin | end | retire |
//! |---|---|---|---|
//! | idle | under way: write | - | retired |
//! | under way | - (one thread at a time) | idle | under way and retired: the guard frees it |
//! | retired | retired: do not write | retired | - |

use crate::sync::{AtomicU64, Ordering, Point, order};

/// Set once the peer is being closed. The bits below count rings begun and ended: odd = one is under way.
const RETIRED: u64 = 1 << 63;

/// Who rings, and whether any thread still may. One thread at a time begins and ends; any thread looks or retires.
pub struct KickWord {
    word: AtomicU64,
}

impl Default for KickWord {
    fn default() -> Self {
        Self::new()
    }
}

impl KickWord {
    /// No thread rings.
    #[must_use]
    pub fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Says that a ring is under way. `false` = the word is retired: do not write, and do not call [`end`](Self::end).
    #[must_use = "false means that it may not be written any more"]
    #[inline]
    pub fn begin(&self) -> bool {
        // Relaxed: one word, changed by read-modify-writes alone, so this is either before the retirement, which then sees
        // it, or after, and sees that.
        let before = self.word.fetch_add(1, Ordering::Relaxed);
        let may_ring = before & RETIRED == 0;
        if !may_ring {
            self.end();
        }
        may_ring
    }

    /// The ring that was begun is over.
    #[inline]
    pub fn end(&self) {
        // Release: pairs with the Acquire in `look`: who sees that it is over sees nothing of it afterwards.
        self.word.fetch_add(1, order(Point::KickEnd, Ordering::Release));
    }

    /// No thread begins to ring from now on. One that is under way may be for some time: see [`look`](Self::look).
    pub fn retire(&self) {
        // Relaxed: see `begin`; what was done by rings is seen by `look`.
        self.word.fetch_or(RETIRED, Ordering::Relaxed);
    }

    /// What is under way now.
    #[must_use]
    pub fn look(&self) -> KickLook {
        // Acquire: pairs with the Release in `end`.
        KickLook(self.word.load(order(Point::KickLook, Ordering::Acquire)))
    }
}

/// What was seen of a [`KickWord`]. Two that are equal, with a ring under way, saw the same ring.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct KickLook(u64);

impl KickLook {
    /// Whether a ring is under way.
    #[must_use]
    pub fn is_under_way(self) -> bool {
        self.0 % 2 == 1
    }

    /// Whether none begins any more. What is not under way then never will be.
    #[must_use]
    pub fn is_retired(self) -> bool {
        self.0 & RETIRED != 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_ring_is_told_from_the_one_before() {
        let word = KickWord::new();
        assert!(!word.look().is_under_way());
        assert!(word.begin());
        let first = word.look();
        assert!(first.is_under_way() && first == word.look());
        word.end();
        assert!(!word.look().is_under_way());
        assert!(word.begin());
        assert!(word.look().is_under_way() && word.look() != first);
        word.end();
    }

    #[test]
    fn nobody_begins_once_it_is_retired() {
        let word = KickWord::new();
        assert!(word.begin());
        word.retire();
        assert!(word.look().is_under_way() && word.look().is_retired());
        word.end();
        for _ in 0..3 {
            assert!(!word.begin());
            assert!(!word.look().is_under_way() && word.look().is_retired());
        }
    }
}
