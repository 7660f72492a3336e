//! What an interrupt line remembers from one unmask to the next.

use crate::sync::{AtomicU32, Ordering, Point, full_fence};

/// The latch of an interrupt line that is raised once per unmask, with what coalescing needs: how many arrivals were
/// announced, and whether the timer was started for them. Begins a cache line, for it changes with the traffic.
///
/// A producer publishes, makes a full fence, sees the interrupt unmasked ([`wants_interrupt`](crate::memif)), and then:
///
/// 1. [`is_raised`](Self::is_raised): an interrupt is on its way, which stands for this arrival too;
/// 2. [`count`](Self::count), and only then it reads the rule of coalescing;
/// 3. by that rule either [`raise`](Self::raise) or [`start_timer`](Self::start_timer).
///
/// The consumer calls [`reset`](Self::reset), then unmasks, makes a full fence and looks at its queue. Who changes the
/// rule asks [`waits`](Self::waits) afterwards, and who hears the timer asks [`timer_fired`](Self::timer_fired). A
/// producer that is held up between two steps can cause an interrupt too many, never one too few.
#[derive(Default)]
#[repr(align(64))]
pub struct IrqLatch {
    /// 1 = an interrupt was raised since the last unmask.
    raised: AtomicU32,
    /// Arrivals announced since the last mask or unmask.
    pending: AtomicU32,
    /// 1 = the timer was started for them.
    timer_started: AtomicU32,
}

impl IrqLatch {
    /// Nothing raised, nothing announced.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether an interrupt is on its way.
    #[must_use]
    #[inline]
    pub fn is_raised(&self) -> bool {
        // Relaxed: ordered by the fence between publishing and the look at the mask, which pairs with the one in the
        // consumer's unmask, after `reset`.
        self.raised.load(Ordering::Relaxed) != 0
    }

    /// Makes the next interrupt the caller's to raise; false if it is on its way.
    #[must_use = "true means that the caller has to raise the interrupt"]
    #[inline]
    pub fn raise(&self) -> bool {
        // AcqRel: pairs with itself in the other claimant, so that one alone raises.
        self.raised.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Announces `arrivals`; how many there are since the last mask or unmask. The caller reads the rule after this.
    #[inline]
    pub fn count(&self, arrivals: u32) -> u32 {
        let pending = self.pending.fetch_add(arrivals, Ordering::Relaxed).saturating_add(arrivals);
        // Pairs with the fences in `waits` and `timer_fired`.
        full_fence(Point::IrqCount);
        pending
    }

    /// Makes the timer the caller's to start; false if it was started.
    #[must_use = "true means that the caller has to start the timer"]
    #[inline]
    pub fn start_timer(&self) -> bool {
        self.timer_started.swap(1, Ordering::Relaxed) == 0
    }

    /// The timer fired. `true` = this is an interrupt, now raised; `false` = it was overtaken by one, or by a mask.
    #[must_use = "true means that this is an interrupt"]
    #[inline]
    pub fn timer_fired(&self) -> bool {
        // First, and whatever the answer: a producer that was held up may start the timer for what has been taken
        // meanwhile. The next arrival needs a timer of its own then.
        self.timer_started.store(0, Ordering::Relaxed);
        // Pairs with the fence in `count`: either that arrival is seen here, or the timer is found not started there.
        full_fence(Point::IrqTimer);
        self.pending.load(Ordering::Relaxed) > 0 && self.raise()
    }

    /// Whether arrivals wait by an older rule, asked after the rule was changed.
    #[must_use]
    #[inline]
    pub fn waits(&self) -> bool {
        // Pairs with the fence in `count`: either that arrival is seen here, or the new rule there.
        full_fence(Point::IrqRule);
        self.pending.load(Ordering::Relaxed) > 0
    }

    /// The consumer is about to unmask: from here on a new interrupt may come.
    #[inline]
    pub fn reset(&self) {
        // Relaxed: ordered before the producer's next look by the fence that follows the unmask.
        self.pending.store(0, Ordering::Relaxed);
        self.timer_started.store(0, Ordering::Relaxed);
        self.raised.store(0, Ordering::Relaxed);
    }

    /// The consumer has masked: a timer that still runs means nothing now. What it was started for is found by the polls
    /// up to the next unmask, or by the look after that.
    #[inline]
    pub fn quiet(&self) {
        self.pending.store(0, Ordering::Relaxed);
    }
}
