//! Interrupt coalescing of a device end: how long and for how many frames an interrupt is held back, in the words of
//! `ethtool -C` (`rx-usecs`, `rx-frames`).
//!
//! ```text
//! Quiet --frames, due--> Fired            Counting --frames, due--> Fired
//! Quiet --frames, not due--> Counting     Counting --timer--> Fired
//! Fired --on_unmask--> Quiet              (Fired: the interrupt is not repeated until the receiver unmasks)
//! ```

use core::fmt;

use crate::control::Errno;
use crate::time::{Deadline, Instant, Span};

/// Coalescing settings. The default interrupts for every batch at once.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub struct Coalesce {
    rx_usecs: u32,
    rx_frames: u32,
}

/// Why coalescing settings were refused.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct CoalesceError;

impl CoalesceError {
    /// The kernel's error number for it.
    #[must_use]
    pub const fn errno(self) -> Errno {
        Errno::EINVAL
    }
}

impl fmt::Display for CoalesceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "EINVAL: rx-frames above 1 needs rx-usecs above 0, or fewer frames than that would never be announced",
        )
    }
}

impl core::error::Error for CoalesceError {}

impl Coalesce {
    /// Checks settings: hold an interrupt back for at most `rx_usecs` µs after the first frame, or until `rx_frames`
    /// frames wait. `rx_usecs` 0: no holding back; `rx_frames` 0: no limit by number.
    ///
    /// # Errors
    /// [`CoalesceError`] if frames could wait for ever.
    pub const fn new(rx_usecs: u32, rx_frames: u32) -> Result<Self, CoalesceError> {
        if rx_usecs == 0 && rx_frames > 1 { Err(CoalesceError) } else { Ok(Self { rx_usecs, rx_frames }) }
    }

    /// Longest holding back, in µs.
    #[inline]
    #[must_use]
    pub const fn rx_usecs(self) -> u32 {
        self.rx_usecs
    }

    /// Whether `waiting` frames (one or more) that had no interrupt since the last unmask get one now; else it comes
    /// `rx_usecs` after the first of them. The rule of [`Moderation`], for an executor that counts by itself.
    #[inline]
    #[must_use]
    pub const fn due(self, waiting: u32) -> bool {
        self.rx_usecs == 0 || (self.rx_frames != 0 && waiting >= self.rx_frames)
    }

    /// Most frames held back; 0: no limit.
    #[inline]
    #[must_use]
    pub const fn rx_frames(self) -> u32 {
        self.rx_frames
    }
}

/// What to do about frames that were published while the receiver takes interrupts.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Moderated {
    /// Interrupt now. A timer that was started is of no use any more; if it fires it says so itself.
    Fire,
    /// Start the timer with this.
    StartTimer(Span),
    /// Nothing: a timer runs, or the receiver has been told already.
    Wait,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
enum Phase {
    Quiet,
    Counting { frames: u32, until: Deadline },
    Fired,
}

/// The coalescing machine of one interrupt line.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub struct Moderation {
    coalesce: Coalesce,
    phase: Phase,
}

impl Moderation {
    /// A quiet line.
    #[must_use]
    pub const fn new(coalesce: Coalesce) -> Self {
        Self { coalesce, phase: Phase::Quiet }
    }

    /// New settings; they count from the next frames on, a running timer is not changed.
    pub const fn set(&mut self, coalesce: Coalesce) {
        self.coalesce = coalesce;
    }

    /// The settings.
    #[must_use]
    pub const fn coalesce(&self) -> Coalesce {
        self.coalesce
    }

    /// When the timer has to be looked at.
    #[inline]
    #[must_use]
    pub const fn deadline(&self) -> Deadline {
        match self.phase {
            Phase::Counting { until, .. } => until,
            Phase::Quiet | Phase::Fired => Deadline::NEVER,
        }
    }

    /// `frames` more were published; none is a mistake of ours that changes nothing.
    #[inline]
    pub fn on_frames(&mut self, frames: u32, now: Instant) -> Moderated {
        if frames == 0 {
            return Moderated::Wait;
        }
        let (waiting, until) = match self.phase {
            Phase::Fired => return Moderated::Wait,
            Phase::Counting { frames: before, until } => (before.saturating_add(frames), Some(until)),
            Phase::Quiet => (frames, None),
        };
        if self.coalesce.due(waiting) || until.is_some_and(|until| until.is_due(now)) {
            self.phase = Phase::Fired;
            return Moderated::Fire;
        }
        if let Some(until) = until {
            self.phase = Phase::Counting { frames: waiting, until };
            return Moderated::Wait;
        }
        let span = Span::from_us(u64::from(self.coalesce.rx_usecs));
        self.phase = Phase::Counting { frames: waiting, until: Deadline::after(now, span) };
        Moderated::StartTimer(span)
    }

    /// The timer fired; true: interrupt now. A timer that comes too early, or too late because the frames were
    /// announced already, does nothing.
    #[inline]
    #[must_use]
    pub fn on_timer(&mut self, now: Instant) -> bool {
        let due = self.deadline().is_due(now);
        if due {
            self.phase = Phase::Fired;
        }
        due
    }

    /// The receiver unmasked, having taken what was there; the next frames count from zero. The receiver looks again
    /// after unmasking, so frames that are published meanwhile are found.
    #[inline]
    pub const fn on_unmask(&mut self) {
        self.phase = Phase::Quiet;
    }
}

#[cfg(test)]
#[path = "moderation_tests.rs"]
mod tests;
