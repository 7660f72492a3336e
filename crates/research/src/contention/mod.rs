//! Senders that want one transmit queue at the same time, with cache lines and locks that cost time.
//!
//! The rules of the transmit path are those of [`napier_core::tx`]; here is what they cost on a machine of many cores:
//! who has which cache line, who waits for which lock, who sleeps. No figure that a run is compared with is in here.
//!
//! ```text
//!  sender 1 --\                                                   /--> ring --> device --> interrupt --+
//!  sender 2 ---+--> list, or two spin locks --> fq --> runner ----/                                    |
//!  sender n --/                                                                                        |
//!      ^----- memory of sent packets, wake-up <------------------------ poll on another CPU <----------/
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | [`topology`] | CPUs, and how far apart they are |
//! | [`costs`] | every parameter with its origin |
//! | `line`, `spin` | a cache line, a queued spin lock |
//! | `sender`, `path`, `runner`, `napi` | what senders, flushers, runners and completions do |
//! | `machine` | the event loop |

pub mod costs;
mod line;
mod machine;
mod napi;
mod outcome;
mod packet;
mod path;
pub mod plan;
mod queue;
mod runner;
mod sender;
mod spin;
pub mod topology;
mod worker;

pub use machine::run;
pub use outcome::{Counts, Outcome};

#[cfg(test)]
mod tests;
