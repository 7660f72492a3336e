//! The client's ends. The memory is ours: slot `i` has buffer `i`, whatever the peer writes into descriptors.

use std::sync::Arc;

use super::{BURST_MAX, Part, Parts, SendError, copy_in};
use crate::Mapping;
use crate::mapping::{ClaimError, Holder};
use crate::memif::protocol::{Leader, Low, RingMemory, RingWord};
use crate::memif::{BadDescriptor, DESCRIPTORS_PER_LINE, InterruptSwitch, Publish, RingEnd, RingView};
use crate::memory;

/// The buffers of a ring's slots, in a region of ours.
pub struct SlotBuffers {
    mapping: Arc<Mapping>,
    offset: u32,
    stride: u32,
    capacity: u32,
    slots: u32,
}

impl SlotBuffers {
    /// `slots` buffers (a power of two) from `offset` on, `stride` bytes apart, of which each packet may fill `capacity`.
    ///
    /// # Errors
    ///
    /// They end after the mapping, or the range is in use.
    ///
    /// # Panics
    ///
    /// If `slots` is no power of two, or `capacity` is 0 or exceeds `stride`, or the buffers end after 4 GiB.
    pub fn new(
        mapping: &Arc<Mapping>,
        offset: u32,
        stride: u32,
        capacity: u32,
        slots: u32,
    ) -> Result<Self, ClaimError> {
        assert!(slots.is_power_of_two() && (1..=stride).contains(&capacity), "buffers that cannot be");
        let bytes = u64::from(slots) * u64::from(stride);
        assert!(u64::from(offset) + bytes <= 1 << 32, "a descriptor's offset has 32 bits");
        mapping.claim(offset as usize, bytes as usize, Holder::Frames)?;
        Ok(Self { mapping: mapping.clone(), offset, stride, capacity, slots })
    }

    #[inline]
    fn offset_of(&self, index: u16) -> u32 {
        self.offset + (u32::from(index) & (self.slots - 1)) * self.stride
    }

    /// In bounds: the range was claimed, and the index is masked.
    #[inline]
    fn address_of(&self, index: u16) -> *mut u8 {
        self.mapping.at(self.offset_of(index) as usize)
    }
}

/// A ring's leader and the buffers of its slots.
struct Slots {
    leader: Leader<RingView>,
    buffers: SlotBuffers,
}

impl Slots {
    fn new(ring: RingView, buffers: SlotBuffers, start: u16) -> Self {
        assert_eq!(ring.end(), RingEnd::Client, "the client's ends need the client's view");
        assert_eq!(ring.size(), buffers.slots, "one buffer per slot");
        Self { leader: Leader::new(ring, start), buffers }
    }
}

/// The client's end of a C2S ring whose server is foreign.
pub struct C2sSender {
    slots: Slots,
}

impl C2sSender {
    /// The end over a ring that is initialised and empty.
    ///
    /// # Panics
    ///
    /// If the view is not the client's, or the buffers are not as many as the slots.
    #[must_use]
    pub fn new(ring: RingView, buffers: SlotBuffers) -> Self {
        Self::starting_at(ring, buffers, 0)
    }

    pub(in crate::memif) fn starting_at(ring: RingView, buffers: SlotBuffers, start: u16) -> Self {
        Self { slots: Slots::new(ring, buffers, start) }
    }

    #[inline]
    pub(super) fn send(&mut self, packet: &[u8]) -> Result<(), SendError> {
        assert!(!packet.is_empty(), "an empty packet");
        if packet.len() > self.slots.buffers.capacity as usize {
            return Err(SendError::TooLong);
        }
        if !self.has_room() {
            return Err(SendError::Full);
        }
        let index = self.slots.leader.next();
        copy_in(packet, self.slots.buffers.address_of(index));
        self.slots.leader.offer(self.slots.buffers.offset_of(index), packet.len() as u32); // at most the capacity
        Ok(())
    }

    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.slots.leader.free() > 0 || {
            self.reclaim();
            self.slots.leader.free() > 0
        }
    }

    /// Slot `i` has buffer `i`: no descriptor is looked at.
    #[inline]
    pub(super) fn prepare(&mut self, max: usize) -> usize {
        if usize::from(self.slots.leader.free()) < max {
            self.reclaim();
        }
        let free = usize::from(self.slots.leader.free());
        let (room, next) = (max.min(free), self.slots.leader.next());
        for slot in 0..room.min(BURST_MAX) as u16 {
            let slot = next.wrapping_add(slot);
            memory::will_write(self.slots.buffers.address_of(slot));
            if slot.is_multiple_of(DESCRIPTORS_PER_LINE) {
                memory::will_write(self.slots.leader.memory.descriptor(slot));
            }
        }
        room
    }

    pub(super) fn in_flight(&mut self) -> u32 {
        self.reclaim();
        u32::from(self.slots.leader.outstanding())
    }

    #[inline]
    pub(super) fn publish(&mut self) -> Publish {
        self.slots.leader.announce()
    }

    #[inline]
    pub(super) fn index_errors(&self) -> u64 {
        self.slots.leader.index_errors()
    }

    /// Slots that the peer has read can be used again.
    fn reclaim(&mut self) {
        self.slots.leader.look();
        self.slots.leader.take_back_all();
    }
}

/// The client's end of an S2C ring whose server is foreign. All slots are posted, always.
pub struct S2cReceiver {
    slots: Slots,
}

impl S2cReceiver {
    /// The end over a ring that is initialised and empty. Every slot is offered, and the peer sees that after the first
    /// [`release`](super::Receiver::release): not before the handshake is over.
    ///
    /// # Panics
    ///
    /// If the view is not the client's, or the buffers are not as many as the slots.
    #[must_use]
    pub fn new(ring: RingView, buffers: SlotBuffers) -> Self {
        Self::starting_at(ring, buffers, 0)
    }

    pub(in crate::memif) fn starting_at(ring: RingView, buffers: SlotBuffers, start: u16) -> Self {
        let mut slots = Slots::new(ring, buffers, start);
        while slots.leader.free() > 0 {
            let offset = slots.buffers.offset_of(slots.leader.next());
            slots.leader.offer(offset, slots.buffers.capacity);
        }
        Self { slots }
    }

    #[inline]
    pub(super) fn pending(&mut self) -> u32 {
        self.slots.leader.look()
    }

    #[inline]
    pub(super) fn has_packets(&mut self) -> bool {
        self.slots.leader.has_answered()
    }

    #[inline]
    pub(super) fn release(&mut self) -> u32 {
        u32::from(self.slots.leader.publish())
    }

    pub(super) fn interrupt_switch(&self) -> InterruptSwitch {
        InterruptSwitch::new(self.slots.leader.memory.for_switch(), RingWord::Tail, self.consumed())
    }

    #[inline]
    pub(super) fn consumed(&self) -> u16 {
        self.slots.leader.oldest()
    }

    #[inline]
    pub(super) fn index_errors(&self) -> u64 {
        self.slots.leader.index_errors()
    }
}

impl Parts for S2cReceiver {
    #[inline]
    fn known(&self) -> usize {
        self.slots.leader.answered().into()
    }

    #[inline]
    fn look(&mut self) -> usize {
        self.pending() as usize
    }

    #[inline]
    fn next_part(&mut self) -> Option<Part> {
        if self.has_packets() { self.next_known_part() } else { None }
    }

    #[inline]
    fn next_known_part(&mut self) -> Option<Part> {
        if self.slots.leader.answered() == 0 {
            return None;
        }
        let index = self.slots.leader.oldest();
        // Hostile: read once. The buffer is ours; only length and flags are the peer's word.
        let low = Low::unpack(self.slots.leader.memory.load_low(index));
        let buffers = &self.slots.buffers;
        let bytes = match low.length {
            0 => Err(BadDescriptor::Empty),
            length if length > buffers.stride => Err(BadDescriptor::OutOfRegion),
            length => Ok((buffers.address_of(index).cast_const(), length as usize)),
        };
        // Offered again, not yet published: the bytes stay ours until `release`.
        self.slots.leader.recycle(buffers.offset_of(index), buffers.capacity);
        Some(Part { bytes, more: low.chained })
    }
}
