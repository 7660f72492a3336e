//! Who serves a softirq CPU, and what is done when its thread gets no processor. Not the kernel's: there a softirq runs on
//! the processor that it interrupts, on top of whatever is there.
//!
//! | what happens | answer |
//! |---|---|
//! | a program's thread that is in no softirq raises something ([`raise`]) | [`Raise::Inline`]: it polls that itself, and nothing else |
//! | the CPU's own thread does, or one that serves the CPU | [`Raise::Queue`]: it looks before it sleeps |
//! | any other does, or one in the midst of a softirq of its own | [`Raise::QueueAndKick`] |
//! | a program's thread sleeps on the CPU, which is [lent](Serving::lend) to it meanwhile | it takes interrupts and timers; one thread at a time |
//! | it wakes up, or [gives the CPU back](Serving::give_back) | the next round begins |
//! | the CPU's thread [hears](Serving::heard) the bell of a program that has the CPU | [`Bell::Ring`]: once more, and it waits until the round is over |
//! | work has waited for [`OVERDUE_AFTER`], and the thread has not moved ([`Overdue`]) | [`rescue`] |
//! | ... a pinned one that has moved since it was let go | [`Rescue::LetGo`]: to other processors |
//! | ... any other, or one that could not be let go | [`Rescue::TakeOver`]: who looks does the work |
//! | a thread that was let go [comes round](Serving::comes_round) | [`ThreadPlace::Anywhere`], and after [`AWAY_FOR`] [`ThreadPlace::Home`] |
//! | the thread has taken most of its processor ([`Share`]) | it leaves the real-time class, and returns later |
//!
//! ```text
//! the CPU:    FREE --lend--> LENT --give_back--> FREE          each wake-up and each give_back begins a round
//! its thread: HOME --let_go--> LET_GO --comes_round--> AWAY --comes_round, AWAY_FOR later--> HOME
//!                                ^------- let_go -------'
//! ```
//!
//! Both are in one word. What a thread raised is published before it kicks; a thread looks at what is raised after it has heard
//! a kick and before it sleeps.

mod overdue;
mod share;

pub use overdue::{OVERDUE_AFTER, Overdue};
pub use share::{SHARE_LEAVE_PERCENT, SHARE_PERIOD, SHARE_RETURN_PERCENT, Share, ShareVerdict};

use core::fmt;

use crate::bits::word;
use crate::poll::NAPI_POLL_WEIGHT;
use crate::softirq::NETDEV_BUDGET_PKTS;
use crate::time::Span;

/// How long a thread is away from its processor before it tries it again.
pub const AWAY_FOR: Span = Span::from_ms(10_000);

/// Polls of one instance by a program that came for what was held back: as many as `netdev_budget` allows a softirq run.
const POLLS_ON: u32 = NETDEV_BUDGET_PKTS as u32 / NAPI_POLL_WEIGHT;

/// A thread that raises a softirq, as far as it matters.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Raiser {
    /// It is a program's, in no softirq, and may be kept.
    pub may_run_inline: bool,
    /// It came for packets that were held back.
    pub polls_on: bool,
    /// It looks at what is raised on the CPU before it sleeps.
    pub looks_after: bool,
    /// It is in the midst of what it raised itself, and does not look at any list after that.
    pub is_inline: bool,
}

/// What a thread does about what it raised.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Raise {
    /// It does it itself, with so many polls at most; what is left then is queued, with a kick.
    Inline {
        /// At least 1.
        polls_max: u32,
    },
    /// It puts it on the CPU's list.
    Queue,
    /// And wakes the CPU's thread.
    QueueAndKick,
}

/// Something is raised on a CPU.
#[inline]
pub const fn raise(by: Raiser) -> Raise {
    if by.may_run_inline {
        return Raise::Inline { polls_max: if by.polls_on { POLLS_ON } else { 1 } };
    }
    if by.is_inline || !by.looks_after { Raise::QueueAndKick } else { Raise::Queue }
}

/// What is done for a thread that does not get on with its work.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Rescue {
    /// It may run on other processors from now on ([`Serving::let_go`]), and is kicked. Where that cannot be: as the other.
    LetGo,
    /// Who looked does what waits for it.
    TakeOver,
}

/// Work of a CPU is [overdue](Overdue::look). `pinned`: its thread stays on a processor. `moved`: it has come round since it was
/// let go last; letting it go again would not help one that has not.
pub const fn rescue(pinned: bool, moved: bool) -> Rescue {
    if pinned && moved { Rescue::LetGo } else { Rescue::TakeOver }
}

/// What the CPU's thread does about the bell of a program that sleeps as its CPU's softirq.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Bell {
    /// No program has the CPU: nothing.
    Nothing,
    /// It rings again, and then waits a moment until the round [is over](Serving::is_over): at once it would hear that too.
    Ring {
        /// The round.
        round: u32,
    },
}

/// Where the CPU's thread has to go.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ThreadPlace {
    /// It stays where it may run.
    Stay,
    /// It may run anywhere.
    Anywhere,
    /// It is pinned to its processor again.
    Home,
}

/// The word of a softirq CPU.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Default)]
pub struct Serving(u32);

const LENT: u32 = 1;
const PLACE: u32 = 0b110;
const HOME: u32 = 0;
const LET_GO: u32 = 0b010;
const AWAY: u32 = 0b100;
const ROUND: u32 = 8;

word!(Serving(u32));

impl Serving {
    /// No program has the CPU, and its thread is at home.
    pub const START: Self = Self(0);

    /// Whether a program's thread has the CPU.
    #[inline]
    #[must_use]
    pub const fn is_lent(self) -> bool {
        self.0 & LENT != 0
    }

    /// Whether the CPU's thread is where it belongs, as far as the word says.
    #[inline]
    #[must_use]
    pub const fn is_home(self) -> bool {
        self.0 & PLACE == HOME
    }

    const fn place(self, place: u32) -> Self {
        Self(self.0 & !PLACE | place)
    }

    /// The number of the round; it wraps.
    const fn round(self) -> u32 {
        self.0 >> ROUND
    }

    /// The next round begins. The number wraps into itself alone: it has the highest bits.
    const fn next_round(self) -> Self {
        Self(self.0.wrapping_add(1 << ROUND))
    }

    /// A program's thread is about to sleep on the CPU. `None`: another one has it.
    #[inline]
    #[must_use]
    pub const fn lend(self) -> Option<Self> {
        if self.is_lent() { None } else { Some(Self(self.0 | LENT)) }
    }

    /// The program's thread has woken up, and sees what there is.
    ///
    /// # Panics
    /// If it does not have the CPU.
    #[inline]
    #[must_use]
    pub const fn wakes(self) -> Self {
        assert!(self.is_lent(), "lend comes first");
        self.next_round()
    }

    /// It sleeps no more; what comes is the thread's.
    ///
    /// # Panics
    /// If it does not have the CPU.
    #[inline]
    #[must_use]
    pub const fn give_back(self) -> Self {
        assert!(self.is_lent(), "lend comes first");
        Self(self.0 & !LENT).next_round()
    }

    /// Another thread has heard the bell that was for the program.
    #[inline]
    pub const fn heard(self) -> Bell {
        if self.is_lent() { Bell::Ring { round: self.round() } } else { Bell::Nothing }
    }

    /// Whether the program has heard what was rung in `round`, or left.
    #[inline]
    #[must_use]
    pub const fn is_over(self, round: u32) -> bool {
        !self.is_lent() || self.round() != round
    }

    /// The CPU's thread was let go to other processors.
    #[must_use]
    pub const fn let_go(self) -> Self {
        self.place(LET_GO)
    }

    /// The CPU's thread comes round, so long after it was let go last.
    ///
    /// | was | it has been away | answer | is |
    /// |---|---|---|---|
    /// | at home | | [`ThreadPlace::Stay`] | at home |
    /// | let go or away | for [`AWAY_FOR`] | [`ThreadPlace::Home`] | at home |
    /// | let go | less | [`ThreadPlace::Anywhere`] | away |
    /// | away | less | [`ThreadPlace::Stay`] | away |
    pub const fn comes_round(self, away: Span) -> (Self, ThreadPlace) {
        match self.0 & PLACE {
            HOME => (self, ThreadPlace::Stay),
            _ if away.ns >= AWAY_FOR.ns => (self.place(HOME), ThreadPlace::Home),
            LET_GO => (self.place(AWAY), ThreadPlace::Anywhere),
            AWAY => (self, ThreadPlace::Stay),
            _ => panic!("no such place"),
        }
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.0 & PLACE {
            HOME => "home",
            LET_GO => "let go",
            AWAY => "away",
            _ => "nowhere",
        };
        write!(f, "Serving({}, {place}, round {})", if self.is_lent() { "lent" } else { "free" }, self.round())
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

#[cfg(test)]
#[path = "walk_tests.rs"]
mod walk_tests;
