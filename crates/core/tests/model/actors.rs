//! The steps of every actor.

use napier_core::busy::{
    AfterStopPoll, BusyLimit, BusyLoop, BusyParams, BusyStep, BusyStop, after_stop_poll, busy_poll_stop,
};
use napier_core::completion::{Completed, Completion, Flush, complete};
use napier_core::event::{resume, suspend};
use napier_core::poll::{AfterPoll, after_poll, may_poll};
use napier_core::state::{State, StopThread, Threaded};
use napier_core::time::Instant;

use super::{Callback, Config, Ctl, Kind, Poll, Soft, Step, Thread, User, Why, World, Wrong};

const HZ: u32 = 250;
const NOW: Instant = Instant::ZERO;

/// What a step of a poll leads to.
enum Next {
    Poll(Poll),
    Done,
    /// `napi_schedule` comes next.
    Prep,
}

impl World {
    /// Every step that some actor can take now.
    pub(crate) fn steps(&self, config: &Config, out: &mut Vec<Step>) {
        self.device(config, out);
        self.timer(out);
        self.softirq(config, out);
        self.napi_thread(config, out);
        self.application(config, out);
        self.controller(config, out);
    }

    fn then(&self, out: &mut Vec<Step>, kind: Kind, label: &'static str, change: impl FnOnce(&mut Self)) {
        let mut world = self.clone();
        change(&mut world);
        out.push(Step { kind, label, world });
    }

    fn system(&self, out: &mut Vec<Step>, label: &'static str, change: impl FnOnce(&mut Self)) {
        self.then(out, Kind::System, label, change);
    }

    /// `__napi_schedule` by whoever owns the instance.
    fn schedule(&mut self) {
        assert!(!self.on_list && !self.word.contains(State::SCHED_THREADED), "scheduled twice");
        if self.thread_exists && self.word.contains(State::THREADED) {
            self.word = self.word.schedule_to_thread();
        } else {
            assert!(self.word.contains(State::SCHED));
            self.on_list = true;
        }
    }

    fn prep(&mut self) -> bool {
        let (word, got) = self.word.schedule_prep();
        self.word = word;
        got
    }

    fn arm(&mut self) {
        self.armed = true;
        self.armed_late |= self.ctl == Ctl::DisableEnd || self.is_down();
    }

    fn flush(&mut self, flush: Flush) {
        if flush == Flush::All {
            self.held = false;
        }
    }

    fn device(&self, config: &Config, out: &mut Vec<Step>) {
        if self.pending < config.pending_max {
            self.then(out, Kind::Environment, "arrival", |w| {
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

    fn timer(&self, out: &mut Vec<Step>) {
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
    fn poll_step(&self, config: &Config, out: &mut Vec<Step>, poll: Poll, store: impl Fn(&mut Self, Next)) {
        match poll {
            Poll::Call { budget } => {
                assert!(may_poll(self.word), "poll of an instance that nobody owns");
                assert!(!self.word.contains(State::NPSVC), "poll of a disabled instance");
                let work = self.pending.min(budget);
                let next = if work < budget { Poll::Complete { work, why: Why::Driver } } else { Poll::Full { work } };
                let holds: &[bool] = if config.gro && work > 0 { &[false, true] } else { &[false] };
                for hold in holds {
                    self.system(out, "poll", |w| {
                        w.pending -= work;
                        w.held |= *hold;
                        store(w, Next::Poll(next));
                    });
                }
            }
            Poll::Complete { work, why } => self.system(out, "complete", |w| {
                let t = &config.tunables;
                let next = match complete(w.word, work.into(), w.held, t, &mut w.defers_left) {
                    Completion::Refused => Next::Done,
                    Completion::Release(release) => {
                        w.flush(release.flush);
                        Next::Poll(Poll::Release { release, why })
                    }
                };
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

    fn softirq(&self, config: &Config, out: &mut Vec<Step>) {
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

    fn napi_thread(&self, config: &Config, out: &mut Vec<Step>) {
        match self.thread {
            Thread::Wait if self.thread_exists && self.word.contains(State::SCHED_THREADED) => {
                self.system(out, "thread: turn", |w| {
                    let (word, busy) = w.word.thread_turn();
                    w.word = word;
                    w.thread = Thread::Poll { poll: Poll::Call { budget: config.weight }, busy };
                });
            }
            Thread::Wait => {}
            Thread::Poll { poll: Poll::Full { work }, busy } => {
                self.system(out, "thread: after full poll", |w| {
                    w.thread = match w.after_full(config, work) {
                        Some(poll) => Thread::Poll { poll, busy },
                        None if busy => Thread::Wait,
                        None => {
                            let poll = Poll::Call { budget: config.weight };
                            Thread::Poll { poll, busy }
                        }
                    };
                });
            }
            Thread::Poll { poll, busy } => self.poll_step(config, out, poll, move |w, next| {
                w.thread = match next {
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
            Thread::Prep => self.system(out, "thread: prep", |w| {
                w.thread = if w.prep() { Thread::Sched } else { Thread::Wait };
            }),
            Thread::Sched => self.system(out, "thread: schedule", |w| {
                w.thread = Thread::Wait;
                w.schedule();
            }),
        }
    }

    fn application(&self, config: &Config, out: &mut Vec<Step>) {
        match self.user {
            User::Idle if self.id_visible => {
                for prefer in config.user {
                    self.then(out, Kind::Environment, "user: busy loop", |w| {
                        w.prefer = *prefer;
                        w.loop_ = Some(fresh_loop(*prefer, config, false));
                        w.user = User::Loop;
                    });
                }
                if config.epoll && suspend(&config.tunables).is_some() {
                    self.then(out, Kind::Environment, "user: suspend", Self::arm);
                }
            }
            User::Idle => {}
            User::Loop => self.user_loop(config, out),
            User::StopBegin => self.system(out, "user: stop begins", |w| {
                w.word = w.word.busy_stop_begin();
                w.missed_kept = false;
                w.user = User::StopDecide;
            }),
            User::StopDecide => self.system(out, "user: stop decides", |w| {
                w.user = match busy_poll_stop(w.prefer, &config.tunables, &mut w.defers_left) {
                    BusyStop::ArmTimer(span) => {
                        w.flush(Flush::for_hz(HZ));
                        if config.wrong == Wrong::ArmBeforeRelease {
                            w.arm();
                        }
                        User::StopRelease(span)
                    }
                    BusyStop::PollOnce => User::StopPoll(Poll::Call { budget: config.busy_budget }),
                };
            }),
            User::StopRelease(span) => self.system(out, "user: stop releases", |w| {
                w.word = w.word.busy_stop_release();
                w.missed_kept = w.word.contains(State::MISSED);
                w.user = User::StopArm(span);
                if config.wrong == Wrong::ArmBeforeRelease {
                    w.stopped();
                }
            }),
            User::StopArm(_) => self.system(out, "user: stop arms", |w| {
                w.arm();
                w.stopped();
            }),
            User::StopPoll(Poll::Full { work }) => self.system(out, "user: hands over", |w| {
                let after = after_stop_poll(work.into(), config.busy_budget.into());
                assert_eq!(after, AfterStopPoll::HandOver);
                w.user = User::StopSched;
            }),
            User::StopPoll(poll) => self.poll_step(config, out, poll, |w, next| match next {
                Next::Poll(poll) => w.user = User::StopPoll(poll),
                Next::Done => w.stopped(),
                Next::Prep => unreachable!("only softirq and thread hand over"),
            }),
            User::StopSched => self.system(out, "user: stop schedules", |w| {
                w.schedule();
                w.stopped();
            }),
            User::ResumePrep => self.system(out, "user: resume prep", |w| {
                let resumes = w.id_visible && resume(&config.tunables);
                w.user = if resumes && w.prep() { User::ResumeSched } else { User::Idle };
            }),
            User::ResumeSched => self.system(out, "user: resume schedule", |w| {
                w.schedule();
                w.user = User::Idle;
            }),
        }
    }

    fn stopped(&mut self) {
        self.loop_.as_mut().expect("a loop is being stopped").on_stopped();
        self.user = User::Loop;
    }

    fn busy_loop(&mut self) -> &mut BusyLoop {
        self.loop_.as_mut().expect("the user is in its loop")
    }

    fn user_loop(&self, config: &Config, out: &mut Vec<Step>) {
        let busy = self.loop_.as_ref().expect("the user is in its loop");
        match busy.next() {
            BusyStep::Acquire => {
                if let Some(word) = self.word.busy_acquire() {
                    self.system(out, "user: acquires", |w| {
                        w.word = word;
                        w.busy_loop().on_acquire(true);
                    });
                }
                // A single attempt may fail even on a free instance.
                self.system(out, "user: fails to acquire", |w| {
                    if w.prefer {
                        w.word = w.word.busy_contended();
                    }
                    w.busy_loop().on_acquire(false);
                });
            }
            BusyStep::Poll { budget_pkts } => {
                let work = self.pending.min(budget_pkts as u8);
                self.system(out, "user: polls", |w| {
                    assert!(may_poll(w.word) && !w.word.contains(State::NPSVC));
                    assert!(w.word.complete_refused(), "a completion while busy polling is refused");
                    w.pending -= work;
                    w.held |= config.gro && work > 0;
                    w.busy_loop().on_polled(work.into());
                });
            }
            BusyStep::CheckEnd => {
                self.system(out, "user: has events", |w| w.busy_loop().on_ended(NOW, true, false));
                self.system(out, "user: must give way", |w| w.busy_loop().on_ended(NOW, false, true));
                let owner = busy.owner();
                self.system(out, "user: goes on", |w| {
                    w.loop_ = Some(fresh_loop(w.prefer, config, owner));
                });
            }
            BusyStep::Stop => self.system(out, "user: stop", |w| w.user = User::StopBegin),
            BusyStep::Yield => self.system(out, "user: yields", |w| {
                if w.id_visible {
                    w.loop_ = Some(fresh_loop(w.prefer, config, false));
                } else {
                    w.leave(User::Idle);
                }
            }),
            BusyStep::Leave if config.epoll && self.prefer => {
                self.system(out, "user: leaves with events, suspends", |w| {
                    w.leave(User::Idle);
                    if w.id_visible && suspend(&config.tunables).is_some() {
                        w.arm();
                    }
                });
                self.system(out, "user: leaves without events", |w| w.leave(User::ResumePrep));
            }
            BusyStep::Leave => self.system(out, "user: leaves", |w| w.leave(User::Idle)),
        }
    }

    fn leave(&mut self, to: User) {
        self.loop_ = None;
        self.user = to;
    }

    fn controller(&self, config: &Config, out: &mut Vec<Step>) {
        match self.ctl {
            Ctl::Up => {
                if config.updown {
                    self.then(out, Kind::Environment, "disable: begin", |w| {
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
                self.then(out, Kind::Environment, "enable", |w| {
                    let mode = if w.thread_exists { w.mode } else { Threaded::Disabled };
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
            self.then(out, Kind::Environment, "threaded: set", |w| {
                w.mode = *mode;
                if *mode == Threaded::Disabled && w.thread_exists {
                    w.ctl = Ctl::StopClaim { down };
                } else {
                    w.thread_exists |= *mode != Threaded::Disabled;
                    w.word = w.word.set_threaded(*mode);
                }
            });
        }
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
                    w.thread_exists = false;
                    w.ctl = if down { Ctl::Down } else { Ctl::Up };
                });
            }
            _ => {}
        }
    }
}

/// A loop at the beginning of an iteration. Time stands still here and packets are not counted, so that worlds which
/// differ in nothing else are equal.
fn fresh_loop(prefer: bool, config: &Config, owner: bool) -> BusyLoop {
    let params = BusyParams { prefer, budget_pkts: config.busy_budget.into(), limit: BusyLimit::For(5) };
    let mut busy = BusyLoop::new(params, NOW);
    if owner {
        busy.on_acquire(true);
    }
    busy
}
