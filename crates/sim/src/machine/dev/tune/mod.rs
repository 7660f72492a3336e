//! Rules of a mode that Linux does not have yet: what changes an instance's settings while it runs.
//!
//! A mode sets an instance once. One that goes by what comes is a [`Tuner`]: it sees each poll of its instance when the driver is done with
//! it, before the poll's completion is decided, and says what the settings are from then on. The rules of completion, deferral and
//! suspension are those of `napier_core`, with these settings. A tuner knows nothing but what a driver could tell it, and keeps what it
//! wants to remember in itself: one file, and a line in [`TUNERS`].

mod adapt;

use std::fmt;

use napier_core::completion::Tunables;
use napier_core::time::Instant;

/// What a tuner sees of a poll.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct TunedPoll {
    /// When the driver was done with it.
    pub at: Instant,
    /// Packets that it took.
    pub packets: u32,
    /// Packets that it could have taken.
    pub budget: u32,
    /// The program polled; else a softirq or a thread of the kernel did.
    pub by_program: bool,
    /// The settings in force.
    pub tunables: Tunables,
}

/// A rule that changes the settings of one instance.
pub trait Tuner: fmt::Debug {
    /// A poll is over: the settings from here on.
    fn polled(&mut self, poll: TunedPoll) -> Tunables;
}

/// A rule by its name.
#[derive(Copy, Clone)]
pub struct TunerKind {
    /// In plans.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub what: &'static str,
    /// One for a new instance.
    pub new: fn() -> Box<dyn Tuner>,
}

/// All of them.
pub const TUNERS: &[TunerKind] = &[adapt::KIND];

impl TunerKind {
    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        TUNERS.iter().find(|kind| kind.name == name)
    }
}

/// By the name: there is one of each.
impl PartialEq for TunerKind {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TunerKind {}

impl fmt::Debug for TunerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TunerKind").field(&self.name).finish()
    }
}
