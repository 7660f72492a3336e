//! Scheduling and the transmit softirq: `__netif_schedule`, `net_tx_action`, `netif_tx_wake_queue`, `qdisc_watchdog`.

use napier_core::tx::state::QdiscState;

use super::Way;
use crate::machine::Plant;
use crate::machine::coverage::Decision;
use crate::machine::event::HardIrq;
use crate::machine::vm::{K, Level};
use crate::machine::world::World;
use napier_scenario::{PollContext, StopBy, TxEvent};

impl K {
    /// Asks for a run in the transmit softirq of this CPU.
    pub(super) async fn netif_schedule(&self, qd: usize) {
        let defer_empty = {
            let mut w = self.w();
            let of = w.qd(qd);
            of.coming += 1;
            of.defer.is_empty()
        };
        // The look at the list comes before the swap of the word.
        self.op().await;
        let mut w = self.w();
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
        w.note_tx(TxEvent::Schedule { qdisc, took, cpu: World::cpu_ix(self.cpu()) });
        if took {
            w.cpus[self.cpu()].output.push_back(qd);
            let process = self.level == Level::Task && w.ctxs[self.me].bh_off == 0;
            w.raise_tx(self.cpu(), process);
        }
    }

    /// `net_tx_action`.
    pub(in crate::machine) async fn net_tx_action(&self, context: PollContext) {
        {
            let mut w = self.w();
            let cpu = &mut w.cpus[self.cpu()];
            cpu.tx_runs += 1;
            cpu.output.begin();
        }
        loop {
            let Some(qd) = self.w().take_scheduled(self.cpu()) else { return };
            let nolock = self.w().tx.qds[qd].way == Way::Nolock;
            if nolock {
                self.nolock_scheduled(qd, context).await;
                continue;
            }
            self.root_lock(qd).await;
            let run = {
                let mut w = self.w();
                w.unschedule(qd);
                w.begin_run(qd)
            };
            match run {
                Some(run) => self.carry_out(qd, run, context).await,
                None => {
                    self.w().hit(Decision::TxSoftirqRunning);
                    self.root_unlock(qd);
                }
            }
        }
    }

    /// Without root lock a deactivated discipline is left alone.
    async fn nolock_scheduled(&self, qd: usize, context: PollContext) {
        let deactivated = {
            let mut w = self.w();
            w.unschedule(qd);
            w.qd(qd).coming += 1;
            w.tx.qds[qd].state.intersects(QdiscState::DEACTIVATED)
        };
        self.op().await;
        let run = if deactivated { None } else { self.nolock_begin(qd).await };
        self.w().qd(qd).coming -= 1;
        if let Some(run) = run {
            self.carry_out(qd, run, context).await;
        }
    }

    /// The time has come for a packet that might not leave before.
    pub(in crate::machine) async fn watchdog_interrupt(&self, qd: usize, generation: u32) {
        {
            let mut w = self.w();
            let of = w.qd(qd);
            if !of.watchdog.armed || of.watchdog.generation != generation {
                return;
            }
            of.watchdog.armed = false;
            of.coming += 1;
            let qdisc = of.index;
            w.hit(Decision::TxWatchdog);
            w.note_tx(TxEvent::WatchdogFire { qdisc, cpu: World::cpu_ix(self.cpu()) });
        }
        self.op().await;
        self.netif_schedule(qd).await;
        self.w().qd(qd).coming -= 1;
    }

    /// A stop ends: its discipline is scheduled if there was one.
    pub(in crate::machine) async fn tx_wake(&self, txq: usize, by: StopBy) {
        let (schedules, qd) = {
            let mut w = self.w();
            let of = w.txq(txq);
            let (bits, schedules) = match by {
                StopBy::Driver => of.bits.wake_driver(),
                StopBy::Stack => of.bits.wake_stack(),
                StopBy::Frozen => of.bits.thaw(),
            };
            let was = of.bits != bits;
            of.bits = bits;
            let (index, qd) = (of.index, of.qd);
            let schedules = schedules && w.tx.qds[qd].way != Way::Noqueue;
            w.hit(if was { Decision::TxWake } else { Decision::TxWakeNothing });
            if was {
                w.note_tx(TxEvent::Wake { txq: index, by, schedules });
            }
            let schedules = schedules && w.plant != Plant::SilentWake;
            w.qd(qd).coming += u32::from(schedules);
            (schedules, qd)
        };
        self.op().await;
        if schedules {
            self.netif_schedule(qd).await;
            self.w().qd(qd).coming -= 1;
        }
    }
}

impl World {
    fn take_scheduled(&mut self, cpu: usize) -> Option<usize> {
        let qd = self.cpus[cpu].output.take()?;
        self.qd(qd).taken += 1;
        Some(qd)
    }

    fn unschedule(&mut self, qd: usize) {
        self.change(qd, |state| (state.unschedule(), ()));
        self.qd(qd).taken -= 1;
    }

    /// The timer of a discipline expires: its CPU is interrupted.
    pub(in crate::machine) fn watchdog_expires(&mut self, qd: usize, generation: u32) -> Option<usize> {
        let watchdog = self.tx.qds[qd].watchdog;
        if !watchdog.armed || watchdog.generation != generation {
            return None;
        }
        let irq = HardIrq::Watchdog { qd, generation };
        self.cpus[watchdog.cpu].hard_queue.push_back(irq);
        Some(watchdog.cpu)
    }
}
