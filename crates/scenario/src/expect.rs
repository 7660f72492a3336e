//! What must be seen.

use napier_core::time::{Instant, Span};

use super::Kind;

/// `[expect]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Expect {
    /// Kinds of events that are compared; all others may happen or not.
    pub watch: Vec<Kind>,
    /// The events, in order.
    pub events: Vec<Expected>,
    /// Counters at the end, by name.
    pub counters: Vec<(String, Range)>,
    /// How much times may differ.
    pub tolerance: Tolerance,
    /// At the end nothing may be left in a ring, held for merging, or masked with no poller to come back. Default true.
    pub drains: bool,
    /// The run goes on for this long after the last step. Default 100 ms.
    pub settle: Span,
}

/// One expected event, or a run of them.
#[derive(Clone, PartialEq, Debug)]
pub struct Expected {
    /// Line in the file.
    pub line: u32,
    /// What kind.
    pub kind: Kind,
    /// When, since the start: the first one of a run.
    pub at: Option<Instant>,
    /// Tolerance of this event instead of the file's.
    pub within: Option<Span>,
    /// How many in a row; 1 to 1 unless given.
    pub repeat: Range,
    /// Fields that must match; what is not given may be anything.
    pub fields: Vec<(String, Pattern)>,
}

/// What a field must be.
#[derive(Clone, PartialEq, Debug)]
pub enum Pattern {
    /// A number in a range.
    Number(Range),
    /// Exactly this: a name, an error, a truth value as `true` or `false`.
    Text(String),
    /// A span of time, exactly.
    Span(Span),
    /// These names in order.
    Names(Vec<String>),
    /// At least these attributes; a value `none` says that there is no such attribute, `some` that there is one.
    Attributes(Vec<(String, String)>),
}

/// From and to, both included.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Range {
    /// Least.
    pub min: i64,
    /// Most.
    pub max: i64,
}

impl Range {
    /// Exactly `n`.
    #[must_use]
    pub const fn exactly(n: i64) -> Self {
        Self { min: n, max: n }
    }

    /// True if `n` is in it.
    #[must_use]
    pub const fn contains(self, n: i64) -> bool {
        self.min <= n && n <= self.max
    }
}

/// How far a time may be off.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Tolerance {
    /// In virtual time. Default 20 us.
    pub sim: Span,
    /// In real time. Default 2 ms.
    pub engine: Span,
}

/// `[kernel]`: what a run on a live kernel is to make of the scenario. Without the table it makes nothing of it.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelPart {
    /// Why it makes no sense there; empty if it does.
    pub not_runnable: Option<String>,
    /// Kinds that are compared there, if not all of `[expect]` that a kernel shows.
    pub watch: Option<Vec<Kind>>,
    /// Oldest kernel that does what the file says, such as 7.3.
    pub since: Option<Release>,
    /// How far a time may be off; nothing: the order and the counts are compared, and no times.
    pub tolerance: Option<Span>,
}

impl KernelPart {
    /// Of a file that does not mention kernels.
    #[must_use]
    pub fn not_said(tolerance: Span) -> Self {
        let why = "the file does not say that a kernel can carry it out ([kernel] run = true)";
        Self { not_runnable: Some(why.to_owned()), watch: None, since: None, tolerance: Some(tolerance) }
    }
}

/// The first two numbers of a kernel's release.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Release(pub u32, pub u32);

impl Release {
    /// Reads `6.18`, or `6.18.44-anything`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit());
        Some(Self(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

impl std::fmt::Display for Release {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// `[engine]`: what a run in real time is to make of the scenario.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EnginePart {
    /// Why it makes no sense there; empty if it does.
    pub not_runnable: Option<String>,
    /// Kinds that are compared there, if not those of `[expect]`.
    pub watch: Option<Vec<Kind>>,
}
