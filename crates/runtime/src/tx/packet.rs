//! A packet on its way through a discipline: a sender's frame, and what the rules must know of it.
//!
//! On the defer list a packet is its frame, with length, priority and flow in the frame's word of metadata. Departure
//! time and pacing rate, which few packets have, lie beside it in [`Paced`].

use std::sync::atomic::{AtomicU64, Ordering};

use napier_core::time::Instant;
use napier_core::tx::TxPacket;
use napier_core::tx::qdisc::RATE_UNLIMITED;
use napier_ring::{Frame, FrameTable};

use napier_stack::device::PacketClass;

/// Departure time and rate of the packets that have one, by frame.
pub(crate) struct Paced {
    slots: Box<[(AtomicU64, AtomicU64)]>,
}

const NO_DEPARTURE: u64 = u64::MAX;

impl Paced {
    pub(crate) fn new(frames: usize) -> Self {
        let slot = || (AtomicU64::new(NO_DEPARTURE), AtomicU64::new(RATE_UNLIMITED));
        Self { slots: (0..frames).map(|_| slot()).collect() }
    }
}

const PRIORITY_SHIFT: u32 = 16;
/// Priorities beyond this choose the same band as it: only the low four bits count.
const PRIORITY_MASK: u32 = 0xf;
const PACED: u64 = 1 << 31;
const HASH_SHIFT: u32 = 32;

/// Writes down what the flusher will read.
#[inline]
pub(crate) fn describe(table: &FrameTable, paced: &Paced, frame: &mut Frame, len: usize, class: &PacketClass) {
    let len = u64::from(u16::try_from(len).expect("frames hold at most 65535 bytes of packet"));
    let priority = u64::from(class.priority & PRIORITY_MASK) << PRIORITY_SHIFT;
    let mut meta = len | priority | u64::from(class.flow_hash) << HASH_SHIFT;
    if class.is_paced() {
        let (departs, rate) = &paced.slots[frame.index() as usize];
        // Relaxed: the push of the frame publishes them.
        departs.store(class.departs.map_or(NO_DEPARTURE, |at| at.ns), Ordering::Relaxed);
        rate.store(class.pacing_rate, Ordering::Relaxed);
        meta |= PACED;
    }
    table.set_meta(frame, meta);
}

/// A packet that the holder of the root lock has.
#[derive(Debug)]
pub(crate) struct TxPkt {
    pub(crate) frame: Frame,
    len: u16,
    priority: u8,
    flow_hash: u32,
    departs_ns: u64,
    pacing_rate: u64,
}

impl TxPkt {
    /// Reads what [`describe`] wrote.
    #[inline]
    pub(crate) fn read(table: &FrameTable, paced: &Paced, frame: Frame) -> Self {
        let meta = table.meta(&frame);
        let (mut departs_ns, mut pacing_rate) = (NO_DEPARTURE, RATE_UNLIMITED);
        if meta & PACED != 0 {
            let (departs, rate) = &paced.slots[frame.index() as usize];
            (departs_ns, pacing_rate) = (departs.load(Ordering::Relaxed), rate.load(Ordering::Relaxed));
        }
        Self {
            frame,
            len: meta as u16, // the low 16 bits
            priority: (meta >> PRIORITY_SHIFT) as u8 & PRIORITY_MASK as u8,
            flow_hash: (meta >> HASH_SHIFT) as u32,
            departs_ns,
            pacing_rate,
        }
    }

    /// With another frame in its place: the driver gave it back.
    #[inline]
    pub(crate) fn split(self) -> (Frame, impl FnOnce(Frame) -> Self) {
        let Self { frame, len, priority, flow_hash, departs_ns, pacing_rate } = self;
        (frame, move |frame| Self { frame, len, priority, flow_hash, departs_ns, pacing_rate })
    }
}

impl TxPacket for TxPkt {
    #[inline]
    fn len_bytes(&self) -> u32 {
        self.len.into()
    }

    #[inline]
    fn flow_hash(&self) -> u32 {
        self.flow_hash
    }

    #[inline]
    fn priority(&self) -> u32 {
        self.priority.into()
    }

    #[inline]
    fn earliest_departure(&self) -> Option<Instant> {
        (self.departs_ns != NO_DEPARTURE).then_some(Instant { ns: self.departs_ns })
    }

    #[inline]
    fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }
}
