//! A device without discipline: the sender calls the driver.

use std::future::Future;
use std::pin::Pin;

use napier_core::tx::XmitCode;
use napier_core::tx::noqueue::{NoqueueDrop, NoqueueView, enter, locked, sent};

use super::{At, TxPkt};
use crate::machine::coverage::Decision;
use crate::machine::vm::K;

impl K {
    /// The packet goes to the driver or is dropped. Drivers may hand it to another device, so that this is in itself.
    pub(super) fn noqueue_xmit(&self, txq: usize, packet: TxPkt) -> Pin<Box<dyn Future<Output = XmitCode> + '_>> {
        Box::pin(async move {
            match self.noqueue_steps(txq, packet).await {
                Ok(code) => code,
                Err((dropped, packet)) => {
                    let mut w = self.w();
                    let qd = w.tx.txqs[txq].qd;
                    w.hit(Decision::TxNoqueueDrop);
                    w.drop_packets(qd, dropped.reason, &[packet], At::Path);
                    w.count_device_drops(qd, 1);
                    dropped.code
                }
            }
        })
    }

    async fn noqueue_steps(&self, txq: usize, packet: TxPkt) -> Result<XmitCode, (NoqueueDrop, TxPkt)> {
        let view = {
            let w = self.w();
            let of = &w.tx.txqs[txq];
            let owned = of.locked == Some(self.cpu());
            NoqueueView { up: w.devs[of.dev].up, owned, nesting: w.tx.nesting[self.cpu()] }
        };
        enter(view).map_err(|dropped| (dropped, packet))?;
        self.tx_lock(txq).await;
        let stopped = self.w().tx.txqs[txq].bits.stopped();
        if let Err(dropped) = locked(stopped) {
            self.tx_unlock(txq);
            return Err((dropped, packet));
        }
        self.w().tx.nesting[self.cpu()] += 1;
        let refused = self.hard_start_xmit(txq, packet, false).await.err();
        self.w().tx.nesting[self.cpu()] -= 1;
        self.tx_unlock(txq);
        self.op().await;
        let code = sent(refused.is_none()).map_err(|dropped| (dropped, packet))?;
        self.w().hit(Decision::TxNoqueueSent);
        Ok(code)
    }
}
