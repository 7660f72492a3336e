//! The world of the walk: who runs the discipline.

use super::model::{Config, NOW, Running, Sched, Softirq, World, Wrong};
use crate::tx::run::{RunEnd, TxQueueView, TxRun, TxStep};
use crate::tx::tests::Outcome;

/// After a step of a run.
pub(super) enum Ran {
    /// In the old world.
    Waits,
    On(Running),
    Over,
}

impl World {
    pub(super) fn step_run(&mut self, config: &Config, mut running: Running, busy: bool) -> Outcome<Ran> {
        let run = &mut running.run;
        match run.next() {
            TxStep::Dequeue => {
                let view = TxQueueView { bits: self.bits, bulk_bytes: config.bulk_bytes };
                run.on_dequeue(&mut self.root, NOW, |_| view);
            }
            TxStep::TxLock { .. } => {
                self.locked = false;
                run.on_tx_locked(self.bits);
            }
            TxStep::Offer { .. } => {
                let packet = run.take();
                if busy {
                    self.busys -= 1;
                    run.on_busy(packet);
                } else {
                    self.sent(&packet)?;
                    self.in_ring += 1;
                    if self.in_ring == config.room {
                        self.bits = self.bits.stop_driver();
                    }
                    run.on_taken(self.bits);
                }
            }
            TxStep::Relock if self.locked => return Ok(Ran::Waits),
            TxStep::Relock => {
                self.locked = true;
                let before = self.root.iter_requeued().count();
                run.on_relocked(&mut self.root);
                if config.wrong == Wrong::RequeueAtTail {
                    let back = self.root.iter_requeued().count() - before;
                    self.root.rotate_requeued(back);
                }
            }
            TxStep::Finish(RunEnd { again, .. }) => {
                if again && running.sched != Sched::Done {
                    running.sched = self.step_sched(config, running.sched);
                    return Ok(Ran::On(running));
                }
                running.run.finish(&mut self.root);
                self.locked = false;
                return Ok(Ran::Over);
            }
        }
        Ok(Ran::On(running))
    }

    pub(super) fn step_sched(&mut self, config: &Config, sched: Sched) -> Sched {
        match sched {
            Sched::Look => {
                let suppressed = match config.wrong {
                    Wrong::SuppressedByCount => self.count != 0,
                    Wrong::SuppressedByRunner => self.root.is_running() || !self.defer.is_empty(),
                    _ => !self.defer.is_empty(),
                };
                Sched::Swap { defer_empty: !suppressed }
            }
            Sched::Swap { defer_empty } => {
                let (state, appended) = self.state.schedule(defer_empty);
                self.state = state;
                if appended {
                    self.output.push_back(());
                }
                Sched::Done
            }
            Sched::Done => Sched::Done,
        }
    }

    pub(super) fn step_softirq(&mut self, config: &Config, busy: bool) -> Outcome<bool> {
        self.softirq = match core::mem::replace(&mut self.softirq, Softirq::Idle) {
            Softirq::Idle if self.output.is_empty() => return Ok(false),
            Softirq::Idle => {
                self.output.begin();
                let _ = self.output.take();
                Softirq::Locking
            }
            Softirq::Locking if self.locked => return Ok(false),
            Softirq::Locking => {
                self.locked = true;
                if config.wrong != Wrong::UnscheduleAfterRun {
                    self.state = self.state.unschedule();
                }
                match TxRun::begin(&mut self.root, config.quota) {
                    Some(run) => Softirq::Running(Running { run, sched: Sched::Look }),
                    None => {
                        self.locked = false;
                        self.late_unschedule(config);
                        Softirq::Idle
                    }
                }
            }
            Softirq::Running(running) => match self.step_run(config, running, busy)? {
                Ran::Waits => return Ok(false),
                Ran::On(running) => Softirq::Running(running),
                Ran::Over => {
                    self.late_unschedule(config);
                    Softirq::Idle
                }
            },
        };
        Ok(true)
    }

    fn late_unschedule(&mut self, config: &Config) {
        if config.wrong == Wrong::UnscheduleAfterRun {
            self.state = self.state.unschedule();
        }
    }
}
