//! memif 2.0 between two processes: the messages of the control channel and what each side says next.
//!
//! The server listens and maps what it is given; the client connects and owns the memory. The handshake is lock-step,
//! each line answered by the server before the next:
//!
//! ```text
//! client                              server
//! (connects)                          HELLO        what it can do
//! INIT       interface, secret        ACK
//! ADD_REGION + file, 0, 1, ...        ACK
//! ADD_RING + eventfd, C2S 0, 1, ...   ACK
//! ADD_RING + eventfd, S2C 0, 1, ...   ACK
//! CONNECT                             CONNECTED    it has mapped the regions and found the cookies
//! ```
//!
//! Either side ends it at any time with DISCONNECT and a reason. [`ServerHandshake`] and [`ClientHandshake`] are given
//! one message at a time, and whether a file descriptor came with it; each returns the one thing to do next. What a peer
//! sends is judged here, field by field; what only the system can tell (how long a file is, whether it can shrink,
//! whether a cookie is there) is for the caller.
//!
//! When something is done about a peer that says nothing is in [`times`].
//!
//! Source: memif 2.0, DPDK v22.11 `drivers/net/memif/{memif.h,memif_socket.c}`.

mod client;
#[cfg(test)]
mod client_tests;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzz;
mod layout;
#[cfg(test)]
mod layout_tests;
mod message;
#[cfg(test)]
mod message_tests;
mod server;
#[cfg(test)]
mod server_tests;
mod text;
pub mod times;
#[cfg(test)]
mod times_tests;
#[cfg(test)]
mod walk_tests;

pub use client::{ClientConfig, ClientDecision, ClientHandshake, Descriptor};
pub use fault::Fault;
pub use layout::{RegionLayout, RegionLayoutError, ring_bytes};
pub use message::{
    AddRegion, AddRing, DecodeError, Hello, Init, MESSAGE_BYTES, Message, Name, Reason, SECRET_BYTES, Secret, VERSION,
};
pub use server::{Interface, ServerDecision, ServerHandshake, ServerLimits, Taken};
pub use text::Text;

/// Bytes of a ring before its descriptors.
pub const RING_HEADER_BYTES: u64 = 128;
/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: u64 = 16;
/// Every ring starts at a multiple of this: a cache line.
pub const RING_ALIGN: u64 = 64;
/// Largest log2 of a ring's slots: 2^16 must be a multiple of them, with room to tell full from empty.
pub const LOG2_RING_SIZE_MAX: u8 = 14;
/// Most rings in one direction.
pub const RINGS_MAX: u16 = 256;
/// The only mode that is spoken here. Source: memif.h MEMIF_INTERFACE_MODE_ETHERNET.
pub const MODE_ETHERNET: u8 = 0;
