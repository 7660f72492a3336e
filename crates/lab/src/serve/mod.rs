//! `napier serve kv`: the server of `napier_kv` on the kernel's sockets or on a device of an engine, in a mode.

mod config;
pub mod device;
pub mod hold;
pub mod limits;
mod noted;
mod report;
pub mod run;
mod workers;
