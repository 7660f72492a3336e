//! Fair queueing with pacing. Source: `net/sched/sch_fq.c` (Linux 7.3).
//!
//! Flows take turns: each may send its quantum of bytes, flows that begin to send go first, once, with a larger credit.
//! A flow's packets leave by departure time; without one they are paced by rate once the flow's credit is used up. The
//! kernel's three priority bands, its separate flow for control traffic, and marking are left out.

use super::delay::DelayHeap;
use super::flows::{FLOWS_MAX, FlowList, FlowPlace, Flows};
use super::packets::{NONE, Packets};
use super::{Dequeued, RATE_UNLIMITED};
use crate::time::{Instant, Span};
use crate::tx::{DropReason, DroppedPacket, TxPacket};

const NS_PER_S: u128 = 1_000_000_000;

/// The settings, by the names of `tc`; the defaults are those of the kernel for an Ethernet of 1500 bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FqConfig {
    /// `limit`: packets that may wait.
    pub limit_pkts: usize,
    /// `flow_limit`: packets of one flow that may wait.
    pub flow_limit_pkts: u32,
    /// `quantum`: bytes that a flow may send per turn.
    pub quantum_bytes: u32,
    /// `initial_quantum`: bytes that a flow may send in its first turn.
    pub initial_quantum_bytes: u32,
    /// `refill_delay`: an idle flow gets a quantum again after this.
    pub refill_delay: Span,
    /// `maxrate` of a flow, in bytes per second.
    pub flow_max_rate: u64,
    /// `low_rate_threshold`, in bytes per second: flows that are slower are paced packet by packet.
    pub low_rate_threshold: u64,
    /// `pacing`: whether rates are obeyed. Departure times are always.
    pub pacing: bool,
    /// `horizon`: how far in the future a departure time may lie.
    pub horizon: Span,
    /// `horizon_drop` or, if false, `horizon_cap`: what happens to a packet beyond it.
    pub horizon_drop: bool,
    /// `buckets` of the hash; a power of two.
    pub buckets: usize,
    /// Flows that are remembered; a packet of a new one beyond that is dropped. The kernel has no such limit.
    pub flows_max: usize,
}

impl Default for FqConfig {
    fn default() -> Self {
        Self {
            limit_pkts: 10_000,
            flow_limit_pkts: 100,
            quantum_bytes: 2 * 1514,
            initial_quantum_bytes: 10 * 1514,
            refill_delay: Span::from_ms(40),
            flow_max_rate: RATE_UNLIMITED,
            low_rate_threshold: 550_000 / 8,
            pacing: true,
            horizon: Span::from_secs(10),
            horizon_drop: true,
            buckets: 1024,
            flows_max: FLOWS_MAX,
        }
    }
}

/// The discipline.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Fq<P> {
    config: FqConfig,
    packets: Packets<P>,
    pub(super) flows: Flows,
    new: FlowList,
    old: FlowList,
    delayed: DelayHeap,
}

impl<P: TxPacket> Fq<P> {
    /// An empty one.
    ///
    /// # Panics
    /// If the quantum is 0, or the number of buckets no power of two.
    #[must_use]
    pub fn new(config: FqConfig) -> Self {
        assert!(config.quantum_bytes > 0, "without a quantum no flow has a turn");
        Self {
            packets: Packets::new(config.limit_pkts),
            flows: Flows::new(config.buckets, config.flows_max),
            new: FlowList::EMPTY,
            old: FlowList::EMPTY,
            delayed: DelayHeap::default(),
            config,
        }
    }

    /// Packets that wait.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.packets.pkts
    }

    /// True if nothing waits.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.packets.pkts == 0
    }

    /// Queues a packet with its flow.
    ///
    /// # Errors
    /// The packet: too many wait, in all or of this flow, or its departure time lies beyond the horizon.
    pub fn enqueue(&mut self, packet: P, now: Instant) -> Result<(), DroppedPacket<P>> {
        if self.packets.pkts >= self.config.limit_pkts {
            return Err(DroppedPacket { packet, reason: DropReason::Overlimit });
        }
        let horizon = now + self.config.horizon;
        let departs = match packet.earliest_departure() {
            None => now,
            Some(at) if at <= horizon => at,
            Some(_) if self.config.horizon_drop => {
                return Err(DroppedPacket { packet, reason: DropReason::Horizon });
            }
            Some(_) => horizon,
        };
        let credit = i64::from(self.config.initial_quantum_bytes);
        let mut found = self.flows.find(packet.flow_hash(), now, credit);
        if found.is_none() {
            // Empty flows may still be on their lists.
            self.detach_empty(now);
            found = self.flows.find(packet.flow_hash(), now, credit);
        }
        let Some(at) = found else {
            return Err(DroppedPacket { packet, reason: DropReason::Overlimit });
        };
        let flow = self.flows.get(at);
        if flow.packets.pkts >= self.config.flow_limit_pkts {
            return Err(DroppedPacket { packet, reason: DropReason::FlowLimit });
        }
        self.packets.insert(&mut flow.packets, packet, departs);
        if flow.place == FlowPlace::Detached {
            if now - flow.detached_at > self.config.refill_delay {
                flow.credit_bytes = flow.credit_bytes.max(self.config.quantum_bytes.into());
            }
            self.flows.attach(at);
            self.flows.push_back(&mut self.new, at);
        }
        Ok(())
    }

    /// Takes the next packet that may leave.
    #[inline]
    pub fn dequeue(&mut self, now: Instant) -> Dequeued<P> {
        // Empty flows stay on their lists meanwhile, as in `fq_dequeue`.
        if self.packets.pkts == 0 {
            return Dequeued::Empty;
        }
        self.dequeue_some(now)
    }

    pub(super) fn dequeue_some(&mut self, now: Instant) -> Dequeued<P> {
        while let Some(flow) = self.delayed.pop_due(now) {
            self.flows.push_back(&mut self.old, flow);
        }
        // Ends: each pass takes a packet, gives a flow credit, or takes a flow off a list.
        loop {
            let from_new = self.new.head != NONE;
            let list = if from_new { &mut self.new } else { &mut self.old };
            let at = list.head;
            if at == NONE {
                return self.delayed.earliest().map_or(Dequeued::Empty, Dequeued::NotBefore);
            }
            let flow = self.flows.get(at);
            if flow.credit_bytes <= 0 {
                flow.credit_bytes += i64::from(self.config.quantum_bytes);
                self.flows.pop_front(list);
                self.flows.push_back(&mut self.old, at);
                continue;
            }
            let Some(departs) = self.packets.first_departs(&flow.packets) else {
                self.flows.pop_front(list);
                if from_new && self.old.head != NONE {
                    // Through the old list once, so that a flow cannot stay new by sending one packet at a time.
                    self.flows.push_back(&mut self.old, at);
                } else {
                    self.flows.detach(at, now);
                }
                continue;
            };
            let departs = departs.max(flow.next_departs);
            if departs > now {
                (flow.next_departs, flow.place) = (departs, FlowPlace::Throttled);
                self.flows.pop_front(list);
                self.delayed.push(departs, at);
                continue;
            }
            if let Some(packet) = self.packets.pop(&mut flow.packets) {
                self.charge(at, &packet, now);
                return Dequeued::Packet(packet);
            }
        }
    }

    /// Takes empty flows off the heads of the lists, as their turns would.
    fn detach_empty(&mut self, now: Instant) {
        for list in [&mut self.new, &mut self.old] {
            while list.head != NONE && self.flows.get(list.head).packets.pkts == 0 {
                let at = list.head;
                self.flows.pop_front(list);
                self.flows.detach(at, now);
            }
        }
    }

    /// Takes everything away and forgets all flows.
    pub fn reset(&mut self, dropped: &mut impl FnMut(P)) {
        for flow in self.flows.iter_mut() {
            while let Some(packet) = self.packets.pop(&mut flow.packets) {
                dropped(packet);
            }
        }
        self.flows.clear();
        self.delayed.clear();
        (self.new, self.old) = (FlowList::EMPTY, FlowList::EMPTY);
    }

    /// Slots for packets and for flows.
    #[cfg(test)]
    pub(super) const fn slots(&self) -> [usize; 2] {
        [self.packets.slots(), self.flows.slots()]
    }

    /// A packet leaves: takes it off the flow's credit, and computes when the next may leave.
    fn charge(&mut self, at: u32, packet: &P, now: Instant) {
        let flow = self.flows.get(at);
        let mut bytes = packet.len_bytes();
        flow.credit_bytes -= i64::from(bytes);
        if !self.config.pacing {
            return;
        }
        let mut rate = self.config.flow_max_rate;
        if packet.earliest_departure().is_none() {
            rate = rate.min(packet.pacing_rate());
            if rate <= self.config.low_rate_threshold {
                flow.credit_bytes = 0;
            } else if flow.credit_bytes > 0 {
                return;
            } else {
                bytes = bytes.max(self.config.quantum_bytes);
            }
        }
        if rate == RATE_UNLIMITED {
            return;
        }
        // The rate may change: no flow waits for longer than a second.
        let gap_ns = (u128::from(bytes) * NS_PER_S / u128::from(rate.max(1))).min(NS_PER_S) as u64;
        // A packet that left late does not delay those behind it by more than it must.
        let late_ns = if flow.next_departs == Instant::ZERO { 0 } else { (now - flow.next_departs).ns.min(gap_ns / 2) };
        flow.next_departs = now + Span::from_ns(gap_ns - late_ns);
    }
}
