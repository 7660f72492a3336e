//! The run of a discipline: chains go from it to the driver until a quota is used up. Source: `include/net/pkt_sched.h
//! qdisc_run`, `net/sched/sch_generic.c __qdisc_run`, `qdisc_restart`, `sch_direct_xmit`, `net/core/dev.c
//! dev_hard_start_xmit` (Linux 7.3).
//!
//! ```text
//! begin --> Dequeue --chain--> TxLock --may send--> Offer --taken, more, not stopped--> Offer ...
//!              |                  |                   |--taken, none left--------------> Relock
//!              |                  \--stopped----------\--full, or stopped with more----> Relock
//!              \--nothing--> Finish        Relock --all sent, quota left--> Dequeue | --else--> Finish
//! bypass --> TxLock
//! ```
//! `Dequeue` and `Finish` are done with the root lock held, `TxLock` and `Offer` without it: other senders push, flush
//! and queue meanwhile, and find the discipline running. At most one run exists at a time.

use alloc::collections::VecDeque;

use super::TxPacket;
use super::queue::QueueBits;
pub use super::root::{DEV_TX_WEIGHT, TxQueueView};
use super::root::{Fetched, Root};
use crate::time::Instant;

/// What the runner does next.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum TxStep {
    /// Root lock held: look at the transmit queues and get a chain. Answer: [`TxRun::on_dequeue`].
    Dequeue,
    /// Drop the root lock. If `validate`, take what cannot be sent out of [`TxRun::chain_mut`]. Take the transmit lock
    /// of the chain's queue and read its bits. Answer: [`TxRun::on_tx_locked`].
    TxLock {
        /// The chain has not been to the driver before.
        validate: bool,
    },
    /// Give [`TxRun::take`] to the driver, and read the queue's bits again. Answer: [`TxRun::on_taken`] or
    /// [`TxRun::on_busy`].
    Offer {
        /// Another packet follows: the driver need not ring its doorbell yet.
        more: bool,
    },
    /// Release the transmit lock and take the root lock again. Answer: [`TxRun::on_relocked`].
    Relock,
    /// Root lock held: do as it says, call [`TxRun::finish`], and release the lock.
    Finish(RunEnd),
}

/// How a run ends.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct RunEnd {
    /// Why.
    pub stop: RunStop,
    /// Ask for another run before finishing: [`super::state::QdiscState::schedule`]; without root lock:
    /// [`super::state::QdiscState::miss`].
    pub again: bool,
}

/// Why a run ends.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum RunStop {
    /// Nothing waits.
    Empty,
    /// The transmit queue of what is next is stopped; its wake schedules. Without root lock: [`super::nolock::Stopped`].
    Stopped,
    /// Packets wait for this time: schedule then.
    NotBefore(Instant),
    /// The device did not take a packet; it is back at the front.
    Busy,
    /// The quota is used up.
    Quota,
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
enum RunPhase {
    Dequeuing,
    Locking {
        validate: bool,
    },
    Offering,
    /// The driver has a packet in hand.
    Offered,
    Relocking,
    Finishing(RunEnd),
}

/// One run.
#[must_use = "a run that is not carried out leaves its discipline running for ever"]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TxRun<P> {
    chain: VecDeque<P>,
    /// Packets of this chain that count against the quota: none on bypass.
    chain_pkts: u32,
    quota_pkts: i64,
    phase: RunPhase,
}

impl<P: TxPacket> TxRun<P> {
    /// Becomes runner, under the root lock. `None`: another thread is, and will dequeue again after what the caller has
    /// queued.
    #[must_use = "a run that is not carried out leaves its discipline running for ever"]
    pub fn begin(root: &mut Root<P>, quota_pkts: u32) -> Option<Self> {
        if root.running {
            return None;
        }
        root.running = true;
        let chain = core::mem::take(&mut root.spare);
        Some(Self { chain, chain_pkts: 0, quota_pkts: quota_pkts.into(), phase: RunPhase::Dequeuing })
    }

    /// Becomes runner with a packet that passes by the discipline; it does not count against the quota.
    ///
    /// # Panics
    /// If another thread runs, or packets wait.
    pub(super) fn bypass(root: &mut Root<P>, packet: P, quota_pkts: u32) -> Self {
        assert!(root.qlen() == 0, "a packet that passes by must not overtake others");
        let Some(mut run) = Self::begin(root, quota_pkts) else { panic!("one runner at a time") };
        run.pass_by(root, packet);
        run
    }

    /// Answers the first `Dequeue` with a packet that passes by the discipline; it does not count against the quota.
    /// Without root lock: for a runner that may ([`super::nolock::Recheck::Transmit`]). Others may be queueing at this
    /// moment, so that nothing is said of what waits.
    ///
    /// # Panics
    /// If no chain was asked for.
    pub fn pass_by(&mut self, root: &mut Root<P>, packet: P) {
        assert!(self.phase == RunPhase::Dequeuing, "pass_by answers Dequeue");
        root.count_sent(&packet);
        self.chain.push_back(packet);
        self.phase = RunPhase::Locking { validate: true };
    }

    /// Answers `Dequeue` without a look at the discipline: after a packet that passed by without root lock, if no bit
    /// says that anything waits ([`super::state::QdiscState::may_hold`]).
    ///
    /// # Panics
    /// If no chain was asked for.
    pub fn on_nothing(&mut self) {
        assert!(self.phase == RunPhase::Dequeuing, "on_nothing answers Dequeue");
        self.phase = Self::end(RunStop::Empty, false);
    }

    /// What to do next.
    #[inline]
    pub fn next(&self) -> TxStep {
        match self.phase {
            RunPhase::Dequeuing => TxStep::Dequeue,
            RunPhase::Locking { validate } => TxStep::TxLock { validate },
            RunPhase::Offering | RunPhase::Offered => TxStep::Offer { more: self.chain.len() > 1 },
            RunPhase::Relocking => TxStep::Relock,
            RunPhase::Finishing(end) => TxStep::Finish(end),
        }
    }

    /// Gets a chain. `view` tells of a transmit queue of the device, by its number; a discipline that serves one asks
    /// for that as 0 as well, whatever number its packets have.
    ///
    /// # Panics
    /// If it was not asked for.
    pub fn on_dequeue(&mut self, root: &mut Root<P>, now: Instant, view: impl Fn(u16) -> TxQueueView) {
        assert!(self.phase == RunPhase::Dequeuing, "on_dequeue answers Dequeue");
        let quota_pkts = self.quota_pkts.max(0) as u32;
        self.phase = match root.fetch(now, quota_pkts, view, &mut self.chain) {
            Fetched::Chain { validate } => RunPhase::Locking { validate },
            Fetched::Empty => Self::end(RunStop::Empty, false),
            Fetched::Stopped => Self::end(RunStop::Stopped, false),
            Fetched::NotBefore(at) => Self::end(RunStop::NotBefore(at), false),
        };
        self.chain_pkts = self.chain.len() as u32;
    }

    /// The chain, while it is validated.
    ///
    /// # Panics
    /// If nothing is to be validated.
    pub fn chain_mut(&mut self) -> &mut VecDeque<P> {
        assert!(self.phase == RunPhase::Locking { validate: true }, "the chain is changed before it is offered");
        &mut self.chain
    }

    /// The transmit queue that the chain goes to; `None` if validation has left nothing, and no lock need be taken.
    #[inline]
    #[must_use]
    pub fn tx_queue(&self) -> Option<u16> {
        self.chain.front().map(TxPacket::tx_queue)
    }

    /// The transmit lock is held, and these are the queue's bits.
    ///
    /// # Panics
    /// If it was not asked for.
    #[inline]
    pub fn on_tx_locked(&mut self, bits: QueueBits) {
        assert!(matches!(self.phase, RunPhase::Locking { .. }), "on_tx_locked answers TxLock");
        self.phase =
            if self.chain.is_empty() || bits.frozen_or_stopped() { RunPhase::Relocking } else { RunPhase::Offering };
    }

    /// The packet to offer.
    ///
    /// # Panics
    /// If none is to be offered.
    #[inline]
    #[must_use]
    pub fn take(&mut self) -> P {
        assert!(self.phase == RunPhase::Offering, "take answers Offer");
        self.phase = RunPhase::Offered;
        let Some(packet) = self.chain.pop_front() else { panic!("a chain that is offered is not empty") };
        packet
    }

    /// The driver took the packet (to send it or to drop and count it); these are the queue's bits now.
    ///
    /// # Panics
    /// If no packet was offered.
    #[inline]
    pub fn on_taken(&mut self, bits: QueueBits) {
        assert!(self.phase == RunPhase::Offered, "on_taken answers Offer");
        self.phase = if self.chain.is_empty() || bits.stopped() { RunPhase::Relocking } else { RunPhase::Offering };
    }

    /// The driver did not take the packet and gives it back.
    ///
    /// # Panics
    /// If no packet was offered.
    #[inline]
    pub fn on_busy(&mut self, packet: P) {
        assert!(self.phase == RunPhase::Offered, "on_busy answers Offer");
        self.chain.push_front(packet);
        self.phase = RunPhase::Relocking;
    }

    /// The root lock is held again: what is left of the chain goes back to the front.
    ///
    /// # Panics
    /// If it was not asked for.
    pub fn on_relocked(&mut self, root: &mut Root<P>) {
        assert!(self.phase == RunPhase::Relocking, "on_relocked answers Relock");
        self.phase = if !self.chain.is_empty() {
            root.put_back(&mut self.chain);
            Self::end(RunStop::Busy, true)
        } else if self.charge() <= 0 {
            Self::end(RunStop::Quota, true)
        } else {
            RunPhase::Dequeuing
        };
    }

    /// The run is over, and another thread may run the discipline.
    ///
    /// # Panics
    /// If it is not over.
    pub fn finish(self, root: &mut Root<P>) {
        assert!(matches!(self.phase, RunPhase::Finishing(_)), "finish answers Finish");
        assert!(root.running && self.chain.is_empty(), "a runner leaves nothing behind");
        root.running = false;
        root.spare = self.chain;
    }

    /// What is left of the quota. A chain counts with what was dequeued; the first packet of a bypass has none.
    const fn charge(&mut self) -> i64 {
        if self.chain_pkts == 0 {
            return 1;
        }
        self.quota_pkts -= self.chain_pkts as i64;
        self.chain_pkts = 0;
        self.quota_pkts
    }

    const fn end(stop: RunStop, again: bool) -> RunPhase {
        RunPhase::Finishing(RunEnd { stop, again })
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
