//! A ring in memory that is shared with the kernel.

use std::sync::Arc;

use super::protocol::{Descriptor, XskMemory, XskWord};
use crate::Mapping;
use crate::mapping::{ClaimError, Holder};
use crate::sync::{MappedU32, MappedU64, Ordering};

/// Most slots of a ring: far more than the kernel allows in one allocation.
const SLOTS_MAX: u32 = 1 << 20;

/// What the slots of a ring hold.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum RingKind {
    /// Addresses of chunks: fill and completion.
    Addresses,
    /// Packets: receive and transmit (`struct xdp_desc`).
    Packets,
}

impl RingKind {
    fn slot_bytes(self) -> usize {
        match self {
            Self::Addresses => 8,
            Self::Packets => 16,
        }
    }
}

/// Where the parts of a ring are in its mapping, in bytes (`struct xdp_ring_offset`).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct RingPlaces {
    /// The producer's index.
    pub producer: u64,
    /// The consumer's index.
    pub consumer: u64,
    /// The flags.
    pub flags: u64,
    /// The first slot.
    pub descriptors: u64,
}

/// Why a ring of the kernel cannot be used.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum XskRingError {
    /// The number of slots is no power of two.
    Size,
    /// A part of the ring is not where it can be.
    Places,
    /// The mapping is in use.
    Range(ClaimError),
}

impl core::fmt::Display for XskRingError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Size => f.write_str("a ring has a power of two of slots, at most 1048576"),
            Self::Places => f.write_str("the kernel says that a part of the ring is outside its mapping"),
            Self::Range(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for XskRingError {}

/// One ring of an AF_XDP socket. There is one per mapping.
pub struct KernelRing {
    mapping: Arc<Mapping>,
    producer: *const MappedU32,
    consumer: *const MappedU32,
    flags: *const MappedU32,
    descriptors: *const MappedU64,
    kind: RingKind,
    slots: u32,
}

// SAFETY: the pointers are into `mapping`, which is `Sync`, and are only used for atomic accesses.
unsafe impl Send for KernelRing {}
// SAFETY: as above.
unsafe impl Sync for KernelRing {}

impl KernelRing {
    /// The ring of `slots` in `mapping`.
    ///
    /// # Errors
    ///
    /// See [`XskRingError`].
    pub fn new(mapping: &Arc<Mapping>, places: RingPlaces, kind: RingKind, slots: u32) -> Result<Self, XskRingError> {
        if !slots.is_power_of_two() || slots > SLOTS_MAX {
            return Err(XskRingError::Size);
        }
        let place = |at: u64, bytes: usize, align: usize| {
            let at = usize::try_from(at).ok()?;
            (at.is_multiple_of(align) && at.checked_add(bytes)? <= mapping.len()).then_some(at)
        };
        let word = |at| place(at, 4, 4).map(|at| mapping.at(at).cast_const().cast::<MappedU32>());
        let slot_bytes = slots as usize * kind.slot_bytes();
        let descriptors = place(places.descriptors, slot_bytes, 8).ok_or(XskRingError::Places)?;
        let ring = Self {
            mapping: mapping.clone(),
            producer: word(places.producer).ok_or(XskRingError::Places)?,
            consumer: word(places.consumer).ok_or(XskRingError::Places)?,
            flags: word(places.flags).ok_or(XskRingError::Places)?,
            descriptors: mapping.at(descriptors).cast_const().cast::<MappedU64>(),
            kind,
            slots,
        };
        mapping.claim(0, mapping.len(), Holder::KernelRing).map_err(XskRingError::Range)?;
        Ok(ring)
    }

    /// Slots of the ring.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.slots
    }

    pub(super) fn kind(&self) -> RingKind {
        self.kind
    }

    /// A second view of the same ring that only reads.
    pub(super) fn for_look(&self) -> Self {
        Self { mapping: self.mapping.clone(), ..*self }
    }

    #[inline]
    fn word(&self, word: XskWord) -> &MappedU32 {
        let at = match word {
            XskWord::Producer => self.producer,
            XskWord::Consumer => self.consumer,
            XskWord::Flags => self.flags,
        };
        // SAFETY: `new` checked range and alignment, the mapping is kept alive, and all accesses are atomic.
        unsafe { &*at }
    }

    /// The 64-bit word `half` of a slot.
    #[inline]
    fn half(&self, index: u32, half: usize) -> &MappedU64 {
        let slot = (index & (self.slots - 1)) as usize * (self.kind.slot_bytes() / 8);
        let at = self.descriptors.wrapping_add(slot + half);
        // SAFETY: the slot is masked, so this is inside what `new` checked; aligned to 8; atomics only.
        unsafe { &*at }
    }
}

impl XskMemory for KernelRing {
    #[inline]
    fn slots(&self) -> u32 {
        self.slots
    }

    #[inline]
    fn load(&self, word: XskWord, ordering: Ordering) -> u32 {
        self.word(word).load(ordering)
    }

    #[inline]
    fn store(&self, word: XskWord, value: u32, ordering: Ordering) {
        self.word(word).store(value, ordering);
    }

    // Each half is read once by construction; producer and consumer order them.
    #[inline]
    fn read_address(&self, index: u32) -> u64 {
        debug_assert_eq!(self.kind, RingKind::Addresses);
        self.half(index, 0).load(Ordering::Relaxed)
    }

    #[inline]
    fn write_address(&self, index: u32, address: u64) {
        debug_assert_eq!(self.kind, RingKind::Addresses);
        self.half(index, 0).store(address, Ordering::Relaxed);
    }

    #[inline]
    fn read_packet(&self, index: u32) -> Descriptor {
        let address = self.half(index, 0).load(Ordering::Relaxed);
        let rest = self.half(index, 1).load(Ordering::Relaxed);
        // `struct xdp_desc`: length before options, in host order.
        Descriptor { address, length: rest as u32, options: (rest >> 32) as u32 }
    }

    #[inline]
    fn write_packet(&self, index: u32, descriptor: Descriptor) {
        self.half(index, 0).store(descriptor.address, Ordering::Relaxed);
        let rest = u64::from(descriptor.options) << 32 | u64::from(descriptor.length);
        self.half(index, 1).store(rest, Ordering::Relaxed);
    }
}

#[cfg(target_endian = "big")]
compile_error!("descriptors of AF_XDP are packed little-endian here");
