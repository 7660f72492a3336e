//! `napier compare`: one workload through the delivery modes of the engine, and of the kernel beside it.

mod addresses;
mod asked;
mod case;
pub mod child;
mod comparison;
mod config;
mod cores;
mod crowd;
mod decide;
mod ends;
mod figures;
mod found;
mod generator;
mod kernel;
mod machine;
mod meter;
mod place;
mod predicted;
mod process;
mod rounds;
mod run;
mod server;
mod setup;
mod stand;
mod sustained;
mod wire;
mod workload;

/// What the test of faults drives by itself; no interface of the lab.
#[doc(hidden)]
pub mod parts {
    pub use super::addresses::{CLIENT_PORT, SERVER};
    pub use super::server::{Common, EventWorker, WorkerMode, WorkerSetup, filled, run_worker};
    pub use super::wire::{RawFlow, RawWire, write};
    pub use crate::offer::plan;
    pub use crate::pair::{PEER_IP, Pair, TESTED_IP};
    pub use crate::roll_call::{Ready, RollCall};
}

// Their names up to version 0.2.
pub use crate::cpus::{CpuLayout, TooFewCpus};
pub use crate::host::{commit, host_and_commit};
pub use asked::AskedModes;
pub use config::{CompareConfig, OnConfig, SimConfig};
pub use kernel::program::{ProgramConfig, Speaks, init};
pub(crate) use machine::Outside;
pub use run::compare;
