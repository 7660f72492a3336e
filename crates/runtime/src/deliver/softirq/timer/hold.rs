//! Places where a test can hold a thread, as if it had lost its processor there.

/// A place on the way to a kernel timer.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    /// It has said that it sets the kernel timer, and has not done it.
    BeforeKernelTimer,
}

crate::hold::places!(pub(crate) Point);
