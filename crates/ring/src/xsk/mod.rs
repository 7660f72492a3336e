//! The four rings of an AF_XDP socket, with the kernel at the other end.
//!
//! | end | rings | frames |
//! |---|---|---|
//! | [`XskRx`] | fill (ours to write), receive (the kernel's) | empty ones go in, packets come out |
//! | [`XskTx`] | transmit (ours), completion (the kernel's) | packets go in, sent ones come out |
//!
//! The socket's memory (UMEM) is cut into chunks of equal size, and a chunk is a [`Frame`](crate::Frame): its bytes begin
//! [`HEADROOM_BYTES`] into the chunk, where the kernel puts what it receives, in a copy too. Which frames are with the
//! kernel is kept here, so a descriptor that names any other makes no frame.
//!
//! The kernel sleeps when it has nothing to do and says so in a flag of the ring (`XDP_RING_NEED_WAKEUP`). The thread that
//! publishes looks at it, and gets a token if it is set. Only a token pays for a kick, and a kick takes it away: so a
//! packet that was published while the kernel slept cannot be forgotten, and none makes a system call for nothing.

mod chunks;
mod line;
mod protocol;
mod rx;
#[cfg(all(test, not(loom)))]
mod tests;
mod tx;
mod view;

pub use line::{OnceLine, Rearm};
#[cfg(all(test, loom))]
pub(crate) use protocol::{Consumer, Descriptor, Producer, XskMemory, XskWord, wants_wakeup};
pub use rx::{FillWake, XskLook, XskRx};
pub use tx::{TxPublish, TxWake, XskTx};
pub use view::{KernelRing, RingKind, RingPlaces, XskRingError};

/// From the start of a chunk to the bytes of a packet that the kernel put there.
/// Source: `include/uapi/linux/bpf.h` `XDP_PACKET_HEADROOM`.
pub const HEADROOM_BYTES: u32 = 256;

/// `include/uapi/linux/if_xdp.h`: the kernel sleeps on this ring.
pub(crate) const RING_NEED_WAKEUP: u32 = 1;
