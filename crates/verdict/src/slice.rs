//! One slice.

use crate::{Beside, Histogram};

/// A short interval of measurement of one candidate at one load.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// Which candidate, from 0.
    pub candidate: usize,
    /// Which round: slices of one number are next to each other in time, in random order.
    pub round: u32,
    /// How long it was.
    pub window_ns: u64,
    /// CPUs of which `cpu_ns` is a part.
    pub cpus: u32,
    /// Latencies of the requests that were answered, in ns.
    pub latency: Histogram,
    /// CPU time of what is measured.
    pub cpu_ns: u64,
    /// Requests that were due in it, sent or not. 0 in a closed loop.
    pub due: u64,
    /// Of these the ones that were answered in it, with what may be on its way at its end.
    pub in_time: u64,
    /// Requests that were answered in it.
    pub answered: u64,
    /// What the machine did meanwhile.
    pub beside: Beside,
}
