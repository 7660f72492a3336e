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
    adaptive_rx: bool,
}

/// The longest that an adaptive line holds an interrupt back. Source: `lib/dim/net_dim.c`, the middle of the receive profiles (`NET_DIM_RX_EQE_PROFILES`: 1, 8, 64, 128, 256 us).
pub const ADAPTIVE_HOLD: Span = Span::from_us(64);

/// The gap between two interrupts from which on an adaptive line holds none back. Twice the hold: one that was held back comes
/// after the hold, and is followed by another hold if packets go on coming.
pub const ADAPTIVE_GAP: Span = Span::from_us(128);

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
        if rx_usecs == 0 && rx_frames > 1 {
            Err(CoalesceError)
        } else {
            Ok(Self { rx_usecs, rx_frames, adaptive_rx: false })
        }
    }

    /// The line decides by itself (`adaptive-rx on`), by [`hold`](Self::hold): at once while interrupts are rare.
    #[must_use]
    pub const fn adaptive() -> Self {
        Self { rx_usecs: 0, rx_frames: 0, adaptive_rx: true }
    }

    /// Whether the line decides by itself.
    #[inline]
    #[must_use]
    pub const fn use_adaptive_rx(self) -> bool {
        self.adaptive_rx
    }

    /// How long after an interrupt the next one is held back, where frames are not counted: by an adaptive line if the last
    /// two came `gap` apart and that is little, else for `rx_usecs`. `None`: it is not.
    #[inline]
    #[must_use]
    pub fn hold(self, gap: Span) -> Option<Span> {
        if self.adaptive_rx {
            return (gap < ADAPTIVE_GAP).then_some(ADAPTIVE_HOLD);
        }
        (self.rx_usecs != 0).then(|| Span::from_us(u64::from(self.rx_usecs)))
    }

    /// Longest holding back, in µs; 0 where the line is adaptive.
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
enum ModerationPhase {
    Quiet,
    Counting { frames: u32, until: Deadline },
    Fired,
}

/// The coalescing machine of one interrupt line.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub struct Moderation {
    coalesce: Coalesce,
    phase: ModerationPhase,
}

impl Moderation {
    /// A quiet line.
    #[must_use]
    pub const fn new(coalesce: Coalesce) -> Self {
        Self { coalesce, phase: ModerationPhase::Quiet }
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
            ModerationPhase::Counting { until, .. } => until,
            ModerationPhase::Quiet | ModerationPhase::Fired => Deadline::NEVER,
        }
    }

    /// `frames` more were published; none is a mistake of ours that changes nothing.
    #[inline]
    pub fn on_frames(&mut self, frames: u32, now: Instant) -> Moderated {
        if frames == 0 {
            return Moderated::Wait;
        }
        let (waiting, until) = match self.phase {
            ModerationPhase::Fired => return Moderated::Wait,
            ModerationPhase::Counting { frames: before, until } => (before.saturating_add(frames), Some(until)),
            ModerationPhase::Quiet => (frames, None),
        };
        if self.coalesce.due(waiting) || until.is_some_and(|until| until.is_due(now)) {
            self.phase = ModerationPhase::Fired;
            return Moderated::Fire;
        }
        if let Some(until) = until {
            self.phase = ModerationPhase::Counting { frames: waiting, until };
            return Moderated::Wait;
        }
        let span = Span::from_us(u64::from(self.coalesce.rx_usecs));
        self.phase = ModerationPhase::Counting { frames: waiting, until: Deadline::after(now, span) };
        Moderated::StartTimer(span)
    }

    /// The timer fired; true: interrupt now. A timer that comes too early, or too late because the frames were
    /// announced already, does nothing.
    #[inline]
    #[must_use]
    pub fn on_timer(&mut self, now: Instant) -> bool {
        let due = self.deadline().is_due(now);
        if due {
            self.phase = ModerationPhase::Fired;
        }
        due
    }

    /// The receiver unmasked, having taken what was there; the next frames count from zero. The receiver looks again
    /// after unmasking, so frames that are published meanwhile are found.
    #[inline]
    pub const fn on_unmask(&mut self) {
        self.phase = ModerationPhase::Quiet;
    }
}

/// As `ethtool -c` names the settings.
impl fmt::Display for Coalesce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self { adaptive_rx: true, .. } => f.write_str("adaptive-rx on"),
            Self { rx_usecs: 0, .. } => f.write_str("off"),
            Self { rx_usecs, rx_frames: 0, .. } => write!(f, "rx-usecs {rx_usecs}"),
            Self { rx_usecs, rx_frames, .. } => write!(f, "rx-usecs {rx_usecs}, rx-frames {rx_frames}"),
        }
    }
}

/// Why a text names no coalescing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct NoCoalesce;

impl fmt::Display for NoCoalesce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("coalescing is adaptive, off, RX_USECS or RX_USECS,RX_FRAMES")
    }
}

impl core::error::Error for NoCoalesce {}

/// Reads `adaptive`, `off`, `RX_USECS` or `RX_USECS,RX_FRAMES`.
impl core::str::FromStr for Coalesce {
    type Err = NoCoalesce;

    fn from_str(text: &str) -> Result<Self, NoCoalesce> {
        let number = |text: &str| text.parse().map_err(|_| NoCoalesce);
        match (text, text.split_once(',')) {
            ("adaptive", _) => Ok(Self::adaptive()),
            ("off", _) => Ok(Self::default()),
            (_, Some((usecs, frames))) => Self::new(number(usecs)?, number(frames)?).map_err(|_| NoCoalesce),
            (_, None) => Self::new(number(text)?, 0).map_err(|_| NoCoalesce),
        }
    }
}

#[cfg(test)]
#[path = "moderation_tests.rs"]
mod tests;
