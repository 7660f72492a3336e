//! What a member is watched for, what a wait returns, and how long it waits.

use std::fmt;
use std::ops::{BitAnd, BitOr};
use std::time::Duration;

use napier_core::time::Span;

/// A set of conditions and modes, with the numbers of `include/uapi/linux/eventpoll.h`.
///
/// ```
/// use napier_runtime::event::Interest;
///
/// let interest = Interest::IN | Interest::EDGE;
/// assert_eq!(interest.bits(), 0x8000_0001);
/// assert!(interest.contains(Interest::IN) && !interest.contains(Interest::OUT));
/// ```
#[derive(Copy, Clone, PartialEq, Eq, Default)]
pub struct Interest(u32);

impl Interest {
    /// No condition; a member added with it is still told about [`ERR`](Self::ERR) and [`HUP`](Self::HUP).
    pub const NONE: Self = Self(0);
    /// `EPOLLIN`: there is something to receive.
    pub const IN: Self = Self(0x001);
    /// `EPOLLOUT`: sending would not block.
    pub const OUT: Self = Self(0x004);
    /// `EPOLLERR`: an error is pending. Always watched for.
    pub const ERR: Self = Self(0x008);
    /// `EPOLLHUP`: hung up. Always watched for.
    pub const HUP: Self = Self(0x010);
    /// `EPOLLRDHUP`: the peer has closed its half of a connection.
    pub const RDHUP: Self = Self(0x2000);
    /// `EPOLLONESHOT`: after one report the member is silent until [`modify`](crate::event::EventContext::modify).
    pub const ONESHOT: Self = Self(1 << 30);
    /// `EPOLLET`: report news, not states.
    pub const EDGE: Self = Self(1 << 31);
    /// [`EDGE`](Self::EDGE) under its epoll name.
    pub const ET: Self = Self::EDGE;

    /// Bits that say how to report, not what (`EP_PRIVATE_BITS`).
    pub(super) const MODES: Self = Self(Self::ONESHOT.0 | Self::EDGE.0);
    /// Conditions that cannot be switched off (`fs/eventpoll.c` `do_epoll_ctl`).
    pub(super) const ALWAYS: Self = Self(Self::ERR.0 | Self::HUP.0);
    const SUPPORTED: Self = Self(Self::IN.0 | Self::OUT.0 | Self::RDHUP.0 | Self::ALWAYS.0 | Self::MODES.0);

    /// The set with exactly these `EPOLL*` bits; bits that contexts do not support are kept, and refused by `add`.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// The `EPOLL*` bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `other` is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any of `other` is in this set.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Both, as `|` gives it, in constants too.
    #[must_use]
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the members of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether who waits to receive need wait no more, with these of a socket's conditions: there is something, or nothing will come.
    #[must_use]
    pub const fn ends_read_wait(self) -> bool {
        self.intersects(Self::IN.with(Self::RDHUP).with(Self::ALWAYS))
    }

    /// Whether who waits to send need wait no more, with these of a socket's conditions: there is room, or there never will be.
    #[must_use]
    pub const fn ends_write_wait(self) -> bool {
        self.intersects(Self::OUT.with(Self::ALWAYS))
    }

    /// The bits that contexts do not support.
    pub(super) const fn unsupported(self) -> Self {
        self.without(Self::SUPPORTED)
    }
}

/// What a socket whose engine has stopped reports.
pub(crate) const STOPPED: Interest =
    Interest::from_bits(Interest::IN.bits() | Interest::ERR.bits() | Interest::HUP.bits());

impl BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Interest {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::IN, "IN"),
            (Self::OUT, "OUT"),
            (Self::ERR, "ERR"),
            (Self::HUP, "HUP"),
            (Self::RDHUP, "RDHUP"),
            (Self::ONESHOT, "ONESHOT"),
            (Self::EDGE, "EDGE"),
        ];
        f.write_str("Interest(")?;
        let mut gap = "";
        for (_, name) in names.iter().filter(|(bit, _)| self.contains(*bit)) {
            write!(f, "{gap}{name}")?;
            gap = "|";
        }
        let rest = self.unsupported();
        if !rest.is_empty() {
            write!(f, "{gap}{:#x}", rest.0)?;
        }
        f.write_str(")")
    }
}

/// One ready member, as returned by [`EventContext::wait`](crate::event::EventContext::wait).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// The conditions that hold, out of those the member is watched for.
    pub events: Interest,
    /// The word given when the member was added or last modified.
    pub data: u64,
}

/// How long [`EventContext::wait`](crate::event::EventContext::wait) may wait.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Timeout {
    /// Not at all. Such a wait never busy polls and never resumes interrupts (`fs/eventpoll.c` `ep_poll`): a loop that
    /// is meant to busy poll needs a small [`After`](Self::After) instead.
    Now,
    /// At least this long, to the nanosecond, unless something becomes ready. Zero is the same as [`Now`](Self::Now).
    After(Duration),
    /// Until something becomes ready.
    Never,
    /// As [`Never`](Self::Never) up to the moment of the sleep, which is the caller's: the wait busy polls, gives interrupts back that
    /// were suspended, and returns 0; the context's [descriptor](crate::event::EventContext::descriptor) is readable from the next event on.
    Outside,
}

/// As [`After`](Timeout::After).
impl From<Duration> for Timeout {
    fn from(time: Duration) -> Self {
        Self::After(time)
    }
}

/// As the standard library has it: `None` is for ever.
///
/// ```
/// # use napier_runtime::event::Timeout;
/// # use std::time::Duration;
/// assert_eq!(Timeout::from(None), Timeout::Never);
/// assert_eq!(Timeout::from(Some(Duration::from_millis(5))), Timeout::After(Duration::from_millis(5)));
/// ```
impl From<Option<Duration>> for Timeout {
    fn from(time: Option<Duration>) -> Self {
        time.map_or(Self::Never, Self::After)
    }
}

impl Timeout {
    /// The wait's length; `None` is for ever.
    pub(super) fn span(self) -> Option<Span> {
        match self {
            Self::Now => Some(Span::ZERO),
            Self::After(duration) => Some(Span::from_ns(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))),
            Self::Never | Self::Outside => None,
        }
    }
}
