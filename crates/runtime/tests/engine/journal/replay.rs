//! Replays a journal: keeps the words and counters of its own and asks the rules again.

use std::collections::{HashMap, VecDeque};

use napier_core::busy::{AfterStopPoll, BusyStop, after_stop_poll, busy_poll_stop};
use napier_core::completion::{Completed, Completion, Release, complete};
use napier_core::event::{resume, suspend};
use napier_core::poll::{AfterPoll, after_poll};
use napier_core::state::{Poller, State};
use napier_core::time::{Instant, Span};
use napier_runtime::device::PollContext;
use napier_runtime::journal::{Event, Record, Rule, Target};

/// What a decision obliges its thread to do next with the instance.
#[derive(Copy, Clone, PartialEq, Debug)]
enum Next {
    Apply(Rule),
    /// Mask and schedule; a resume does not mask.
    MaskAndSchedule,
    Hand(Poller),
    Complete(u32, Freed),
    Release(Release, Freed),
    Finish(Release, bool, Freed),
    Arm(Span),
    Unmask,
    /// Cancel the timer if it is armed, then mask.
    CancelAndMask,
    Mask,
    Poll(PollContext),
    AfterPoll(u32),
    BusyStop,
    AfterStopPoll(u32),
}

/// What follows a completion that allows unmasking.
#[derive(Copy, Clone, PartialEq, Debug)]
enum Freed {
    Unmask,
    /// A busy poller waits.
    Schedule,
    /// A disable waits.
    Nothing,
}

/// Who may poll.
#[derive(Copy, Clone, PartialEq, Debug)]
enum Owner {
    Nobody,
    Softirq,
    Thread,
    User { thread: u32, stopping: bool },
}

struct Instance {
    word: State,
    defers_left: u32,
    timer: Option<Instant>,
    owner: Owner,
    /// By thread.
    next: HashMap<u32, VecDeque<Next>>,
}

/// Accepts a journal, or names the first record that the rules would not have made.
pub(crate) fn replay(records: &[Record]) -> Result<(), String> {
    let mut instances: HashMap<u32, Instance> = HashMap::new();
    let mut now = Instant::ZERO;
    for (position, record) in records.iter().enumerate() {
        let checked = if record.at < now {
            Err("the clock goes back".to_owned())
        } else if matches!(
            record.event,
            Event::Deliver { .. } | Event::Held { .. } | Event::KthreadStart | Event::KthreadStop
        ) {
            // No rule decides about these.
            Ok(())
        } else if let Event::Added { word } = record.event {
            match instances.insert(record.napi, Instance::new()) {
                None => same(&word, &State::ADDED),
                Some(_) => Err("added twice".to_owned()),
            }
        } else {
            instances.get_mut(&record.napi).map_or(Err("not added".to_owned()), |instance| instance.take(record))
        };
        checked.map_err(|why| format!("record {position}: {why}: {record:?}"))?;
        now = record.at;
    }
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(seen: &T, want: &T) -> Result<(), String> {
    if seen == want { Ok(()) } else { Err(format!("the rules say {want:?}, not {seen:?}")) }
}

/// The rule as the crate of rules has it: the word afterwards, and the answer.
fn apply(rule: Rule, word: State) -> (State, bool) {
    let optional = |next: Option<State>| next.map_or((word, false), |next| (next, true));
    match rule {
        Rule::SchedulePrep => word.schedule_prep(),
        Rule::Schedule => {
            let (next, poller) = word.schedule();
            (next, poller != Poller::Softirq)
        }
        Rule::TimerAcquire => optional(word.timer_acquire()),
        Rule::BusyAcquire => optional(word.busy_acquire()),
        Rule::BusyContended => (word.busy_contended(), true),
        Rule::BusyStopBegin => (word.busy_stop_begin(), true),
        Rule::BusyStopRelease => (word.busy_stop_release(), true),
        Rule::CompleteRelease => word.complete_release(),
        Rule::ThreadTurn => word.thread_turn(),
        Rule::DisableBegin => (word.disable_begin(), true),
        Rule::DisableClaim => optional(word.disable_claim()),
        Rule::DisableEnd => (word.disable_end(), true),
        Rule::Enable(threaded) => (word.enable(threaded).expect("only a disabled instance is enabled"), true),
        Rule::SetThreaded(_) if word.is_disabled() => (word, true),
        Rule::SetThreaded(threaded) => (word.set_threaded(threaded), true),
        Rule::RunByPool(pool) => (word.run_by_pool(pool), true),
        Rule::ThreadLeave => optional(word.thread_leave()),
    }
}

impl Instance {
    fn new() -> Self {
        Self { word: State::ADDED, defers_left: 0, timer: None, owner: Owner::Nobody, next: HashMap::new() }
    }

    fn take(&mut self, record: &Record) -> Result<(), String> {
        let due = self.next.entry(record.thread).or_default().pop_front();
        if !fits(due, &record.event) {
            return Err(format!("out of turn, {due:?} was due"));
        }
        let next = self.check(record, due)?;
        let queue = self.next.entry(record.thread).or_default();
        next.into_iter().rev().for_each(|next| queue.push_front(next));
        self.word.is_legal().map_err(str::to_owned)
    }

    /// Asks the rules again; what the thread does next.
    fn check(&mut self, record: &Record, due: Option<Next>) -> Result<Vec<Next>, String> {
        match record.event {
            Event::Added { .. }
            | Event::Deliver { .. }
            | Event::Held { .. }
            | Event::KthreadStart
            | Event::KthreadStop => {
                unreachable!("taken before")
            }
            Event::Rule { rule, word, answer } => {
                let want = apply(rule, self.word);
                same(&(word, answer), &want)?;
                self.word = word;
                return Ok(self.after_rule(rule, answer, record.thread, due));
            }
            Event::Scheduled { target: Target::Softirq { .. } } => self.owner = Owner::Softirq,
            // The thread may have begun before its waker got here.
            Event::Scheduled { target: Target::Kthread | Target::Workqueue } => {}
            Event::Poll { context, work, budget, .. } => {
                return self.after_poll_call(context, work, budget, record.thread);
            }
            Event::AfterPoll { work, weight, hz, decision } => {
                same(&decision, &after_poll(self.word, work, weight, hz))?;
                return Ok(match decision {
                    AfterPoll::Done => return Err("asked after a poll that was not full".to_owned()),
                    AfterPoll::CompleteZero => vec![Next::Complete(0, Freed::Nothing)],
                    AfterPoll::HandToBusyPoller => vec![Next::Complete(work, Freed::Schedule)],
                    AfterPoll::Repoll { .. } => vec![],
                });
            }
            Event::Complete { work, held, tunables, decision, defers_left } => {
                same(&decision, &complete(self.word, work, held, &tunables, &mut self.defers_left))?;
                same(&defers_left, &self.defers_left)?;
                let Some(Next::Complete(_, freed)) = due else { unreachable!("it was due") };
                if let Completion::Release(release) = decision {
                    return Ok(vec![Next::Release(release, freed)]);
                }
            }
            Event::Completed { missed, decision } => {
                let Some(Next::Finish(release, was_missed, freed)) = due else { unreachable!("it was due") };
                same(&missed, &was_missed)?;
                same(&decision, &release.finish(missed))?;
                return Ok(after_completion(decision, freed));
            }
            Event::BusyStop { prefer, tunables, decision, defers_left } => {
                same(&decision, &busy_poll_stop(prefer, &tunables, &mut self.defers_left))?;
                same(&defers_left, &self.defers_left)?;
                return Ok(match decision {
                    BusyStop::ArmTimer(span) => vec![Next::Apply(Rule::BusyStopRelease), Next::Arm(span)],
                    BusyStop::PollOnce => vec![Next::Poll(PollContext::User)],
                });
            }
            Event::AfterStopPoll { work, budget, decision } => {
                same(&decision, &after_stop_poll(work, budget))?;
                return Ok(match decision {
                    AfterStopPoll::HandOver => vec![Next::Apply(Rule::Schedule)],
                    AfterStopPoll::Gone => vec![Next::Complete(work, Freed::Unmask)],
                });
            }
            Event::Suspend { tunables, arm } => {
                same(&arm, &suspend(&tunables))?;
                return Ok(arm.map(Next::Arm).into_iter().collect());
            }
            Event::Resume { tunables, schedule } => {
                same(&schedule, &resume(&tunables))?;
                return Ok(if schedule { vec![Next::Apply(Rule::SchedulePrep)] } else { vec![] });
            }
            Event::TimerStart { due, .. } => self.timer = Some(due),
            Event::TimerFire { due, .. } => {
                same(&Some(due), &self.timer.take())?;
                if due > record.at {
                    return Err("a timer that fires early".to_owned());
                }
                return Ok(vec![Next::Apply(Rule::TimerAcquire)]);
            }
            Event::TimerCancel => {
                self.timer.take().ok_or("it was not armed")?;
                return Ok(vec![Next::Mask]);
            }
            Event::Mask if due == Some(Next::MaskAndSchedule) => {
                return Ok(vec![Next::Apply(Rule::Schedule)]);
            }
            Event::Unmask { waiting: true } => return Ok(vec![Next::Apply(Rule::SchedulePrep)]),
            Event::Mask | Event::Unmask { waiting: false } => {}
        }
        Ok(vec![])
    }

    fn after_rule(&mut self, rule: Rule, answer: bool, thread: u32, due: Option<Next>) -> Vec<Next> {
        match (rule, answer) {
            (Rule::SchedulePrep, true) => vec![Next::MaskAndSchedule],
            (Rule::TimerAcquire, true) => vec![Next::Apply(Rule::Schedule)],
            (Rule::Schedule, to_thread) => {
                if !to_thread {
                    return vec![Next::Hand(Poller::Softirq)];
                }
                self.owner = Owner::Thread;
                // Who acts for the thread is in the word that this very change has left.
                vec![Next::Hand(if self.word.contains(State::POOL) { Poller::Pool } else { Poller::Thread })]
            }
            (Rule::ThreadLeave, true) => {
                self.owner = Owner::Nobody;
                vec![Next::Apply(Rule::Schedule)]
            }
            (Rule::BusyAcquire, true) => {
                self.owner = Owner::User { thread, stopping: false };
                vec![Next::Poll(PollContext::User)]
            }
            (Rule::BusyStopBegin, _) => {
                self.owner = Owner::User { thread, stopping: true };
                vec![Next::BusyStop]
            }
            (Rule::BusyStopRelease, _) => {
                self.owner = Owner::Nobody;
                vec![]
            }
            (Rule::CompleteRelease, missed) => {
                self.owner = Owner::Nobody;
                let Some(Next::Release(release, freed)) = due else { unreachable!("it was due") };
                vec![Next::Finish(release, missed, freed)]
            }
            (Rule::ThreadTurn, true) => vec![Next::Poll(PollContext::KthreadBusy)],
            (Rule::ThreadTurn, false) => vec![Next::Poll(PollContext::Kthread)],
            (Rule::DisableClaim, true) => vec![Next::CancelAndMask, Next::Apply(Rule::DisableEnd)],
            (Rule::Enable(_), _) => vec![Next::Unmask],
            _ => vec![],
        }
    }

    fn after_poll_call(&self, context: PollContext, work: u32, budget: u32, by: u32) -> Result<Vec<Next>, String> {
        if !self.word.contains(State::SCHED) || work > budget {
            return Err("a poll without ownership, or beyond its budget".to_owned());
        }
        match (context, self.owner) {
            (PollContext::User, Owner::User { thread, stopping }) if thread == by => {
                Ok(if stopping { vec![Next::AfterStopPoll(work)] } else { vec![] })
            }
            (PollContext::Softirq | PollContext::Ksoftirqd, Owner::Softirq)
            | (PollContext::Kthread | PollContext::KthreadBusy, Owner::Thread) => {
                Ok(vec![if work < budget { Next::Complete(work, Freed::Unmask) } else { Next::AfterPoll(work) }])
            }
            (_, owner) => Err(format!("a poll by somebody else than {owner:?}")),
        }
    }
}

fn after_completion(decision: Completed, freed: Freed) -> Vec<Next> {
    match decision {
        Completed::Reschedule => vec![Next::Apply(Rule::Schedule)],
        Completed::Released { arm, unmask } => {
            let then = match freed {
                Freed::Unmask => Some(Next::Unmask),
                Freed::Schedule => Some(Next::Apply(Rule::SchedulePrep)),
                Freed::Nothing => None,
            };
            arm.map(Next::Arm).into_iter().chain(then.filter(|_| unmask)).collect()
        }
    }
}

/// Whether the event is what was due; if nothing was, whether it may begin something.
fn fits(due: Option<Next>, event: &Event) -> bool {
    let Some(due) = due else {
        return match event {
            Event::Rule { rule, .. } => !matches!(
                rule,
                Rule::Schedule | Rule::TimerAcquire | Rule::CompleteRelease | Rule::BusyStopRelease | Rule::DisableEnd
            ),
            Event::Poll { .. } | Event::Suspend { .. } | Event::Resume { .. } | Event::TimerFire { .. } => true,
            _ => false,
        };
    };
    match (due, event) {
        (Next::Apply(want), Event::Rule { rule, .. }) => want == *rule,
        (Next::MaskAndSchedule, Event::Mask | Event::Rule { rule: Rule::Schedule, .. })
        | (Next::Release(..), Event::Rule { rule: Rule::CompleteRelease, .. })
        | (Next::Finish(..), Event::Completed { .. })
        | (Next::Unmask, Event::Unmask { .. })
        | (Next::CancelAndMask, Event::TimerCancel | Event::Mask)
        | (Next::Mask, Event::Mask)
        | (Next::BusyStop, Event::BusyStop { .. }) => true,
        (Next::Hand(poller), Event::Scheduled { target }) => match target {
            Target::Softirq { .. } => poller == Poller::Softirq,
            Target::Kthread => poller == Poller::Thread,
            Target::Workqueue => poller == Poller::Pool,
        },
        (Next::Arm(want), Event::TimerStart { span, .. }) => want == *span,
        (Next::Poll(want), Event::Poll { context, .. }) => want == *context,
        (Next::AfterPoll(want), Event::AfterPoll { work, .. })
        | (Next::AfterStopPoll(want), Event::AfterStopPoll { work, .. })
        | (Next::Complete(want, _), Event::Complete { work, .. }) => want == *work,
        _ => false,
    }
}
