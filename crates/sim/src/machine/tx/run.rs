//! Behind the root lock: the flush, and the run of a discipline.

use napier_core::tx::flush::{FlushPlan, FlushView, flush, plan};
use napier_core::tx::run::{RunEnd, RunStop, TxRun, TxStep};
use napier_core::tx::state::QdiscState;
use napier_core::tx::{DroppedPacket, XmitCode};

use super::{At, Qd, TxPkt, Way};
use crate::machine::Plant;
use crate::machine::coverage::Decision;
use crate::machine::vm::K;
use crate::machine::work::Work;
use crate::machine::world::World;
use napier_scenario::{PollContext, TxEvent};

impl K {
    /// Spins for the root lock, with bottom halves off.
    pub(super) async fn root_lock(&self, qd: usize) {
        loop {
            {
                let mut w = self.w();
                if w.tx.qds[qd].locked.is_none() {
                    w.qd(qd).locked = Some(self.me);
                    break;
                }
                w.hit(Decision::TxRootSpin);
            }
            self.spin_pause().await;
        }
        self.op().await;
    }

    pub(super) fn root_unlock(&self, qd: usize) {
        let holder = self.w().qd(qd).locked.take();
        assert!(holder == Some(self.me), "the root lock is given back by its holder");
    }

    /// Spins for a transmit lock, with bottom halves off.
    pub(super) async fn tx_lock(&self, txq: usize) {
        loop {
            {
                let mut w = self.w();
                if w.tx.txqs[txq].locked.is_none() {
                    w.txq(txq).locked = Some(self.cpu());
                    return;
                }
                w.hit(Decision::TxLockSpin);
            }
            self.spin_pause().await;
        }
    }

    pub(super) fn tx_unlock(&self, txq: usize) {
        let holder = self.w().txq(txq).locked.take();
        assert!(holder == Some(self.cpu()), "the transmit lock is given back by its holder");
    }

    /// The flusher's part: its own packet is the first on the list.
    pub(super) async fn flush(&self, qd: usize) -> XmitCode {
        self.root_lock(qd).await;
        let batch = self.take_list(qd).await;
        self.op().await;
        {
            let mut w = self.w();
            let keeps = w.plant == Plant::DeferCountKept;
            let of = w.qd(qd);
            of.resetting = false;
            if !keeps {
                of.defer_count = 0;
            }
        }
        self.op().await;
        let (code, run, dropped) = self.w().carry_out_flush(qd, &batch);
        self.works(&[(Work::Op, batch.len() as u64)]).await;
        match run {
            Some(run) => self.carry_out(qd, run, PollContext::User).await,
            None => self.root_unlock(qd),
        }
        // Their memory is given back after the lock.
        self.w().give_back(qd, &dropped);
        code
    }

    /// Takes the whole list, in the order of arrival.
    async fn take_list(&self, qd: usize) -> Vec<TxPkt> {
        let torn = self.w().plant == Plant::TornTake;
        let seen = self.w().tx.qds[qd].defer.clone();
        if torn {
            self.op().await;
        }
        let mut w = self.w();
        let of = w.qd(qd);
        let taken = std::mem::take(&mut of.defer);
        (of.flushers, of.counted, of.resetting) = (0, 0, true);
        if torn { seen } else { taken }
    }

    /// Carries out a run: the root lock is held at its begin and released at its end. Without root lock the caller is
    /// the runner, and gives that up here.
    pub(super) async fn carry_out(&self, qd: usize, mut run: TxRun<TxPkt>, context: PollContext) {
        let nolock = {
            let mut w = self.w();
            let of = w.qd(qd);
            let (qdisc, nolock) = (of.index, of.way == Way::Nolock);
            w.note_tx(TxEvent::Run { qdisc, context, cpu: World::cpu_ix(self.cpu()) });
            nolock
        };
        let mut sent = 0;
        let mut txq = None;
        let mut passed_by = run.next() != TxStep::Dequeue;
        loop {
            match run.next() {
                TxStep::Dequeue if nolock => {
                    self.nolock_dequeue(qd, &mut run, std::mem::take(&mut passed_by)).await;
                }
                TxStep::Dequeue => self.w().dequeue(qd, &mut run),
                TxStep::TxLock { .. } => {
                    if !nolock {
                        self.root_unlock(qd);
                    }
                    self.op().await;
                    let queue = run.tx_queue().expect("nothing is taken out of a chain");
                    let to = self.w().txq_of(qd, queue);
                    self.tx_lock(to).await;
                    let bits = self.w().tx.txqs[to].bits;
                    if nolock && bits.frozen_or_stopped() {
                        self.nolock_stopped(qd).await;
                    }
                    run.on_tx_locked(bits);
                    txq = Some(to);
                }
                TxStep::Offer { more } => {
                    let to = txq.expect("its lock is held");
                    sent += u32::from(self.offer(qd, to, &mut run, more).await);
                }
                TxStep::Relock => {
                    self.tx_unlock(txq.take().expect("its lock is held"));
                    if !nolock {
                        self.root_lock(qd).await;
                    }
                    self.w().relocked(qd, &mut run);
                }
                TxStep::Finish(end) => {
                    self.finish(qd, run, end, sent).await;
                    return;
                }
            }
            self.op().await;
        }
    }

    /// Gives the next packet to the driver; true if it took it.
    async fn offer(&self, qd: usize, txq: usize, run: &mut TxRun<TxPkt>, more: bool) -> bool {
        let packet = run.take();
        let refused = self.hard_start_xmit(txq, packet, more).await.err();
        let mut w = self.w();
        let bits = w.tx.txqs[txq].bits;
        let taken = refused.is_none();
        match refused {
            None => run.on_taken(bits),
            Some(packet) if w.plant == Plant::RequeueAtTheBack && w.tx.qds[qd].way == Way::Locked => {
                let now = w.now;
                let back = w.qd(qd).root.enqueue(packet, now);
                if let Err(dropped) = back {
                    w.drop_packets(qd, dropped.reason, &[dropped.packet], At::Path);
                }
                run.on_taken(bits);
            }
            Some(packet) => {
                w.hit(Decision::TxBusy);
                run.on_busy(packet);
            }
        }
        taken
    }

    async fn finish(&self, qd: usize, run: TxRun<TxPkt>, end: RunEnd, sent: u32) {
        let nolock = self.w().tx.qds[qd].way == Way::Nolock;
        if nolock {
            self.nolock_finish(qd, run, end, sent).await;
            return;
        }
        if end.again {
            self.netif_schedule(qd).await;
        }
        let mut w = self.w();
        if let RunStop::NotBefore(at) = end.stop {
            w.arm_watchdog(qd, at, self.cpu());
        }
        w.run_over(qd, run, end, sent);
        drop(w);
        self.root_unlock(qd);
    }
}

impl World {
    /// Decides on a batch and carries the decision out, under the root lock.
    fn carry_out_flush(
        &mut self,
        qd: usize,
        batch: &[TxPkt],
    ) -> (XmitCode, Option<TxRun<TxPkt>>, Vec<DroppedPacket<TxPkt>>) {
        let (now, quota) = (self.now, self.sysctl.dev_weight);
        let of = self.qd(qd);
        let state = of.state;
        let decided = plan(FlushView {
            deactivated: state.intersects(QdiscState::DEACTIVATED),
            can_bypass: of.root.can_bypass(),
            empty: of.root.qlen() == 0,
            single: batch.len() == 1,
            running: of.root.is_running(),
        });
        let mut dropped = Vec::new();
        let flushed = flush(&mut of.root, state, batch.iter().copied(), now, quota, &mut |drop| dropped.push(drop));
        of.runners += u32::from(flushed.run.is_some());
        let qdisc = of.index;
        self.hit(match decided {
            FlushPlan::DropAll => Decision::TxFlushDrop,
            FlushPlan::Bypass => Decision::TxFlushBypass,
            FlushPlan::Enqueue if flushed.run.is_some() => Decision::TxFlushRun,
            FlushPlan::Enqueue => Decision::TxFlushRunning,
        });
        self.note_tx(TxEvent::Flush { qdisc, packets: batch.len() as u32, plan: decided });
        (flushed.code, flushed.run, dropped)
    }

    /// Becomes runner, unless somebody is.
    pub(super) fn begin_run(&mut self, qd: usize) -> Option<TxRun<TxPkt>> {
        let quota = self.sysctl.dev_weight;
        let of = self.qd(qd);
        let run = TxRun::begin(&mut of.root, quota);
        of.runners += u32::from(run.is_some());
        run
    }

    /// Counts dropped packets, by runs of one reason.
    pub(super) fn give_back(&mut self, qd: usize, dropped: &[DroppedPacket<TxPkt>]) {
        for same in dropped.chunk_by(|a, b| a.reason == b.reason) {
            let packets: Vec<TxPkt> = same.iter().map(|drop| drop.packet).collect();
            self.drop_packets(qd, same[0].reason, &packets, At::Path);
        }
    }

    /// Gets a chain for a run.
    pub(super) fn dequeue(&mut self, qd: usize, run: &mut TxRun<TxPkt>) {
        let now = self.now;
        let Qd { first_txq, txqs, .. } = *self.qd(qd);
        let tx = &mut self.tx;
        let all = &tx.txqs;
        // Who serves one transmit queue asks for that, by whatever number.
        let view = |queue: u16| all[first_txq + if txqs == 1 { 0 } else { usize::from(queue) }].view();
        run.on_dequeue(&mut tx.qds[qd].root, now, view);
    }

    /// The root lock is held again: what was not taken goes back.
    fn relocked(&mut self, qd: usize, run: &mut TxRun<TxPkt>) {
        let of = self.qd(qd);
        let before = of.root.iter_requeued().count();
        run.on_relocked(&mut of.root);
        let back = of.root.iter_requeued().count() - before;
        let qdisc = of.index;
        if back > 0 {
            self.hit(Decision::TxRequeue);
            self.note_tx(TxEvent::Requeue { qdisc, packets: back as u32 });
        }
    }

    /// The run is over; another may begin from now on.
    pub(super) fn run_over(&mut self, qd: usize, run: TxRun<TxPkt>, end: RunEnd, sent: u32) {
        let of = self.qd(qd);
        run.finish(&mut of.root);
        of.runners -= 1;
        let qdisc = of.index;
        self.hit(match end.stop {
            RunStop::Empty => Decision::TxRunEmpty,
            RunStop::Stopped => Decision::TxRunStopped,
            RunStop::NotBefore(_) => Decision::TxRunLater,
            RunStop::Busy => Decision::TxRunBusy,
            RunStop::Quota => Decision::TxRunQuota,
        });
        self.note_tx(TxEvent::RunEnd { qdisc, why: end.stop, packets: sent });
    }
}
