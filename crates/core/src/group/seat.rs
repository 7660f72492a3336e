//! The word of one member: which CPU of the group has it, and whether a thread polls it at this moment.
//!
//! A transition is a pure function from a word to a word; the executor applies it with one compare-and-swap loop.
//!
//! ```text
//! FREE --reserve--> ARMED HOLD --attached--> READY
//! READY --take, by its CPU--> TURN --give--> READY
//! TURN --arm--> ARMED --ready, after an event--> READY
//! any but FREE --move_to--> the same with another CPU
//! any but FREE --hold--> HOLD --unhold
//! READY HOLD --take_held--> TURN HOLD --free--> FREE
//! ARMED HOLD --take_armed, by who took SCHED--> TURN HOLD
//!
//!  FORBIDDEN (assert): a turn of a second poller, an event for a member that has a poller, a member that is freed while
//!  it can be polled.
//! ```
//!
//! `TURN` is taken anew for each poll, by one compare-and-swap. That is what makes it safe to move a member at any time,
//! from a CPU that does not answer too: its next attempt finds that the member is elsewhere. Only a CPU that was stopped
//! in the middle of a poll keeps that one member.

use core::fmt;

use crate::bits::word;

/// A CPU of a group, by its number on the machine.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GroupCpu(pub u16);

/// Where a member stands.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// No member.
    Free,
    /// No thread polls it: its interrupt is armed, or its device is down.
    Armed,
    /// The group owns the instance, and no thread polls at this moment.
    Ready,
    /// A thread polls.
    Turn,
}

/// The word.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct Seat(u32);

/// Why a CPU does not get a turn.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum NoTurn {
    /// There is no such member, or it belongs to another CPU. It is not this CPU's business.
    Elsewhere,
    /// Its interrupt is armed: there is nothing to poll.
    Armed,
    /// A thread is in a turn that began before the member came to this CPU.
    Busy,
    /// Another thread wants it out of the group, or its device down.
    Held,
}

const PHASE: u32 = 3;
const HOLD: u32 = 4;
const CPU_SHIFT: u32 = 16;

word!(Seat(u32));

impl Seat {
    /// No member.
    pub const FREE: Self = Self(0);

    const fn with_phase(self, phase: Phase) -> Self {
        let bits = match phase {
            Phase::Free => 0,
            Phase::Armed => 1,
            Phase::Ready => 2,
            Phase::Turn => 3,
        };
        Self(self.0 & !PHASE | bits)
    }

    /// Where the member stands.
    #[inline]
    #[must_use]
    pub const fn phase(self) -> Phase {
        match self.0 & PHASE {
            0 => Phase::Free,
            1 => Phase::Armed,
            2 => Phase::Ready,
            _ => Phase::Turn,
        }
    }

    /// A thread keeps the pollers out.
    #[inline]
    #[must_use]
    pub const fn is_held(self) -> bool {
        self.0 & HOLD != 0
    }

    /// The CPU that has the member. Of a free word: 0, which means none.
    #[inline]
    #[must_use]
    pub const fn cpu(self) -> GroupCpu {
        GroupCpu((self.0 >> CPU_SHIFT) as u16)
    }

    /// True if `cpu` has the member, and it has or wants a poller: a CPU with such a member does not sleep.
    #[inline]
    #[must_use]
    pub const fn keeps_awake(self, cpu: GroupCpu) -> bool {
        self.cpu().0 == cpu.0 && matches!(self.phase(), Phase::Ready | Phase::Turn)
    }

    /// A member is about to come, to this CPU; no thread polls it yet. `None`: there is a member already.
    #[inline]
    #[must_use]
    pub const fn reserve(self, cpu: GroupCpu) -> Option<Self> {
        if !matches!(self.phase(), Phase::Free) {
            return None;
        }
        Some(Self((cpu.0 as u32) << CPU_SHIFT | HOLD).with_phase(Phase::Armed))
    }

    /// The group owns the instance ([`crate::state::State::group_attach_claim`]) and its interrupt is masked. The answer
    /// is the CPU to wake.
    ///
    /// # Panics
    /// If it was not reserved.
    #[inline]
    #[must_use]
    pub const fn attached(self) -> (Self, GroupCpu) {
        assert!(matches!(self.phase(), Phase::Armed) && self.is_held(), "reserve comes first");
        (Self(self.0 & !HOLD).with_phase(Phase::Ready), self.cpu())
    }

    /// A thread took `SCHED` of an armed member, because of an event, and gives it to the group. The answer is the CPU to
    /// wake.
    ///
    /// # Panics
    /// If it has a poller: then no other thread can have taken `SCHED`.
    #[inline]
    #[must_use]
    pub const fn ready(self) -> (Self, GroupCpu) {
        assert!(matches!(self.phase(), Phase::Armed), "an event was given to a group that owns the instance");
        (self.with_phase(Phase::Ready), self.cpu())
    }

    /// A CPU wants a turn.
    ///
    /// # Errors
    /// Why it gets none.
    #[inline]
    pub const fn take(self, cpu: GroupCpu) -> Result<Self, NoTurn> {
        if matches!(self.phase(), Phase::Free) || self.cpu().0 != cpu.0 {
            return Err(NoTurn::Elsewhere);
        }
        match self.phase() {
            Phase::Free | Phase::Armed => Err(NoTurn::Armed),
            Phase::Turn => Err(NoTurn::Busy),
            Phase::Ready if self.is_held() => Err(NoTurn::Held),
            Phase::Ready => Ok(self.with_phase(Phase::Turn)),
        }
    }

    /// The turn is over. The member may have moved meanwhile; who moved it has woken its new CPU.
    ///
    /// # Panics
    /// If no thread was in a turn.
    #[inline]
    #[must_use]
    pub const fn give(self) -> Self {
        assert!(matches!(self.phase(), Phase::Turn), "only who polls ends a turn");
        self.with_phase(Phase::Ready)
    }

    /// The turn is over, and no thread is to poll until something happens. It comes before the release of `SCHED`
    /// ([`crate::state::State::group_release`]): who takes `SCHED` next finds a member that can be given.
    ///
    /// # Panics
    /// If no thread was in a turn.
    #[inline]
    #[must_use]
    pub const fn arm(self) -> Self {
        assert!(matches!(self.phase(), Phase::Turn), "only who polls arms");
        self.with_phase(Phase::Armed)
    }

    /// The member goes to another CPU, as a whole; a turn that is under way ends where it began. `Some(true)`: wake that
    /// CPU, after this. `None`: there is no member.
    #[inline]
    #[must_use]
    pub const fn move_to(self, cpu: GroupCpu) -> Option<(Self, bool)> {
        if matches!(self.phase(), Phase::Free) {
            return None;
        }
        let next = Self(self.0 & 0xffff | (cpu.0 as u32) << CPU_SHIFT);
        Some((next, matches!(self.phase(), Phase::Ready | Phase::Turn)))
    }

    /// Keeps pollers out from their next turn on, so that another thread can have the member. `None`: there is none, or
    /// another thread does that already.
    #[inline]
    #[must_use]
    pub const fn hold(self) -> Option<Self> {
        if matches!(self.phase(), Phase::Free) || self.is_held() { None } else { Some(Self(self.0 | HOLD)) }
    }

    /// Lets the pollers have it again; the answer is the CPU to wake, if it has something to poll.
    ///
    /// # Panics
    /// If no thread held it.
    #[inline]
    #[must_use]
    pub const fn unhold(self) -> (Self, Option<GroupCpu>) {
        assert!(self.is_held(), "only what is held is let go");
        let wake = if matches!(self.phase(), Phase::Ready) { Some(self.cpu()) } else { None };
        (Self(self.0 & !HOLD), wake)
    }

    /// Who holds it takes the turn. `None`: a turn is under way, or the interrupt is armed; then take `SCHED` by
    /// [`crate::state::State::schedule_prep`] and go on with [`Self::take_armed`], or look again.
    ///
    /// # Panics
    /// If no thread holds it.
    #[inline]
    #[must_use]
    pub const fn take_held(self) -> Option<Self> {
        assert!(self.is_held(), "hold comes first");
        if matches!(self.phase(), Phase::Ready) { Some(self.with_phase(Phase::Turn)) } else { None }
    }

    /// Who holds it took `SCHED` of the armed instance, or the instance is disabled: the turn is its own.
    ///
    /// # Panics
    /// If no thread holds it, or it is not armed.
    #[inline]
    #[must_use]
    pub const fn take_armed(self) -> Self {
        assert!(self.is_held() && matches!(self.phase(), Phase::Armed), "hold and SCHED come first");
        self.with_phase(Phase::Turn)
    }

    /// The member leaves the group; its instance has left it before ([`crate::state::State::group_leave`]).
    ///
    /// # Panics
    /// If the caller does not have its turn, or does not hold it.
    #[inline]
    #[must_use]
    pub const fn free(self) -> Self {
        assert!(self.is_held() && matches!(self.phase(), Phase::Turn), "a member is freed by who holds it, in a turn");
        Self::FREE
    }

    /// A member that was reserved does not come.
    ///
    /// # Panics
    /// If it was not reserved.
    #[inline]
    #[must_use]
    pub const fn cancel(self) -> Self {
        assert!(self.is_held() && matches!(self.phase(), Phase::Armed), "only what was reserved is given back");
        Self::FREE
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = if self.is_held() { " held" } else { "" };
        match self.phase() {
            Phase::Free => f.write_str("Seat(free)"),
            phase => write!(f, "Seat({phase:?} cpu{}{held})", self.cpu().0),
        }
    }
}

#[cfg(test)]
#[path = "seat_tests.rs"]
mod tests;
