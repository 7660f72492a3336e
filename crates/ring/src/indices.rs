//! The arithmetic of a ring's indices, whatever their width and wherever they are stored.
//!
//! Each side has an index of its own, which it publishes, and looks at the other's, which it believes only as far as it can
//! be. All of them count on and wrap; what lies between two of them is never more than a ring.
//!
//! | side | of its slots | holds |
//! |---|---|---|
//! | the one that fills | `seen` emptied, `published` shown, `next` filled | `seen <= published <= next` |
//! | the one that empties | `published` given back, `next` emptied, `seen` filled | `published <= next <= seen` |

/// A number that wraps.
pub(crate) trait Index: Copy + Ord {
    /// Nothing between two.
    const ZERO: Self;

    /// The one after it.
    fn following(self) -> Self;

    /// How far it is ahead of another.
    fn since(self, earlier: Self) -> Self;
}

macro_rules! index {
    ($($of:ty),*) => {$(
        impl Index for $of {
            const ZERO: Self = 0;

            #[inline]
            fn following(self) -> Self {
                self.wrapping_add(1)
            }

            #[inline]
            fn since(self, earlier: Self) -> Self {
                self.wrapping_sub(earlier)
            }
        }
    )*};
}

index!(u16, u32);

/// The other side's index says more than the ring can hold.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct BadIndex;

/// The indices of one side.
pub(crate) struct Indices<I> {
    next: I,
    /// What the other side knows of `next`.
    published: I,
    /// The other side's, checked.
    seen: I,
    errors: u64,
}

impl<I: Index> Indices<I> {
    /// Of a ring that is empty.
    pub(crate) fn new(start: I) -> Self {
        Self { next: start, published: start, seen: start, errors: 0 }
    }

    /// The next slot.
    #[inline]
    pub(crate) fn next(&self) -> I {
        self.next
    }

    /// How far the other side is, as far as is known.
    #[inline]
    pub(crate) fn seen(&self) -> I {
        self.seen
    }

    /// How far the other side knows this one to be.
    #[inline]
    pub(crate) fn published(&self) -> I {
        self.published
    }

    /// On the side that empties: no slot is filled, as far as is known.
    #[inline]
    pub(crate) fn is_level(&self) -> bool {
        self.next == self.seen
    }

    /// Ends with the next slot.
    #[inline]
    pub(crate) fn step(&mut self) -> I {
        let index = self.next;
        self.next = index.following();
        index
    }

    /// Shows the other side how far this one is, by `store`; returns by how many slots that is more than before.
    #[inline]
    pub(crate) fn publish(&mut self, store: impl FnOnce(I)) -> I {
        let news = self.next.since(self.published);
        if news > I::ZERO {
            store(self.next);
            self.published = self.next;
        }
        news
    }

    /// On the side that fills: the other says that it has emptied slots before `index`.
    #[inline]
    pub(crate) fn see_emptied(&mut self, index: I) -> Result<(), BadIndex> {
        if self.published.since(index) > self.published.since(self.seen) {
            return Err(BadIndex);
        }
        self.seen = index;
        Ok(())
    }

    /// On the side that empties: the other says that it has filled slots before `index` of a ring with `slots`.
    #[inline]
    pub(crate) fn see_filled(&mut self, index: I, slots: I) -> Result<(), BadIndex> {
        let filled = index.since(self.published);
        if filled > slots || filled < self.seen.since(self.published) {
            return Err(BadIndex);
        }
        self.seen = index;
        Ok(())
    }

    /// Counts an index that cannot be; what was known stays.
    #[inline]
    pub(crate) fn count(&mut self, seen: Result<(), BadIndex>) {
        if seen.is_err() {
            self.errors += 1;
        }
    }

    /// Times that the other side's index was impossible.
    #[inline]
    pub(crate) fn errors(&self) -> u64 {
        self.errors
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// All that the other side can say near the wrap, for 3 slots shown of which 1 is known to be emptied, of a ring of 4.
    #[test]
    fn only_what_can_be_is_believed() {
        let fresh = || {
            let mut filling = Indices::<u16>::new(u16::MAX - 1);
            (0..3).for_each(|_| _ = filling.step());
            filling.publish(|_| ());
            filling.see_emptied(u16::MAX).expect("it can be");
            filling
        };
        for index in 0..=u16::MAX {
            let can_be = [u16::MAX, 0, 1].contains(&index);
            assert_eq!(fresh().see_emptied(index).is_ok(), can_be, "{index}");
        }
        for index in 0..=u16::MAX {
            let mut emptying = Indices::<u16>::new(u16::MAX - 1);
            emptying.see_filled(u16::MAX, 4).expect("it can be");
            let can_be = [u16::MAX, 0, 1, 2].contains(&index);
            assert_eq!(emptying.see_filled(index, 4).is_ok(), can_be, "{index}");
        }
    }

    #[test]
    fn news_are_published_once() {
        let mut side = Indices::<u32>::new(u32::MAX);
        let mut shown = Vec::new();
        assert_eq!(side.publish(|index| shown.push(index)), 0);
        (0..2).for_each(|_| _ = side.step());
        assert_eq!((side.publish(|index| shown.push(index)), side.publish(|_| unreachable!())), (2, 0));
        assert_eq!((shown, side.published()), (vec![1], 1));
    }
}
