//! Flush and run: what the holder of the root lock does for everybody.

use std::sync::atomic::Ordering;

use napier_core::time::Instant;
use napier_core::tx::flush::flush;
use napier_core::tx::run::{DEV_TX_WEIGHT, TxRun};
use napier_core::tx::state::QdiscState;
use napier_core::tx::{DroppedPacket, XmitCode};
use napier_ring::{Entered, Frame, FrameBatch, Inside};

use super::carry::carry_out;
use super::owner::{OwnerTurn, OwnerTurns};
use super::packet::TxPkt;
use super::senders::{Senders, TxSender};
use super::{Guarded, TxPath};
use crate::port::{Bell, ToTell};
use crate::port::{lock, lock_root};
use napier_sys::clock::Clock;

/// Runs of a sender that flushes, one after the other, before the softirq's thread takes over. The kernel's sender goes on
/// by itself where it enables bottom halves again, for up to ten passes.
const RUNS_PER_FLUSH: u32 = 4;

/// What is left to be done when no lock is held any more.
#[must_use = "a thread must come back for what is left"]
pub(super) struct Rest<'a> {
    /// Run the transmit softirq.
    pub(super) raise: bool,
    /// Look again at this time.
    pub(super) watch: Option<Instant>,
    /// Interrupt the peer.
    pub(super) bell: Option<Bell>,
    /// The softirq will come, whichever thread asked for it.
    pub(super) softirq_comes: bool,
    /// A run ended because another thread had the transmit lock.
    pub(super) refused: bool,
    /// Runs that may follow one that has used up its quota.
    pub(super) more_runs: u32,
    senders: &'a Senders,
    /// Sockets that have got room.
    pub(super) news: ToTell,
    /// Frames of dropped packets.
    dropped: Option<FrameBatch<'a>>,
}

impl<'a> Rest<'a> {
    pub(super) fn new(senders: &'a Senders) -> Self {
        Self {
            raise: false,
            watch: None,
            softirq_comes: false,
            refused: false,
            more_runs: 0,
            senders,
            news: ToTell::default(),
            dropped: None,
            bell: None,
        }
    }

    /// The peer is interrupted when no lock is held any more: others count on the thread that runs the queue until then.
    pub(super) fn ring_later(&mut self, bell: Option<Bell>) {
        if let Some(bell) = bell {
            Bell::keep(&mut self.bell, bell);
        }
    }

    #[cold]
    pub(super) fn drop_packet(&mut self, dropped: DroppedPacket<TxPkt>) {
        let frame = dropped.packet.frame;
        self.senders.charges.credit(&frame, &mut self.news);
        self.dropped.get_or_insert_with(|| self.senders.table.batch()).push(frame);
    }
}

impl TxPath {
    /// The sender whose push found the list empty: takes it and flushes for all who pushed. If a thread is at the
    /// discipline or runs the queue, that thread does it instead, for it looks again before it leaves.
    pub(super) fn flush(&self) -> XmitCode {
        #[cfg(test)]
        super::hold::at(super::hold::Point::BeforeRootLock);
        let Some(guarded) = self.root.0.enter_or_note() else { return XmitCode::Success };
        let mut rest = self.rest_of_flusher();
        let (guarded, code) = self.flush_list(guarded, &mut rest);
        self.leave(guarded, rest);
        code
    }

    /// Takes the list, enqueues what was on it and runs the queue unless a thread does. The answer is that of the first
    /// packet; success if another holder of the lock has taken the list before.
    pub(super) fn flush_list<'a>(
        &'a self,
        mut guarded: Inside<'a, Guarded>,
        rest: &mut Rest<'a>,
    ) -> (Inside<'a, Guarded>, XmitCode) {
        let senders = self.shared.senders();
        let Some(mut fifo) = self.defer.take(&senders.table) else { return (guarded, XmitCode::Success) };
        #[cfg(test)]
        super::hold::at(super::hold::Point::UnderRootLock);
        let mut pkts = 0;
        let batch = core::iter::from_fn(|| {
            let frame = fifo.pop(&senders.table)?;
            pkts += 1;
            Some(TxPkt::read(&senders.table, &senders.paced, frame))
        });
        let now = Clock.now();
        let state = self.words.state();
        let root = &mut guarded.root;
        let flushed = flush(root, state, batch, now, DEV_TX_WEIGHT, &mut |packet| rest.drop_packet(packet));
        guarded.ledger.batch(pkts);
        match flushed.run {
            Some(run) => (carry_out(self, guarded, run, now, rest), flushed.own),
            None => (guarded, flushed.own),
        }
    }

    /// Takes the list, or without one runs what waits.
    pub(super) fn flush_or_run<'a>(&'a self, guarded: Inside<'a, Guarded>, rest: &mut Rest<'a>) -> Inside<'a, Guarded> {
        if self.defer.is_empty() { self.run_queue(guarded, rest) } else { self.flush_list(guarded, rest).0 }
    }

    /// Gives up the root lock, after what others have left to its holder; if its run has used up its quota, they have
    /// left it to the softirq.
    #[inline]
    pub(super) fn release<'a>(&'a self, guarded: Inside<'a, Guarded>, rest: &mut Rest<'a>) {
        let mut guarded = guarded;
        loop {
            self.shown.write(&guarded, rest.dropped.is_some());
            let Some(noted) = guarded.leave() else { return };
            // It would have cleared SCHED before a note of its own.
            if rest.softirq_comes && self.words.state().intersects(QdiscState::SCHED) {
                // Its note may be newer than that look: this turn takes it, or finds none and lets go.
                guarded = noted;
                continue;
            }
            guarded = self.flush_or_run(noted, rest);
        }
    }

    /// Gives up the root lock for good, and does what was left to be done without it.
    #[inline]
    pub(super) fn leave<'a>(&'a self, guarded: Inside<'a, Guarded>, mut rest: Rest<'a>) {
        self.release(guarded, &mut rest);
        self.settle(rest);
    }

    /// The path before the list: every sender enqueues its own packet. While a thread runs the queue, contenders line up
    /// at a lock of their own, so that the runner has to compete with one of them only. Source: `net/core/dev.c
    /// __dev_xmit_skb` (Linux 6.18).
    pub(super) fn xmit_locked(&self, frame: Frame) -> XmitCode {
        let contended = self.running.load(Ordering::Relaxed);
        let busy = contended.then(|| lock(&self.busylock.0));
        #[cfg(test)]
        super::hold::at(super::hold::Point::BeforeRootLock);
        let (mut guarded, waited) = lock_root(&self.root.0);
        guarded.ledger.waited(waited);
        guarded.ledger.waited(busy.as_ref().map_or(0, |(_, waited)| *waited));
        #[cfg(test)]
        super::hold::at(super::hold::Point::UnderRootLock);
        self.enqueue_behind_list(guarded, frame, busy.map(|(busy, _)| busy))
    }

    /// The same for who works for others: the thread that has the root lock, or stands in line for it, may have lost its
    /// processor.
    #[cold]
    pub(super) fn xmit_without_waiting(&self, sender: &mut TxSender, frame: Frame) -> XmitCode {
        #[cfg(test)]
        super::hold::at(super::hold::Point::BeforeRootLock);
        match self.root.0.try_enter() {
            Some(guarded) => self.enqueue_behind_list(guarded, frame, None),
            None => match self.push(sender, frame, false) {
                Ok(pushed) => pushed.code().unwrap_or_else(|| self.flush()),
                Err(_) => unreachable!("a packet of a sender that does not wait is dropped"),
            },
        }
    }

    /// The defer list is full although the sender has looked: others were faster. It can wait, so it waits for the thread
    /// that is at the discipline, and loses nothing.
    #[cold]
    pub(super) fn enqueue_when_free(&self, sender: &mut TxSender, frame: Frame) -> XmitCode {
        sender.flushes += 1;
        let (mut guarded, waited) = lock_root(&self.root.0);
        guarded.ledger.waited(waited);
        let code = self.enqueue_behind_list(guarded, frame, None);
        self.owner.want();
        code
    }

    /// Enqueues the caller's own packet behind what is on the list, from before a change of variant or from who did not
    /// wait: perhaps this sender's own, which must not be overtaken.
    fn enqueue_behind_list<'a>(
        &'a self,
        mut guarded: Inside<'a, Guarded>,
        frame: Frame,
        busy: Option<Entered<'a, ()>>,
    ) -> XmitCode {
        let mut rest = self.rest();
        if !self.defer.is_empty() {
            (guarded, _) = self.flush_list(guarded, &mut rest);
        }
        self.enqueue_one(guarded, frame, busy, rest)
    }

    /// Enqueues the caller's own packet and runs the queue unless a thread does; the list was empty while the root lock
    /// was held.
    #[inline]
    pub(super) fn enqueue_one<'a>(
        &'a self,
        mut guarded: Inside<'a, Guarded>,
        frame: Frame,
        busy: Option<Entered<'a, ()>>,
        mut rest: Rest<'a>,
    ) -> XmitCode {
        let senders = self.shared.senders();
        let packet = TxPkt::read(&senders.table, &senders.paced, frame);
        let (state, now) = (self.words.state(), Clock.now());
        let root = &mut guarded.root;
        let flushed = flush(root, state, [packet], now, DEV_TX_WEIGHT, &mut |packet| rest.drop_packet(packet));
        guarded.ledger.batch(1);
        match flushed.run {
            Some(run) => {
                // The next contender may go to the root lock.
                drop(busy);
                let guarded = carry_out(self, guarded, run, now, &mut rest);
                self.release(guarded, &mut rest);
            }
            None => {
                self.release(guarded, &mut rest);
                drop(busy);
            }
        }
        self.settle(rest);
        flushed.own
    }

    /// Runs the queue if no thread does. For the softirq and the owner.
    pub(super) fn run_queue<'a>(
        &'a self,
        mut guarded: Inside<'a, Guarded>,
        rest: &mut Rest<'a>,
    ) -> Inside<'a, Guarded> {
        match TxRun::begin(&mut guarded.root, DEV_TX_WEIGHT) {
            Some(run) => carry_out(self, guarded, run, Clock.now(), rest),
            None => guarded,
        }
    }

    pub(super) fn rest(&self) -> Rest<'_> {
        Rest::new(self.shared.senders())
    }

    pub(super) fn rest_of_flusher(&self) -> Rest<'_> {
        Rest { more_runs: RUNS_PER_FLUSH - 1, ..self.rest() }
    }

    /// A turn of an owner who let nothing wait would find something.
    #[inline]
    pub(crate) fn wants_owner(&self) -> bool {
        !self.defer.is_empty() || self.owner.is_wanted()
    }

    /// One turn of an owner.
    pub(crate) fn owner_turn(&self, turns: &mut OwnerTurns) -> OwnerTurn {
        turns.turn(self)
    }

    /// One turn of an owner; true if packets still wait. None if others have the root lock, or had the transmit lock when a
    /// packet was due.
    pub(super) fn own_once(&self) -> Option<bool> {
        let guarded = self.root.0.try_enter()?;
        let mut rest = self.rest();
        let guarded = self.flush_or_run(guarded, &mut rest);
        let (waiting, refused) = (guarded.root.qlen() > 0, rest.refused);
        // Mostly nothing is left: the owner comes back by itself, but it may begin before the variant is in force.
        self.leave(guarded, rest);
        (!refused).then_some(waiting)
    }
}
