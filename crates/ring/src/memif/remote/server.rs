//! The server's ends. Everything in a descriptor is the peer's word.

use std::sync::Arc;

use super::{BURST_MAX, Part, Parts, Regions, SendError, copy_in};
use crate::memif::protocol::{Follower, Low, RingMemory, RingWord};
use crate::memif::{BadDescriptor, InterruptSwitch, Publish, RingEnd, RingView};
use crate::memory;

/// A ring's follower, and the regions that its descriptors may name.
struct CheckedRegions {
    follower: Follower<RingView>,
    regions: Arc<Regions>,
}

impl CheckedRegions {
    fn new(ring: RingView, regions: Arc<Regions>, start: u16) -> Self {
        assert_eq!(ring.end(), RingEnd::Server, "the server's ends need the server's view");
        Self { follower: Follower::new(ring, start), regions }
    }

    /// Reads a descriptor, each half once, and checks it.
    #[inline]
    fn read(&self, index: u16) -> (Result<(*mut u8, usize), BadDescriptor>, Low) {
        let low = Low::unpack(self.follower.memory.load_low(index));
        let offset = self.follower.memory.load_high(index) as u32; // bits 0..32; the rest is metadata
        (self.regions.locate(low.region, offset, low.length), low)
    }
}

/// The server's end of a C2S ring of a foreign client.
pub struct C2sReceiver {
    window: CheckedRegions,
}

impl C2sReceiver {
    /// The end over a ring whose cookie was found; head and tail are 0.
    ///
    /// # Panics
    ///
    /// If the view is not the server's.
    #[must_use]
    pub fn new(ring: RingView, regions: Arc<Regions>) -> Self {
        Self::starting_at(ring, regions, 0)
    }

    pub(in crate::memif) fn starting_at(ring: RingView, regions: Arc<Regions>, start: u16) -> Self {
        Self { window: CheckedRegions::new(ring, regions, start) }
    }

    #[inline]
    pub(super) fn pending(&mut self) -> u32 {
        self.window.follower.look()
    }

    #[inline]
    pub(super) fn has_packets(&mut self) -> bool {
        self.window.follower.has_waiting()
    }

    #[inline]
    pub(super) fn release(&mut self) -> u32 {
        u32::from(self.window.follower.publish())
    }

    pub(super) fn interrupt_switch(&self) -> InterruptSwitch {
        InterruptSwitch::new(self.window.follower.memory.for_switch(), RingWord::Head, self.consumed())
    }

    #[inline]
    pub(super) fn consumed(&self) -> u16 {
        self.window.follower.tail()
    }

    #[inline]
    pub(super) fn index_errors(&self) -> u64 {
        self.window.follower.index_errors()
    }
}

impl Parts for C2sReceiver {
    #[inline]
    fn known(&self) -> usize {
        self.window.follower.waiting().into()
    }

    #[inline]
    fn look(&mut self) -> usize {
        self.pending() as usize
    }

    #[inline]
    fn next_part(&mut self) -> Option<Part> {
        if self.window.follower.has_waiting() { self.next_known_part() } else { None }
    }

    #[inline]
    fn next_known_part(&mut self) -> Option<Part> {
        let index = self.window.follower.next()?;
        let (bytes, low) = self.window.read(index);
        // Answered, not yet published: the bytes stay ours until `release`.
        self.window.follower.answer();
        Some(Part { bytes: bytes.map(|(start, length)| (start.cast_const(), length)), more: low.chained })
    }
}

/// The server's end of an S2C ring of a foreign client.
pub struct S2cSender {
    window: CheckedRegions,
    bad_descriptors: u64,
}

impl S2cSender {
    /// The end over a ring whose cookie was found; head and tail are 0.
    ///
    /// # Panics
    ///
    /// If the view is not the server's.
    #[must_use]
    pub fn new(ring: RingView, regions: Arc<Regions>) -> Self {
        Self::starting_at(ring, regions, 0)
    }

    pub(in crate::memif) fn starting_at(ring: RingView, regions: Arc<Regions>, start: u16) -> Self {
        Self { window: CheckedRegions::new(ring, regions, start), bad_descriptors: 0 }
    }

    /// Buffers that cannot be used go back empty, at most one ring size of them.
    #[inline]
    pub(super) fn send(&mut self, packet: &[u8]) -> Result<(), SendError> {
        assert!(!packet.is_empty(), "an empty packet");
        while self.window.follower.has_waiting() {
            let index = self.window.follower.tail();
            let (buffer, low) = self.window.read(index);
            match buffer {
                Ok((_, capacity)) if capacity < packet.len() => return Err(SendError::TooLong),
                Ok((start, _)) => {
                    copy_in(packet, start);
                    self.answer(index, low.region, packet.len() as u32); // at most the capacity, which was 32 bits
                    return Ok(());
                }
                Err(_) => {
                    self.bad_descriptors += 1;
                    self.answer(index, low.region, 0);
                }
            }
        }
        Err(SendError::Full)
    }

    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.window.follower.has_waiting()
    }

    /// What is read of a descriptor here only names memory that may be needed: it is read again, and checked, when a packet
    /// is sent.
    #[inline]
    pub(super) fn prepare(&mut self, max: usize) -> usize {
        let follower = &mut self.window.follower;
        if usize::from(follower.waiting()) < max {
            follower.look();
        }
        let waiting = usize::from(follower.waiting());
        let (room, next) = (max.min(waiting), follower.tail());
        for slot in 0..room.min(BURST_MAX) as u16 {
            if let (Ok((buffer, _)), _) = self.window.read(next.wrapping_add(slot)) {
                memory::will_write(buffer);
            }
        }
        room
    }

    /// Slots without an empty buffer: a peer that has taken a packet posts a new one.
    pub(super) fn in_flight(&mut self) -> u32 {
        let posted = self.window.follower.look();
        self.window.follower.memory.size() - posted.min(self.window.follower.memory.size())
    }

    #[inline]
    pub(super) fn publish(&mut self) -> Publish {
        self.window.follower.announce()
    }

    #[inline]
    pub(super) fn bad_descriptors(&self) -> u64 {
        self.bad_descriptors
    }

    #[inline]
    pub(super) fn index_errors(&self) -> u64 {
        self.window.follower.index_errors()
    }

    #[inline]
    fn answer(&mut self, index: u16, region: u16, length: u32) {
        // A client without fixed buffers (zero copy) looks for the region where it posted it.
        let low = Low::pack(length) | u64::from(region) << 16;
        self.window.follower.memory.store_low(index, low);
        self.window.follower.answer();
    }
}
