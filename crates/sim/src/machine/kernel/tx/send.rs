//! A sender: `__dev_queue_xmit`, the push of `__dev_xmit_skb`, and the way without a root lock.

use napier_core::tx::nolock::{NolockPlan, Recheck, plan, recheck};
use napier_core::tx::push::{Push, PushStep, Pushed};
use napier_core::tx::run::TxRun;
use napier_core::tx::{DropReason, XmitCode};

use crate::machine::kernel::tx::nolock::nolock_begin;
use crate::machine::kernel::tx::noqueue::noqueue_xmit;
use crate::machine::kernel::tx::run::{carry_out, flush_batch};
use crate::machine::sim::coverage::Decision;
use crate::machine::tx::At;
use crate::machine::tx::TxPkt;
use crate::machine::tx::TxWay;
use crate::machine::vm::K;
use napier_scenario::{Answer, PollContext, Sending, ThreadIx, TxEvent};
use std::pin::Pin;

/// A sender with its packet.
pub(crate) async fn nolock_xmit(k: &K, qd: usize, packet: TxPkt) -> XmitCode {
    let decided = {
        let w = k.w();
        let of = &w.tx.qds[qd];
        plan(of.root.can_bypass(), of.state)
    };
    if decided == NolockPlan::TryBypass
        && let Some(run) = nolock_begin(k, qd).await
    {
        return nolock_as_runner(k, qd, packet, run).await;
    }
    // From here until it has tried to run, this sender comes back for what waits.
    let code = {
        let mut w = k.w();
        w.qd(qd).coming += 1;
        w.nolock_enqueue(qd, packet)
    };
    k.op().await;
    let run = nolock_begin(k, qd).await;
    k.w().qd(qd).coming -= 1;
    if let Some(run) = run {
        carry_out(k, qd, run, PollContext::User).await;
    }
    code
}

/// It got to be runner in order to pass by.
async fn nolock_as_runner(k: &K, qd: usize, packet: TxPkt, mut run: TxRun<TxPkt>) -> XmitCode {
    let code = {
        let mut w = k.w();
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
    carry_out(k, qd, run, PollContext::User).await;
    code
}

/// Sends packets one by one, as `sendmmsg` does: an error ends it.
pub(crate) async fn send(k: &K, sending: &Sending, thread: ThreadIx) -> Answer {
    let mut taken = 0;
    for nth in 0..sending.packets {
        k.bh_off();
        k.op().await;
        let packet = k.w().packet_of(k.me, sending, nth);
        let code = dev_queue_xmit(k, sending.to.at(), packet).await;
        k.w().note_tx(TxEvent::Xmit { thread, to: sending.to, code });
        k.bh_on().await;
        let Some(socket) = sending.socket else {
            taken += i64::from(code.errno().is_none());
            continue;
        };
        match k.w().udp_answer(socket.at(), code) {
            Some(errno) if taken == 0 => return Answer::Error(errno),
            Some(_) => break,
            None => taken += 1,
        }
    }
    Answer::Number(taken)
}

/// [`dev_queue_xmit`], to be called from within itself.
pub(crate) fn boxed_xmit(k: &K, txq: usize, packet: TxPkt) -> Pin<Box<dyn Future<Output = XmitCode> + '_>> {
    Box::pin(dev_queue_xmit(k, txq, packet))
}

/// `__dev_queue_xmit`, with bottom halves off.
pub(crate) async fn dev_queue_xmit(k: &K, txq: usize, packet: TxPkt) -> XmitCode {
    let (qd, way, noop) = {
        let mut w = k.w();
        let txq = &w.tx.txqs[txq];
        let (qd, up) = (txq.qd, w.devs[txq.dev].up);
        let found = w.qd(qd);
        found.senders += 1;
        // Without a discipline a device that is down says so.
        (qd, found.way, !found.installed && (up || found.way != TxWay::Noqueue))
    };
    let code = match way {
        // What stands in its place drops everything, so that nothing is sent before the instances are enabled. Source:
        // `net/sched/sch_generic.c noop_enqueue`.
        _ if noop => {
            let mut w = k.w();
            w.hit(Decision::TxNotInstalled);
            w.drop_packets(qd, DropReason::Deactivated, &[packet], At::Path);
            w.count_device_drops(qd, 1);
            XmitCode::Congested
        }
        TxWay::Noqueue => noqueue_xmit(k, txq, packet).await,
        TxWay::Locked => push_and_flush(k, qd, packet).await,
        TxWay::Nolock => nolock_xmit(k, qd, packet).await,
    };
    k.w().qd(qd).senders -= 1;
    code
}

/// The push to the defer list.
async fn push_and_flush(k: &K, qd: usize, packet: TxPkt) -> XmitCode {
    let (mut push, mut seen) = {
        let w = k.w();
        let defer = &w.tx.qds[qd].defer;
        (Push::new(defer.is_empty()), defer.last().map(|head| head.id))
    };
    loop {
        k.op().await;
        match push.next() {
            PushStep::Count => k.w().count_push(qd, &mut push),
            PushStep::Link => k.w().link(qd, packet, &mut push, &mut seen),
            PushStep::Done(Pushed::Flush) => return flush_batch(k, qd).await,
            PushStep::Done(pushed @ Pushed::Handed) => return pushed.code().expect("it is decided"),
            PushStep::Done(pushed @ Pushed::BurstDrop) => {
                let mut w = k.w();
                w.hit(Decision::TxBurstDrop);
                w.drop_packets(qd, DropReason::Burst, &[packet], At::Path);
                return pushed.code().expect("it is decided");
            }
        }
    }
}
