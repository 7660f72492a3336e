//! Receive offload: packets of a flow that an instance's owner holds until they go up as one (`net/core/gro.c`).
//!
//! [`napier_core::gro`] has the rules. A bundle is a chain of frames, as they came; nothing is copied or allocated for it while it
//! is held.
//!
//! | packets | merged if | the socket gets |
//! |---|---|---|
//! | UDP | the socket that they are for has `UDP_GRO` | the chain; `Meta::more` marks all but the last datagram |
//! | TCP | always | one segment of up to 64 KiB, copied together when it goes up |
//!
//! What [`napier_core::gro`] calls the pending list are the rounds of `udp::deliver`: eight packets, merged ones counted as
//! what they were, or the end of the poll. Datagrams without checksum and padded ones are not merged; unlike the kernel's
//! they end what is held of their flow, so that a flow keeps its order.

#[cfg(test)]
mod tests;

use napier_core::completion::Flush;
use napier_core::gro::flow::{GRO_MAX_BYTES, Join, Train};
use napier_core::gro::{Gro, GroPacket, Merged};
use napier_core::time::Instant;
use napier_ring::{Frame, FrameChain, FrameTable};

use crate::pass::ahead::Ahead;
use crate::tables::demux::flow_hash;
use crate::wire::checksum::Sum;
use crate::wire::headers::{FlowKey, Headers};
use crate::wire::{self, ETH_LEN, IPV6_LEN, Meta};

/// ns per jiffy: the engine behaves as a kernel with HZ=1000.
const JIFFY_NS: u64 = 1_000_000;
/// A bundle that may not be held, or is complete, is delivered at once: the pass has its own rounds.
const BATCH: u32 = 1;

/// Longest merged frame.
const MERGED_BYTES_MAX: usize = ETH_LEN + GRO_MAX_BYTES as usize;

/// The jiffy of a time.
pub(crate) const fn jiffy(now: Instant) -> u64 {
    now.ns / JIFFY_NS
}

/// Packets of one flow that go up together; at first one.
pub(crate) struct Bundle {
    pub(crate) flow: FlowKey,
    hash: u32,
    /// False: it goes up by itself, and ends what is held of its flow.
    joins: bool,
    train: Train,
    /// All but the last, whose meta words say that more follows.
    chain: FrameChain,
    last: Frame,
    /// Bytes of all frames, as sockets are charged for them.
    truesize: usize,
}

impl Bundle {
    /// A packet by itself; its meta word is set.
    pub(crate) fn new(headers: Headers, frame: Frame, truesize: usize) -> Self {
        let Headers { flow, segment, joins } = headers;
        let hash = flow_hash(0, flow.src, flow.dst);
        Self { flow, hash, joins, train: Train::new(segment), chain: FrameChain::new(), last: frame, truesize }
    }

    /// How many packets came over the wire for it.
    pub(crate) const fn packets(&self) -> u32 {
        self.train.segments()
    }

    pub(crate) const fn truesize(&self) -> usize {
        self.truesize
    }

    /// The TCP segment that its packets come to, in `room`, as a frame whose TCP checksum is that of no packet: all were
    /// verified. Frames go home.
    pub(crate) fn into_segment(self, frames: &FrameTable, room: &mut Vec<u8>) -> wire::Segment {
        let (train, flow) = (self.train, self.flow);
        let first = train.first();
        let head = ETH_LEN + usize::from(first.header_bytes);
        let end = head + train.payload_bytes() as usize;
        room.clear();
        room.reserve_exact(MERGED_BYTES_MAX);
        let mut returns = frames.batch();
        let mut fifo = self.into_frames(frames).into_fifo(frames);
        while let Some(frame) = fifo.pop(frames) {
            let payload = Meta::from_bits(frames.meta(&frame)).payload();
            let from = if room.is_empty() { 0 } else { payload.start };
            room.extend_from_slice(&frames.data(&frame, payload.end)[from..]);
            returns.push(frame);
        }
        assert_eq!(room.len(), end, "a train is as long as its packets");
        let ip_bytes = (end - ETH_LEN) as u16; // the rules keep it below 65536
        let header = &mut room[ETH_LEN..head];
        let tcp_at = if flow.dst.addr.is_v4() {
            header[2..4].copy_from_slice(&ip_bytes.to_be_bytes());
            header[10..12].fill(0);
            // A packet with options does not join others, but it comes here when others are held before it.
            let ip_len = usize::from(header[0] & 0x0f) * 4;
            let sum = Sum::ZERO.bytes(&header[..ip_len]).field();
            header[10..12].copy_from_slice(&sum);
            ip_len
        } else {
            header[4..6].copy_from_slice(&(ip_bytes - IPV6_LEN as u16).to_be_bytes());
            IPV6_LEN
        };
        header[tcp_at + 13] |= (train.later_flags() >> 16) as u8;
        let flags = header[tcp_at + 13] & 0x3f;
        wire::Segment { src: flow.src, dst: flow.dst, end, flags }
    }

    /// Its frames, in order.
    pub(crate) fn into_frames(mut self, frames: &FrameTable) -> FrameChain {
        self.chain.push(frames, self.last);
        self.chain
    }
}

impl GroPacket for Bundle {
    type Memory = FrameTable;

    fn flow_hash(&self) -> u32 {
        self.hash
    }

    fn mergeable(&self) -> bool {
        true
    }

    fn may_be_held(&self) -> bool {
        self.joins && self.train.first().may_be_held()
    }

    fn same_flow(&self, held: &Self) -> bool {
        self.flow == held.flow
    }

    fn merge(&mut self, next: Self, frames: &FrameTable) -> Merged<Self> {
        assert!(next.chain.is_empty(), "packets join one by one");
        let join = if next.joins { self.train.join(next.train.first()) } else { Join::Separate };
        if join == Join::Separate {
            return Merged::Separate(next);
        }
        let mut before = std::mem::replace(&mut self.last, next.last);
        let meta = Meta::from_bits(frames.meta(&before)).with_more();
        frames.set_meta(&mut before, meta.bits());
        self.chain.push(frames, before);
        self.truesize += next.truesize;
        if join == Join::Complete { Merged::Complete } else { Merged::Held }
    }

    fn segments(&self) -> u32 {
        self.packets()
    }
}

/// What an instance holds; its owner's.
pub struct Merging {
    gro: Gro<Bundle>,
    /// The device merges (`ethtool -K gro`).
    on: bool,
    /// Packets that joined others, not yet counted.
    joined: u64,
    /// Segments that wait for others of the poll.
    pub(crate) ahead: Ahead,
    /// Packets held when the journal was told last.
    told: u32,
    /// Where the packets of a TCP segment are copied together; has no memory until there is one.
    room: Vec<u8>,
}

impl Default for Merging {
    fn default() -> Self {
        Self { gro: Gro::with_room(BATCH), on: true, joined: 0, ahead: Ahead::new(), told: 0, room: Vec::new() }
    }
}

impl Merging {
    /// Whether packets join from now on. What is held stays until it is flushed.
    #[inline]
    pub fn switch(&mut self, on: bool) {
        self.on = on;
    }

    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.on
    }

    /// Whether packets are held.
    #[inline]
    pub const fn held(&self) -> bool {
        self.gro.held()
    }

    /// How many came over the wire and are held, if that is not what was said last: for the journal.
    pub fn held_changed(&mut self) -> Option<u32> {
        let held = self.gro.iter_held().map(Bundle::packets).sum();
        (std::mem::replace(&mut self.told, held) != held).then_some(held)
    }

    /// Packets that joined others since this was asked last.
    #[inline]
    pub fn take_joined(&mut self) -> u64 {
        std::mem::take(&mut self.joined)
    }

    /// Takes a packet, and delivers what is complete by it.
    pub(crate) fn receive(
        &mut self,
        bundle: Bundle,
        now: u64,
        frames: &FrameTable,
        mut up: impl FnMut(Bundle, &mut Vec<u8>),
    ) {
        let Self { gro, joined, room, .. } = self;
        let mut deliver = |bundle: Bundle| {
            *joined += u64::from(bundle.packets() - 1);
            up(bundle, room);
        };
        gro.receive(bundle, frames, now, BATCH, &mut |list| list.for_each(&mut deliver));
    }

    /// Delivers what is held, all or what is older than this jiffy.
    pub(super) fn flush(&mut self, which: Flush, now: Instant, mut up: impl FnMut(Bundle, &mut Vec<u8>)) {
        let Self { gro, joined, room, .. } = self;
        gro.flush(which, jiffy(now), BATCH, &mut |list| {
            for bundle in list {
                *joined += u64::from(bundle.packets() - 1);
                up(bundle, room);
            }
        });
    }

    /// Drops what is held: there is no name space to deliver it to. Gives the number of packets.
    pub fn drop_all(&mut self, frames: &FrameTable) -> u64 {
        let mut dropped = 0;
        let mut batch = frames.batch();
        self.gro.flush(Flush::All, 0, BATCH, &mut |list| {
            for bundle in list {
                dropped += u64::from(bundle.packets());
                let mut fifo = bundle.into_frames(frames).into_fifo(frames);
                while let Some(frame) = fifo.pop(frames) {
                    batch.push(frame);
                }
            }
        });
        dropped
    }
}
