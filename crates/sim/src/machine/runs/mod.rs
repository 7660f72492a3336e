//! Runs for figures, and runs to look at.
//!
//! | file | holds |
//! |---|---|
//! | `figures` | what can be run for figures, and the run of it |
//! | `measure` | how that is measured, of whatever setting |
//! | `server` | a server of one queue, its clients, and its program |
//! | `smp` | a server of many CPUs, and who polls there |
//! | `rpc` | two hosts on a wire, and one packet at a time back and forth |
//! | `bulk` | two hosts of many CPUs, programs of many threads, messages of any size |
//! | `trace` | what each CPU did when |

pub mod bulk;
mod bulk_program;
pub mod figures;
mod measure;
pub mod rpc;
mod rpc_program;
mod server;
pub mod smp;
pub mod trace;
