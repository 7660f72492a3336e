//! `napier compare`: one workload through the delivery modes of the engine.

mod case;
mod client;
mod cpus;
mod frames;
mod host;
mod run;
mod server;

pub use cpus::{CpuLayout, TooFewCpus};
pub use run::{CompareConfig, compare};
