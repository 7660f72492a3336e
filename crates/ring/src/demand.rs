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
