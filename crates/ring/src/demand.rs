//! What is wanted of the thread that publishes news.

use crate::sync::{AtomicU32, Ordering, Point, full_fence};

/// Bits that say which news are wanted; 0 = none.
///
/// Who wants more: [`change`](Self::change), then look whether there are news already. Who has news: publish them, then
/// [`after_news`](Self::after_news), and tell those who want them. One of the two sees the other.
#[derive(Default)]
pub struct Demand {
    bits: AtomicU32,
}

impl Demand {
    /// `bits` are wanted.
    #[must_use]
    pub fn new(bits: u32) -> Self {
        Self { bits: AtomicU32::new(bits) }
    }

    /// `bits` are wanted from now on. The caller looks for news after this, not before.
    #[inline]
    pub fn change(&self, bits: u32) {
        self.bits.store(bits, Ordering::Relaxed);
        // Pairs with the fence in `after_news`.
        full_fence(Point::DemandChange);
    }

    /// As [`change`](Self::change), where nothing more is wanted than before: there is nothing to look for.
    #[inline]
    pub fn reduce(&self, bits: u32) {
        self.bits.store(bits, Ordering::Relaxed);
    }

    /// What is wanted, as far as is known.
    #[must_use]
    #[inline]
    pub fn get(&self) -> u32 {
        self.bits.load(Ordering::Relaxed)
    }

    /// What is wanted, asked after news were published. The fence stands also for what the caller looks at after this:
    /// other demands, and [`ReadyQueue::offer`](crate::ReadyQueue::offer).
    #[must_use]
    #[inline]
    pub fn after_news(&self) -> u32 {
        // Pairs with the fences in `change` and in `ReadyQueue::release`: each of those makes a change and then looks for
        // news; these news are published, and now the change is looked at.
        full_fence(Point::DemandNews);
        self.get()
    }
}

/// Bits that say which news are wanted once: who takes them tells, and they are wanted no more.
///
/// Who wants: [`want`](Self::want), then look whether there are news already. Who has news: publish them, then a full fence
/// ([`Demand::after_news`]), then [`take`](Self::take), and tell for what it gives. One of the two sees the other. What the wanting thread wrote
/// before, such as whom to tell, the telling one sees.
#[derive(Default)]
pub struct DemandOnce {
    bits: AtomicU32,
}

impl DemandOnce {
    /// `bits` are wanted as well, once. The caller looks for news after this, not before.
    #[inline]
    pub fn want(&self, bits: u32) {
        // Release: shows what was written before to `take`. Acquire: if `take` was first, its news are seen by the look that follows.
        // The two fences alone would do for one teller; with these, what is handed over does not hang on where the caller has its fence.
        self.bits.fetch_or(bits, Ordering::AcqRel);
        // Pairs with the fence before `take`.
        full_fence(Point::OnceWant);
    }

    /// Those of `bits` that are wanted, which are not any more.
    #[must_use = "who wants them is to be told"]
    #[inline]
    pub fn take(&self, bits: u32) -> u32 {
        // Relaxed: the fences of both sides order this look.
        if self.bits.load(Ordering::Relaxed) & bits == 0 {
            return 0;
        }
        // AcqRel: pairs with `want`.
        self.bits.fetch_and(!bits, Ordering::AcqRel) & bits
    }
}
