//! The flows of `fq`: found by a hash of buckets, each on one of the lists. Source: `net/sched/sch_fq.c fq_classify`,
//! `fq_gc` (Linux 7.3).
//!
//! ```text
//! detached --first packet--> new --its turn, empty--> old --its turn, empty--> detached
//!                             |\--credit used up-----> old (at the end)
//!                             \---not yet allowed----> throttled --time has come--> old (at the end)
//! ```

use alloc::vec::Vec;

use super::packets::{NONE, PacketList};
use crate::time::{Instant, Span};

/// Most flows that are remembered. Attached ones are as many as packets; the rest is history of idle ones.
pub const FLOWS_MAX: usize = 65_536;
/// How long an idle flow is remembered. Longer than the longest pacing delay. Source: `net/sched/sch_fq.c FQ_GC_AGE`.
const IDLE_MAX: Span = Span::from_secs(3);

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum FlowPlace {
    Detached,
    /// On the new or the old list.
    Listed,
    Throttled,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Flow {
    hash: u32,
    pub(super) packets: PacketList,
    /// Bytes that it may send before the next flow's turn.
    pub(super) credit_bytes: i64,
    /// Pacing: no packet before this.
    pub(super) next_departs: Instant,
    pub(super) place: FlowPlace,
    pub(super) detached_at: Instant,
    next: u32,
    /// On the detached list only.
    prev: u32,
    bucket_next: u32,
}

/// A list of flows through their links.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct FlowList {
    pub(super) head: u32,
    tail: u32,
}

impl FlowList {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE };
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    buckets: Vec<u32>,
    /// Longest idle first.
    detached: FlowList,
    flows_max: usize,
}

impl Flows {
    pub(super) fn new(buckets: usize, flows_max: usize) -> Self {
        assert!(buckets.is_power_of_two(), "the number of buckets is a power of two");
        assert!(flows_max > 0 && flows_max < NONE as usize, "at least one flow");
        Self { flows: Vec::new(), buckets: alloc::vec![NONE; buckets], detached: FlowList::EMPTY, flows_max }
    }

    pub(super) fn get(&mut self, flow: u32) -> &mut Flow {
        &mut self.flows[flow as usize]
    }

    /// The flow with this hash; a new one has `credit_bytes`. `None`: there is no room, for all are active, or
    /// the longest idle one is paced and must not be forgotten.
    pub(super) fn find(&mut self, hash: u32, now: Instant, credit_bytes: i64) -> Option<u32> {
        let bucket = self.bucket(hash);
        let mut at = self.buckets[bucket];
        while at != NONE {
            let flow = &self.flows[at as usize];
            if flow.hash == hash {
                return Some(at);
            }
            at = flow.bucket_next;
        }
        let flow = Flow {
            hash,
            packets: PacketList::EMPTY,
            credit_bytes,
            next_departs: Instant::ZERO,
            place: FlowPlace::Detached,
            detached_at: now,
            next: NONE,
            prev: NONE,
            bucket_next: NONE,
        };
        let at = self.place_for(flow, now)?;
        self.flows[at as usize].bucket_next = core::mem::replace(&mut self.buckets[bucket], at);
        self.detach(at, now);
        Some(at)
    }

    /// Appends a flow that is on no list.
    pub(super) fn push_back(&mut self, list: &mut FlowList, at: u32) {
        let flow = self.get(at);
        (flow.next, flow.place) = (NONE, FlowPlace::Listed);
        let last = core::mem::replace(&mut list.tail, at);
        if last == NONE {
            list.head = at;
        } else {
            self.get(last).next = at;
        }
    }

    /// Takes the head off a list.
    pub(super) fn pop_front(&mut self, list: &mut FlowList) {
        list.head = core::mem::replace(&mut self.flows[list.head as usize].next, NONE);
        if list.head == NONE {
            list.tail = NONE;
        }
    }

    /// A flow that is on no list becomes idle.
    pub(super) fn detach(&mut self, at: u32, now: Instant) {
        let last = self.detached.tail;
        let mut detached = self.detached;
        self.push_back(&mut detached, at);
        self.detached = detached;
        let flow = self.get(at);
        (flow.place, flow.detached_at, flow.prev) = (FlowPlace::Detached, now, last);
    }

    /// An idle flow is idle no more.
    pub(super) fn attach(&mut self, at: u32) {
        let (next, prev) = (self.get(at).next, self.get(at).prev);
        if prev == NONE {
            self.detached.head = next;
        } else {
            self.get(prev).next = next;
        }
        if next == NONE {
            self.detached.tail = prev;
        } else {
            self.get(next).prev = prev;
        }
        let flow = self.get(at);
        (flow.next, flow.prev) = (NONE, NONE);
    }

    /// Every flow, with its packets.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.iter_mut()
    }

    pub(super) fn clear(&mut self) {
        self.flows.clear();
        self.buckets.fill(NONE);
        self.detached = FlowList::EMPTY;
    }

    #[cfg(test)]
    pub(super) const fn slots(&self) -> usize {
        self.flows.len()
    }

    fn bucket(&self, hash: u32) -> usize {
        // The low bits may be what chose the transmit queue: mix in the others.
        let mixed = hash.wrapping_mul(0x9e37_79b1);
        (mixed ^ (mixed >> 16)) as usize & (self.buckets.len() - 1)
    }

    /// Room for a flow: that of one long idle, a new one, or that of the longest idle that is not paced.
    fn place_for(&mut self, flow: Flow, now: Instant) -> Option<u32> {
        let oldest = self.flows.get(self.detached.head as usize);
        let full = self.flows.len() >= self.flows_max;
        let reuse = match oldest {
            Some(oldest) => now - oldest.detached_at >= IDLE_MAX || (full && oldest.next_departs <= now),
            None => false,
        };
        if reuse {
            let at = self.detached.head;
            self.attach(at);
            self.unlink_bucket(at);
            *self.get(at) = flow;
            return Some(at);
        }
        if full {
            return None;
        }
        self.flows.push(flow);
        Some((self.flows.len() - 1) as u32)
    }

    fn unlink_bucket(&mut self, at: u32) {
        let (bucket, after) = (self.bucket(self.flows[at as usize].hash), self.flows[at as usize].bucket_next);
        let mut before = self.buckets[bucket];
        if before == at {
            self.buckets[bucket] = after;
            return;
        }
        while self.flows[before as usize].bucket_next != at {
            before = self.flows[before as usize].bucket_next;
        }
        self.flows[before as usize].bucket_next = after;
    }
}
