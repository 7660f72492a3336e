//! Runs of a discipline, its word, and its timer.

use napier_core::tx::flush::{FlushPlan, FlushView, flush, plan};
use napier_core::tx::run::{RunEnd, RunStop, TxRun};
use napier_core::tx::state::QdiscState;
use napier_core::tx::{DroppedPacket, XmitCode};

use crate::machine::sim::coverage::Decision;
use crate::machine::sim::event::HardIrq;
use crate::machine::tx::At;
use crate::machine::tx::Outbound;
use crate::machine::tx::{Qd, TxPkt};
use napier_scenario::TxEvent;

impl Outbound {
    pub(crate) fn qds_of(&self, dev: usize) -> std::ops::Range<usize> {
        self.tx.devs[dev].as_ref().map_or(0..0, |of| of.first_qd..of.first_qd + of.qds)
    }

    pub(crate) fn is_at_rest(&self, qd: usize) -> bool {
        let of = &self.tx.qds[qd];
        of.locked.is_none() && !of.root.is_running() && !of.state.intersects(QdiscState::SCHED) && of.coming == 0
    }

    /// Applies a rule to the word, in one step.
    pub(crate) fn change<R>(&mut self, qd: usize, rule: impl FnOnce(QdiscState) -> (QdiscState, R)) -> R {
        let of = self.qd(qd);
        let (next, answer) = rule(of.state);
        of.state = next;
        answer
    }

    pub(crate) fn nolock_enqueue(&mut self, qd: usize, packet: TxPkt) -> XmitCode {
        let now = self.now;
        match self.qd(qd).root.enqueue(packet, now) {
            Ok(()) => XmitCode::Success,
            Err(dropped) => {
                self.drop_packets(qd, dropped.reason, &[dropped.packet], At::Path);
                XmitCode::Drop
            }
        }
    }

    /// Decides on a batch and carries the decision out, under the root lock.
    pub(crate) fn carry_out_flush(
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

    /// Becomes runner, unless there is one.
    pub(crate) fn begin_run(&mut self, qd: usize) -> Option<TxRun<TxPkt>> {
        let quota = self.sysctl.dev_weight;
        let of = self.qd(qd);
        let run = TxRun::begin(&mut of.root, quota);
        of.runners += u32::from(run.is_some());
        run
    }

    /// Counts dropped packets, by runs of one reason.
    pub(crate) fn give_back(&mut self, qd: usize, dropped: &[DroppedPacket<TxPkt>]) {
        for same in dropped.chunk_by(|a, b| a.reason == b.reason) {
            let packets: Vec<TxPkt> = same.iter().map(|drop| drop.packet).collect();
            self.drop_packets(qd, same[0].reason, &packets, At::Path);
        }
    }

    /// Gets a chain for a run.
    pub(crate) fn dequeue(&mut self, qd: usize, run: &mut TxRun<TxPkt>) {
        let now = self.now;
        let Qd { first_txq, txqs, .. } = *self.qd(qd);
        let tx = &mut self.tx;
        let all = &tx.txqs;
        // Who serves one transmit queue asks for that, by whatever number.
        let view = |queue: u16| all[first_txq + if txqs == 1 { 0 } else { usize::from(queue) }].view();
        run.on_dequeue(&mut tx.qds[qd].root, now, view);
    }

    /// The root lock is held again: what was not taken goes back.
    pub(crate) fn relocked(&mut self, qd: usize, run: &mut TxRun<TxPkt>) {
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
    pub(crate) fn run_over(&mut self, qd: usize, run: TxRun<TxPkt>, end: RunEnd, sent: u32) {
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

    pub(crate) fn take_scheduled(&mut self, cpu: usize) -> Option<usize> {
        let qd = self.cpus[cpu].output.take()?;
        self.qd(qd).taken += 1;
        Some(qd)
    }

    pub(crate) fn unschedule(&mut self, qd: usize) {
        self.change(qd, |state| (state.unschedule(), ()));
        self.qd(qd).taken -= 1;
    }

    /// The timer of a discipline expires: its CPU is interrupted.
    pub(crate) fn watchdog_expires(&mut self, qd: usize, generation: u32) -> Option<usize> {
        let watchdog = self.tx.qds[qd].watchdog;
        if !watchdog.armed || watchdog.generation != generation {
            return None;
        }
        let irq = HardIrq::Watchdog { qd, generation };
        self.cpus[watchdog.cpu].hard_queue.push_back(irq);
        Some(watchdog.cpu)
    }
}
