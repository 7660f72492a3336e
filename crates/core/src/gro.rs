//! Receive offload of one instance: packets held for being merged, and the list of those that wait to go up. Source:
//! `net/core/gro.c dev_gro_receive`, `__gro_flush`, `include/net/gro.h gro_normal_one` (Linux 7.3).
//!
//! ```text
//! receive --not mergeable----------------------------------> pending --batch is full--> up
//!    |----joins a held packet of its flow, which stays held      ^
//!    |----joins it and ends it---------- the held packet --------|
//!    |----does not fit-------- the held packet (then as new) ----|
//!    |----new flow, may not be held------------------------------|
//!    \----new flow: held; the 9th of a bucket ends the oldest ---|
//! flush: held packets, all or only old ones ---------------------/       deliver: pending --> up
//! ```
//!
//! A node belongs to the instance's owner. It keeps its memory: once each bucket and the pending list have grown to
//! what the traffic needs, nothing is allocated.

pub mod flow;

use alloc::vec::{Drain, Vec};

use crate::completion::Flush;

/// Buckets of held packets; a flow's is chosen by the low bits of its hash. Source: `include/linux/netdevice.h
/// GRO_HASH_BUCKETS`.
pub const GRO_HASH_BUCKETS: usize = 8;
/// Most packets (hence flows) held in one bucket. Source: `net/core/gro.c MAX_GRO_SKBS`.
pub const BUCKET_PKTS_MAX: usize = 8;
/// Segments at which the pending list goes up without waiting for the end of the poll. Source: `net/core/hotdata.c
/// gro_normal_batch`.
pub const GRO_NORMAL_BATCH: u32 = 8;

/// What the rules must know of a packet. Which packets may be merged is the protocol's affair, not theirs.
pub trait GroPacket: Sized {
    /// Where packets are, if a merge must know that; else `()`.
    type Memory: ?Sized;

    /// Hash of the packet's flow.
    fn flow_hash(&self) -> u32;

    /// False if the packet goes up by itself, whatever is held: its protocol is not merged, or the device has merging
    /// switched off.
    fn mergeable(&self) -> bool;

    /// False if a mergeable packet that found nothing to join goes up rather than wait for others: a push flag.
    fn may_be_held(&self) -> bool {
        true
    }

    /// True if this packet belongs to the flow of `held`, which is held in the same bucket.
    fn same_flow(&self, held: &Self) -> bool;

    /// Appends `next`, of the same flow, to this held packet.
    fn merge(&mut self, next: Self, memory: &Self::Memory) -> Merged<Self>;

    /// How many packets of the wire this one stands for; at least 1.
    fn segments(&self) -> u32;
}

/// What came of an attempt to merge a packet into a held one.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Merged<P> {
    /// Joined; more may follow.
    Held,
    /// Joined, and the held packet is complete: a push flag, or no room for another.
    Complete,
    /// Not joined: the held packet is complete as it was, and this one begins anew.
    Separate(P),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Held<P> {
    packet: P,
    /// The jiffy in which it was first held; merging does not renew it.
    since: u64,
}

/// The held packets and the pending list of one instance.
///
/// What goes up is handed to a closure, the whole list at once; what it does not take is dropped. `batch` is
/// `gro_normal_batch` as it is now.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Gro<P> {
    /// Oldest first.
    buckets: [Vec<Held<P>>; GRO_HASH_BUCKETS],
    /// Bit n: bucket n holds something.
    occupied: u8,
    pending: Vec<P>,
    pending_segments: u32,
}

impl<P> Gro<P> {
    /// Nothing held, nothing pending.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            buckets: [const { Vec::new() }; GRO_HASH_BUCKETS],
            occupied: 0,
            pending: Vec::new(),
            pending_segments: 0,
        }
    }

    /// The same with room for all that can be held, and for lists of up to `batch` packets: nothing is allocated later.
    #[must_use]
    pub fn with_room(batch: u32) -> Self {
        Self {
            buckets: core::array::from_fn(|_| Vec::with_capacity(BUCKET_PKTS_MAX)),
            occupied: 0,
            pending: Vec::with_capacity(batch as usize),
            pending_segments: 0,
        }
    }

    /// True if packets wait for being merged: what [`crate::completion::complete`] calls held.
    #[inline]
    #[must_use]
    pub const fn held(&self) -> bool {
        self.occupied != 0
    }

    /// The held packets, bucket by bucket, oldest first.
    pub fn iter_held(&self) -> impl Iterator<Item = &P> {
        self.buckets.iter().flatten().map(|held| &held.packet)
    }

    /// The packets that wait to go up, in order.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> &[P] {
        &self.pending
    }

    /// Hands up the pending list, if there is one: at every completion, at every repoll, and after every iteration of a
    /// busy loop. Source: `include/net/gro.h gro_normal_list`.
    #[inline]
    pub fn deliver(&mut self, up: &mut impl FnMut(Drain<'_, P>)) {
        self.pending_segments = 0;
        if !self.pending.is_empty() {
            up(self.pending.drain(..));
        }
    }
}

impl<P> Default for Gro<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: GroPacket> Gro<P> {
    /// Takes a packet that the poll has fetched, in jiffy `now`. Source: `net/core/gro.c dev_gro_receive`.
    #[inline]
    pub fn receive(&mut self, packet: P, memory: &P::Memory, now: u64, batch: u32, up: &mut impl FnMut(Drain<'_, P>)) {
        if packet.mergeable() {
            self.join_or_hold(packet, memory, now, batch, up);
        } else {
            self.pend(packet, batch, up);
        }
    }

    /// Completes held packets: they become pending, oldest first in each bucket. `OldOnly` stops in a bucket at the
    /// first one that was held in the jiffy `now`. [`Gro::deliver`] follows. Source: `net/core/gro.c __gro_flush`.
    pub fn flush(&mut self, which: Flush, now: u64, batch: u32, up: &mut impl FnMut(Drain<'_, P>)) {
        for index in 0..GRO_HASH_BUCKETS {
            while let Some(oldest) = self.buckets[index].first() {
                if which == Flush::OldOnly && oldest.since == now {
                    break;
                }
                self.end(index, 0, batch, up);
            }
        }
    }

    /// Drops what is held and pending and tells how many segments that were: the instance is deleted. Source:
    /// `net/core/dev.c __netif_napi_del_locked`.
    pub fn drop_all(&mut self) -> u32 {
        let dropped = self.iter_held().chain(&self.pending).map(P::segments).sum();
        self.buckets.iter_mut().for_each(Vec::clear);
        self.pending.clear();
        (self.occupied, self.pending_segments) = (0, 0);
        dropped
    }

    fn join_or_hold(
        &mut self,
        mut packet: P,
        memory: &P::Memory,
        now: u64,
        batch: u32,
        up: &mut impl FnMut(Drain<'_, P>),
    ) {
        let index = packet.flow_hash() as usize % GRO_HASH_BUCKETS;
        // The youngest is asked first.
        if let Some(at) = self.buckets[index].iter().rposition(|held| packet.same_flow(&held.packet)) {
            match self.buckets[index][at].packet.merge(packet, memory) {
                Merged::Held => return,
                Merged::Complete => return self.end(index, at, batch, up),
                Merged::Separate(refused) => {
                    self.end(index, at, batch, up);
                    packet = refused;
                }
            }
        }
        if !packet.may_be_held() {
            return self.pend(packet, batch, up);
        }
        if self.buckets[index].len() == BUCKET_PKTS_MAX {
            self.end(index, 0, batch, up);
        }
        self.buckets[index].push(Held { packet, since: now });
        self.occupied |= 1 << index;
    }

    /// A held packet is complete: it becomes pending.
    fn end(&mut self, index: usize, at: usize, batch: u32, up: &mut impl FnMut(Drain<'_, P>)) {
        let bucket = &mut self.buckets[index];
        let held = bucket.remove(at);
        if bucket.is_empty() {
            self.occupied &= !(1 << index);
        }
        self.pend(held.packet, batch, up);
    }

    /// Appends to the pending list, which goes up when it counts `batch` segments.
    #[inline]
    fn pend(&mut self, packet: P, batch: u32, up: &mut impl FnMut(Drain<'_, P>)) {
        let segments = packet.segments();
        assert!(segments > 0, "a packet is at least one segment");
        self.pending.push(packet);
        self.pending_segments = self.pending_segments.saturating_add(segments);
        if self.pending_segments >= batch {
            self.deliver(up);
        }
    }
}

#[cfg(test)]
#[path = "gro_tests.rs"]
mod tests;
