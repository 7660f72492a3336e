//! `napier compare`: one workload through the delivery modes of the engine, and of the kernel beside it.

mod case;
pub mod child;
mod cores;
mod cpus;
mod ends;
pub mod faults;
mod generator;
mod host;
mod kernel;
mod process;
mod run;
mod server;
mod tally;
mod wire;

pub use cpus::{CpuLayout, TooFewCpus};
pub use host::host_and_commit;
pub(crate) use napier_core::frames::{self, HEADER_BYTES, Template};
pub use run::{CompareConfig, compare};
