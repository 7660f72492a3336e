//! The library that Napier loads into programs, as bytes, and what is known of it from outside. It is compiled by `build.rs`; what it does is
//! at the head of `library/lib.rs`.

/// What both sides have to know.
#[path = "../library/marks.rs"]
pub mod marks;

// Looked at by clippy, and never part of a program that is linked with this crate: its functions have the names of the C library's.
#[cfg(clippy)]
#[allow(unsafe_code, unreachable_pub, dead_code, missing_docs)]
#[path = "../library/lib.rs"]
mod library;

/// The shared object. It is empty in a build for musl where nothing could be compiled for the GNU C library.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libnapier_modes.so"));
