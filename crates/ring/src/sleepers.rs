//! How many threads sleep behind one [`Doorbell`].

use crate::Doorbell;
use crate::sync::{AtomicU32, Ordering, Point, fence_of, newest};

/// Threads between their announcement and the end of their sleep.
///
/// The bell is one word, so the thread that rings it silences it for all that sleep; a thread has to know that there are others.
/// A sleeper: [`enter`](Self::enter), [`announce`](Self::announce) and arm the bell, sleep, [`leave`](Self::leave).
/// A ringer that took the announcement asks [`any`](Self::any), a sleeper that was woken
/// [`any_behind`](Self::any_behind): both see every sleeper whose announcement was taken off the bell before.
#[derive(Default)]
pub struct Sleepers {
    count: AtomicU32,
}

impl Sleepers {
    /// No thread sleeps.
    #[must_use]
    pub fn new() -> Self {
        Self { count: AtomicU32::new(0) }
    }

    /// The caller is about to sleep.
    pub fn enter(&self) {
        // Relaxed: `announce` shows it.
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Before each time that the caller arms the bell.
    pub fn announce(&self) {
        // Release: pairs with the Acquire of the ring, for `any`, and with that in `any_behind`, by way of the bell.
        fence_of(Point::SleeperAnnounce, Ordering::Release);
    }

    /// The caller does not sleep any more.
    pub fn leave(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a thread sleeps, as far as is known.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether a thread sleeps, asked by who has just taken the announcement off the bell.
    #[must_use]
    #[inline]
    pub fn any(&self) -> bool {
        // Relaxed: the ring has read what was stored after `announce`, with an AcqRel swap.
        self.count() > 0
    }

    /// Whether a thread sleeps whose announcement was taken off `bell` before, by a ring that woke the caller or not.
    ///
    /// A plain load of the bell could read what was there before that ring, and the count then may be older as well.
    #[must_use]
    #[inline]
    pub fn any_behind(&self, bell: &Doorbell) -> bool {
        // The newest value, Acquire: pairs with the AcqRel swap of the ring, which read what was stored after `announce`.
        // A ring that comes later wakes a thread, who asks again.
        newest(bell.word(), Point::HandOnLook);
        self.count() > 0
    }
}
