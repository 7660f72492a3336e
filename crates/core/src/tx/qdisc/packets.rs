//! Where the packets of all flows wait: one slab, linked lists through it.

use alloc::vec::Vec;

use crate::time::Instant;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Slot<P> {
    packet: Option<P>,
    /// When the packet may leave.
    departs: Instant,
    next: u32,
}

/// The packets of one flow, by departure time; what is due at the same time in the order of its arrival.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct PacketList {
    head: u32,
    tail: u32,
    pub(super) pkts: u32,
}

impl PacketList {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE, pkts: 0 };
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Packets<P> {
    slots: Vec<Slot<P>>,
    free: u32,
    pub(super) pkts: usize,
}

impl<P> Packets<P> {
    /// None, with room for as many packets as a device lets wait by default.
    pub(super) fn new(limit_pkts: usize) -> Self {
        Self { slots: Vec::with_capacity(limit_pkts.min(super::TX_QUEUE_LEN)), free: NONE, pkts: 0 }
    }

    /// Puts a packet in its place. Senders ask for ascending times, so that place is the end as a rule.
    pub(super) fn insert(&mut self, list: &mut PacketList, packet: P, departs: Instant) {
        let at = self.fill(packet, departs);
        let mut before = list.tail;
        if before != NONE && departs < self.slots[before as usize].departs {
            // Bounded by the limit of a flow.
            before = NONE;
            let mut after = list.head;
            while self.slots[after as usize].departs <= departs {
                (before, after) = (after, self.slots[after as usize].next);
            }
        }
        let next = if before == NONE { &mut list.head } else { &mut self.slots[before as usize].next };
        let after = core::mem::replace(next, at);
        self.slots[at as usize].next = after;
        if after == NONE {
            list.tail = at;
        }
        list.pkts += 1;
        self.pkts += 1;
    }

    /// When the first packet of a flow may leave.
    pub(super) fn first_departs(&self, list: &PacketList) -> Option<Instant> {
        self.slots.get(list.head as usize).map(|slot| slot.departs)
    }

    pub(super) fn pop(&mut self, list: &mut PacketList) -> Option<P> {
        let at = list.head;
        let slot = self.slots.get_mut(at as usize)?;
        let packet = slot.packet.take();
        assert!(packet.is_some(), "a linked slot holds a packet");
        list.head = core::mem::replace(&mut slot.next, self.free);
        self.free = at;
        if list.head == NONE {
            list.tail = NONE;
        }
        list.pkts -= 1;
        self.pkts -= 1;
        packet
    }

    #[cfg(test)]
    pub(super) const fn slots(&self) -> usize {
        self.slots.len()
    }

    fn fill(&mut self, packet: P, departs: Instant) -> u32 {
        let slot = Slot { packet: Some(packet), departs, next: NONE };
        if self.free == NONE {
            self.slots.push(slot);
            return (self.slots.len() - 1) as u32;
        }
        let at = self.free;
        self.free = core::mem::replace(&mut self.slots[at as usize], slot).next;
        at
    }
}
