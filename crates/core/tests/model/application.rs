//! The busy-polling application: the loop, its stop, and what epoll adds.

use napier_core::busy::{
    AfterStopPoll, BusyLimit, BusyLoop, BusyParams, BusyStep, BusyStop, after_stop_poll, busy_poll_stop,
};
use napier_core::completion::Flush;
use napier_core::event::{resume, suspend};
use napier_core::poll::may_poll;
use napier_core::state::State;
use napier_core::time::Instant;

use super::actors::{HZ, Next};
use super::{Config, Poll, Step, User, World, Wrong};

const NOW: Instant = Instant::ZERO;

impl World {
    pub(super) fn application(&self, config: &Config, out: &mut Vec<Step>) {
        match self.user {
            User::Idle if self.id_visible => {
                for prefer in config.user {
                    self.then(out, false, "user: busy loop", |w| {
                        w.prefer = *prefer;
                        w.loop_ = Some(fresh_loop(*prefer, config, false));
                        w.user = User::Loop;
                    });
                }
                if config.epoll && suspend(&config.tunables).is_some() {
                    self.then(out, false, "user: suspend", Self::arm);
                }
            }
            User::Idle => {}
            User::Loop => self.user_loop(config, out),
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
            User::StopPoll(poll) => self.poll_step(config, out, poll, |w, next| match next {
                Next::Poll(Poll::Full { work }) => {
                    let after = after_stop_poll(work.into(), config.busy_budget.into());
                    assert_eq!(after, AfterStopPoll::HandOver);
                    w.user = User::StopSched;
                }
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

    /// The beginning of a stop, and its decision, which reads nothing but the owner's data.
    fn stop(&mut self, config: &Config) {
        self.word = self.word.busy_stop_begin();
        self.missed_kept = false;
        self.owed = false;
        self.user = match busy_poll_stop(self.prefer, &config.tunables, &mut self.defers_left) {
            BusyStop::ArmTimer(span) => {
                self.flush(Flush::for_hz(HZ));
                if config.wrong == Wrong::ArmBeforeRelease {
                    self.arm();
                }
                User::StopRelease(span)
            }
            BusyStop::PollOnce => User::StopPoll(Poll::Call { budget: config.busy_budget }),
        };
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
                    w.owed = false;
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
            BusyStep::Stop => self.system(out, "user: stop", |w| w.stop(config)),
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
        self.prefer = false;
        self.user = to;
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
