//! Behind the root lock: the flush, and the run of a discipline.

use napier_core::tx::XmitCode;
use napier_core::tx::run::{RunEnd, RunStop, TxRun, TxStep};

use crate::machine::cpu::work::Work;
use crate::machine::kernel::tx::driver::hard_start_xmit;
use crate::machine::kernel::tx::nolock::{nolock_dequeue, nolock_finish, nolock_stopped};
use crate::machine::kernel::tx::schedule::netif_schedule;
use crate::machine::sim::coverage::Decision;
use crate::machine::sim::plant::Plant;
use crate::machine::tx::At;
use crate::machine::tx::TxPkt;
use crate::machine::tx::TxWay;
use crate::machine::tx::cpu_ix;
use crate::machine::vm::K;
use napier_scenario::{PollContext, TxEvent};

/// Spins for the root lock, with bottom halves off.
pub(crate) async fn root_lock(k: &K, qd: usize) {
    loop {
        {
            let mut w = k.w();
            if w.tx.qds[qd].locked.is_none() {
                w.qd(qd).locked = Some(k.me);
                break;
            }
            w.hit(Decision::TxRootSpin);
        }
        k.spin_pause().await;
    }
    k.op().await;
}

pub(crate) fn root_unlock(k: &K, qd: usize) {
    let holder = k.w().qd(qd).locked.take();
    assert!(holder == Some(k.me), "the root lock is given back by its holder");
}

/// Spins for a transmit lock, with bottom halves off.
pub(crate) async fn tx_lock(k: &K, txq: usize) {
    loop {
        {
            let mut w = k.w();
            if w.tx.txqs[txq].locked.is_none() {
                w.txq(txq).locked = Some(k.cpu());
                return;
            }
            w.hit(Decision::TxLockSpin);
        }
        k.spin_pause().await;
    }
}

pub(crate) fn tx_unlock(k: &K, txq: usize) {
    let holder = k.w().txq(txq).locked.take();
    assert!(holder == Some(k.cpu()), "the transmit lock is given back by its holder");
}

/// The flusher's part: its own packet is the first on the list.
pub(crate) async fn flush_batch(k: &K, qd: usize) -> XmitCode {
    root_lock(k, qd).await;
    let batch = take_list(k, qd).await;
    k.op().await;
    {
        let mut w = k.w();
        let keeps = w.plant == Plant::DeferCountKept;
        let of = w.qd(qd);
        of.resetting = false;
        if !keeps {
            of.defer_count = 0;
        }
    }
    k.op().await;
    let (code, run, dropped) = k.w().carry_out_flush(qd, &batch);
    k.works(&[(Work::Op, batch.len() as u64)]).await;
    match run {
        Some(run) => carry_out(k, qd, run, PollContext::User).await,
        None => root_unlock(k, qd),
    }
    // Their memory is given back after the lock.
    k.w().give_back(qd, &dropped);
    code
}

/// Takes the whole list, in the order of arrival.
async fn take_list(k: &K, qd: usize) -> Vec<TxPkt> {
    let torn = k.w().plant == Plant::TornTake;
    let seen = k.w().tx.qds[qd].defer.clone();
    if torn {
        k.op().await;
    }
    let mut w = k.w();
    let of = w.qd(qd);
    let taken = std::mem::take(&mut of.defer);
    (of.flushers, of.counted, of.resetting) = (0, 0, true);
    if torn { seen } else { taken }
}

/// Carries out a run: the root lock is held at its begin and released at its end. Without root lock the caller is
/// the runner, and gives that up here.
pub(crate) async fn carry_out(k: &K, qd: usize, mut run: TxRun<TxPkt>, context: PollContext) {
    let nolock = {
        let mut w = k.w();
        let of = w.qd(qd);
        let (qdisc, nolock) = (of.index, of.way == TxWay::Nolock);
        w.note_tx(TxEvent::Run { qdisc, context, cpu: cpu_ix(k.cpu()) });
        nolock
    };
    let mut sent = 0;
    let mut txq = None;
    let mut passed_by = run.next() != TxStep::Dequeue;
    loop {
        match run.next() {
            TxStep::Dequeue if nolock => {
                nolock_dequeue(k, qd, &mut run, std::mem::take(&mut passed_by)).await;
            }
            TxStep::Dequeue => k.w().dequeue(qd, &mut run),
            TxStep::TxLock { .. } => {
                if !nolock {
                    root_unlock(k, qd);
                }
                k.op().await;
                let queue = run.tx_queue().expect("nothing is taken out of a chain");
                let to = k.w().txq_of(qd, queue);
                tx_lock(k, to).await;
                let bits = k.w().tx.txqs[to].bits;
                if nolock && bits.frozen_or_stopped() {
                    nolock_stopped(k, qd).await;
                }
                run.on_tx_locked(bits);
                txq = Some(to);
            }
            TxStep::Offer { more } => {
                let to = txq.expect("its lock is held");
                sent += u32::from(offer(k, qd, to, &mut run, more).await);
            }
            TxStep::Relock => {
                tx_unlock(k, txq.take().expect("its lock is held"));
                if !nolock {
                    root_lock(k, qd).await;
                }
                k.w().relocked(qd, &mut run);
            }
            TxStep::Finish(end) => {
                finish(k, qd, run, end, sent).await;
                return;
            }
        }
        k.op().await;
    }
}

/// Gives the next packet to the driver; true if it took it.
async fn offer(k: &K, qd: usize, txq: usize, run: &mut TxRun<TxPkt>, more: bool) -> bool {
    let packet = run.take();
    let refused = hard_start_xmit(k, txq, packet, more).await.err();
    let mut w = k.w();
    let bits = w.tx.txqs[txq].bits;
    let taken = refused.is_none();
    match refused {
        None => run.on_taken(bits),
        Some(packet) if w.plant == Plant::RequeueAtTheBack && w.tx.qds[qd].way == TxWay::Locked => {
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

async fn finish(k: &K, qd: usize, run: TxRun<TxPkt>, end: RunEnd, sent: u32) {
    let nolock = k.w().tx.qds[qd].way == TxWay::Nolock;
    if nolock {
        nolock_finish(k, qd, run, end, sent).await;
        return;
    }
    if end.again {
        netif_schedule(k, qd).await;
    }
    let mut w = k.w();
    if let RunStop::NotBefore(at) = end.stop {
        w.arm_watchdog(qd, at, k.cpu());
    }
    w.run_over(qd, run, end, sent);
    drop(w);
    root_unlock(k, qd);
}
