//! memif 2.0 rings: the layout of the shared region and the four ends of its two kinds of ring.
//!
//! The client owns the memory and writes every ring's **head**; the server writes every **tail**. On both kinds of
//! ring the client *offers* slots and the server *answers* them in order; only the meaning differs:
//!
//! | ring | an offered slot is | an answered slot is | interrupts go to |
//! |---|---|---|---|
//! | C2S (client to server) | a packet ([`C2sProducer`]) | read ([`C2sConsumer`]) | the server |
//! | S2C (server to client) | an empty buffer ([`S2cConsumer`]) | a packet ([`S2cProducer`]) | the client |
//!
//! So one piece of code (`protocol`) is both kinds. Head and tail are free-running `u16`; a slot is the low bits.
//! Each end keeps its own index and the last one that it saw of its peer in private memory. A peer's index that
//! would mean more than the ring holds is counted ([`index_errors`](C2sConsumer::index_errors)) and nothing is read.
//!
//! A full fence lies between publishing and the look at the interrupt flag, and one between clearing the flag and
//! the second look. memif's other implementations have neither; a consumer of theirs may sleep through a packet, so
//! an end whose peer is foreign keeps a coarse timeout as well.
//!
//! The four types above are for links within one process: the client's frames are in the region, and packets in more than
//! one slot (NEXT) are refused and counted on both ends. [`remote`] has the ends whose peer is another process.

mod client;
mod kick;
mod layout;
mod protocol;
pub mod remote;
mod server;
mod switch;
#[cfg(all(test, not(loom)))]
mod tests;
mod view;

pub use client::{C2sProducer, S2cConsumer};
pub use kick::{KickLook, KickWord};
pub use layout::{Layout, LayoutError};
pub use server::{C2sConsumer, RingFull, S2cProducer};
pub use switch::InterruptSwitch;
#[cfg(all(test, loom))]
pub(crate) use switch::Switch;
pub use view::{RingEnd, RingError, RingView};

#[cfg(all(test, loom))]
pub(crate) use protocol::{Follower, Leader, RingMemory, RingWord, mask, unmask, wants_interrupt};

/// First word of every ring. Source: memif.h MEMIF_COOKIE (memif 2.0).
pub const COOKIE: u32 = 0x03E3_1F20;
/// Bytes before a ring's descriptors.
pub const RING_HEADER_BYTES: usize = 128;
/// Bytes of a descriptor: flags u16, region u16, length u32, offset u32, metadata u32.
pub const DESCRIPTOR_BYTES: usize = 16;
/// Descriptors of a cache line.
const DESCRIPTORS_PER_LINE: u16 = 4;
/// Where the cookie is, u32, bytes from the ring's start.
pub const COOKIE_OFFSET: usize = 0;
/// Where the flags are, u16. Written by the consumer of the packets, read by their producer.
pub const FLAGS_OFFSET: usize = 4;
/// Where the head is, u16. Written by the client.
pub const HEAD_OFFSET: usize = 6;
/// Where the tail is, u16. Written by the server.
pub const TAIL_OFFSET: usize = 64;
/// Ring flag: the packets' consumer wants no interrupt.
pub const FLAG_MASK_INT: u16 = 1;
/// Descriptor flag: the packet continues in the next slot.
pub const DESCRIPTOR_NEXT: u16 = 1;
/// Largest log2 of a ring's slots. Source: memif 2.0 (2^16 must be a multiple of the slots).
pub const LOG2_RING_SIZE_MAX: u8 = 14;

const _: () =
    assert!(COOKIE_OFFSET.is_multiple_of(4) && FLAGS_OFFSET.is_multiple_of(2) && HEAD_OFFSET.is_multiple_of(2));
const _: () = assert!(FLAGS_OFFSET == COOKIE_OFFSET + 4 && HEAD_OFFSET == FLAGS_OFFSET + 2);
const _: () = assert!(TAIL_OFFSET == 64 && TAIL_OFFSET + 2 <= RING_HEADER_BYTES);
const _: () = assert!(RING_HEADER_BYTES.is_multiple_of(64) && 64 % DESCRIPTOR_BYTES == 0);

/// What [`publish`](C2sProducer::publish) did.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[must_use = "the peer sleeps until it is rung, if it wants an interrupt"]
pub struct Publish {
    /// Packets that the peer sees now and did not see before.
    pub published: u32,
    /// Whether the peer's interrupt is unmasked. `false` if nothing was published.
    pub peer_wants_interrupt: bool,
}

/// Why a packet that the peer described was not taken. The slot is given back all the same.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum BadDescriptor {
    /// The packet is empty.
    Empty,
    /// The packet is longer than the buffer that is to take it.
    TooLong,
    /// The bytes are not in the frames of the region.
    OutOfRegion,
    /// The packet uses more than one slot.
    Chained,
}

impl core::fmt::Display for BadDescriptor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Empty => "the peer described an empty packet",
            Self::TooLong => "the peer described a packet that is longer than a frame: give both ends one frame size",
            Self::OutOfRegion => "the peer described bytes outside the shared frames",
            Self::Chained => "the peer described a packet in several slots: lower its MTU to one frame",
        })
    }
}

impl std::error::Error for BadDescriptor {}
