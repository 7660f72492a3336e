//! The transitions. Each says which kernel function it restates (Linux 7.3).

use core::fmt;

use super::{Poller, State, Threaded};
use crate::time::Span;

/// `enable` was called on an instance that is not disabled. The kernel stops the machine (`BUG_ON` in
/// `net/core/dev.c napi_enable_locked`); here the caller gets the word that it found.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct NotDisabled(
    /// The word as it was found.
    pub State,
);

impl fmt::Display for NotDisabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the NAPI instance is already enabled (state {:?}): disable it before enabling it again", self.0)
    }
}

impl core::error::Error for NotDisabled {}

/// Answer of [`State::stop_thread_claim`].
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum StopThread {
    /// Store this word: the mode bits are clear. Then wait until [`State::stop_thread_done`] and stop the thread.
    Cleared(State),
    /// Another than the thread owns the instance: wait [`STOP_THREAD_PAUSE`] and ask again.
    Busy,
}

/// Pause between two attempts to stop a thread: 20 ms. Source: `net/core/dev.c napi_stop_kthread`.
pub const STOP_THREAD_PAUSE: Span = Span::from_ms(20);
/// Shortest pause between two attempts to disable, 20 µs. Source: `net/core/dev.c napi_disable_locked`.
pub const DISABLE_PAUSE_MIN: Span = Span::from_us(20);
/// Longest pause between two attempts to disable, 200 µs. Source: `net/core/dev.c napi_disable_locked`.
pub const DISABLE_PAUSE_MAX: Span = Span::from_us(200);

impl State {
    /// Takes ownership for a device event; `true` if the caller became owner (and must schedule). On an owned instance
    /// it leaves `MISSED` behind; that happens on a fully disabled one as well, so the first completion after enable
    /// polls once more. With a disable pending nothing changes. Source: `net/core/dev.c napi_schedule_prep`.
    #[inline]
    #[must_use]
    pub const fn schedule_prep(self) -> (Self, bool) {
        if self.intersects(Self::DISABLE) {
            return (self, false);
        }
        let owned = self.intersects(Self::SCHED);
        let next = self.with(Self::SCHED);
        (if owned { next.with(Self::MISSED) } else { next }, !owned)
    }

    /// Hands an owned instance to who polls it next, and says who that is: with `THREADED` its thread, or the pool, by
    /// `SCHED_THREADED`; else softirq. The kernel looks at the mode first and sets the bit later; here both, and who acts
    /// on the bit, are one change, so that no thread can act on a mode that is gone. A disabled instance is never threaded,
    /// so a thread that does not exist is never named. Source: `net/core/dev.c ____napi_schedule`.
    ///
    /// # Panics
    /// If the instance has no owner, or it belongs to a group ([`State::to_group`] is asked first).
    #[inline]
    pub const fn schedule(self) -> (Self, Poller) {
        assert!(self.intersects(Self::SCHED), "only an owned instance can be scheduled");
        assert!(!self.intersects(Self::GROUP), "a member of a group is given to the group");
        if !self.intersects(Self::THREADED) {
            (self, Poller::Softirq)
        } else if self.intersects(Self::POOL) {
            (self.with(Self::SCHED_THREADED), Poller::Pool)
        } else {
            (self.with(Self::SCHED_THREADED), Poller::Thread)
        }
    }

    /// Says who acts on `SCHED_THREADED` from now on: the pool, or the instance's own thread. Between the end of one mode
    /// and the begin of another.
    ///
    /// # Panics
    /// If the instance is threaded, or its thread or the pool still owns it.
    #[inline]
    #[must_use]
    pub const fn run_by_pool(self, pool: bool) -> Self {
        assert!(
            !self.intersects(Self::THREADED.with(Self::SCHED_THREADED)),
            "the runner changes only while no mode is set and no runner owns the instance"
        );
        if pool { self.with(Self::POOL) } else { self.without(Self::POOL) }
    }

    /// The thread has to poll again although its mode was taken away: it gives `SCHED_THREADED` up, stays owner for the
    /// moment and schedules the instance, which softirq then polls. `None`: go on, the mode stands. The kernel's thread
    /// goes on until a completion, and the one that stops it waits as long.
    ///
    /// # Panics
    /// If the thread does not own the instance.
    #[inline]
    #[must_use]
    pub const fn thread_leave(self) -> Option<Self> {
        assert!(self.contains(Self::SCHED.with(Self::SCHED_THREADED)), "only its thread can leave an instance");
        if self.intersects(Self::THREADED) {
            return None;
        }
        Some(self.without(Self::SCHED_THREADED).without(Self::IN_BUSY_POLL))
    }

    /// The instance's timer fired. `Some`: the timer's context is now the owner and must schedule. `None`: do nothing,
    /// not even re-arm; a disable is pending or the instance has an owner. A firing timer is no device event, so
    /// `MISSED` is never set. Source: `net/core/dev.c napi_watchdog`.
    #[inline]
    #[must_use]
    pub const fn timer_acquire(self) -> Option<Self> {
        if self.intersects(Self::DISABLE.with(Self::SCHED)) {
            return None;
        }
        Some(self.with(Self::SCHED).without(Self::PREFER_BUSY_POLL))
    }

    /// A busy poller tries to become owner; to be applied with one single compare-and-swap attempt. `None`: not now
    /// (the poller looks at its end condition and tries again); never one of a group, even while its interrupt is armed.
    /// Source: `net/core/dev.c __napi_busy_loop`.
    #[inline]
    #[must_use]
    pub const fn busy_acquire(self) -> Option<Self> {
        if self.intersects(Self::DISABLE.with(Self::SCHED).with(Self::IN_BUSY_POLL).with(Self::GROUP)) {
            return None;
        }
        Some(self.with(Self::SCHED).with(Self::IN_BUSY_POLL))
    }

    /// A prefer-busy-poll user failed to become owner and says that it waits. Only such a loser sets the bit. Source:
    /// `net/core/dev.c __napi_busy_loop`. Unlike there, an instance that is disabled or about to be is left alone: the
    /// bit would otherwise outlive the disable that has just cleared it. So is one of a group, which does not wait.
    #[inline]
    #[must_use]
    pub const fn busy_contended(self) -> Self {
        if self.intersects(Self::DISABLE.with(Self::NPSVC).with(Self::GROUP)) {
            self
        } else {
            self.with(Self::PREFER_BUSY_POLL)
        }
    }

    /// A busy poller begins to stop: events seen so far are covered by what follows. Source: `net/core/dev.c
    /// busy_poll_stop`.
    ///
    /// # Panics
    /// If no program busy polls the instance, or its thread does.
    #[inline]
    #[must_use]
    pub const fn busy_stop_begin(self) -> Self {
        assert!(self.contains(Self::SCHED.with(Self::IN_BUSY_POLL)), "only the busy poller can stop busy polling");
        assert!(!self.intersects(Self::SCHED_THREADED), "the thread leaves busy polling by thread_turn");
        self.without(Self::MISSED).without(Self::IN_BUSY_POLL)
    }

    /// The timer path of a busy-poll stop gives ownership up; the caller arms the timer next, never before. `MISSED`
    /// set since [`State::busy_stop_begin`] stays: the timer's poll finds the event, and completes once more than
    /// needed. Source: `net/core/dev.c busy_poll_stop`.
    ///
    /// # Panics
    /// If the instance is not owned by the busy poller that is stopping.
    #[inline]
    #[must_use]
    pub const fn busy_stop_release(self) -> Self {
        assert!(self.intersects(Self::SCHED), "only an owned instance can be released");
        assert!(
            !self.intersects(Self::IN_BUSY_POLL.with(Self::SCHED_THREADED).with(Self::NPSVC)),
            "busy_stop_begin comes first, and the releaser is the busy poller"
        );
        self.without(Self::SCHED)
    }

    /// True if a completion must be refused: the instance is busy polled, a group's, or disabled. Source: `net/core/dev.c
    /// napi_complete_done`.
    #[inline]
    #[must_use]
    pub const fn complete_refused(self) -> bool {
        self.intersects(Self::NPSVC.with(Self::IN_BUSY_POLL).with(Self::GROUP))
    }

    /// Gives ownership up; `true` if `MISSED` was set, and then `SCHED` is kept: the caller is still owner and must
    /// schedule again. Source: `net/core/dev.c napi_complete_done`.
    ///
    /// # Panics
    /// If the instance is not owned, or a completion is refused.
    #[inline]
    #[must_use]
    pub const fn complete_release(self) -> (Self, bool) {
        assert!(self.intersects(Self::SCHED), "only an owned instance can be completed");
        assert!(!self.complete_refused(), "a refused completion must not release");
        let missed = self.intersects(Self::MISSED);
        let gone = Self::MISSED.with(Self::SCHED).with(Self::SCHED_THREADED).with(Self::PREFER_BUSY_POLL);
        let next = self.without(gone);
        (if missed { next.with(Self::SCHED) } else { next }, missed)
    }

    /// The thread begins a turn as owner: `IN_BUSY_POLL` becomes what the mode wants (a pending disable wants it off).
    /// The answer is `true` if this turn busy polls. Source: `net/core/dev.c napi_threaded_poll`.
    ///
    /// # Panics
    /// If the thread is not the owner.
    #[inline]
    #[must_use]
    pub const fn thread_turn(self) -> (Self, bool) {
        assert!(self.contains(Self::SCHED.with(Self::SCHED_THREADED)), "the thread may poll only as owner");
        let busy = self.intersects(Self::THREADED_BUSY_POLL) && !self.intersects(Self::DISABLE);
        (if busy { self.with(Self::IN_BUSY_POLL) } else { self.without(Self::IN_BUSY_POLL) }, busy)
    }

    /// A disable begins: from here on there is no new owner. Source: `net/core/dev.c napi_disable_locked`.
    ///
    /// # Panics
    /// If the instance is disabled or being disabled already; the kernel would wait for ever.
    #[inline]
    #[must_use]
    pub const fn disable_begin(self) -> Self {
        assert!(!self.intersects(Self::DISABLE), "a second disable while one is pending");
        assert!(!self.intersects(Self::NPSVC), "the instance is disabled already");
        self.with(Self::DISABLE)
    }

    /// The disable takes the instance once it has no owner. `None`: still owned; sleep between [`DISABLE_PAUSE_MIN`] and
    /// [`DISABLE_PAUSE_MAX`], then ask again. Source: `net/core/dev.c napi_disable_locked`.
    ///
    /// # Panics
    /// If [`State::disable_begin`] did not come first.
    #[inline]
    #[must_use]
    pub const fn disable_claim(self) -> Option<Self> {
        assert!(self.intersects(Self::DISABLE), "disable_begin comes first");
        if self.intersects(Self::SCHED.with(Self::NPSVC)) {
            return None;
        }
        let next = self.with(Self::SCHED).with(Self::NPSVC);
        Some(next.without(Self::MODE).without(Self::PREFER_BUSY_POLL))
    }

    /// The disable ends; the timer has been cancelled and the id withdrawn before. Source: `net/core/dev.c
    /// napi_disable_locked`.
    ///
    /// # Panics
    /// If [`State::disable_claim`] did not come first.
    #[inline]
    #[must_use]
    pub const fn disable_end(self) -> Self {
        assert!(
            self.contains(Self::DISABLE.with(Self::SCHED).with(Self::NPSVC)),
            "disable_claim comes before disable_end"
        );
        self.without(Self::DISABLE)
    }

    /// Enables a disabled instance and adds the bits of the mode in force; a mode that was set while it was disabled is
    /// kept. `MISSED` is not cleared. Source: `net/core/dev.c napi_enable_locked`.
    ///
    /// # Errors
    /// [`NotDisabled`] if the instance is enabled, or a disable is pending.
    #[inline]
    pub const fn enable(self, threaded: Threaded) -> Result<Self, NotDisabled> {
        if !self.is_disabled() {
            return Err(NotDisabled(self));
        }
        let next = self.without(Self::SCHED).without(Self::NPSVC);
        Ok(next.with(Self::mode_bits(threaded)))
    }

    /// Sets both mode bits; takes effect at the next schedule, or for a busy thread at its next turn. The kernel sets
    /// the two bits one after the other, here they change at once. Source: `net/core/dev.c napi_set_threaded_state`.
    #[inline]
    #[must_use]
    pub const fn set_threaded(self, threaded: Threaded) -> Self {
        self.without(Self::MODE).with(Self::mode_bits(threaded))
    }

    /// First half of stopping the thread: clears the mode bits if the thread is the owner or there is none. Source:
    /// `net/core/dev.c napi_stop_kthread`. Unlike there, a disabled instance counts as without owner: the kernel
    /// waits for a release that never comes, with the device lock held. So does one of a group, for the same reason.
    #[inline]
    pub const fn stop_thread_claim(self) -> StopThread {
        let idle = !self.intersects(Self::SCHED) || self.contains(Self::SCHED.with(Self::NPSVC));
        let idle = idle || self.intersects(Self::GROUP);
        if idle || self.intersects(Self::SCHED_THREADED) {
            StopThread::Cleared(self.without(Self::MODE))
        } else {
            StopThread::Busy
        }
    }

    /// Second half: true once the thread owns nothing, so that it can be stopped. Ask again after
    /// [`STOP_THREAD_PAUSE`]. Source: `net/core/dev.c napi_stop_kthread`.
    #[inline]
    #[must_use]
    pub const fn stop_thread_done(self) -> bool {
        !self.intersects(Self::SCHED_THREADED)
    }

    const fn mode_bits(threaded: Threaded) -> Self {
        match threaded {
            Threaded::Disabled => Self::EMPTY,
            Threaded::Enabled => Self::THREADED,
            Threaded::BusyPoll => Self::MODE,
        }
    }
}
