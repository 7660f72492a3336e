//! When a poll calls who sleeps for what it has delivered. In the kernel it follows from softirqs being off: `net/core/dev.c
//! napi_threaded_poll_loop` and `__napi_busy_loop` poll between `local_bh_disable` and `local_bh_enable`, so what a poll wakes on its
//! processor runs after it, and what it wakes on another at once. A thread of a process can be preempted by what it wakes: its
//! sleeper would take the processor for the first socket that is told, answer one packet, and sleep again.
//!
//! | a sleeper is told, first since it sleeps | answer |
//! |---|---|
//! | by a thread that does not poll | [`CallWhen::Now`] |
//! | by a poll on another processor than the sleeper's | [`CallWhen::Now`]: it runs beside the poll |
//! | by a poll on its own, which owes fewer than [`OWED_MAX`] calls | [`CallWhen::AtEnd`] |
//! | ... as many | [`CallWhen::Now`] |
//!
//! | the poll | what it owes |
//! |---|---|
//! | is over: it has flushed what it held and given the instance up, or polls again | it calls, each sleeper once |
//! | goes on after [`TOLD_PKTS_MAX`] packets | the same |
//!
//! Who is told first takes the announcement of the sleeper (`ring::Doorbell`), at once and before it is called: of all that tell it,
//! in this poll and elsewhere, one owes the call. A sleeper that wakes up by itself meanwhile finds what was told; a call that
//! finds no sleeper is in vain, and does no harm.

pub mod external;

use crate::poll::NAPI_POLL_WEIGHT;

/// Calls that a poll owes at most: sleepers of its own processor, each with sockets of its own.
pub const OWED_MAX: usize = 16;

/// Packets after which a poll that goes on makes the calls that it owes: a program that gave itself a larger budget keeps no
/// sleeper longer than any other poll does.
pub const TOLD_PKTS_MAX: u32 = NAPI_POLL_WEIGHT;

/// When a sleeper is called.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum CallWhen {
    /// By who told it, at once.
    Now,
    /// By the same thread, when its poll is over.
    AtEnd,
}

/// The calls that a poll owes.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct OwedByPoll(usize);

impl OwedByPoll {
    /// None.
    pub const NONE: Self = Self(0);

    /// A sleeper is told whose announcement was taken just now. `shares_cpu`: it sleeps on the processor of the poll.
    #[inline]
    pub const fn told(self, shares_cpu: bool) -> (Self, CallWhen) {
        if shares_cpu && self.0 < OWED_MAX { (Self(self.0 + 1), CallWhen::AtEnd) } else { (self, CallWhen::Now) }
    }

    /// One of them is made. `None`: there is none.
    #[inline]
    #[must_use]
    pub const fn called(self) -> Option<Self> {
        match self.0.checked_sub(1) {
            Some(left) => Some(Self(left)),
            None => None,
        }
    }
}

/// Whether a poll of `budget_pkts` makes the calls that it owes in its midst: it has taken `work_pkts`, and `called_at_pkts` when
/// it made them last.
#[inline]
#[must_use]
pub const fn calls_in_midst(work_pkts: u32, called_at_pkts: u32, budget_pkts: u32) -> bool {
    work_pkts - called_at_pkts >= TOLD_PKTS_MAX && work_pkts < budget_pkts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_beside_the_poll_is_called_at_once() {
        assert_eq!(OwedByPoll::NONE.told(false), (OwedByPoll::NONE, CallWhen::Now));
        assert_eq!(OwedByPoll(3).told(false), (OwedByPoll(3), CallWhen::Now));
    }

    #[test]
    fn those_of_its_own_processor_are_called_at_the_end_up_to_a_bound() {
        let mut owed = OwedByPoll::NONE;
        for _ in 0..OWED_MAX {
            let (next, call) = owed.told(true);
            assert_eq!(call, CallWhen::AtEnd);
            owed = next;
        }
        assert_eq!(owed.told(true), (owed, CallWhen::Now));
        let mut made = 0;
        while let Some(left) = owed.called() {
            (owed, made) = (left, made + 1);
        }
        assert_eq!((owed, made), (OwedByPoll::NONE, OWED_MAX));
    }

    #[test]
    fn a_poll_of_the_common_weight_calls_at_its_end_alone() {
        assert!((0..=NAPI_POLL_WEIGHT).all(|work| !calls_in_midst(work, 0, NAPI_POLL_WEIGHT)));
        let larger = |work, called_at| calls_in_midst(work, called_at, 1000);
        assert!(!larger(63, 0) && larger(64, 0) && larger(70, 0) && !larger(70, 64) && larger(128, 64));
        assert!(!calls_in_midst(1000, 900, 1000), "that is the end");
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod walk_tests;
