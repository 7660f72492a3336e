//! A sleeper that sleeps outside: in `epoll_wait(2)` or `poll(2)`, on a descriptor that stands for an event context.
//!
//! In the kernel a descriptor of epoll is a file that others can wait for (`fs/eventpoll.c ep_eventpoll_poll`). Ours is a counter
//! (`eventfd(2)`) that is readable or not; this says who makes it which.
//!
//! ```text
//!           found nothing           emptied               found nothing, or the poll is over
//!    open ---------------> draining -------> armed <----------------------------------------- held
//!     ^                                       |  |                                              ^
//!     |   written                        told |  |                a wait polls                  |
//!     +------------------------- telling <----+  +----------------------------------------------+
//!                     found nothing |  ^
//!                                   v  | written once more
//!                                  again
//! ```
//!
//! | | the descriptor | a wait would return at once |
//! |---|---|---|
//! | open | readable | it may: each wait after this looks |
//! | draining | is emptied by one wait, which arms and looks after that | |
//! | armed | not readable | no |
//! | telling | is written by the thread that told | yes |
//! | again | is written once more: a wait has found nothing since it was first, and who sleeps after that may be told by edges alone | |
//! | held | not readable | a wait polls, and looks itself |
//!
//! A wait arms it that found nothing, and looks once more after that, as every sleeper does. So a program which sleeps on the descriptor after
//! such a wait misses nothing, and one that sleeps after a wait that found something wakes up at once, perhaps in vain. A wait that polls
//! holds it meanwhile: what it delivers to itself costs no system call.
//!
//! FORBIDDEN: draining, telling and again are left by the thread that drains or tells alone: what one thread writes no other may take for old.

/// Who makes the descriptor readable.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum External {
    /// It is readable.
    Open = 0,
    /// A wait empties it.
    Draining = 1,
    /// Who tells next makes it readable.
    Armed = 2,
    /// A thread that told makes it readable.
    Telling = 3,
    /// A wait polls, and arms it again.
    Held = 4,
    /// As telling, and a wait has found nothing meanwhile.
    Again = 5,
}

/// What a wait that found nothing does.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Arming {
    /// It empties the descriptor, says so ([`External::drained`]), and looks.
    Drain,
    /// It counts itself as a sleeper, and looks.
    Arm,
    /// It looks: the sleeper is counted already.
    Look,
    /// Nothing: another thread looks after this, or makes the descriptor readable.
    Leave,
}

impl External {
    /// As it is stored.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u32 {
        self as u32
    }

    /// As it was stored.
    ///
    /// # Panics
    /// If these are no state's bits.
    #[must_use]
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        match bits {
            0 => Self::Open,
            1 => Self::Draining,
            2 => Self::Armed,
            3 => Self::Telling,
            4 => Self::Held,
            5 => Self::Again,
            _ => panic!("no state of an external sleeper"),
        }
    }

    /// A wait found nothing.
    #[inline]
    pub const fn found_nothing(self) -> (Self, Arming) {
        match self {
            Self::Open => (Self::Draining, Arming::Drain),
            Self::Held => (Self::Armed, Arming::Arm),
            Self::Armed => (self, Arming::Look),
            Self::Telling => (Self::Again, Arming::Leave),
            Self::Draining | Self::Again => (self, Arming::Leave),
        }
    }

    /// The wait that was to drain it has done so: the sleeper counts.
    ///
    /// # Panics
    /// If it does not drain.
    #[inline]
    pub const fn drained(self) -> Self {
        match self {
            Self::Draining => Self::Armed,
            Self::Open | Self::Armed | Self::Telling | Self::Held | Self::Again => {
                panic!("another thread has ended the draining")
            }
        }
    }

    /// A wait begins to poll; `None`: nothing changes. Else the sleeper does not count any more.
    #[inline]
    #[must_use]
    pub const fn held(self) -> Option<Self> {
        match self {
            Self::Armed => Some(Self::Held),
            Self::Open | Self::Draining | Self::Telling | Self::Held | Self::Again => None,
        }
    }

    /// The poll is over; `None`: nothing changes. Else the sleeper counts again, and the wait looks before it returns.
    #[inline]
    #[must_use]
    pub const fn released(self) -> Option<Self> {
        match self {
            Self::Held => Some(Self::Armed),
            Self::Open | Self::Draining | Self::Armed | Self::Telling | Self::Again => None,
        }
    }

    /// A thread that has taken the announcement off the bell calls; `None`: there is nothing to do. Else it makes the descriptor readable,
    /// and says so ([`told`](Self::told)); the sleeper does not count any more.
    #[inline]
    #[must_use]
    pub const fn called(self) -> Option<Self> {
        match self {
            Self::Armed => Some(Self::Telling),
            Self::Open | Self::Draining | Self::Telling | Self::Held | Self::Again => None,
        }
    }

    /// The descriptor was written; false: it is to be written once more.
    ///
    /// # Panics
    /// If no thread was to write it.
    #[inline]
    #[must_use]
    pub const fn told(self) -> (Self, bool) {
        match self {
            Self::Telling => (Self::Open, true),
            Self::Again => (Self::Telling, false),
            Self::Open | Self::Draining | Self::Armed | Self::Held => panic!("another thread has ended the telling"),
        }
    }
}

#[cfg(test)]
#[path = "external_tests.rs"]
mod tests;
