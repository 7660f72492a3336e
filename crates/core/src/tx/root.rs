//! What the root lock of a discipline protects: the discipline, the chains that wait to be sent again, and the counters.
//! Source: `include/net/sch_generic.h struct Qdisc`, `net/sched/sch_generic.c dev_requeue_skb`, `dequeue_skb` (Linux
//! 7.3).

use alloc::collections::VecDeque;

use super::qdisc::{Dequeued, Qdisc};
use super::queue::QueueBits;
use super::{DropReason, DroppedPacket, TxDrops, TxPacket};
use crate::time::Instant;

/// Packets of one run: `net.core.dev_weight` times `net.core.dev_weight_tx_bias`. Source: `net/core/hotdata.c
/// dev_tx_weight`.
pub const DEV_TX_WEIGHT: u32 = 64;

/// What a run must know of a transmit queue, as it is now.
#[derive(Copy, Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct TxQueueView {
    /// The stop bits.
    pub bits: QueueBits,
    /// The byte allowance ([`super::bql::available`]): bulking goes on while it lasts. 0 without byte limits, so that
    /// nothing is bulked.
    pub bulk_bytes: i32,
}

/// Most packets that are dequeued behind the first one where a discipline serves several transmit queues. Source:
/// `net/sched/sch_generic.c try_bulk_dequeue_skb_slow`.
pub const SLOW_BULK_PKTS: u32 = 8;

/// Counters of a discipline, as `tc -s qdisc` shows them. They only grow.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct QdiscStats {
    /// Packets that left it.
    pub packets: u64,
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that came back because the device was full.
    pub requeues: u64,
    /// Packets dropped, by reason. Burst drops happen before the lock and are counted by the executor.
    pub drops: TxDrops,
}

/// What a dequeue came to.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Fetched {
    /// A chain; `validate`: it has not been to the driver before.
    Chain {
        validate: bool,
    },
    Empty,
    /// The transmit queue of what would be next is stopped.
    Stopped,
    NotBefore(Instant),
}

/// Everything behind the root lock.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Root<P> {
    qdisc: Qdisc<P>,
    /// Chains that the device did not take, in order; they have been validated.
    requeue: VecDeque<P>,
    /// A packet that was dequeued for another transmit queue than its chain's.
    other_queue: Option<P>,
    one_tx_queue: bool,
    pub(super) running: bool,
    backlog_bytes: u64,
    stats: QdiscStats,
    /// The memory of a run's chain, while no thread runs.
    pub(super) spare: VecDeque<P>,
}

impl<P: TxPacket> Root<P> {
    /// An idle discipline. `one_tx_queue`: it serves a single transmit queue, as each one below `mq` does.
    #[must_use]
    pub fn new(qdisc: Qdisc<P>, one_tx_queue: bool) -> Self {
        // As long as a chain can be, so that runs ask for no memory.
        let chain = || VecDeque::with_capacity(DEV_TX_WEIGHT as usize + 1);
        Self {
            qdisc,
            requeue: chain(),
            other_queue: None,
            one_tx_queue,
            running: false,
            backlog_bytes: 0,
            stats: QdiscStats { packets: 0, bytes: 0, requeues: 0, drops: TxDrops::NONE },
            spare: chain(),
        }
    }

    /// Packets that wait, wherever.
    #[inline]
    #[must_use]
    pub fn qlen(&self) -> usize {
        self.qdisc.len() + self.outside_pkts()
    }

    /// Their bytes.
    #[inline]
    #[must_use]
    pub const fn backlog_bytes(&self) -> u64 {
        self.backlog_bytes
    }

    /// True while a thread runs it. The lock may be free meanwhile.
    #[inline]
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.running
    }

    /// True if a packet may pass by the empty discipline.
    #[inline]
    #[must_use]
    pub const fn can_bypass(&self) -> bool {
        self.qdisc.can_bypass()
    }

    /// The discipline.
    #[inline]
    #[must_use]
    pub const fn qdisc(&self) -> &Qdisc<P> {
        &self.qdisc
    }

    /// The counters.
    #[inline]
    #[must_use]
    pub const fn stats(&self) -> &QdiscStats {
        &self.stats
    }

    /// The packets that the device did not take, in the order in which they go next.
    pub fn iter_requeued(&self) -> impl Iterator<Item = &P> {
        self.requeue.iter()
    }

    /// Queues a packet; a drop is counted.
    ///
    /// # Errors
    /// The packet, if it is dropped.
    #[inline]
    pub fn enqueue(&mut self, packet: P, now: Instant) -> Result<(), DroppedPacket<P>> {
        let bytes = packet.len_bytes();
        let queued = self.qdisc.enqueue(packet, now, self.outside_pkts());
        match &queued {
            Ok(()) => self.backlog_bytes += u64::from(bytes),
            Err(dropped) => self.stats.drops.count(dropped.reason),
        }
        queued
    }

    /// Drops everything that waits, and counts it: the discipline is being deactivated. What a runner holds is not
    /// touched, and may come back.
    pub fn reset(&mut self, dropped: &mut impl FnMut(DroppedPacket<P>)) {
        let mut pkts = 0;
        let mut drop = |packet| {
            pkts += 1;
            dropped(DroppedPacket { packet, reason: DropReason::Deactivated });
        };
        self.requeue.drain(..).for_each(&mut drop);
        self.other_queue.take().into_iter().for_each(&mut drop);
        self.qdisc.reset(&mut drop);
        (0..pkts).for_each(|_| self.stats.drops.count(DropReason::Deactivated));
        self.backlog_bytes = 0;
    }

    /// Counts a drop that the flush decided.
    pub(super) const fn count_drop(&mut self, reason: DropReason) {
        self.stats.drops.count(reason);
    }

    /// Counts a packet that leaves by way of the bypass.
    pub(super) fn count_sent(&mut self, packet: &P) {
        self.stats.packets += 1;
        self.stats.bytes += u64::from(packet.len_bytes());
    }

    /// Gets a chain: of what came back, or a new one whose packets all go to one transmit queue.
    pub(super) fn fetch(
        &mut self,
        now: Instant,
        quota_pkts: u32,
        view: impl Fn(u16) -> TxQueueView,
        chain: &mut VecDeque<P>,
    ) -> Fetched {
        assert!(chain.is_empty(), "the last chain is done with");
        if let Some(first) = self.requeue.front() {
            if view(first.tx_queue()).bits.frozen_or_stopped() {
                return Fetched::Stopped;
            }
            let first = self.requeue.pop_front();
            chain.extend(first.inspect(|packet| self.backlog_bytes -= u64::from(packet.len_bytes())));
            return Fetched::Chain { validate: false };
        }
        if self.one_tx_queue && view(0).bits.frozen_or_stopped() {
            return Fetched::Stopped;
        }
        if let Some(other) = &self.other_queue
            && view(other.tx_queue()).bits.frozen_or_stopped()
        {
            return Fetched::Stopped;
        }
        let first = match self.other_queue.take() {
            Some(other) => self.leave(other),
            None => match self.take_new(now) {
                Dequeued::Packet(packet) => packet,
                Dequeued::NotBefore(at) => return Fetched::NotBefore(at),
                Dequeued::Empty => return Fetched::Empty,
            },
        };
        let allowance = i64::from(view(first.tx_queue()).bulk_bytes) - i64::from(first.len_bytes());
        let tx_queue = first.tx_queue();
        chain.push_back(first);
        if self.one_tx_queue {
            self.bulk(now, allowance, quota_pkts, chain);
        } else {
            self.bulk_slow(now, tx_queue, chain);
        }
        Fetched::Chain { validate: true }
    }

    /// Puts back what the device did not take: to the front, in order.
    pub(super) fn put_back(&mut self, chain: &mut VecDeque<P>) {
        while let Some(packet) = chain.pop_back() {
            self.stats.requeues += 1;
            self.backlog_bytes += u64::from(packet.len_bytes());
            self.requeue.push_front(packet);
        }
    }

    /// For a walk that must fail: the first `pkts` go to the end.
    #[cfg(test)]
    pub(super) fn rotate_requeued(&mut self, pkts: usize) {
        self.requeue.rotate_left(pkts);
    }

    fn outside_pkts(&self) -> usize {
        self.requeue.len() + usize::from(self.other_queue.is_some())
    }

    /// More packets, as long as the byte allowance lasts; the last one may exceed it.
    fn bulk(&mut self, now: Instant, mut allowance_bytes: i64, pkts_max: u32, chain: &mut VecDeque<P>) {
        for _ in 0..pkts_max {
            if allowance_bytes <= 0 {
                return;
            }
            let Dequeued::Packet(packet) = self.take_new(now) else { return };
            allowance_bytes -= i64::from(packet.len_bytes());
            chain.push_back(packet);
        }
    }

    /// A few more packets for the same transmit queue.
    fn bulk_slow(&mut self, now: Instant, tx_queue: u16, chain: &mut VecDeque<P>) {
        for _ in 0..SLOW_BULK_PKTS {
            let Dequeued::Packet(packet) = self.qdisc.dequeue(now) else { return };
            if packet.tx_queue() != tx_queue {
                self.other_queue = Some(packet);
                return;
            }
            let packet = self.leave(packet);
            chain.push_back(packet);
        }
    }

    fn take_new(&mut self, now: Instant) -> Dequeued<P> {
        match self.qdisc.dequeue(now) {
            Dequeued::Packet(packet) => Dequeued::Packet(self.leave(packet)),
            Dequeued::NotBefore(at) => Dequeued::NotBefore(at),
            Dequeued::Empty => Dequeued::Empty,
        }
    }

    /// A packet leaves the discipline for the first time.
    fn leave(&mut self, packet: P) -> P {
        self.backlog_bytes -= u64::from(packet.len_bytes());
        self.count_sent(&packet);
        packet
    }
}

#[cfg(test)]
#[path = "root_tests.rs"]
mod tests;
