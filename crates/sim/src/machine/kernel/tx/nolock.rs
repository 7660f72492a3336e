//! A discipline without root lock: `qdisc_run_begin`, `qdisc_run_end`, `pfifo_fast_dequeue`,
//! `qdisc_maybe_clear_missed`.

use napier_core::tx::nolock::{BeginStep, NolockBegin, NolockDequeue, Stopped, StoppedStep, end_schedules};
use napier_core::tx::run::{RunEnd, RunStop, TxRun};
use napier_core::tx::state::QdiscState;

use crate::machine::kernel::tx::schedule::netif_schedule;
use crate::machine::sim::coverage::Decision;
use crate::machine::tx::TxPkt;
use crate::machine::vm::K;

/// Tries to become runner.
pub(crate) async fn nolock_begin(k: &K, qd: usize) -> Option<TxRun<TxPkt>> {
    let mut begin = NolockBegin::new();
    let mut run = None;
    loop {
        match begin.next() {
            BeginStep::TryLock => {
                run = k.w().begin_run(qd);
                begin.on_tried(run.is_some());
            }
            BeginStep::Miss => {
                let was = k.w().change(qd, QdiscState::miss);
                begin.on_missed(was);
                k.w().hit(Decision::TxNolockMissed);
            }
            BeginStep::Run => return run,
            BeginStep::GiveUp => {
                k.w().hit(Decision::TxNolockGaveUp);
                return None;
            }
        }
        if begin.next() != BeginStep::Run {
            k.op().await;
        }
    }
}

/// Looks for a chain. What is found missing is looked for once more, after the bits have been cleared.
/// `passed_by`: a packet has just passed by, and the bits say whether to look at all.
pub(crate) async fn nolock_dequeue(k: &K, qd: usize, run: &mut TxRun<TxPkt>, passed_by: bool) {
    if passed_by && !k.w().tx.qds[qd].state.may_hold() {
        run.on_nothing();
        return;
    }
    let mut dequeue = NolockDequeue::new();
    loop {
        {
            let mut w = k.w();
            let of = &w.tx.qds[qd];
            let stopped = w.tx.txqs[of.first_txq].bits.frozen_or_stopped();
            if stopped || of.root.qlen() > 0 || !dequeue.on_empty(of.state) {
                w.dequeue(qd, run);
                return;
            }
            w.change(qd, |state| (state.clear_holding(), ()));
            w.hit(Decision::TxNolockLookAgain);
        }
        k.op().await;
    }
}

/// A runner has found the transmit queue stopped.
pub(crate) async fn nolock_stopped(k: &K, qd: usize) {
    let mut stopped = Stopped::new();
    loop {
        match stopped.next() {
            StoppedStep::ClearAndLook => {
                k.w().change(qd, |state| (state.clear_missed(), ()));
                k.op().await;
                let w = k.w();
                stopped.on_looked(w.tx.txqs[w.tx.qds[qd].first_txq].bits.frozen_or_stopped());
            }
            StoppedStep::Drain => {
                let mut w = k.w();
                w.change(qd, |state| (state.drain(), ()));
                w.hit(Decision::TxNolockDraining);
                return;
            }
            StoppedStep::Miss => {
                let mut w = k.w();
                w.change(qd, QdiscState::miss);
                w.hit(Decision::TxNolockWoken);
                return;
            }
        }
    }
}

/// The runner leaves, and schedules if it was asked for meanwhile.
pub(crate) async fn nolock_finish(k: &K, qd: usize, run: TxRun<TxPkt>, end: RunEnd, sent: u32) {
    if end.stop == RunStop::Stopped {
        nolock_stopped(k, qd).await;
        k.op().await;
    }
    {
        let mut w = k.w();
        if end.again {
            w.change(qd, QdiscState::miss);
        }
        w.run_over(qd, run, end, sent);
        w.qd(qd).coming += 1;
    }
    k.op().await;
    if end_schedules(k.w().tx.qds[qd].state) {
        netif_schedule(k, qd).await;
    }
    k.w().qd(qd).coming -= 1;
}
