//! The controller: disable, enable, threaded. One request at a time, as under the device lock.

use napier_core::control::ThreadedSetting;
use napier_core::state::{State, StopThread, Threaded};

use super::{Callback, Config, Ctl, Step, Thread, World, Wrong};

impl World {
    pub(super) fn controller(&self, config: &Config, out: &mut Vec<Step>) {
        match self.ctl {
            Ctl::Up => {
                if config.updown {
                    self.then(out, false, "disable: begin", |w| {
                        w.word = w.word.disable_begin();
                        w.ctl = Ctl::DisableClaim;
                    });
                }
                self.set_modes(config, out, false);
            }
            Ctl::DisableClaim => {
                if let Some(word) = self.word.disable_claim() {
                    self.system(out, "disable: claim", |w| {
                        w.word = word;
                        w.ctl = Ctl::DisableId;
                    });
                }
            }
            Ctl::DisableId => self.system(out, "disable: withdraw the id", |w| {
                w.id_visible = false;
                w.ctl = Ctl::DisableTimer;
            }),
            Ctl::DisableTimer if self.callback == Callback::No => {
                self.system(out, "disable: cancel the timer", |w| {
                    w.armed = false;
                    w.armed_late = false;
                    w.ctl = Ctl::DisableEnd;
                });
            }
            Ctl::DisableTimer => {}
            Ctl::DisableEnd => self.system(out, "disable: end", |w| {
                w.word = w.word.disable_end();
                w.ctl = Ctl::Down;
                // Its timer is gone, so nobody else would deliver them.
                w.held &= config.wrong == Wrong::HeldAcrossDisable;
            }),
            Ctl::Down => {
                self.then(out, false, "enable", |w| {
                    let pool = w.word.contains(State::POOL);
                    let mode = if w.thread_exists || pool { w.mode.threaded() } else { Threaded::Disabled };
                    w.word = w.word.enable(mode).expect("it is disabled");
                    w.missed_kept = w.word.contains(State::MISSED);
                    w.id_visible = true;
                    w.masked = false;
                    w.irq_raised |= w.pending > 0;
                    w.ctl = Ctl::Up;
                });
                self.set_modes(config, out, true);
            }
            Ctl::StopClaim { .. } | Ctl::StopWait { .. } | Ctl::StopJoin { .. } => {
                self.stop_thread(config, out);
            }
        }
    }

    fn set_modes(&self, config: &Config, out: &mut Vec<Step>, down: bool) {
        for mode in config.modes {
            if *mode == self.mode {
                continue;
            }
            self.then(out, false, "threaded: set", |w| {
                w.mode = *mode;
                let off = *mode == ThreadedSetting::Disabled;
                if config.at_once {
                    let other_runner = w.word.contains(State::POOL) != (*mode == ThreadedSetting::Workqueue);
                    if off || other_runner {
                        w.word = w.word.set_threaded(Threaded::Disabled);
                        w.ctl = Ctl::StopWait { down };
                    } else {
                        w.begin_mode(down);
                    }
                } else if off && w.thread_exists {
                    w.ctl = Ctl::StopClaim { down };
                } else {
                    w.thread_exists |= !off;
                    w.word = w.word.set_threaded(mode.threaded());
                }
            });
        }
    }

    /// The engine's: the runner that was there before, if it was another, is gone.
    fn begin_mode(&mut self, down: bool) {
        self.thread_exists = !matches!(self.mode, ThreadedSetting::Disabled | ThreadedSetting::Workqueue);
        if !down {
            self.word = self.word.set_threaded(self.mode.threaded());
        }
        self.ctl = if down { Ctl::Down } else { Ctl::Up };
    }

    fn stop_thread(&self, config: &Config, out: &mut Vec<Step>) {
        match self.ctl {
            Ctl::StopClaim { down } => {
                if config.wrong == Wrong::DisabledIsOwned && self.word.is_disabled() {
                    return;
                }
                if let StopThread::Cleared(word) = self.word.stop_thread_claim() {
                    self.system(out, "thread stop: claim", |w| {
                        w.word = word;
                        w.ctl = Ctl::StopWait { down };
                    });
                }
            }
            Ctl::StopWait { down } if self.word.stop_thread_done() => {
                self.system(out, "thread stop: owns nothing", |w| w.ctl = Ctl::StopJoin { down });
            }
            Ctl::StopJoin { down } if self.thread == Thread::Wait => {
                self.system(out, "thread stop: join", |w| {
                    if config.at_once {
                        w.word = w.word.run_by_pool(w.mode == ThreadedSetting::Workqueue);
                        return w.begin_mode(down);
                    }
                    w.thread_exists = false;
                    w.ctl = if down { Ctl::Down } else { Ctl::Up };
                });
            }
            _ => {}
        }
    }
}
