//! What the executors in real time have in common: how the timeline of a scenario is gone through by threads of the operating
//! system, and how answers are spelled.
//!
//! | file | holds |
//! |---|---|
//! | `clock` | time zero and the end, and waiting for a time of the scenario |
//! | `timeline` | the threads that make calls, packets and checks in order, and when the log ends |
//! | `answers` | what a call comes to |
//! | `cpus` | which CPU takes what, and how many processors a scenario needs |

pub(crate) mod answers;
pub(crate) mod clock;
pub(crate) mod cpus;
pub(crate) mod timeline;

use super::Refused;

/// The real-time priority of all threads of a run that have no higher one.
pub(crate) const PRIORITY: i32 = 10;

pub(crate) fn refused(why: impl Into<String>) -> Refused {
    Refused { why: why.into(), is_late: false }
}

/// What failed, as a reason not to run.
pub(crate) fn failed(what: &str, error: impl std::fmt::Display) -> Refused {
    refused(format!("{what} failed: {error}"))
}
