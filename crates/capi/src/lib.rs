//! The engine for C: `libnapier`, with the calls of `include/napier.h`.
//!
//! A call here is a function of [`napier_runtime`] under a POSIX name: it looks up its handle, checks what C hands over, and tells errors by
//! `errno`. `docs/c.md` is the page for programs in C; the header is made from the comments here by `tests/header.rs`.
//!
//! Modules use only those above them:
//!
//! | module | what |
//! |---|---|
//! | `error` | what C is told of a failure; no panic goes beyond it |
//! | `memory`, `address`, `control` | what C hands over by address; control messages |
//! | `engine`, `device`, `socket`, `port` | what handles stand for |
//! | `table` | handles |
//! | `calls` | the functions |
//!
//! Unsafe code is the border alone: what pointers of C point to, by the rules of each call, and frames that C holds of a raw port.

#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "what a caller has to keep is in the text that C reads: each pointer as its call says"
)]

mod address;
mod calls;
mod control;
mod device;
mod engine;
mod error;
mod memory;
mod port;
mod socket;
mod table;

pub use calls::*;
pub use device::{
    NAPIER_MEMIF_CLIENT, NAPIER_MEMIF_SERVER, NAPIER_XDP_AUTO, NAPIER_XDP_GENERIC, NAPIER_XDP_NATIVE,
    NAPIER_XDP_ZERO_COPY, NapierDeviceOptions, NapierMemifOptions, NapierXdpOptions,
};
pub use engine::NapierEngineOptions;
pub use port::{NAPIER_FRAMES_HELD_MAX, NapierFrame};
