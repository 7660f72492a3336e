//! The word of one CPU of a group: whether its thread polls or sleeps, and how it goes to sleep.
//!
//! ```text
//! OFF --join--> ACTIVE --announce--> ANNOUNCED --sleep--> ASLEEP
//!      ^            ^------ wake, cancel ----'               |
//!      |            ^------------- wake (and a real one) ----'
//!      '--- leave, once it was told to go and has no member ---- ACTIVE
//! ```
//!
//! A thread that gives a member something to poll writes that down first ([`super::Seat`], the ring) and calls
//! [`CpuWord::wake`] second. A thread that parks announces it first and looks at its members second. So one of the two sees the
//! other: there is no order in which a packet waits and the CPU sleeps.

use core::fmt;

use crate::bits::word;

/// What the thread of a CPU is doing.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Doing {
    /// The CPU is not in the group, or its thread is gone.
    Off,
    /// It polls.
    Active,
    /// It is about to sleep, and looks again.
    Announced,
    /// It sleeps.
    Asleep,
}

/// The word.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct CpuWord(u8);

/// What to do about a CPU that was woken.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Woken {
    /// Nothing: it polls, or finds that its announcement is gone.
    Awake,
    /// Wake its thread.
    Rouse,
    /// It has left the group: what was meant for it goes to another CPU.
    Gone,
}

const DOING: u8 = 3;
const GOING: u8 = 4;

word!(CpuWord(u8));

impl CpuWord {
    /// Not in the group.
    pub const OFF: Self = Self(0);

    const fn with(self, doing: Doing) -> Self {
        let bits = match doing {
            Doing::Off => 0,
            Doing::Active => 1,
            Doing::Announced => 2,
            Doing::Asleep => 3,
        };
        Self(self.0 & !DOING | bits)
    }

    /// What its thread is doing.
    #[inline]
    #[must_use]
    pub const fn doing(self) -> Doing {
        match self.0 & DOING {
            0 => Doing::Off,
            1 => Doing::Active,
            2 => Doing::Announced,
            _ => Doing::Asleep,
        }
    }

    /// It was told to leave: nothing is moved to it any more.
    #[inline]
    #[must_use]
    pub const fn is_going(self) -> bool {
        self.0 & GOING != 0
    }

    /// The CPU comes to the group, awake. `None`: it is there.
    #[inline]
    #[must_use]
    pub const fn join(self) -> Option<Self> {
        if matches!(self.doing(), Doing::Off) { Some(Self(0).with(Doing::Active)) } else { None }
    }

    /// The thread says that it is about to sleep. It looks at all its members next. A CPU that was told to leave does
    /// not sleep: `None`.
    ///
    /// # Panics
    /// If it is not active.
    #[inline]
    #[must_use]
    pub const fn announce(self) -> Option<Self> {
        assert!(matches!(self.doing(), Doing::Active), "only who polls can stop polling");
        if self.is_going() { None } else { Some(self.with(Doing::Announced)) }
    }

    /// The thread has looked and goes to sleep. `None`: it was woken meanwhile, or it was told to leave; it polls on,
    /// and the park was in vain.
    ///
    /// # Panics
    /// If it did not announce itself.
    #[inline]
    #[must_use]
    pub const fn sleep(self) -> Option<Self> {
        match self.doing() {
            Doing::Announced => Some(self.with(Doing::Asleep)),
            Doing::Active => None,
            Doing::Off | Doing::Asleep => panic!("announce comes before sleep"),
        }
    }

    /// The thread found something to do after it had announced itself, or its sleep ended by time.
    ///
    /// # Panics
    /// If the CPU is not in the group.
    #[inline]
    #[must_use]
    pub const fn cancel(self) -> Self {
        assert!(!matches!(self.doing(), Doing::Off), "a CPU that left does not park");
        self.with(Doing::Active)
    }

    /// A thread has something for this CPU to poll, and has written it down before.
    #[inline]
    pub const fn wake(self) -> (Self, Woken) {
        match self.doing() {
            Doing::Off => (self, Woken::Gone),
            Doing::Active => (self, Woken::Awake),
            Doing::Announced => (self.with(Doing::Active), Woken::Awake),
            Doing::Asleep => (self.with(Doing::Active), Woken::Rouse),
        }
    }

    /// The CPU is told to leave the group; its members have been moved, or will be. It is woken for that.
    #[inline]
    pub const fn go(self) -> (Self, Woken) {
        let (next, woken) = self.wake();
        match woken {
            Woken::Gone => (next, woken),
            Woken::Awake | Woken::Rouse => (Self(next.0 | GOING), woken),
        }
    }

    /// The thread was told to leave and has no member: it is off. It looks at its members once more, and joins again if
    /// one was moved to it meanwhile. `None`: it was not told to leave.
    ///
    /// # Panics
    /// If it is not active.
    #[inline]
    #[must_use]
    pub const fn leave(self) -> Option<Self> {
        assert!(matches!(self.doing(), Doing::Active), "only who is awake leaves");
        if self.is_going() { Some(Self::OFF) } else { None }
    }

    /// A member came after the CPU had left: it stays until the member is elsewhere.
    ///
    /// # Panics
    /// If it did not leave.
    #[inline]
    #[must_use]
    pub const fn stay(self) -> Self {
        assert!(matches!(self.doing(), Doing::Off), "only who left can stay");
        Self(GOING).with(Doing::Active)
    }
}

/// How many CPUs of a group poll. A CPU takes itself out before it announces a park, and puts itself back when it polls
/// again, so that fewer than enough never park at the same time.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Awake(u16);

impl Awake {
    /// The number.
    #[inline]
    #[must_use]
    pub const fn count(self) -> u16 {
        self.0
    }

    /// A CPU polls, again or from now on.
    #[inline]
    #[must_use]
    pub const fn come(self) -> Self {
        Self(self.0 + 1)
    }

    /// A CPU wants to park, and `min` have to be active. A CPU that was told to leave is no help: the caller adds the
    /// number of those that have not left yet to `min`. `None`: it is needed.
    #[inline]
    #[must_use]
    pub const fn park(self, min: u16) -> Option<Self> {
        if self.0 > min { Some(Self(self.0 - 1)) } else { None }
    }

    /// A CPU has left the group.
    ///
    /// # Panics
    /// If none was awake.
    #[inline]
    #[must_use]
    pub const fn leave(self) -> Self {
        assert!(self.0 > 0, "who leaves is awake");
        Self(self.0 - 1)
    }
}

impl fmt::Debug for CpuWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let going = if self.is_going() { " going" } else { "" };
        write!(f, "CpuWord({:?}{going})", self.doing())
    }
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
