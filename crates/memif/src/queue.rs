//! The ends of a queue as a program has them that drives its packets itself.
//!
//! Nothing here makes a reference to shared memory: a packet is copied once, out of or into memory that the peer can write.
//! Each end may be given to a thread of its own, and goes on to exist when the peer is gone; then it has nothing more to say.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use napier_core::counters::Counter;
use napier_ring::memif::remote::{BURST_MAX, Landing, Receiver, Sender, Sent};
use napier_ring::memif::{BadDescriptor, InterruptSwitch};

use crate::kick::{Kick, drain};

/// What the ends of one connection share with the thread that drives the channel.
#[derive(Default)]
pub(crate) struct ConnectionState {
    /// The peer is gone.
    over: AtomicBool,
    /// Impossible indices, over all connections of the interface.
    index_errors: Arc<Counter>,
}

impl ConnectionState {
    pub(crate) fn new(index_errors: Arc<Counter>) -> Self {
        Self { over: AtomicBool::new(false), index_errors }
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed); // a hint: what the peer left is in the rings still
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }
}

/// What of an end's index errors the connection knows.
struct Errors {
    shared: Arc<ConnectionState>,
    told: u64,
}

impl Errors {
    #[inline]
    fn note(&mut self, errors: u64) {
        if errors != self.told {
            // What a peer that is gone does to its memory is not the next one's doing.
            if !self.shared.is_over() {
                self.shared.index_errors.add_shared(errors - self.told);
            }
            self.told = errors;
        }
    }
}

/// Packets that were received, one after the other in memory of this process.
///
/// ```
/// let packets = napier_memif::MemifPackets::new(32, 2048);
/// assert_eq!((packets.capacity(), packets.iter().count()), (32, 0));
/// ```
pub struct MemifPackets {
    bytes: Box<[u8]>,
    stride: usize,
    frame_bytes: usize,
    lengths: Vec<usize>,
    capacity: usize,
    refused: u64,
}

impl MemifPackets {
    /// Room for `capacity` packets of at most `frame_bytes` bytes each; longer ones are dropped and counted.
    #[must_use]
    pub fn new(capacity: usize, frame_bytes: usize) -> Self {
        // No power of two, so that packet heads spread over the cache sets.
        let stride = frame_bytes.next_multiple_of(64) + 64;
        let lengths = Vec::with_capacity(capacity);
        Self { bytes: vec![0; capacity * stride].into(), stride, frame_bytes, lengths, capacity, refused: 0 }
    }

    /// Packets that fit in.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Packets that are there.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The packets, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.lengths.iter().zip(self.bytes.chunks_exact(self.stride)).map(|(length, bytes)| &bytes[..*length])
    }

    /// The packets, to be changed in place.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = &mut [u8]> {
        let bytes = self.bytes.chunks_exact_mut(self.stride);
        self.lengths.iter().zip(bytes).map(|(length, bytes)| &mut bytes[..*length])
    }
}

impl Landing for MemifPackets {
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.lengths.len() * self.stride..][..self.frame_bytes]
    }

    #[inline]
    fn landed(&mut self, length: usize) {
        self.lengths.push(length);
    }

    #[cold]
    fn refused(&mut self, _why: BadDescriptor) {
        self.refused += 1;
    }
}

/// What a [`MemifReceiver`] has counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// Packets received.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped: longer than the room for one, or described wrongly by the peer.
    pub refused: u64,
}

napier_core::shown!(ReceiverCounters { packets, bytes, refused });

/// What a [`MemifSender`] has counted.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Packets that are in the ring.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets dropped because the peer's buffers cannot hold them.
    pub too_long: u64,
    /// Times that the peer was interrupted.
    pub kicks: u64,
}

napier_core::shown!(SenderCounters { packets, bytes, too_long, kicks });

/// The receive end of one queue.
///
/// Its descriptor is readable when the peer has interrupted, which it does if it was asked to: [`arm`](Self::arm), wait,
/// [`disarm`](Self::disarm), receive until there is nothing, and again. A program that polls all the time asks for none.
///
/// ```no_run
/// use napier_memif::{MemifPackets, MemifReceiver};
/// use rustix::event::{PollFd, PollFlags, poll};
///
/// fn receive(receiver: &mut MemifReceiver) -> std::io::Result<()> {
///     let mut packets = MemifPackets::new(64, 2048);
///     while receiver.is_connected() {
///         receiver.disarm();
///         while receiver.receive(&mut packets) > 0 {
///             packets.iter().for_each(|packet| println!("{} bytes", packet.len()));
///         }
///         if receiver.arm() {
///             // Beside the `Memif`, which says when the peer goes.
///             poll(&mut [PollFd::new(receiver, PollFlags::IN)], None)?;
///         }
///     }
///     Ok(())
/// }
/// ```
pub struct MemifReceiver {
    ring: Receiver,
    switch: Arc<InterruptSwitch>,
    eventfd: OwnedFd,
    errors: Errors,
    counters: ReceiverCounters,
}

impl MemifReceiver {
    pub(crate) fn new(ring: Receiver, eventfd: OwnedFd, shared: Arc<ConnectionState>) -> Self {
        let switch = Arc::new(ring.interrupt_switch());
        switch.mask();
        let mut receiver =
            Self { ring, switch, eventfd, errors: Errors { shared, told: 0 }, counters: ReceiverCounters::default() };
        // A client posts its buffers.
        receiver.release();
        receiver
    }

    pub(crate) fn switch(&self) -> &Arc<InterruptSwitch> {
        &self.switch
    }

    /// Replaces what is in `packets` by what has come, as much as fits in, and gives the peer its slots back. Returns how
    /// many there are: 0 if nothing waits, or if what waited could not be taken, which is counted.
    #[inline]
    pub fn receive(&mut self, packets: &mut MemifPackets) -> usize {
        packets.lengths.clear();
        let refused = packets.refused;
        self.ring.take_burst(packets.capacity, packets);
        self.release();
        self.counters.packets += packets.lengths.len() as u64;
        self.counters.bytes += packets.lengths.iter().sum::<usize>() as u64;
        self.counters.refused += packets.refused - refused;
        packets.lengths.len()
    }

    fn release(&mut self) {
        if self.ring.release() > 0 {
            self.switch.note_consumed(self.ring.consumed());
        }
        self.errors.note(self.ring.index_errors());
    }

    /// Asks the peer for an interrupt with the next packet. False: packets wait already, for which none may come; the end is
    /// [disarmed](Self::disarm) then.
    ///
    /// A peer whose implementation does not fence (DPDK, VPP and libmemif do not) can fail to interrupt, if rarely:
    /// [`MemifEvent::PacketsWait`](crate::MemifEvent::PacketsWait) says so within some 10 ms.
    #[must_use = "false means that packets wait"]
    pub fn arm(&mut self) -> bool {
        let wait = self.switch.unmask();
        if wait {
            self.switch.mask();
        }
        !wait
    }

    /// Asks for no more interrupts, and forgets those that came. To be called when the descriptor was readable.
    pub fn disarm(&mut self) {
        self.switch.mask();
        drain(self.eventfd.as_fd());
    }

    /// Whether the peer is there still. Packets that it sent before it went can be received.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        !self.errors.shared.is_over()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> ReceiverCounters {
        self.counters
    }
}

impl AsFd for MemifReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

/// The send end of one queue.
///
/// ```no_run
/// use napier_memif::MemifSender;
///
/// /// Gives how many of these packets went; the ring may be full.
/// fn send(sender: &mut MemifSender, packets: &[Vec<u8>]) -> usize {
///     let sent = sender.send(packets.iter().map(Vec::as_slice));
///     (sent.packets + sent.too_long) as usize
/// }
/// ```
pub struct MemifSender {
    ring: Sender,
    kick: Arc<Kick>,
    errors: Errors,
    counters: SenderCounters,
}

impl MemifSender {
    pub(crate) fn new(ring: Sender, kick: Arc<Kick>, shared: Arc<ConnectionState>) -> Self {
        Self { ring, kick, errors: Errors { shared, told: 0 }, counters: SenderCounters::default() }
    }

    /// Sends packets until there is no room, and interrupts the peer once if it wants to be. The numbers say what became of
    /// the first ones, as many as they add up to; the others were not looked at.
    ///
    /// # Panics
    ///
    /// If one of them is empty.
    #[inline]
    pub fn send<'p>(&mut self, packets: impl IntoIterator<Item = &'p [u8]>) -> Sent {
        let packets = packets.into_iter();
        self.ring.prepare(packets.size_hint().0.min(BURST_MAX));
        let sent = self.ring.send_burst(packets);
        if self.ring.publish().peer_wants_interrupt {
            self.kick.ring();
            self.counters.kicks += 1;
        }
        self.errors.note(self.ring.index_errors());
        self.counters.packets += sent.packets;
        self.counters.bytes += sent.bytes;
        self.counters.too_long += sent.too_long;
        sent
    }

    /// Packets that the peer has not finished with, with a look at its index. At a server that includes the buffers that the
    /// client has not posted yet.
    pub fn in_flight(&mut self) -> u32 {
        self.ring.in_flight()
    }

    /// Whether the peer is there still; what is sent to one that is not is lost.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        !self.errors.shared.is_over()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }
}
