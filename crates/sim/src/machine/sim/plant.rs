//! How to run, and deliberate mistakes.

/// A deliberate mistake of the machine, to see that it is found.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub enum Plant {
    /// None.
    #[default]
    Nothing,
    /// The timer is armed while the instance is still owned (kernels before 2026).
    ArmBeforeRelease,
    /// A hand-over to a busy poller forgets to schedule when nothing else brings the instance back.
    HandOverAndForget,
    /// The driver unmasks without looking at its ring again.
    NoSecondLook,
    /// The timer takes an instance that has an owner.
    TimerIgnoresOwner,
    /// Now and then a poll loses a packet and counts nothing.
    UncountedLoss,
    /// The wake of a transmit queue schedules nothing.
    SilentWake,
    /// A packet that a driver did not take goes to the end of its discipline.
    RequeueAtTheBack,
    /// A flusher reads the list, and empties it a moment later.
    TornTake,
    /// A flusher leaves the defer count as it is.
    DeferCountKept,
    /// A CPU of a group unmasks its members and sleeps without looking at their rings again.
    ParkWithoutSecondLook,
    /// A CPU of a group polls a member although another one is in the middle of a poll of it.
    TwoPollers,
}

impl Plant {
    /// In words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::ArmBeforeRelease => "the timer is armed while the instance is still owned",
            Self::HandOverAndForget => "a hand-over to a busy poller does not schedule again",
            Self::NoSecondLook => "a driver unmasks without looking at its ring again",
            Self::TimerIgnoresOwner => "the timer takes an instance that has an owner",
            Self::UncountedLoss => "a poll loses a packet and counts nothing",
            Self::SilentWake => "the wake of a transmit queue schedules nothing",
            Self::RequeueAtTheBack => "a packet that a driver did not take goes to the end",
            Self::TornTake => "a flusher reads the defer list and empties it a moment later",
            Self::DeferCountKept => "a flusher does not set the defer count to 0",
            Self::ParkWithoutSecondLook => "a CPU of a group parks without a second look",
            Self::TwoPollers => "a member of a group has two pollers",
        }
    }
}

/// How to run.
#[derive(Copy, Clone, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// Events are logged.
    pub log: bool,
    /// At the end no thread may still be in a call.
    pub calls_end: bool,
    /// A deliberate mistake.
    pub plant: Plant,
    /// The run is given up after so many steps, with nothing broken; `None`: it goes on to its end.
    pub steps_max: Option<u64>,
}
