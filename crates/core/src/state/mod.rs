//! The state word of one NAPI instance, and every transition on it.
//!
//! A transition is a pure function from a word to a word. The executor applies it with one compare-and-swap loop, so
//! that all bits of one transition change at once. Bit numbers and meanings are those of
//! `include/linux/netdevice.h NAPI_STATE_*` (Linux 7.3).
//!
//! ```text
//!  disabled (SCHED NPSVC) --enable--> idle (SCHED clear)
//!  idle --schedule_prep / timer_acquire--> owned: on a CPU's poll list, or SCHED_THREADED
//!  idle --busy_acquire--> owned by a busy poller (SCHED IN_BUSY_POLL)
//!  owned --schedule--> on a CPU's poll list, or SCHED_THREADED: given to its thread, or with POOL to the worker pool
//!  owned --complete_release--> idle | still owned (MISSED was set)
//!  busy owner --busy_stop_begin--> owned --busy_stop_release--> idle (timer armed next)
//!                                        \-one more poll------> complete_release
//!  kthread owner --thread_turn--> IN_BUSY_POLL as wanted
//!                --thread_leave, mode taken away--> owned, to be scheduled (engine)
//!  idle --group_attach_begin--> DISABLE --group_attach_claim, once idle--> owned by a group (SCHED GROUP)
//!  owned by a group --group_release--> idle, armed (GROUP) --schedule_prep, to_group--> owned by the group
//!  owned by a group --group_leave--> owned, to be scheduled
//!  any --disable_begin--> DISABLE --disable_claim, once idle--> disabled + DISABLE --disable_end--> disabled
//!
//!  FORBIDDEN (assert): release without SCHED, SCHED_THREADED without SCHED, disable of a disabled instance (the
//!  kernel waits for ever), busy stop by a thread that is not busy polling.
//! ```

use core::fmt;

use crate::bits::{set_of_bits, word};

mod group;
mod transitions;

pub use group::GroupTurn;
pub use transitions::{DISABLE_PAUSE_MAX, DISABLE_PAUSE_MIN, NotDisabled, STOP_THREAD_PAUSE, StopThread};

/// The word. `Debug` prints the names of the bits that are set.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct State(u32);

/// How an instance is scheduled, as the kernel numbers it: softirq, kthread, or a kthread that polls for ever.
/// Source: `include/uapi/linux/netdev.h enum netdev_napi_threaded`.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Threaded {
    /// 0: polled in softirq context.
    #[default]
    Disabled = 0,
    /// 1: polled by its own thread, which sleeps between schedules.
    Enabled = 1,
    /// 2: polled by its own thread, which after the first schedule polls without end.
    BusyPoll = 2,
}

/// Who polls an instance that was just scheduled: the answer of [`State::schedule`].
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub enum Poller {
    /// Softirq: the scheduler puts the instance on its CPU's poll list.
    Softirq,
    /// The instance's own thread, to be woken.
    Thread,
    /// The worker pool, whose queue the instance is to be put on, once.
    Pool,
}

impl State {
    /// Bit 0: the instance is owned; only the owner may poll.
    pub const SCHED: Self = Self::bit(0);
    /// Bit 1: an event came while the instance was owned; it is polled once more.
    pub const MISSED: Self = Self::bit(1);
    /// Bit 2: a disable waits for the owner.
    pub const DISABLE: Self = Self::bit(2);
    /// Bit 3: completion is refused; together with `SCHED` and without an owner: disabled.
    pub const NPSVC: Self = Self::bit(3);
    /// Bit 4: the instance is in its device's list.
    pub const LISTED: Self = Self::bit(4);
    /// Bit 5: never given an id, so never busy polled (transmit-only instances).
    pub const NO_BUSY_POLL: Self = Self::bit(5);
    /// Bit 6: a busy poller owns the instance; completion neither releases nor unmasks.
    pub const IN_BUSY_POLL: Self = Self::bit(6);
    /// Bit 7: a prefer-busy-poll user failed to become owner and waits for it.
    pub const PREFER_BUSY_POLL: Self = Self::bit(7);
    /// Bit 8: schedule to the thread, not to softirq.
    pub const THREADED: Self = Self::bit(8);
    /// Bit 9: the thread is the owner.
    pub const SCHED_THREADED: Self = Self::bit(9);
    /// Bit 10: an interrupt-affinity notifier is attached.
    pub const HAS_NOTIFIER: Self = Self::bit(10);
    /// Bit 11: the thread polls without end once it owns the instance.
    pub const THREADED_BUSY_POLL: Self = Self::bit(11);
    /// Bit 12, which the kernel does not have: a worker pool acts on `SCHED_THREADED` in place of the thread.
    pub const POOL: Self = Self::bit(12);
    /// Bit 13, which the kernel does not have: a group of CPUs polls the instance, and no other thread ([`crate::group`]).
    pub const GROUP: Self = Self::bit(13);

    /// No bit.
    pub const EMPTY: Self = Self(0);
    /// An instance that was added and not yet enabled. Source: `net/core/dev.c netif_napi_add_weight_locked`.
    pub const ADDED: Self = Self::LISTED.with(Self::SCHED).with(Self::NPSVC);

    const MODE: Self = Self::THREADED.with(Self::THREADED_BUSY_POLL);

    /// True if all bits of `other` are set.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if the instance is fully disabled: added and not enabled, or a disable has ended.
    #[inline]
    #[must_use]
    pub const fn is_disabled(self) -> bool {
        self.contains(Self::SCHED.with(Self::NPSVC)) && !self.intersects(Self::DISABLE)
    }

    /// The mode that these bits report. Source: `net/core/dev.h napi_get_threaded`.
    #[inline]
    #[must_use]
    pub const fn threaded(self) -> Threaded {
        if self.intersects(Self::THREADED_BUSY_POLL) {
            Threaded::BusyPoll
        } else if self.intersects(Self::THREADED) {
            Threaded::Enabled
        } else {
            Threaded::Disabled
        }
    }

    /// Checks what can be seen in the word alone; `Err` names the rule that is broken. To be used in tests and asserts
    /// of executors.
    ///
    /// # Errors
    /// The broken rule.
    pub const fn is_legal(self) -> Result<(), &'static str> {
        if self.intersects(Self::IN_BUSY_POLL) && !self.intersects(Self::SCHED) {
            return Err("IN_BUSY_POLL without SCHED: a busy poller that does not own the instance");
        }
        if self.intersects(Self::SCHED_THREADED) && !self.intersects(Self::SCHED) {
            return Err("SCHED_THREADED without SCHED: a thread that does not own the instance");
        }
        if self.intersects(Self::NPSVC) && !self.intersects(Self::SCHED) {
            return Err("NPSVC without SCHED: half enabled");
        }
        if self.intersects(Self::THREADED_BUSY_POLL) && !self.intersects(Self::THREADED) {
            return Err("THREADED_BUSY_POLL without THREADED: a busy thread that is never scheduled");
        }
        if self.intersects(Self::NPSVC)
            && self.intersects(Self::IN_BUSY_POLL.with(Self::SCHED_THREADED).with(Self::PREFER_BUSY_POLL))
        {
            return Err("a disabled instance with an owner, or with a context waiting for it");
        }
        if self.intersects(Self::GROUP) && self.intersects(Self::IN_BUSY_POLL.with(Self::SCHED_THREADED)) {
            return Err("a member of a group with another owner");
        }
        Ok(())
    }
}

word!(State(u32));
set_of_bits! {
    pub State(u32):
    SCHED, MISSED, DISABLE, NPSVC, LISTED, NO_BUSY_POLL, IN_BUSY_POLL, PREFER_BUSY_POLL, THREADED, SCHED_THREADED, HAS_NOTIFIER, THREADED_BUSY_POLL, POOL, GROUP
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = *self;
        let mut separator = "";
        f.write_str("State(")?;
        for (bit, name) in Self::NAMES {
            if self.intersects(bit) {
                write!(f, "{separator}{name}")?;
                separator = "|";
                rest = rest.without(bit);
            }
        }
        if rest.0 != 0 {
            write!(f, "{separator}{:#x}", rest.0)?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests;
