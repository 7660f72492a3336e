//! The steps of device, timer, softirq and NAPI thread.

use napier_core::completion::{Completed, Completion, Flush, complete};
use napier_core::poll::{AfterPoll, after_poll, may_poll};
use napier_core::state::{Poller, State};

use super::{Callback, Config, Ctl, Poll, Soft, Step, Thread, Why, World, Wrong};

pub(super) const HZ: u32 = 250;

/// What a step of a poll leads to.
pub(super) enum Next {
    Poll(Poll),
    Done,
    /// `napi_schedule` comes next.
    Prep,
}

impl World {
    pub(super) fn then(
        &self,
        out: &mut Vec<Step>,
        by_itself: bool,
        label: &'static str,
        change: impl FnOnce(&mut Self),
    ) {
        let mut world = self.clone();
        change(&mut world);
        out.push(Step { label: label.into(), by_itself, outcome: Ok(world) });
    }

    pub(super) fn system(&self, out: &mut Vec<Step>, label: &'static str, change: impl FnOnce(&mut Self)) {
        self.then(out, true, label, change);
    }

    /// `__napi_schedule` by whoever owns the instance.
    pub(super) fn schedule(&mut self) {
        assert!(!self.on_list && !self.word.contains(State::SCHED_THREADED), "scheduled twice");
        let (word, poller) = self.word.schedule();
        self.word = word;
        match poller {
            Poller::Softirq => self.on_list = true,
            // Whoever schedules also wakes it, which changes nothing here.
            Poller::Thread => {
                assert!(self.thread_exists || self.asks_late, "given to a thread that does not exist");
                self.to_ask += u8::from(self.asks_late);
            }
            Poller::Pool => self.to_queue += 1,
        }
    }

    pub(super) fn prep(&mut self) -> bool {
        let (word, got) = self.word.schedule_prep();
        self.owed |= !got && !self.word.contains(State::DISABLE);
        self.word = word;
        got
    }

    pub(super) fn arm(&mut self) {
        self.armed = true;
        self.armed_late |= self.ctl == Ctl::DisableEnd || self.is_down();
    }

    pub(super) fn flush(&mut self, flush: Flush) {
        if flush == Flush::All {
            self.held = false;
        }
    }

    pub(super) fn device(&self, config: &Config, out: &mut Vec<Step>) {
        if self.pending < config.pending_max {
            self.then(out, false, "arrival", |w| {
                w.pending += 1;
                w.irq_raised |= !w.masked;
            });
        }
        if self.irq_raised && !self.irq_got {
            self.system(out, "irq: prep", |w| {
                w.irq_raised = false;
                w.irq_got = w.prep();
                w.masked |= w.irq_got;
            });
        }
        if self.irq_got {
            self.system(out, "irq: schedule", |w| {
                w.irq_got = false;
                w.schedule();
            });
        }
    }

    pub(super) fn timer(&self, out: &mut Vec<Step>) {
        match self.callback {
            Callback::No if self.armed => self.system(out, "timer: fires", |w| {
                w.armed = false;
                w.armed_late = false;
                w.callback = Callback::Started;
            }),
            Callback::No => {}
            Callback::Started => self.system(out, "timer: acquire", |w| {
                w.callback = match w.word.timer_acquire() {
                    None => Callback::No,
                    Some(word) => {
                        w.word = word;
                        Callback::Got
                    }
                };
            }),
            Callback::Got => self.system(out, "timer: schedule", |w| {
                w.callback = Callback::No;
                w.schedule();
            }),
        }
    }

    /// One step of a poll and its completion; the continuation stores where it leads.
    pub(super) fn poll_step(&self, config: &Config, out: &mut Vec<Step>, poll: Poll, store: impl Fn(&mut Self, Next)) {
        match poll {
            Poll::Call { budget } => {
                assert!(may_poll(self.word), "poll of an instance that nobody owns");
                assert!(!self.word.contains(State::NPSVC), "poll of a disabled instance");
                let work = self.pending.min(budget);
                let holds: &[bool] = if config.gro && work > 0 { &[false, true] } else { &[false] };
                for hold in holds {
                    self.system(out, "poll", |w| {
                        w.owed = false;
                        w.pending -= work;
                        w.held |= *hold;
                        // What the completion's decision reads is the owner's: no step between.
                        let next = if work < budget {
                            w.complete(config, work, Why::Driver)
                        } else {
                            Next::Poll(Poll::Full { work })
                        };
                        store(w, next);
                    });
                }
            }
            Poll::Complete { work, why } => self.system(out, "complete", |w| {
                let next = w.complete(config, work, why);
                store(w, next);
            }),
            Poll::Release { release, why } => self.system(out, "complete: release", |w| {
                let (word, missed) = w.word.complete_release();
                w.word = word;
                w.missed_kept = false;
                store(w, Next::Poll(Poll::Finish { completed: release.finish(missed), why }));
            }),
            Poll::Finish { completed, why } => self.system(out, "complete: finish", |w| {
                let next = w.finish(config, completed, why);
                store(w, next);
            }),
            Poll::Unmask => self.system(out, "unmask", |w| {
                w.masked = false;
                w.irq_raised |= w.pending > 0 && config.wrong != Wrong::NoSecondLook;
                store(w, Next::Done);
            }),
            Poll::Full { .. } => unreachable!("the context decides after a full poll"),
        }
    }

    fn complete(&mut self, config: &Config, work: u8, why: Why) -> Next {
        let t = &config.tunables;
        match complete(self.word, work.into(), self.held, t, &mut self.defers_left) {
            Completion::Refused => Next::Done,
            Completion::Release(release) => {
                self.flush(release.flush);
                Next::Poll(Poll::Release { release, why })
            }
        }
    }

    fn finish(&mut self, config: &Config, completed: Completed, why: Why) -> Next {
        match completed {
            Completed::Reschedule => {
                self.schedule();
                Next::Done
            }
            Completed::Released { arm, unmask } => {
                if arm.is_some() {
                    self.arm();
                }
                match why {
                    Why::Driver if unmask => Next::Poll(Poll::Unmask),
                    Why::Hand if unmask && config.wrong != Wrong::HandOverAndForget => Next::Prep,
                    Why::Driver | Why::Hand | Why::Zero => Next::Done,
                }
            }
        }
    }

    /// The decision after a full poll in softirq or thread; `None`: poll again.
    fn after_full(&mut self, config: &Config, work: u8) -> Option<Poll> {
        match after_poll(self.word, work.into(), config.weight.into(), HZ) {
            AfterPoll::Done => unreachable!("a full poll is not done"),
            AfterPoll::CompleteZero => Some(Poll::Complete { work: 0, why: Why::Zero }),
            AfterPoll::HandToBusyPoller => Some(Poll::Complete { work, why: Why::Hand }),
            AfterPoll::Repoll { flush } => {
                self.flush(flush);
                None
            }
        }
    }

    pub(super) fn softirq(&self, config: &Config, out: &mut Vec<Step>) {
        match self.soft {
            Soft::Idle if self.on_list => self.system(out, "softirq: take", |w| {
                w.on_list = false;
                w.soft = Soft::Poll(Poll::Call { budget: config.weight });
            }),
            Soft::Idle => {}
            Soft::Poll(Poll::Full { work }) => self.system(out, "softirq: after full poll", |w| {
                let next = w.after_full(config, work);
                w.soft = next.map_or(Soft::Idle, Soft::Poll);
                w.on_list |= next.is_none();
            }),
            Soft::Poll(poll) => self.poll_step(config, out, poll, |w, next| {
                w.soft = match next {
                    Next::Poll(poll) => Soft::Poll(poll),
                    Next::Done => Soft::Idle,
                    Next::Prep => Soft::Prep,
                };
            }),
            Soft::Prep => self.system(out, "softirq: prep", |w| {
                w.soft = if w.prep() { Soft::Sched } else { Soft::Idle };
            }),
            Soft::Sched => self.system(out, "softirq: schedule", |w| {
                w.soft = Soft::Idle;
                w.schedule();
            }),
        }
    }

    /// What the pool's queue and whoever has scheduled do beside the state word.
    pub(super) fn pool_queue(&self, out: &mut Vec<Step>) {
        if self.to_queue > 0 {
            self.system(out, "scheduler: queues for the pool", |w| {
                w.to_queue -= 1;
                w.queue();
            });
        }
        if self.to_ask > 0 {
            self.system(out, "scheduler: asks who polls", |w| {
                w.to_ask -= 1;
                if w.word.contains(State::POOL) {
                    w.queue();
                }
            });
        }
    }

    fn queue(&mut self) {
        assert!(!std::mem::replace(&mut self.queued, true), "queued twice");
    }

    fn runner(&mut self, pool: bool) -> &mut Thread {
        if pool { &mut self.worker } else { &mut self.thread }
    }

    /// The thread of the instance, or the worker of the pool.
    pub(super) fn napi_thread(&self, config: &Config, out: &mut Vec<Step>, pool: bool) {
        let mine = self.word.contains(State::SCHED_THREADED) && !self.word.contains(State::POOL);
        let entitled = if pool { self.queued } else { self.thread_exists && mine };
        match if pool { self.worker } else { self.thread } {
            Thread::Wait if entitled => {
                self.system(out, "thread: turn", |w| {
                    w.queued &= !pool;
                    let (word, busy) = w.word.thread_turn();
                    w.word = word;
                    *w.runner(pool) = Thread::Poll { poll: Poll::Call { budget: config.weight }, busy };
                });
            }
            Thread::Wait => {}
            Thread::Poll { poll: Poll::Full { work }, busy } => {
                self.system(out, "thread: after full poll", |w| {
                    *w.runner(pool) = match w.after_full(config, work) {
                        Some(poll) => Thread::Poll { poll, busy },
                        None if config.at_once => Thread::Again,
                        None if busy => Thread::Wait,
                        None => {
                            let poll = Poll::Call { budget: config.weight };
                            Thread::Poll { poll, busy }
                        }
                    };
                });
            }
            Thread::Poll { poll, busy } => self.poll_step(config, out, poll, move |w, next| {
                *w.runner(pool) = match next {
                    Next::Poll(poll) => Thread::Poll { poll, busy },
                    Next::Prep => Thread::Prep,
                    Next::Done => {
                        if busy {
                            w.flush(Flush::for_hz(HZ));
                        }
                        Thread::Wait
                    }
                };
            }),
            Thread::Again => self.system(out, "thread: leaves if its mode is gone", |w| {
                *w.runner(pool) = match w.word.thread_leave() {
                    Some(word) => {
                        w.word = word;
                        Thread::Sched
                    }
                    None => {
                        if pool {
                            w.queue();
                        }
                        Thread::Wait
                    }
                };
            }),
            Thread::Prep => self.system(out, "thread: prep", |w| {
                *w.runner(pool) = if w.prep() { Thread::Sched } else { Thread::Wait };
            }),
            Thread::Sched => self.system(out, "thread: schedule", |w| {
                *w.runner(pool) = Thread::Wait;
                w.schedule();
            }),
        }
    }
}
