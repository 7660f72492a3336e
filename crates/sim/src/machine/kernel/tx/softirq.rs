//! The transmit softirq: `net_tx_action`.

use napier_core::tx::state::QdiscState;

use crate::machine::kernel::tx::nolock::nolock_begin;
use crate::machine::kernel::tx::run::{carry_out, root_lock, root_unlock};
use crate::machine::sim::coverage::Decision;
use crate::machine::tx::TxWay;
use crate::machine::vm::K;
use napier_scenario::PollContext;

/// `net_tx_action`.
pub(crate) async fn net_tx_action(k: &K, context: PollContext) {
    {
        let mut w = k.w();
        let cpu = &mut w.cpus[k.cpu()];
        cpu.tx_runs += 1;
        cpu.output.begin();
    }
    loop {
        let Some(qd) = k.w().take_scheduled(k.cpu()) else { return };
        let nolock = k.w().tx.qds[qd].way == TxWay::Nolock;
        if nolock {
            nolock_scheduled(k, qd, context).await;
            continue;
        }
        root_lock(k, qd).await;
        let run = {
            let mut w = k.w();
            w.unschedule(qd);
            w.begin_run(qd)
        };
        match run {
            Some(run) => carry_out(k, qd, run, context).await,
            None => {
                k.w().hit(Decision::TxSoftirqRunning);
                root_unlock(k, qd);
            }
        }
    }
}

/// Without root lock a deactivated discipline is left alone.
async fn nolock_scheduled(k: &K, qd: usize, context: PollContext) {
    let deactivated = {
        let mut w = k.w();
        w.unschedule(qd);
        w.qd(qd).coming += 1;
        w.tx.qds[qd].state.intersects(QdiscState::DEACTIVATED)
    };
    k.op().await;
    let run = if deactivated { None } else { nolock_begin(k, qd).await };
    k.w().qd(qd).coming -= 1;
    if let Some(run) = run {
        carry_out(k, qd, run, context).await;
    }
}
