//! When something is done about a peer that says nothing: the end of a handshake, a client's next try, looks at rings, and looks
//! at threads that ring.
//!
//! A client without a connection:
//!
//! ```text
//! new --> Due(now) --begin--> under way --ended--> Due(now + retry)
//!                                 |                     or + LOOK_EVERY at most, if the server's queue was full
//!                                 +--> (packets flow)
//! ```
//!
//! The thread that frees ringers:
//!
//! | its look found | next |
//! |---|---|
//! | a ringer that waits for its peer | a look after [`FREEING`], for the peer may fill the counter again |
//! | rings, now or in the last [`LOOKS_IDLE`] looks | a look after [`RINGING`] |
//! | neither | sleep until something rings |

use crate::time::{Deadline, Instant, Span};

/// Longest time that a peer may take for the whole handshake, however much it says.
pub const HANDSHAKE_MAX: Span = Span::from_secs(5);
/// How often rings of connected peers are looked at: an interrupt may have been lost, or the protocol broken.
pub const LOOK_EVERY: Span = Span::from_ms(10);
/// Between two looks while something rings. A ringer that waits is found at the second.
pub const RINGING: Span = Span::from_ms(1);
/// Between two looks while a ringer is to be freed.
pub const FREEING: Span = Span::from_us(50);
/// Looks without any ring until the thread that frees ringers sleeps.
pub const LOOKS_IDLE: u32 = 100;

/// When a client tries to connect.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Tries {
    retry: Span,
    due: Deadline,
}

impl Tries {
    /// The first try is due at once; `retry` is the time to the next after one that failed, or after a connection.
    #[must_use]
    pub const fn new(now: Instant, retry: Span) -> Self {
        Self { retry, due: Deadline::at(now) }
    }

    /// When the next try is due; never while one is under way.
    #[must_use]
    pub const fn due(&self) -> Deadline {
        self.due
    }

    /// A try begins.
    pub const fn begin(&mut self) {
        self.due = Deadline::NEVER;
    }

    /// The try, or the connection that it made, has ended. `queue_full`: there is a server, and too many clients wait for it
    /// at the moment, so it is tried again soon.
    pub fn ended(&mut self, now: Instant, queue_full: bool) {
        let wait = if queue_full { self.retry.min(LOOK_EVERY) } else { self.retry };
        self.due = Deadline::after(now, wait);
    }
}

/// When the thread that frees ringers looks again.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct GuardPace {
    looks_idle: u32,
}

/// Answer of [`GuardPace::looked`].
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum GuardStep {
    /// Look again after this time.
    LookAfter(Span),
    /// Sleep until something rings.
    AwaitRing,
}

impl GuardPace {
    /// A look was made: whether something has rung since the last one or does now, and whether a ringer waits still.
    pub const fn looked(&mut self, rings: bool, waits: bool) -> GuardStep {
        self.looks_idle = if rings { 0 } else { self.looks_idle + 1 };
        if waits {
            GuardStep::LookAfter(FREEING)
        } else if self.looks_idle < LOOKS_IDLE {
            GuardStep::LookAfter(RINGING)
        } else {
            self.looks_idle = 0;
            GuardStep::AwaitRing
        }
    }
}
