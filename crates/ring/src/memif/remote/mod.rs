//! Ends of rings whose peer is another process, which may be hostile.
//!
//! No frame lives in the shared memory: packets are copied in and out on both roles, so what was checked cannot change
//! afterwards, and a peer that goes away takes nothing with it. Nothing makes a reference to shared bytes: they are
//! copied through raw pointers into private memory, and only the copy is looked at. What a peer does to bytes while they
//! are copied changes that packet and nothing else.
//!
//! | | client (owns the memory) | server (maps what it is given) |
//! |---|---|---|
//! | receive | [`S2cReceiver`]: slot `i` has buffer `i`; the peer is asked for a length only | [`C2sReceiver`]: region, offset and length are the peer's |
//! | send | [`C2sSender`]: likewise | [`S2cSender`]: into the buffer that the peer posted |
//!
//! Packets in several slots (NEXT) are joined if they fit one frame, and never sent. The producer publishes whole chains
//! only, so one that ends before its last slot is refused.

mod burst;
mod client;
#[cfg(all(any(test, feature = "fuzzing"), not(loom)))]
#[doc(hidden)]
pub mod fuzz;
mod regions;
mod server;
#[cfg(all(test, not(loom)))]
mod tests;

pub use burst::{BURST_MAX, Landing};
pub use client::{C2sSender, S2cReceiver, SlotBuffers};
pub use regions::Regions;
pub use server::{C2sReceiver, S2cSender};

use core::sync::atomic::{Ordering, compiler_fence};

use super::{BadDescriptor, InterruptSwitch, Publish};
use crate::memory;

/// Why a packet was not put into a ring.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum SendError {
    /// No slot is free: the peer is slower, or has not begun.
    Full,
    /// The peer's next buffer is smaller than the packet, which can never be sent to it.
    TooLong,
}

impl core::fmt::Display for SendError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Full => "the ring is full: the peer is too slow, or its ring too small",
            Self::TooLong => "the packet exceeds the peer's buffer: lower the MTU or raise the peer's buffer size",
        })
    }
}

impl std::error::Error for SendError {}

/// What became of a burst: the first packets of it, as many as the numbers add up to.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Packets that are in the ring.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the peer's buffers cannot hold ([`SendError::TooLong`]), among the others.
    pub too_long: u64,
}

/// One slot of a packet: where its bytes are, checked, and whether the packet goes on in the next slot.
struct Part {
    bytes: Result<(*const u8, usize), BadDescriptor>,
    more: bool,
}

/// A ring that parts come out of.
trait Parts {
    /// Slots that wait as far as is known.
    fn known(&self) -> usize;
    /// Slots that wait, with a look at the peer's index.
    fn look(&mut self) -> usize;
    /// The next part; looks at the peer's index if nothing is known to wait.
    fn next_part(&mut self) -> Option<Part>;
    /// The next part, as far as is known.
    fn next_known_part(&mut self) -> Option<Part>;
}

/// Copies the next packet to the start of `to` and returns its length. `None` = no packet.
#[inline]
fn take_into<R: Parts>(ring: &mut R, to: &mut [u8]) -> Option<Result<usize, BadDescriptor>> {
    let first = ring.next_part()?;
    let length = first.bytes.and_then(|from| copy_out(from, to));
    Some(if first.more { join(ring, length, to) } else { length })
}

/// The rest of a packet in several slots. Ends within one ring size: nothing is given back meanwhile.
#[cold]
fn join<R: Parts>(ring: &mut R, first: Result<usize, BadDescriptor>, to: &mut [u8]) -> Result<usize, BadDescriptor> {
    let mut joined = first;
    loop {
        // A chain is published as a whole, so all of it is known.
        let part = ring.next_known_part().ok_or(BadDescriptor::Chained)?;
        joined = joined.and_then(|at| Ok(at + copy_out(part.bytes?, &mut to[at..])?));
        if !part.more {
            return joined;
        }
    }
}

/// Copies bytes of shared memory, which were checked to be inside, out of it.
#[inline]
fn copy_out((from, length): (*const u8, usize), to: &mut [u8]) -> Result<usize, BadDescriptor> {
    let to = to.get_mut(..length).ok_or(BadDescriptor::TooLong)?;
    // SAFETY: the thread that made `from` checked that `length` bytes from there are inside a mapping that is alive, outside its
    // ring words. `to` is a reference to private memory, so it is elsewhere. The peer may write meanwhile: the bytes are
    // any bytes, and only the copy is looked at.
    unsafe { memory::copy(from, to.as_mut_ptr(), length) };
    // The compiler may not go back to the shared bytes where it is asked for the copy.
    compiler_fence(Ordering::SeqCst);
    Ok(length)
}

/// Copies a packet into shared memory, to a place that was checked to be inside and large enough.
#[inline]
fn copy_in(from: &[u8], to: *mut u8) {
    // SAFETY: the caller checked that as many bytes from `to` on are inside a mapping that is alive, outside its ring
    // words. `from` is a reference to private memory, so it is elsewhere. No thread in this process reads the bytes at `to`.
    unsafe { memory::copy(from.as_ptr(), to, from.len()) };
}

/// Does `$act` with the end of whichever role `$end` is.
macro_rules! on_role {
    ($end:expr, $ring:ident => $act:expr) => {
        match $end {
            Self::Client($ring) => $act,
            Self::Server($ring) => $act,
        }
    };
}

/// The receiving end of a ring, in either role.
pub enum Receiver {
    /// Of an S2C ring.
    Client(S2cReceiver),
    /// Of a C2S ring.
    Server(C2sReceiver),
}

impl Receiver {
    /// Packets that wait, with a look at the peer's index. Slots, not packets, where there are chains.
    #[inline]
    pub fn pending(&mut self) -> u32 {
        on_role!(self, ring => ring.pending())
    }

    /// Whether packets wait; looks at the peer's index if none do as far as is known.
    #[inline]
    pub fn has_packets(&mut self) -> bool {
        on_role!(self, ring => ring.has_packets())
    }

    /// Copies the oldest packet to the start of `to` and returns its length. `None` = no packet.
    ///
    /// # Errors
    ///
    /// [`BadDescriptor`]: the packet is dropped and its slots are done with.
    #[inline]
    pub fn take_into(&mut self, to: &mut [u8]) -> Option<Result<usize, BadDescriptor>> {
        on_role!(self, ring => take_into(ring, to))
    }

    /// Copies at most `max` packets to where `landing` has room for them; looks at the peer's index if fewer are known to
    /// wait. The memory of several packets is fetched at once. Those that are described wrongly count as well.
    #[inline]
    pub fn take_burst(&mut self, max: usize, landing: &mut impl Landing) {
        on_role!(self, ring => burst::take_burst(ring, max, landing));
    }

    /// Gives the slots of what was taken back to the peer; returns how many.
    #[inline]
    pub fn release(&mut self) -> u32 {
        on_role!(self, ring => ring.release())
    }

    /// The ring's interrupt, to be switched beside the owner of this end.
    #[must_use]
    pub fn interrupt_switch(&self) -> InterruptSwitch {
        on_role!(self, ring => ring.interrupt_switch())
    }

    /// Index of the oldest packet that was not taken, for [`InterruptSwitch::note_consumed`].
    #[must_use]
    #[inline]
    pub fn consumed(&self) -> u16 {
        on_role!(self, ring => ring.consumed())
    }

    /// Times that the peer's index was impossible.
    #[must_use]
    #[inline]
    pub fn index_errors(&self) -> u64 {
        on_role!(self, ring => ring.index_errors())
    }
}

/// The sending end of a ring, in either role.
pub enum Sender {
    /// Of a C2S ring.
    Client(C2sSender),
    /// Of an S2C ring.
    Server(S2cSender),
}

impl Sender {
    /// Copies a packet into the ring; the peer sees it after [`publish`](Self::publish).
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    ///
    /// # Panics
    ///
    /// If the packet is empty.
    #[inline]
    pub fn send(&mut self, packet: &[u8]) -> Result<(), SendError> {
        on_role!(self, ring => ring.send(packet))
    }

    /// Sends packets until there is no room.
    ///
    /// # Panics
    ///
    /// If one of them is empty.
    #[inline]
    pub fn send_burst<'p>(&mut self, packets: impl Iterator<Item = &'p [u8]>) -> Sent {
        on_role!(self, ring => {
            let mut sent = Sent::default();
            for packet in packets {
                match ring.send(packet) {
                    Ok(()) => {
                        sent.packets += 1;
                        sent.bytes += packet.len() as u64;
                    }
                    Err(SendError::TooLong) => sent.too_long += 1,
                    Err(SendError::Full) => break,
                }
            }
            sent
        })
    }

    /// Packets that can be sent, at most `max`; looks at the peer's index if fewer can as far as is known. The memory that
    /// they go to is asked for, so that it is there when they are sent in turn, at most [`BURST_MAX`] of them.
    #[inline]
    pub fn prepare(&mut self, max: usize) -> usize {
        on_role!(self, ring => ring.prepare(max))
    }

    /// Whether a packet can be sent; looks at the peer's index if none can as far as is known.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        on_role!(self, ring => ring.has_room())
    }

    /// Packets that the peer has not finished with, with a look at its index. At the server that includes the buffers
    /// that the peer has not posted yet.
    pub fn in_flight(&mut self) -> u32 {
        on_role!(self, ring => ring.in_flight())
    }

    /// Shows the peer what was sent, and tells whether it wants an interrupt for it.
    #[inline]
    pub fn publish(&mut self) -> Publish {
        on_role!(self, ring => ring.publish())
    }

    /// Buffers of the peer that could not be used and went back empty.
    #[must_use]
    #[inline]
    pub fn bad_descriptors(&self) -> u64 {
        match self {
            Self::Client(_) => 0,
            Self::Server(ring) => ring.bad_descriptors(),
        }
    }

    /// Times that the peer's index was impossible.
    #[must_use]
    #[inline]
    pub fn index_errors(&self) -> u64 {
        on_role!(self, ring => ring.index_errors())
    }
}
