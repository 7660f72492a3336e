//! What threads leave for the owner of a connection.

use napier_core::backlog;
use napier_core::time::Instant;

use crate::tcp::by_age::LimitKind;
use crate::wire::Segment;
use crate::wire::quote::About;

/// What a report weighs while it waits for the owner.
pub(super) const REPORT_WEIGHT: u64 = backlog::SEGMENT_OVERHEAD_BYTES;

/// Something for the owner to do.
pub(in crate::tcp) enum Note {
    Segment(Box<Kept>),
    /// A message about a segment that was sent.
    Told(IcmpReport),
    /// The wheel came to this place.
    Timer(u64),
    /// The transmit queue has room again.
    Room,
    /// No program will accept it.
    Reset,
    /// Memory is short.
    Memory,
    /// There are too many of its kind.
    GiveWay(LimitKind),
    /// The peer of its device is gone.
    LinkLost,
    EngineStopped,
    /// A mistake of ours, for tests.
    #[cfg(test)]
    Panic,
}

/// A segment as it came in, for the owner or for a listener.
#[derive(Copy, Clone)]
pub(in crate::tcp) struct Arrived<'a> {
    pub(in crate::tcp) napi_id: u32,
    pub(in crate::tcp) ifindex: u32,
    pub(in crate::tcp) now: Instant,
    pub(in crate::tcp) segment: &'a Segment,
    /// The IP packet, which may be longer than the MTU.
    pub(in crate::tcp) packet: &'a [u8],
}

/// A copy of a segment that waits: its frame belongs to a device that wants it back.
pub(in crate::tcp) struct Kept {
    napi_id: u32,
    ifindex: u32,
    segment: Segment,
    pub(super) packet: Box<[u8]>,
}

impl Kept {
    pub(super) fn of(arrived: &Arrived<'_>) -> Box<Self> {
        let Arrived { napi_id, ifindex, segment, packet, .. } = *arrived;
        Box::new(Self { napi_id, ifindex, segment: *segment, packet: packet.into() })
    }

    pub(in crate::tcp) fn arrived(&self, now: Instant) -> Arrived<'_> {
        let Self { napi_id, ifindex, ref segment, ref packet } = *self;
        Arrived { napi_id, ifindex, now, segment, packet }
    }
}

/// A message about a segment that was sent.
#[derive(Copy, Clone, Debug)]
pub(crate) struct IcmpReport {
    pub(crate) about: About,
    /// The segment's number.
    pub(crate) seq: u32,
    /// Bytes of its IP packet.
    pub(crate) packet_bytes: u32,
}
