//! A small abstract executor around the rules: one NAPI instance, a device with a few pending packets, one softirq CPU,
//! one NAPI thread, one worker of the pool, one busy-polling application, one controller (disable, enable, threaded), one timer. Every
//! atomic step of an actor is one step here, so that a walk over all interleavings sees what threads could do to each
//! other between them.

use napier_core::busy::BusyLoop;
use napier_core::completion::{Completed, Release, Tunables};
use napier_core::control::ThreadedSetting;
use napier_core::state::State;
use napier_core::time::Span;
use napier_testkit::explore;

mod actors;
mod application;
mod controller;

/// What exists in a world, and what its environment may do.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Config {
    pub(crate) tunables: Tunables,
    pub(crate) pending_max: u8,
    pub(crate) weight: u8,
    pub(crate) busy_budget: u8,
    /// Polls may leave frames held for merging.
    pub(crate) gro: bool,
    /// An application busy polls, with prefer, without, or both.
    pub(crate) user: &'static [bool],
    /// The application suspends and resumes as epoll does.
    pub(crate) epoll: bool,
    /// Modes that the controller sets.
    pub(crate) modes: &'static [ThreadedSetting],
    /// The controller ends a mode as the engine does, whoever owns the instance, and a thread whose mode is gone hands the
    /// instance over; else as the kernel does.
    pub(crate) at_once: bool,
    /// The controller disables and enables.
    pub(crate) updown: bool,
    pub(crate) wrong: Wrong,
}

/// A deliberate mistake of the executor or of the kernel, to see that it is found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Nothing,
    /// A busy-poll stop arms the timer while it still owns the instance (kernels before 2026).
    ArmBeforeRelease,
    /// Stopping the thread waits for the owner of a disabled instance (the kernel does).
    DisabledIsOwned,
    /// Hand-over to a busy poller forgets to schedule when nothing else brings the instance back.
    HandOverAndForget,
    /// Disabling leaves held frames behind (the kernel does).
    HeldAcrossDisable,
    /// The driver unmasks without looking at its ring again.
    NoSecondLook,
    /// Who schedules reads who acts on `SCHED_THREADED` after it has set the bit.
    RunnerReadLate,
}

/// Progress of one poll by an owner, and of the completion that follows it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Poll {
    Call {
        budget: u8,
    },
    /// Somebody completes after a full poll.
    Complete {
        work: u8,
        why: Why,
    },
    Release {
        release: Release,
        why: Why,
    },
    Finish {
        completed: Completed,
        why: Why,
    },
    Unmask,
    /// The whole budget was used.
    Full {
        work: u8,
    },
}

/// Who completes, and so what follows.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Why {
    /// The driver: unmask if told.
    Driver,
    /// After a full poll with a disable pending: the answer is not looked at.
    Zero,
    /// After a full poll with a prefer user waiting: if told to unmask, schedule.
    Hand,
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Soft {
    Idle,
    Poll(Poll),
    /// `napi_schedule` after a hand-over.
    Prep,
    Sched,
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Thread {
    Wait,
    Poll {
        poll: Poll,
        busy: bool,
    },
    /// A full poll is over: on, unless the mode is gone.
    Again,
    Prep,
    Sched,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum User {
    Idle,
    Loop,
    StopRelease(Span),
    StopArm(Span),
    StopPoll(Poll),
    StopSched,
    ResumePrep,
    ResumeSched,
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ctl {
    Up,
    DisableClaim,
    DisableId,
    DisableTimer,
    DisableEnd,
    Down,
    StopClaim { down: bool },
    StopWait { down: bool },
    StopJoin { down: bool },
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Callback {
    No,
    Started,
    Got,
}

/// Everything. `loop_` is meaningful while the user's phase is not idle.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) word: State,
    pub(crate) defers_left: u32,
    pub(crate) pending: u8,
    pub(crate) held: bool,
    pub(crate) masked: bool,
    pub(crate) irq_raised: bool,
    pub(crate) irq_got: bool,
    pub(crate) armed: bool,
    pub(crate) callback: Callback,
    pub(crate) on_list: bool,
    pub(crate) soft: Soft,
    pub(crate) thread: Thread,
    pub(crate) thread_exists: bool,
    pub(crate) worker: Thread,
    /// On the pool's queue.
    pub(crate) queued: bool,
    /// Schedulers that will put it there.
    pub(crate) to_queue: u8,
    /// Schedulers that will ask who polls ([`Wrong::RunnerReadLate`]).
    pub(crate) to_ask: u8,
    pub(crate) asks_late: bool,
    pub(crate) user: User,
    pub(crate) prefer: bool,
    pub(crate) loop_: Option<BusyLoop>,
    pub(crate) ctl: Ctl,
    pub(crate) id_visible: bool,
    /// The mode that was set last.
    pub(crate) mode: ThreadedSetting,
    /// MISSED may outlive its owner: it was left on a disabled instance, or by the timer path of a stop.
    pub(crate) missed_kept: bool,
    /// An event came while the instance was owned, and nobody has polled since.
    pub(crate) owed: bool,
    /// Armed by somebody who had released before a disable, after the disable had cancelled the timer.
    pub(crate) armed_late: bool,
}

pub(crate) type Step = explore::Step<World>;

impl World {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            word: State::ADDED,
            defers_left: 0,
            pending: 0,
            held: false,
            masked: false,
            irq_raised: false,
            irq_got: false,
            armed: false,
            callback: Callback::No,
            on_list: false,
            soft: Soft::Idle,
            thread: Thread::Wait,
            thread_exists: false,
            worker: Thread::Wait,
            queued: false,
            to_queue: 0,
            to_ask: 0,
            asks_late: config.wrong == Wrong::RunnerReadLate,
            user: User::Idle,
            prefer: false,
            loop_: None,
            ctl: Ctl::Down,
            id_visible: false,
            mode: ThreadedSetting::Disabled,
            missed_kept: false,
            owed: false,
            armed_late: false,
        }
    }

    pub(crate) fn is_down(&self) -> bool {
        match self.ctl {
            Ctl::Down => true,
            Ctl::StopClaim { down } | Ctl::StopWait { down } | Ctl::StopJoin { down } => down,
            Ctl::Up | Ctl::DisableClaim | Ctl::DisableId | Ctl::DisableTimer | Ctl::DisableEnd => false,
        }
    }

    /// Nothing waits for anybody: no packet in the ring, none held.
    pub(crate) fn is_drained(&self) -> bool {
        self.pending == 0 && !self.held
    }

    /// The number of parties that own the instance; at most one of them may poll.
    fn owners(&self) -> usize {
        let disabled = self.word.contains(State::SCHED.with(State::NPSVC));
        let soft = match self.soft {
            Soft::Poll(poll) => poll.owns(),
            Soft::Sched => true,
            Soft::Idle | Soft::Prep => false,
        };
        // A thread that polls owns by SCHED_THREADED; between a release and a new schedule it may own without.
        let owns = |runner: Thread, by_bit: bool| match runner {
            Thread::Poll { poll, .. } => poll.owns() || by_bit,
            Thread::Sched | Thread::Again => true,
            Thread::Wait | Thread::Prep => by_bit,
        };
        let (by_bit, pool) = (self.word.contains(State::SCHED_THREADED), self.word.contains(State::POOL));
        let thread = owns(self.thread, by_bit && !pool);
        let worker = owns(self.worker, by_bit && pool);
        let user = match self.user {
            User::Loop => self.loop_.as_ref().is_some_and(BusyLoop::owner),
            User::StopRelease(_) => true,
            User::StopPoll(poll) => poll.owns(),
            User::StopSched | User::ResumeSched => true,
            User::Idle | User::StopArm(_) | User::ResumePrep => false,
        };
        let got = self.callback == Callback::Got;
        [disabled, self.on_list, soft, thread, worker, user, got, self.irq_got].into_iter().filter(|owns| *owns).count()
    }

    /// Somebody has released and will arm or unmask, or schedule again.
    fn between_release_and_arm(&self) -> bool {
        let poll = |poll: Poll| matches!(poll, Poll::Finish { .. } | Poll::Unmask);
        matches!(self.soft, Soft::Poll(p) if poll(p))
            || [self.thread, self.worker].iter().any(|t| matches!(t, Thread::Poll { poll: p, .. } if poll(*p)))
            || matches!(self.user, User::StopPoll(p) if poll(p))
            || matches!(self.soft, Soft::Prep)
            || [self.thread, self.worker].contains(&Thread::Prep)
            || matches!(self.user, User::StopArm(_))
    }
}

impl explore::World for World {
    type Config = Config;
    type Rule = String;

    fn steps(&self, config: &Config, out: &mut Vec<Step>) {
        self.device(config, out);
        self.timer(out);
        self.softirq(config, out);
        self.pool_queue(out);
        self.napi_thread(config, out, false);
        self.napi_thread(config, out, true);
        self.application(config, out);
        self.controller(config, out);
    }

    fn check(&self, config: &Config) -> Result<(), String> {
        self.word.is_legal()?;
        let owners = self.owners();
        let owned = self.word.contains(State::SCHED);
        if owners > 1 {
            return Err(format!("{owners} owners at once"));
        }
        if owned != (owners == 1) {
            return Err(format!("SCHED is {owned} with {owners} owners"));
        }
        if self.on_list && self.word.contains(State::SCHED_THREADED) {
            return Err("on a poll list and given to the thread".into());
        }
        if self.word.contains(State::MISSED) && !owned && !self.missed_kept {
            return Err("MISSED without an owner".into());
        }
        if self.owed && !owned && !self.missed_kept {
            return Err("an event was missed and is forgotten".into());
        }
        if self.is_down() {
            if !self.word.is_disabled() {
                return Err("down and not disabled".into());
            }
            if self.id_visible {
                return Err("disabled with an id".into());
            }
            if self.armed && !self.armed_late {
                return Err("disabled with an armed timer".into());
            }
        }
        let stalled = self.masked && !owned && !self.armed && self.callback == Callback::No;
        if stalled && !self.between_release_and_arm() && !self.word.contains(State::DISABLE) {
            return Err("masked, without an owner, and nothing will poll it".into());
        }
        if self.defers_left > config.tunables.defer_hard_irqs {
            return Err("more deferrals left than were ever loaded".into());
        }
        Ok(())
    }

    /// What must hold between the words before and after.
    fn check_step(&self, next: &Self) -> Result<(), String> {
        let (before, after) = (self.word, next.word);
        let taken = !before.contains(State::SCHED) && after.contains(State::SCHED);
        if taken && before.contains(State::DISABLE) && !after.contains(State::NPSVC) {
            return Err("a new owner while a disable waits".into());
        }
        Ok(())
    }

    fn note(&self) -> String {
        format!("-> {:?}", self.word)
    }
}

impl Poll {
    fn owns(self) -> bool {
        match self {
            Self::Call { .. } | Self::Complete { .. } | Self::Release { .. } | Self::Full { .. } => true,
            Self::Finish { completed, .. } => completed == Completed::Reschedule,
            Self::Unmask => false,
        }
    }
}
