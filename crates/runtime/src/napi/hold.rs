//! Places where a test can hold a thread, as if it had lost its processor there.

/// A place on the way of an instance.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    /// The instance has a new poller, who has not been told yet.
    Scheduled,
    /// The instance is being polled.
    Polling,
}

crate::hold::places!(pub(crate) Point);
