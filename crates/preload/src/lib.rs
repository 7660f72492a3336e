//! The libraries that Napier loads into programs, as bytes, and what is known of them from outside. They are compiled by `build.rs`; what they do is
//! at the heads of `library/lib.rs` and `sockets/lib.rs`.

/// What both sides have to know.
#[path = "../library/marks.rs"]
pub mod marks;

// Looked at by clippy, and never part of a program that is linked with this crate: their functions have the names of the C library's.
#[cfg(clippy)]
#[allow(unsafe_code, unreachable_pub, dead_code, missing_docs)]
#[path = "../library/lib.rs"]
mod library;
#[cfg(clippy)]
#[allow(unsafe_code, unreachable_pub, dead_code, missing_docs)]
#[path = "../sockets/lib.rs"]
mod sockets;

/// The shared object with waits for events that poll. It is empty in a build for musl where nothing could be compiled for the GNU C library.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libnapier_modes.so"));

/// The shared object whose writes go past sockets, to the engine that has their other ends. Empty as [`LIBRARY`] is.
pub const SOCKETS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libnapier_sockets.so"));
