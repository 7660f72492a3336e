//! A run carried out: which locks are held at each step of the rules.
//!
//! ```text
//! AtRoot --TxLock--> AtRing --Offer--> AtRing ... --Relock--> AtRoot --Dequeue, TxLock ... | --Finish--> done
//!           \--refused--> AtRoot --Relock--> AtRoot
//! ```
//! With the locked variant the root lock is free while the ring is filled, so that others can enqueue; else none needs
//! it: they push, and the runner takes the list when it comes back to the discipline. A thread that works for others takes
//! the transmit lock before a packet, or leaves the run to the holder of that lock, and keeps the root lock, which it could
//! have to wait for.

use std::sync::atomic::Ordering;

use napier_core::time::Instant;
use napier_core::tx::TxPacket;
use napier_core::tx::queue::QueueBits;
use napier_core::tx::run::{DEV_TX_WEIGHT, RunEnd, RunStop, TxQueueView, TxRun, TxStep};
use napier_core::tx::state::QdiscState;
use napier_ring::Inside;

#[cfg(test)]
use super::hold;
use super::packet::TxPkt;
use super::run::Rest;
use super::{Guarded, Mode, OnWire, TxPath};
use crate::port::lock_root;
use napier_sys::clock::Clock;
use napier_sys::nowait;

/// Packets in the ring from which on a runner looks what the peer has read; else that is left to the thread that needs it.
const RECLAIM_AT_PKTS: u32 = 32;

/// The locks in hand.
enum Locks<'a> {
    /// At the discipline, perhaps with a transmit lock that was taken before a packet.
    AtRoot(Inside<'a, Guarded>, Option<OnWire<'a>>),
    /// At the ring, perhaps with the root lock kept.
    AtRing(OnWire<'a>, Option<Inside<'a, Guarded>>),
}

/// A thread that runs a queue, for one run or several, one after the other.
struct Runner<'a, 'r> {
    path: &'a TxPath,
    rest: &'r mut Rest<'a>,
    now: Instant,
    /// It may wait for a lock: it works for itself.
    waits: bool,
    /// The root lock is free while the ring is filled.
    unlocks: bool,
    /// The transmit lock was taken, and not waited for.
    refused: bool,
    sent_pkts: u64,
    waited_ticks: u64,
}

/// Carries out a run of a queue, and those that may follow it at once.
pub(super) fn carry_out<'a>(
    path: &'a TxPath,
    mut root: Inside<'a, Guarded>,
    mut run: TxRun<TxPkt>,
    now: Instant,
    rest: &mut Rest<'a>,
) -> Inside<'a, Guarded> {
    path.running.store(true, Ordering::Relaxed);
    let waits = nowait::may_wait();
    let unlocks = path.mode() == Mode::Locked && waits;
    let (refused, sent_pkts, waited_ticks) = (false, 0, 0);
    let mut runner = Runner { path, rest, now, waits, unlocks, refused, sent_pkts, waited_ticks };
    loop {
        let (back, end) = runner.run(root, &mut run);
        root = back;
        let goes_on = runner.end(end, &mut root, run);
        if goes_on && let Some(next) = TxRun::begin(&mut root.root, DEV_TX_WEIGHT) {
            runner.rest.more_runs -= 1;
            (run, runner.now) = (next, Clock.now());
        } else {
            path.running.store(false, Ordering::Relaxed);
            return root;
        }
    }
}

impl<'a> Runner<'a, '_> {
    /// One run, up to its end.
    #[inline]
    fn run(&mut self, root: Inside<'a, Guarded>, run: &mut TxRun<TxPkt>) -> (Inside<'a, Guarded>, RunEnd) {
        let mut locks = Locks::AtRoot(root, None);
        loop {
            locks = match (run.next(), locks) {
                (TxStep::Dequeue, Locks::AtRoot(root, _)) => self.dequeue(root, run),
                (TxStep::TxLock { .. }, Locks::AtRoot(root, early)) => self.lock_ring(root, early, run),
                (TxStep::Offer { .. }, Locks::AtRing(mut wire, root)) => {
                    self.offer(run, &mut wire);
                    Locks::AtRing(wire, root)
                }
                (TxStep::Relock, locks) => self.relock(locks, run),
                (TxStep::Finish(end), Locks::AtRoot(root, _)) => return (root, end),
                (step, _) => unreachable!("the rules ask for {step:?} under other locks"),
            }
        }
    }

    #[inline]
    fn view(&self, may_send: bool) -> TxQueueView {
        let bits = self.path.words.bits();
        let bits = if may_send { bits } else { bits.freeze() };
        TxQueueView { bits, bulk_bytes: self.path.bulk_bytes.load(Ordering::Relaxed) }
    }

    /// Gets a chain out of the discipline.
    #[inline]
    fn dequeue(&mut self, mut root: Inside<'a, Guarded>, run: &mut TxRun<TxPkt>) -> Locks<'a> {
        let path = self.path;
        if path.words.bits().frozen_or_stopped() {
            self.rest.news.join(path.look_for_room(self.now));
        }
        if !path.defer.is_empty() {
            (root, _) = path.flush_list(root, self.rest);
            self.now = Clock.now(); // to the discipline they came just now, which must not lie ahead
        }
        let early = if self.waits { None } else { path.claim_wire_to_run() };
        self.refused = !self.waits && early.is_none();
        let view = self.view(!self.refused);
        run.on_dequeue(&mut root.root, self.now, |_| view);
        Locks::AtRoot(root, early)
    }

    /// Takes the transmit lock for the chain.
    #[inline]
    fn lock_ring(&mut self, root: Inside<'a, Guarded>, early: Option<OnWire<'a>>, run: &mut TxRun<TxPkt>) -> Locks<'a> {
        let path = self.path;
        let root = if self.unlocks {
            path.release(root, self.rest);
            None
        } else {
            Some(root)
        };
        #[cfg(test)]
        hold::at(hold::Point::BeforeTxLock);
        let free = early.or_else(|| path.try_claim_wire());
        match (free.or_else(|| self.waits.then(|| self.wait_for_ring())), root) {
            (Some(mut wire), root) => {
                if wire.queue.in_flight() >= RECLAIM_AT_PKTS {
                    wire.complete(self.now);
                }
                run.on_tx_locked(path.words.bits());
                Locks::AtRing(wire, root)
            }
            (None, Some(root)) => {
                // Its packet passed by the discipline; it goes back there, and the next run looks first.
                self.refused = true;
                run.on_tx_locked(path.words.bits().freeze());
                Locks::AtRoot(root, None)
            }
            (None, None) => unreachable!("the root lock is given up only to wait for the transmit lock"),
        }
    }

    #[cold]
    fn wait_for_ring(&mut self) -> OnWire<'a> {
        let (wire, ticks) = self.path.wait_for_wire();
        self.waited_ticks += ticks;
        wire
    }

    /// Offers one packet to the ring.
    #[inline]
    fn offer(&mut self, run: &mut TxRun<TxPkt>, wire: &mut OnWire<'a>) {
        let (path, now) = (self.path, self.now);
        #[cfg(test)]
        hold::at(hold::Point::UnderTxLock);
        let packet = run.take();
        let len = packet.len_bytes();
        // What was left from a time without discipline is older.
        if !wire.is_clear() || !wire.has_room(now) {
            path.words.stop(QueueBits::stop_driver);
            run.on_busy(packet);
            return;
        }
        let (frame, with_frame) = packet.split();
        if let Err(frame) = wire.queue.give(frame, len) {
            path.words.stop(QueueBits::stop_driver);
            run.on_busy(with_frame(frame));
            return;
        }
        if let Some(limit) = &mut wire.limit {
            limit.queued(len);
            if limit.available() < 0 {
                wire.complete(now);
                if wire.allowance() < 0 {
                    path.words.stop(QueueBits::stop_stack);
                }
            }
        }
        if !wire.has_room(now) {
            path.words.stop(QueueBits::stop_driver);
        }
        run.on_taken(path.words.bits());
        self.sent_pkts += 1;
    }

    /// Shows the peer what the ring got, and comes back to the discipline.
    #[inline]
    fn relock(&mut self, locks: Locks<'a>, run: &mut TxRun<TxPkt>) -> Locks<'a> {
        let kept = match locks {
            Locks::AtRoot(root, _) => Some(root),
            Locks::AtRing(mut wire, root) => {
                self.path.flush_or_defer(&mut wire);
                self.rest.ring_later(wire.queue.take_bell());
                self.rest.news.join(wire.queue.take_news());
                self.path.publish_allowance(&wire);
                root
            }
        };
        let mut root = kept.unwrap_or_else(|| {
            let (root, ticks) = lock_root(&self.path.root.0);
            self.waited_ticks += ticks;
            root
        });
        run.on_relocked(&mut root.root);
        if root.root.qlen() > 0 {
            self.now = Clock.now(); // else nothing asks
        }
        Locks::AtRoot(root, None)
    }

    /// Ends a run, sees to what is to come after it, and counts; true if another may follow at once.
    #[inline]
    fn end(&mut self, end: RunEnd, held: &mut Guarded, run: TxRun<TxPkt>) -> bool {
        let (path, rest) = (self.path, &mut *self.rest);
        let refused = self.refused && !matches!(end.stop, RunStop::Empty | RunStop::NotBefore(_));
        rest.refused |= refused;
        path.watchdog.tried(self.sent_pkts > 0, refused);
        let watch = match end.stop {
            RunStop::NotBefore(at) => Some(at),
            RunStop::Stopped => Some(path.watchdog.recheck_at(self.now, 0)),
            RunStop::Empty | RunStop::Busy | RunStop::Quota => None,
        };
        rest.watch = watch.or(rest.watch);
        let goes_on = end.stop == RunStop::Quota && rest.more_runs > 0 && !self.unlocks;
        let raise = end.again && !goes_on && path.schedule_again(self.unlocks);
        rest.raise |= raise;
        rest.softirq_comes |= end.again && path.words.state().intersects(QdiscState::SCHED);
        run.finish(&mut held.root);
        let ledger = &mut held.ledger;
        ledger.waited(std::mem::take(&mut self.waited_ticks));
        ledger.counts.runs += 1;
        ledger.counts.run_pkts += std::mem::take(&mut self.sent_pkts);
        ledger.counts.schedules += u64::from(raise);
        goes_on
    }
}
