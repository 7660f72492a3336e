//! `napier compare`: one workload through the delivery modes of the engine, and of the kernel beside it.

mod case;
pub mod child;
mod config;
mod cores;
mod cpus;
mod crowd;
mod ends;
mod figures;
mod found;
mod generator;
mod host;
mod kernel;
mod machine;
mod predicted;
mod process;
mod run;
mod search;
mod server;
mod setup;
mod tally;
mod wire;

/// What the test of faults drives by itself; no interface of the lab.
#[doc(hidden)]
pub mod parts {
    pub use super::case::{CLIENT_PORT, SERVER};
    pub use super::generator::plan;
    pub use super::server::{Common, EventWorker, WorkerSetup, filled, run_worker};
    pub use super::wire::{RawFlow, RawWire, write};
    pub use crate::pair::{PEER_IP, Pair, TESTED_IP};
    pub use crate::roll_call::{Ready, RollCall};
}

pub use config::{CompareConfig, OnConfig, SimConfig, parse_modes};
pub use cpus::{CpuLayout, TooFewCpus};
pub(crate) use generator::plan as offer_plan;
pub use host::{commit, host_and_commit};
pub use kernel::program::{ProgramConfig, Speaks, init};
pub(crate) use napier_core::frames::{self, HEADER_BYTES, Template};
pub use run::{Watch, compare};
