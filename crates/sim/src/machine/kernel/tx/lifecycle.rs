//! A discipline is given to its device, and taken away: `dev_activate`, `dev_deactivate_many`. Under the device lock.

use napier_core::control::Errno;
use napier_core::time::Span;
use napier_core::tx::state::{DeactivateStep, Deactivation};

use crate::machine::kernel::tx::run::{root_lock, root_unlock};
use crate::machine::kernel::tx::schedule::netif_schedule;
use crate::machine::sim::coverage::Decision;
use crate::machine::tx::TxWay;
use crate::machine::vm::K;

/// How long a deactivation pauses between two looks.
const LOOK_PAUSE: Span = Span::from_us(10);

/// The device's disciplines become those that senders find; what waits in them is scheduled.
pub(crate) async fn tx_activate(k: &K, dev: usize) -> Result<(), Errno> {
    if !k.w().devs[dev].up {
        return Err(Errno::ENETDOWN);
    }
    let qds = k.w().qds_of(dev);
    for qd in qds {
        let waits = {
            let mut w = k.w();
            w.change(qd, |state| (state.activate(), ()));
            let of = w.qd(qd);
            (of.installed, of.down) = (true, false);
            let waits = of.way != TxWay::Noqueue && of.root.qlen() > 0;
            of.coming += u32::from(waits);
            w.hit(Decision::TxActivated);
            waits
        };
        k.op().await;
        if waits {
            netif_schedule(k, qd).await;
            k.w().qd(qd).coming -= 1;
        }
    }
    Ok(())
}

/// They are taken away, step by step for all of them.
pub(crate) async fn tx_deactivate(k: &K, dev: usize) {
    let qds = k.w().qds_of(dev);
    let mut deactivation = Deactivation::new();
    loop {
        let step = deactivation.next();
        for qd in qds.clone() {
            deactivate_step(k, qd, step).await;
        }
        if step == DeactivateStep::Done {
            return;
        }
        deactivation.on_done();
    }
}

async fn deactivate_step(k: &K, qd: usize, step: DeactivateStep) {
    match step {
        DeactivateStep::Mark => {
            let mut w = k.w();
            w.change(qd, |state| (state.deactivate(), ()));
            w.qd(qd).installed = false;
        }
        DeactivateStep::WaitForSenders => {
            while k.w().tx.qds[qd].senders > 0 {
                k.w().hit(Decision::TxDeactivateWaits);
                k.pause(LOOK_PAUSE).await;
            }
        }
        DeactivateStep::Reset => reset(k, qd).await,
        DeactivateStep::WaitForRunner => {
            while !k.w().is_at_rest(qd) {
                k.w().hit(Decision::TxDeactivateWaits);
                k.pause(LOOK_PAUSE).await;
            }
        }
        DeactivateStep::Done => {
            let mut w = k.w();
            w.qd(qd).down = true;
            w.hit(Decision::TxDeactivated);
            return;
        }
    }
    k.op().await;
}

/// Drops what waits.
async fn reset(k: &K, qd: usize) {
    let way = k.w().tx.qds[qd].way;
    k.bh_off();
    match way {
        TxWay::Locked => root_lock(k, qd).await,
        // The runner's place is held for the moment of the reset.
        TxWay::Nolock => {
            while k.w().tx.qds[qd].root.is_running() {
                k.spin_pause().await;
            }
        }
        TxWay::Noqueue => {}
    }
    let mut dropped = Vec::new();
    {
        let mut w = k.w();
        w.qd(qd).root.reset(&mut |drop| dropped.push(drop));
        w.change(qd, |state| (state.clear_holding(), ()));
    }
    if way == TxWay::Locked {
        root_unlock(k, qd);
    }
    k.w().give_back(qd, &dropped);
    k.bh_on().await;
}

/// After the instances have been enabled: the queues begin anew.
pub(crate) async fn tx_up(k: &K, dev: usize) {
    if k.w().transmits(dev) {
        let activated = tx_activate(k, dev).await;
        assert!(activated.is_ok(), "the device is up");
    }
}

/// After the instances have been disabled.
pub(crate) fn tx_down(k: &K, dev: usize) {
    k.w().empty_rings(dev);
}
