//! Peers that lie: clients and servers that speak raw bytes, and a device of ours that has to survive each of them.

mod access;
#[path = "../common/mod.rs"]
mod common;
mod flood;
mod hostile;
mod lies;
mod program;
mod raw;
mod sparse;
mod stuck;
mod victim;
