//! The transitions of an instance that belongs to a group of CPUs. None of them is the kernel's: Linux has no groups.
//!
//! `GROUP` says who polls, `SCHED` whether the instance has a poller. Both: some CPU of the group polls it again and
//! again, its interrupt is masked, completions are refused. `GROUP` alone: its interrupt is armed; who takes `SCHED`
//! for an event gives the instance to the group. Which CPU of the group that is stands in a word of its own
//! ([`crate::group::Seat`]).

use super::State;

/// What a turn of a group's poller is to do: the answer of [`State::group_turn`].
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub enum GroupTurn {
    /// Poll.
    Poll,
    /// A disable waits: do not poll, give the instance up by [`State::group_release`], leave the interrupt masked.
    GiveUp,
}

impl State {
    /// A group begins to take the instance: from here on there is no new owner, and who owns it now lets go, as with
    /// a disable. A disabled instance belongs to the group at once: `true`, and there is nothing to claim.
    ///
    /// # Panics
    /// If it belongs to a group, or a disable is pending.
    #[inline]
    #[must_use]
    pub const fn group_attach_begin(self) -> (Self, bool) {
        assert!(!self.intersects(Self::GROUP), "the instance belongs to a group already");
        assert!(!self.intersects(Self::DISABLE), "an instance is not attached while a disable is pending");
        if self.is_disabled() { (self.with(Self::GROUP), true) } else { (self.with(Self::DISABLE), false) }
    }

    /// The group takes the instance once it has no owner. `None`: still owned; sleep as a disable does, then ask again.
    /// The caller is the owner; it masks the interrupt before the instance is polled. Events that came meanwhile are
    /// found by the first poll, which does not wait for one.
    ///
    /// # Panics
    /// If [`State::group_attach_begin`] did not come first.
    #[inline]
    #[must_use]
    pub const fn group_attach_claim(self) -> Option<Self> {
        assert!(self.intersects(Self::DISABLE), "group_attach_begin comes first");
        if self.intersects(Self::SCHED) {
            return None;
        }
        let next = self.with(Self::SCHED).with(Self::GROUP);
        Some(next.without(Self::DISABLE).without(Self::MISSED).without(Self::PREFER_BUSY_POLL))
    }

    /// True if who owns the instance after an event has to give it to its group, and not to [`State::schedule`]. The
    /// answer cannot change while the caller owns the instance.
    ///
    /// # Panics
    /// If it has no owner.
    #[inline]
    #[must_use]
    pub const fn to_group(self) -> bool {
        assert!(self.intersects(Self::SCHED), "only an owned instance can be scheduled");
        self.intersects(Self::GROUP)
    }

    /// A CPU of the group begins a turn: events seen so far are covered by the poll that follows.
    ///
    /// # Panics
    /// If the group does not own the instance.
    #[inline]
    pub const fn group_turn(self) -> (Self, GroupTurn) {
        assert!(self.contains(Self::SCHED.with(Self::GROUP)), "a group polls what it owns");
        if self.intersects(Self::DISABLE) {
            (self, GroupTurn::GiveUp)
        } else {
            (self.without(Self::MISSED), GroupTurn::Poll)
        }
    }

    /// A [turn](Self::group_turn) would find more than packets: an event, or a disable that waits.
    #[inline]
    #[must_use]
    pub const fn group_turn_is_due(self) -> bool {
        self.intersects(Self::DISABLE.with(Self::MISSED))
    }

    /// The group gives ownership up and keeps the instance; the caller unmasks next and looks at the ring again. `true`:
    /// an event came since the last turn, the group still owns it, and nothing is to be unmasked. With a disable pending
    /// it lets go in any case, and the interrupt stays masked.
    ///
    /// # Panics
    /// If the group does not own the instance.
    #[inline]
    #[must_use]
    pub const fn group_release(self) -> (Self, bool) {
        assert!(self.contains(Self::SCHED.with(Self::GROUP)), "a group releases what it owns");
        assert!(!self.intersects(Self::NPSVC), "a disabled instance is not owned by its group");
        let next = self.without(Self::MISSED);
        if self.intersects(Self::MISSED) && !self.intersects(Self::DISABLE) {
            return (next, true);
        }
        (next.without(Self::SCHED), false)
    }

    /// The instance leaves its group. `true`: the caller is its owner now and schedules it ([`State::schedule`]), so
    /// that it is polled once more and completed by who polls it from now on. `false`: it is disabled.
    ///
    /// # Panics
    /// If it is owned neither by the group nor by a disable.
    #[inline]
    #[must_use]
    pub const fn group_leave(self) -> (Self, bool) {
        assert!(self.contains(Self::SCHED.with(Self::GROUP)), "who takes an instance out of its group owns it");
        (self.without(Self::GROUP), !self.intersects(Self::NPSVC))
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
