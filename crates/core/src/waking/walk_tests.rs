//! Every interleaving of one poll on a processor, two programs that sleep there, one that sleeps elsewhere, and a thread that tells them too.

use alloc::vec::Vec;

use napier_testkit::explore::{self, Step, World as _};

use super::{CallWhen, OWED_MAX, OwedByPoll};

/// Programs; the last one has another processor than the poll.
const PROGRAMS: usize = 3;
const ELSEWHERE: usize = PROGRAMS - 1;

/// A deliberate mistake.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Wrong {
    Nothing,
    /// A poll that is over makes no call.
    NoCall,
    /// It makes one of them.
    OneCall,
    /// What does not fit is not called at all.
    ForgetsWhenFull,
    /// The announcement stays until the call: each delivery owes another.
    TellsTwice,
    /// A sleeper that wakes up by itself does not look.
    WakesBlindly,
    /// A sleeper of the poll's processor is called in its midst.
    CallsAtOnce,
}

#[derive(Copy, Clone)]
struct Config {
    /// The poll owes so many calls to others, which its bound counts.
    owes: usize,
    wrong: Wrong,
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Program {
    asleep: bool,
    /// Its announcement is on the bell.
    armed: bool,
    /// Something is there for it.
    told: bool,
    /// A call is on its way: it will wake up.
    called: bool,
    /// The poll owes it one.
    owed: bool,
    /// Calls that the poll has made or owes since it went to sleep.
    calls: u8,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    polls: bool,
    owed: OwedByPoll,
    programs: [Program; PROGRAMS],
}

impl World {
    const START: Self = Self {
        polls: false,
        owed: OwedByPoll::NONE,
        programs: [Program { asleep: false, armed: false, told: false, called: false, owed: false, calls: 0 };
            PROGRAMS],
    };

    /// The poll delivers something for a program.
    fn deliver(&mut self, at: usize, wrong: Wrong) {
        let program = &mut self.programs[at];
        program.told = true;
        if !program.armed {
            return;
        }
        program.armed = wrong == Wrong::TellsTwice;
        program.calls += 1;
        let (owed, call) = self.owed.told(at != ELSEWHERE);
        match call {
            CallWhen::AtEnd if wrong == Wrong::CallsAtOnce => program.called = true,
            CallWhen::AtEnd => (self.owed, program.owed) = (owed, true),
            CallWhen::Now => program.called |= wrong != Wrong::ForgetsWhenFull,
        }
    }

    fn end_poll(&mut self, wrong: Wrong) {
        let mut first = true;
        for program in &mut self.programs {
            if core::mem::take(&mut program.owed) {
                program.called |= wrong != Wrong::NoCall && (first || wrong != Wrong::OneCall);
                first = false;
            }
        }
        while let Some(left) = self.owed.called() {
            self.owed = left;
        }
        self.polls = false;
    }

    /// A step of the environment.
    fn env(&self, steps: &mut Vec<Step<Self>>, label: &'static str, take: impl FnOnce(&mut Self) -> bool) {
        let mut world = self.clone();
        if take(&mut world) {
            steps.push(Step { label: label.into(), by_itself: false, outcome: Ok(world) });
        }
    }

    fn program_steps(&self, at: usize, wrong: Wrong, steps: &mut Vec<Step<Self>>) {
        let Program { asleep, armed, told, .. } = self.programs[at];
        self.env(steps, "the poll delivers", |world| {
            let delivers = world.polls && (!told || armed);
            if delivers {
                world.deliver(at, wrong);
            }
            delivers
        });
        self.env(steps, "another thread tells it", |world| {
            let program = &mut world.programs[at];
            program.told = true;
            program.called |= core::mem::take(&mut program.armed);
            !told
        });
        self.step(steps, "a call arrives", |world| {
            let program = &mut world.programs[at];
            let arrives = core::mem::take(&mut program.called);
            if asleep && arrives {
                (program.asleep, program.armed, program.told) = (false, false, false);
            }
            Ok(arrives)
        });
        self.env(steps, "its time is up", |world| {
            let program = &mut world.programs[at];
            (program.asleep, program.armed) = (false, false);
            program.told &= wrong == Wrong::WakesBlindly;
            asleep
        });
        // It looks once more after its announcement.
        self.env(steps, "it sleeps", |world| {
            let sleeps = !asleep && (!told || wrong == Wrong::WakesBlindly);
            let program = &mut world.programs[at];
            (program.asleep, program.armed, program.calls) = (true, true, 0);
            sleeps
        });
    }
}

impl explore::World for World {
    type Config = Config;
    type Rule = &'static str;

    fn steps(&self, config: &Config, steps: &mut Vec<Step<Self>>) {
        let polls = self.polls;
        self.env(steps, "a poll begins", |world| {
            world.polls = true;
            world.owed = (0..config.owes).fold(OwedByPoll::NONE, |owed, _| owed.told(true).0);
            !polls
        });
        self.step(steps, "the poll is over", |world| {
            world.end_poll(config.wrong);
            Ok(polls)
        });
        (0..PROGRAMS).for_each(|at| self.program_steps(at, config.wrong, steps));
    }

    fn check(&self, _config: &Config) -> Result<(), Self::Rule> {
        for (at, program) in self.programs.iter().enumerate() {
            if program.asleep && program.told && !(program.armed || program.called || program.owed) {
                return Err("a sleeper is told and not called");
            }
            if program.owed && at == ELSEWHERE {
                return Err("a sleeper beside the poll waits for it");
            }
            if program.calls > 1 {
                return Err("called more than once by a poll");
            }
            if program.owed && !self.polls {
                return Err("calls are left when the poll is over");
            }
        }
        Ok(())
    }

    fn check_step(&self, next: &Self) -> Result<(), Self::Rule> {
        let room = self.owed.told(true).1 == CallWhen::AtEnd;
        let in_midst = |(now, then): (&Program, &Program)| then.calls > now.calls && then.called && !now.called;
        let mut own = self.programs.iter().zip(&next.programs).take(ELSEWHERE);
        if room && own.any(in_midst) { Err("called in the midst of a poll") } else { Ok(()) }
    }
}

fn check(wrong: Wrong, owes: usize) {
    let config = Config { owes, wrong };
    let walk = explore::walk("calls of a poll", &config, World::START);
    walk.can_reach("a program that is told sleeps on", |world| {
        world.programs.iter().all(|program| !program.asleep || !program.told)
    });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn who_is_told_is_called() {
    check(Wrong::Nothing, 0);
    check(Wrong::Nothing, OWED_MAX - 1);
    check(Wrong::Nothing, OWED_MAX);
}

#[test]
#[should_panic(expected = "a sleeper is told and not called")]
fn a_poll_that_ends_without_calls() {
    check(Wrong::NoCall, 0);
}

#[test]
#[should_panic(expected = "a sleeper is told and not called")]
fn a_poll_that_makes_one_of_its_calls() {
    check(Wrong::OneCall, 0);
}

#[test]
#[should_panic(expected = "a sleeper is told and not called")]
fn a_call_that_is_forgotten_when_there_is_no_room() {
    check(Wrong::ForgetsWhenFull, OWED_MAX);
}

#[test]
#[should_panic(expected = "called more than once by a poll")]
fn an_announcement_that_stays() {
    check(Wrong::TellsTwice, 0);
}

#[test]
#[should_panic(expected = "a program that is told sleeps on")]
fn a_sleeper_that_does_not_look() {
    check(Wrong::WakesBlindly, 0);
}

#[test]
#[should_panic(expected = "called in the midst of a poll")]
fn a_poll_that_is_preempted_by_what_it_wakes() {
    check(Wrong::CallsAtOnce, 0);
}
