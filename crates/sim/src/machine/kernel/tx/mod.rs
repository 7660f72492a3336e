//! The transmit path, step by step.
//!
//! | file | holds |
//! |---|---|
//! | `schedule` | scheduling of disciplines, wakes, the timer of packets that may not leave yet |
//! | `driver` | the driver is given a packet, stops its queue, frees what has left |
//! | `nolock` | a discipline without root lock |
//! | `run` | flush and run |
//! | `noqueue`, `send` | a sender, and which way its packet goes |
//! | `softirq` | the transmit softirq |
//! | `lifecycle` | activation and deactivation |

pub(crate) mod driver;
pub(crate) mod lifecycle;
pub(crate) mod nolock;
pub(crate) mod noqueue;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod send;
pub(crate) mod softirq;

#[cfg(test)]
mod tests;
