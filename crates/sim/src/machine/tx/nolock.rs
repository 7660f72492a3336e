//! A discipline without root lock: `qdisc_run_begin`, `qdisc_run_end`, `pfifo_fast_dequeue`,
//! `qdisc_maybe_clear_missed`.

use napier_core::tx::XmitCode;
use napier_core::tx::nolock::{
    BeginStep, NolockBegin, NolockDequeue, NolockPlan, Recheck, Stopped, StoppedStep, end_schedules, plan, recheck,
};
use napier_core::tx::run::{RunEnd, RunStop, TxRun};
use napier_core::tx::state::QdiscState;

use super::{At, TxPkt};
use crate::machine::coverage::Decision;
use crate::machine::vm::K;
use crate::machine::world::World;
use napier_scenario::PollContext;

impl K {
    /// A sender with its packet.
    pub(super) async fn nolock_xmit(&self, qd: usize, packet: TxPkt) -> XmitCode {
        let decided = {
            let w = self.w();
            let of = &w.tx.qds[qd];
            plan(of.root.can_bypass(), of.state)
        };
        if decided == NolockPlan::TryBypass
            && let Some(run) = self.nolock_begin(qd).await
        {
            return self.nolock_as_runner(qd, packet, run).await;
        }
        // From here until it has tried to run, this sender comes back for what waits.
        let code = {
            let mut w = self.w();
            w.qd(qd).coming += 1;
            w.nolock_enqueue(qd, packet)
        };
        self.op().await;
        let run = self.nolock_begin(qd).await;
        self.w().qd(qd).coming -= 1;
        if let Some(run) = run {
            self.carry_out(qd, run, PollContext::User).await;
        }
        code
    }

    /// It got to be runner in order to pass by.
    async fn nolock_as_runner(&self, qd: usize, packet: TxPkt, mut run: TxRun<TxPkt>) -> XmitCode {
        let code = {
            let mut w = self.w();
            let of = w.qd(qd);
            match recheck(of.state) {
                Recheck::Transmit => {
                    run.pass_by(&mut of.root, packet);
                    w.hit(Decision::TxNolockBypass);
                    XmitCode::Success
                }
                Recheck::Enqueue => {
                    w.hit(Decision::TxNolockRecheck);
                    w.nolock_enqueue(qd, packet)
                }
            }
        };
        self.carry_out(qd, run, PollContext::User).await;
        code
    }

    /// Tries to become runner.
    pub(super) async fn nolock_begin(&self, qd: usize) -> Option<TxRun<TxPkt>> {
        let mut begin = NolockBegin::new();
        let mut run = None;
        loop {
            match begin.next() {
                BeginStep::TryLock => {
                    run = self.w().begin_run(qd);
                    begin.on_tried(run.is_some());
                }
                BeginStep::Miss => {
                    let was = self.w().change(qd, QdiscState::miss);
                    begin.on_missed(was);
                    self.w().hit(Decision::TxNolockMissed);
                }
                BeginStep::Run => return run,
                BeginStep::GiveUp => {
                    self.w().hit(Decision::TxNolockGaveUp);
                    return None;
                }
            }
            if begin.next() != BeginStep::Run {
                self.op().await;
            }
        }
    }

    /// Looks for a chain. What is found missing is looked for once more, after the bits have been cleared.
    /// `passed_by`: a packet has just passed by, and the bits say whether to look at all.
    pub(super) async fn nolock_dequeue(&self, qd: usize, run: &mut TxRun<TxPkt>, passed_by: bool) {
        if passed_by && !self.w().tx.qds[qd].state.may_hold() {
            run.on_nothing();
            return;
        }
        let mut dequeue = NolockDequeue::new();
        loop {
            {
                let mut w = self.w();
                let of = &w.tx.qds[qd];
                let stopped = w.tx.txqs[of.first_txq].bits.frozen_or_stopped();
                if stopped || of.root.qlen() > 0 || !dequeue.on_empty(of.state) {
                    w.dequeue(qd, run);
                    return;
                }
                w.change(qd, |state| (state.clear_holding(), ()));
                w.hit(Decision::TxNolockLookAgain);
            }
            self.op().await;
        }
    }

    /// A runner has found the transmit queue stopped.
    pub(super) async fn nolock_stopped(&self, qd: usize) {
        let mut stopped = Stopped::new();
        loop {
            match stopped.next() {
                StoppedStep::ClearAndLook => {
                    self.w().change(qd, |state| (state.clear_missed(), ()));
                    self.op().await;
                    let w = self.w();
                    stopped.on_looked(w.tx.txqs[w.tx.qds[qd].first_txq].bits.frozen_or_stopped());
                }
                StoppedStep::Drain => {
                    let mut w = self.w();
                    w.change(qd, |state| (state.drain(), ()));
                    w.hit(Decision::TxNolockDraining);
                    return;
                }
                StoppedStep::Miss => {
                    let mut w = self.w();
                    w.change(qd, QdiscState::miss);
                    w.hit(Decision::TxNolockWoken);
                    return;
                }
            }
        }
    }

    /// The runner leaves, and schedules if somebody has asked for it meanwhile.
    pub(super) async fn nolock_finish(&self, qd: usize, run: TxRun<TxPkt>, end: RunEnd, sent: u32) {
        if end.stop == RunStop::Stopped {
            self.nolock_stopped(qd).await;
            self.op().await;
        }
        {
            let mut w = self.w();
            if end.again {
                w.change(qd, QdiscState::miss);
            }
            w.run_over(qd, run, end, sent);
            w.qd(qd).coming += 1;
        }
        self.op().await;
        if end_schedules(self.w().tx.qds[qd].state) {
            self.netif_schedule(qd).await;
        }
        self.w().qd(qd).coming -= 1;
    }
}

impl World {
    /// Applies a rule to the word, in one step.
    pub(super) fn change<R>(&mut self, qd: usize, rule: impl FnOnce(QdiscState) -> (QdiscState, R)) -> R {
        let of = self.qd(qd);
        let (next, answer) = rule(of.state);
        of.state = next;
        answer
    }

    fn nolock_enqueue(&mut self, qd: usize, packet: TxPkt) -> XmitCode {
        let now = self.now;
        match self.qd(qd).root.enqueue(packet, now) {
            Ok(()) => XmitCode::Success,
            Err(dropped) => {
                self.drop_packets(qd, dropped.reason, &[dropped.packet], At::Path);
                XmitCode::Drop
            }
        }
    }
}
