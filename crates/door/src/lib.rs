//! The engine for programs that were not changed: the slow door, for any program, static ones too.
//!
//! ```text
//! program                                                         engine: a thread for each program's calls, one that carries the bytes of all
//!   fd 7 = one end of a pair of Unix sockets  <=================>  other end <--relay--> a TCP connection of the engine
//!   read write sendfile epoll select poll fork dup exec close: the kernel's own, on fd 7
//!   socket bind listen accept connect getsockname ...: held by seccomp ---> rules ---> the call's answer
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `rules` | which call in which state gives which answer; which addresses and options are whose |
//! | `relay` | bytes both ways with bounded buffers, ends of halves, resets |
//! | `datagrams` | datagrams both ways, each with a head (the fast door alone) |
//! | `near`, `near_datagrams` | connections and datagrams between programs on one engine |
//! | `program` | the thread of one program, which carries the rules out, and the carrier of all programs' bytes |
//! | `server`, `client`, `wire` | the door itself: programs come in, sockets are shown |
//! | `container` | programs that a runtime of containers brings |
//!
//! A program may say anything. Nothing that is read from its memory is believed or kept unbounded: at most [`SOCKETS_MAX`] sockets,
//! [`HELD_MAX`] held calls, [`WAITING_MAX`] connections that wait and [`BYTES_MAX`] bytes, 64 KiB of one connection, beside what the engine's own buffers have. Its thread reads its memory alone.

#![forbid(unsafe_code)]

mod address;
mod client;
mod container;
mod datagrams;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzz;
mod limits;
mod near;
mod near_datagrams;
mod program;
mod relay;
mod rules;
mod served;
mod server;
mod view;
mod wire;

pub use client::{DoorError, EngineAt, ServedAt, ShownEngine};
pub use container::{ContainersConfig, StartKeeper};
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use fuzz::fuzz_calls;
pub use limits::{BYTES_MAX, HELD_MAX, PROGRAMS_MAX, SOCKETS_MAX, WAITING_MAX};
pub use rules::reach::Reach;
pub use server::{Door, DoorConfig, OpenDoorError};
pub use view::{DoorCounts, ProgramView, SocketView, Tally};

/// What names of doors begin with, among the names of the network namespace (`unix(7)`, abstract). A program that comes in by one is in the namespace
/// of its engine, where the sockets of the kernel are that it gets instead.
const NAME_PREFIX: &str = "napier-engine-";
/// Longest name of an engine, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Whether an engine may have this name: letters, digits, `-`, `_`, `.`, `@` and `:`, at most 64 of them.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@:".contains(&byte);
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_plain)
}
