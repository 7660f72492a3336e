//! Scheduling of disciplines: `__netif_schedule`, `netif_tx_wake_queue`, `qdisc_watchdog`.

use napier_core::tx::state::QdiscState;

use crate::machine::cpu::ctx::Level;
use crate::machine::sim::coverage::Decision;
use crate::machine::sim::plant::Plant;
use crate::machine::tx::TxWay;
use crate::machine::tx::cpu_ix;
use crate::machine::vm::K;
use napier_scenario::{StopBy, TxEvent};

/// Asks for a run in the transmit softirq of this CPU.
pub(crate) async fn netif_schedule(k: &K, qd: usize) {
    let defer_empty = {
        let mut w = k.w();
        let of = w.qd(qd);
        of.coming += 1;
        of.defer.is_empty()
    };
    // The look at the list comes before the swap of the word.
    k.op().await;
    let mut w = k.w();
    let took = w.change(qd, |state| state.schedule(defer_empty));
    let of = w.qd(qd);
    of.coming -= 1;
    let (qdisc, deactivated) = (of.index, of.state.intersects(QdiscState::DEACTIVATED));
    w.hit(match (took, deactivated, defer_empty) {
        (true, ..) => Decision::TxScheduled,
        (false, true, _) => Decision::TxScheduleDeactivated,
        (false, false, false) => Decision::TxScheduleFlusher,
        (false, false, true) => Decision::TxScheduleAlready,
    });
    w.note_tx(TxEvent::Schedule { qdisc, took, cpu: cpu_ix(k.cpu()) });
    if took {
        w.cpus[k.cpu()].output.push_back(qd);
        let process = k.level == Level::Task && w.ctxs[k.me].bh_off == 0;
        w.raise_tx(k.cpu(), process);
    }
}

/// The time has come for a packet that might not leave before.
pub(crate) async fn watchdog_interrupt(k: &K, qd: usize, generation: u32) {
    {
        let mut w = k.w();
        let of = w.qd(qd);
        if !of.watchdog.armed || of.watchdog.generation != generation {
            return;
        }
        of.watchdog.armed = false;
        of.coming += 1;
        let qdisc = of.index;
        w.hit(Decision::TxWatchdog);
        w.note_tx(TxEvent::WatchdogFire { qdisc, cpu: cpu_ix(k.cpu()) });
    }
    k.op().await;
    netif_schedule(k, qd).await;
    k.w().qd(qd).coming -= 1;
}

/// A stop ends: its discipline is scheduled if there was one.
pub(crate) async fn tx_wake(k: &K, txq: usize, by: StopBy) {
    let (schedules, qd) = {
        let mut w = k.w();
        let of = w.txq(txq);
        let (bits, schedules) = match by {
            StopBy::Driver => of.bits.wake_driver(),
            StopBy::Stack => of.bits.wake_stack(),
            StopBy::Frozen => of.bits.thaw(),
        };
        let was = of.bits != bits;
        of.bits = bits;
        let (index, qd) = (of.index, of.qd);
        let schedules = schedules && w.tx.qds[qd].way != TxWay::Noqueue;
        w.hit(if was { Decision::TxWake } else { Decision::TxWakeNothing });
        if was {
            w.note_tx(TxEvent::Wake { txq: index, by, schedules });
        }
        let schedules = schedules && w.plant != Plant::SilentWake;
        w.qd(qd).coming += u32::from(schedules);
        (schedules, qd)
    };
    k.op().await;
    if schedules {
        netif_schedule(k, qd).await;
        k.w().qd(qd).coming -= 1;
    }
}
