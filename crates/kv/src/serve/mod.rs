//! A server of memcached's and Redis' protocols on the kernel's sockets or on the engine's.
//!
//! [`net::Net`] is what a worker needs of a network; [`kernel`] and [`engine`] have it. [`worker::Worker`] is the server
//! proper and the same code over both, so that a comparison between the two compares the networks.
//!
//! All ports of a server share one store: what a client of memcached stored, a client of Redis finds under the same key,
//! and the other way round with 0 as the client's word.

mod chores;
mod connection;
pub mod engine;
pub mod kernel;
pub mod net;
pub mod worker;

use std::time::{SystemTime, UNIX_EPOCH};

/// The time in ms since 1970, by which records expire.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
