//! When a thread that serves many deadlines has to wake up earlier than it meant to.

use crate::sync::{AtomicU64, Ordering, Point, order};

/// The earliest time that was asked for, and the time until which the thread sleeps.
///
/// Who asks: leave the request where the thread finds it, [`ask`](Self::ask), and wake the thread if that is true. The
/// thread: [`begin`](Self::begin), take the requests, [`sleep_until`](Self::sleep_until) the first of all that it has, and
/// sleep as one does behind a [`Doorbell`](crate::Doorbell), unless something [is sooner](Self::is_sooner).
pub struct Alarm {
    /// The earliest time asked for since `begin`.
    sooner: AtomicU64,
    sleeps_until: AtomicU64,
}

impl Alarm {
    /// No time, later than all.
    pub const NEVER: u64 = u64::MAX;

    /// It was not asked, and the thread sleeps until it is woken.
    #[must_use]
    pub fn new() -> Self {
        Self { sooner: AtomicU64::new(Self::NEVER), sleeps_until: AtomicU64::new(Self::NEVER) }
    }

    /// Asks for `at`. `true` = the thread may sleep too long: wake it.
    #[must_use = "true means that the caller has to wake the thread"]
    #[inline]
    pub fn ask(&self, at: u64) -> bool {
        // SeqCst, both: with the store in `sleep_until` and the load in `is_sooner`. Either the thread sees our time before it
        // sleeps, or we see until when it sleeps. Also a Release that shows the request, which pairs with `begin`.
        let earlier = self.sooner.fetch_min(at, Ordering::SeqCst);
        at < earlier && at < self.sleeps_until.load(order(Point::AlarmAsk, Ordering::SeqCst))
    }

    /// The thread is about to take the requests: those of all who have asked so far are there.
    #[inline]
    pub fn begin(&self) {
        // Acquire (of SeqCst): pairs with `ask`.
        self.sooner.swap(Self::NEVER, order(Point::AlarmBegin, Ordering::SeqCst));
    }

    /// The thread is about to sleep until `at`, unless something [is sooner](Self::is_sooner).
    #[inline]
    pub fn sleep_until(&self, at: u64) {
        // SeqCst: see `ask`.
        self.sleeps_until.store(at, Ordering::SeqCst);
    }

    /// Whether something before `at` was asked for.
    #[must_use]
    #[inline]
    pub fn is_sooner(&self, at: u64) -> bool {
        // SeqCst: see `ask`.
        self.sooner.load(order(Point::AlarmLook, Ordering::SeqCst)) < at
    }
}

impl Default for Alarm {
    fn default() -> Self {
        Self::new()
    }
}
