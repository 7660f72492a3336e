//! A discipline is given to its device, and taken away: `dev_activate`, `dev_deactivate_many`. Under the device lock.

use napier_core::control::Errno;
use napier_core::time::Span;
use napier_core::tx::state::{DeactivateStep, Deactivation, QdiscState};

use super::Way;
use crate::machine::coverage::Decision;
use crate::machine::vm::K;
use crate::machine::world::World;

/// How long a deactivation pauses between two looks.
const LOOK_PAUSE: Span = Span::from_us(10);

impl K {
    /// The device's disciplines become those that senders find; what waits in them is scheduled.
    pub(in crate::machine) async fn tx_activate(&self, dev: usize) -> Result<(), Errno> {
        if !self.w().devs[dev].up {
            return Err(Errno::ENETDOWN);
        }
        let qds = self.w().qds_of(dev);
        for qd in qds {
            let waits = {
                let mut w = self.w();
                w.change(qd, |state| (state.activate(), ()));
                let of = w.qd(qd);
                (of.installed, of.down) = (true, false);
                let waits = of.way != Way::Noqueue && of.root.qlen() > 0;
                of.coming += u32::from(waits);
                w.hit(Decision::TxActivated);
                waits
            };
            self.op().await;
            if waits {
                self.netif_schedule(qd).await;
                self.w().qd(qd).coming -= 1;
            }
        }
        Ok(())
    }

    /// They are taken away, step by step for all of them.
    pub(in crate::machine) async fn tx_deactivate(&self, dev: usize) {
        let qds = self.w().qds_of(dev);
        let mut deactivation = Deactivation::new();
        loop {
            let step = deactivation.next();
            for qd in qds.clone() {
                self.deactivate_step(qd, step).await;
            }
            if step == DeactivateStep::Done {
                return;
            }
            deactivation.on_done();
        }
    }

    async fn deactivate_step(&self, qd: usize, step: DeactivateStep) {
        match step {
            DeactivateStep::Mark => {
                let mut w = self.w();
                w.change(qd, |state| (state.deactivate(), ()));
                w.qd(qd).installed = false;
            }
            DeactivateStep::WaitForSenders => {
                while self.w().tx.qds[qd].senders > 0 {
                    self.w().hit(Decision::TxDeactivateWaits);
                    self.pause(LOOK_PAUSE).await;
                }
            }
            DeactivateStep::Reset => self.reset(qd).await,
            DeactivateStep::WaitForRunner => {
                while !self.w().nobody_runs(qd) {
                    self.w().hit(Decision::TxDeactivateWaits);
                    self.pause(LOOK_PAUSE).await;
                }
            }
            DeactivateStep::Done => {
                let mut w = self.w();
                w.qd(qd).down = true;
                w.hit(Decision::TxDeactivated);
                return;
            }
        }
        self.op().await;
    }

    /// Drops what waits.
    async fn reset(&self, qd: usize) {
        let way = self.w().tx.qds[qd].way;
        self.bh_off();
        match way {
            Way::Locked => self.root_lock(qd).await,
            // The runner's place is held for the moment of the reset.
            Way::Nolock => {
                while self.w().tx.qds[qd].root.is_running() {
                    self.spin_pause().await;
                }
            }
            Way::Noqueue => {}
        }
        let mut dropped = Vec::new();
        {
            let mut w = self.w();
            w.qd(qd).root.reset(&mut |drop| dropped.push(drop));
            w.change(qd, |state| (state.clear_holding(), ()));
        }
        if way == Way::Locked {
            self.root_unlock(qd);
        }
        self.w().give_back(qd, &dropped);
        self.bh_on().await;
    }

    /// After the instances have been enabled: the queues begin anew.
    pub(in crate::machine) async fn tx_up(&self, dev: usize) {
        if self.w().transmits(dev) {
            let activated = self.tx_activate(dev).await;
            assert!(activated.is_ok(), "the device is up");
        }
    }

    /// After the instances have been disabled.
    pub(in crate::machine) fn tx_down(&self, dev: usize) {
        self.w().empty_rings(dev);
    }
}

impl World {
    fn qds_of(&self, dev: usize) -> std::ops::Range<usize> {
        self.tx.devs[dev].as_ref().map_or(0..0, |of| of.first_qd..of.first_qd + of.qds)
    }

    fn nobody_runs(&self, qd: usize) -> bool {
        let of = &self.tx.qds[qd];
        of.locked.is_none() && !of.root.is_running() && !of.state.intersects(QdiscState::SCHED) && of.coming == 0
    }
}
