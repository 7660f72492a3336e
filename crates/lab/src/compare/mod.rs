//! `napier compare`: one workload through the delivery modes of the engine.

mod case;
mod client;
mod cpus;
pub mod faults;
pub(crate) mod frames;
mod host;
mod run;
mod server;

pub use cpus::{CpuLayout, TooFewCpus};
pub(crate) use frames::{HEADER_BYTES, Template};
pub use host::host_and_commit;
pub use run::{CompareConfig, compare};
