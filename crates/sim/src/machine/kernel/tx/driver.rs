//! A driver's transmit side: `ndo_start_xmit`, stops, completion in the instance's poll.

use napier_core::tx::queue::QueueBits;

use crate::machine::cpu::work::Work;
use crate::machine::kernel::tx::schedule::tx_wake;
use crate::machine::sim::coverage::Decision;
use crate::machine::tx::TxPkt;
use crate::machine::vm::K;
use napier_scenario::{StopBy, TxEvent};

/// The driver is given a packet, under the transmit lock.
///
/// # Errors
/// The packet, if the driver is busy.
pub(crate) async fn hard_start_xmit(k: &K, txq: usize, packet: TxPkt, more: bool) -> Result<(), TxPkt> {
    let lower = k.w().tx.txqs[txq].lower;
    if let Some(lower) = lower {
        let inner = k.w().forward(txq, lower, packet, more, k.cpu());
        // What becomes of it there is not this driver's business: it has taken the packet.
        let _ = k.xmit(lower, inner).await;
        return Ok(());
    }
    let taken = k.w().put_in_ring(txq, packet, more, k.cpu());
    if taken {
        k.work(Work::PacketDown).await;
    }
    if k.w().tx.txqs[txq].full() {
        stop_driver(k, txq).await;
    }
    if taken && k.w().over_limit(txq) {
        stop_stack(k, txq).await;
    }
    if taken { Ok(()) } else { Err(packet) }
}

/// The ring is full: the driver stops its queue, and looks once more.
async fn stop_driver(k: &K, txq: usize) {
    k.w().stop(txq, StopBy::Driver);
    k.op().await;
    let mut w = k.w();
    let of = w.txq(txq);
    if !of.full() && of.bits.intersects(QueueBits::DRIVER_OFF) {
        of.bits = of.bits.start_driver();
        let txq = of.index;
        w.hit(Decision::TxStopTakenBack);
        w.note_tx(TxEvent::Wake { txq, by: StopBy::Driver, schedules: false });
    }
}

/// The byte limit is used up: the stack stops the queue, and looks once more.
async fn stop_stack(k: &K, txq: usize) {
    k.w().stop(txq, StopBy::Stack);
    k.op().await;
    if k.w().over_limit(txq) {
        return;
    }
    let mut w = k.w();
    let of = w.txq(txq);
    if of.bits.intersects(QueueBits::STACK_OFF) {
        of.bits = of.bits.start_stack();
        let txq = of.index;
        w.hit(Decision::TxLimitTakenBack);
        w.note_tx(TxEvent::Wake { txq, by: StopBy::Stack, schedules: false });
    }
}

/// The driver frees what has left, in the instance's poll.
pub(crate) async fn tx_clean(k: &K, napi: usize) {
    let queues: Vec<usize> = k.w().txqs_of(napi).collect();
    for txq in queues {
        if !k.w().free_done(txq) {
            continue;
        }
        k.op().await;
        let (bits, room) = {
            let w = k.w();
            let of = &w.tx.txqs[txq];
            (of.bits, !of.full())
        };
        if bits.intersects(QueueBits::STACK_OFF) && !k.w().over_limit(txq) {
            tx_wake(k, txq, StopBy::Stack).await;
        }
        if bits.intersects(QueueBits::DRIVER_OFF) && room {
            tx_wake(k, txq, StopBy::Driver).await;
        }
    }
}
