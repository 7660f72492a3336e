//! A device without discipline: the sender calls the driver.

use std::future::Future;
use std::pin::Pin;

use napier_core::tx::XmitCode;
use napier_core::tx::noqueue::{NoqueueDrop, NoqueueView, enter, locked, sent};

use crate::machine::kernel::tx::driver::hard_start_xmit;
use crate::machine::kernel::tx::run::{tx_lock, tx_unlock};
use crate::machine::sim::coverage::Decision;
use crate::machine::tx::At;
use crate::machine::tx::TxPkt;
use crate::machine::vm::K;

/// The packet goes to the driver or is dropped. Drivers may hand it to another device, so that this is in itself.
pub(crate) fn noqueue_xmit(k: &K, txq: usize, packet: TxPkt) -> Pin<Box<dyn Future<Output = XmitCode> + '_>> {
    Box::pin(async move {
        match noqueue_steps(k, txq, packet).await {
            Ok(code) => code,
            Err((dropped, packet)) => {
                let mut w = k.w();
                let qd = w.tx.txqs[txq].qd;
                w.hit(Decision::TxNoqueueDrop);
                w.drop_packets(qd, dropped.reason, &[packet], At::Path);
                w.count_device_drops(qd, 1);
                dropped.code
            }
        }
    })
}

async fn noqueue_steps(k: &K, txq: usize, packet: TxPkt) -> Result<XmitCode, (NoqueueDrop, TxPkt)> {
    let view = {
        let w = k.w();
        let of = &w.tx.txqs[txq];
        let owned = of.locked == Some(k.cpu());
        NoqueueView { up: w.devs[of.dev].up, owned, nesting: w.tx.nesting[k.cpu()] }
    };
    enter(view).map_err(|dropped| (dropped, packet))?;
    tx_lock(k, txq).await;
    let stopped = k.w().tx.txqs[txq].bits.stopped();
    if let Err(dropped) = locked(stopped) {
        tx_unlock(k, txq);
        return Err((dropped, packet));
    }
    k.w().tx.nesting[k.cpu()] += 1;
    let refused = hard_start_xmit(k, txq, packet, false).await.err();
    k.w().tx.nesting[k.cpu()] -= 1;
    tx_unlock(k, txq);
    k.op().await;
    let code = sent(refused.is_none()).map_err(|dropped| (dropped, packet))?;
    k.w().hit(Decision::TxNoqueueSent);
    Ok(code)
}
