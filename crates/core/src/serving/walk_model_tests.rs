//! One softirq CPU, and what may happen to it.

use alloc::vec::Vec;

use napier_testkit::explore::{self, Step, World as _};

use super::super::{AWAY_FOR, Bell, OVERDUE_AFTER, Overdue, Raise, Raiser, Rescue, Serving, raise, rescue};
use crate::time::{Instant, Span};

/// What may happen.
#[derive(Copy, Clone)]
pub(super) struct Config {
    /// Programs, at most two.
    pub(super) programs: usize,
    /// The thread may lose its processor, and then the others too.
    pub(super) thread_starves: bool,
    /// A program may lose its processor.
    pub(super) programs_starve: bool,
    /// A thread looks whether work is overdue.
    pub(super) watchdog: bool,
    pub(super) wrong: Wrong,
}

/// A deliberate mistake.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Wrong {
    Nothing,
    /// Who raises for the thread does not kick it.
    NoKick,
    /// The thread sleeps without a look at what it raised.
    SleepsBlindly,
    /// The thread takes a program's bell for its own.
    KeepsTheBell,
    /// Who takes over does.
    TakesOverTheBell,
    /// The thread waits for the end of a round for as long as it takes.
    AsideForEver,
    /// A second program gets the CPU.
    LentTwice,
    /// A program that leaves does not do what it took.
    LeavesWithWork,
    /// Each look begins to count anew.
    NeverOverdue,
    /// A thread that has not moved is let go again.
    LetGoAgain,
    /// A thread that was let go never looks where it belongs.
    StaysAway,
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Thread {
    Asleep,
    /// Awake, with a bell that it passed on in this round.
    Runs {
        passed_on: Option<u32>,
    },
    Aside {
        round: u32,
    },
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Program {
    Runs,
    /// As the CPU's softirq.
    Sleeps,
    /// It has taken what there was, and has the CPU.
    Awake,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct World {
    pub(super) word: Serving,
    /// Something is on the list.
    pub(super) raised: bool,
    /// What has happened that no one has heard: an interrupt, a kick, a program's bell.
    pub(super) interrupt: bool,
    kick: bool,
    bell: bool,
    thread: Thread,
    programs: [Program; 2],
    /// Something came for the program.
    pub(super) called: [bool; 2],
    /// Who gets no processor: the thread at home, the thread elsewhere, the programs.
    pub(super) starved: [bool; 3],
    /// A look has found work and noted the thread's progress.
    overdue: Overdue,
    /// The thread has come round since then, and since it was let go.
    moved: [bool; 2],
}

type Rule = &'static str;

/// How often the thread has come round, by its own count: more than at any look before.
const PROGRESS: u64 = 2;

impl World {
    pub(super) const START: Self = Self {
        word: Serving::START,
        raised: false,
        interrupt: false,
        kick: false,
        bell: false,
        thread: Thread::Asleep,
        programs: [Program::Runs; 2],
        called: [false; 2],
        starved: [false; 3],
        overdue: Overdue::new(),
        moved: [true; 2],
    };

    fn is_called_out(&self) -> bool {
        self.interrupt || self.kick || self.bell
    }

    /// What has happened is heard; true if a bell was among it.
    fn hear(&mut self) -> bool {
        self.raised |= self.interrupt;
        let bell = self.bell;
        (self.interrupt, self.kick, self.bell) = (false, false, false);
        bell
    }

    /// Someone raises on the CPU.
    fn raise(&mut self, by: Raiser, wrong: Wrong) {
        match raise(by) {
            // Polled, and nothing is left.
            Raise::Inline { .. } => {}
            Raise::Queue => self.raised = true,
            Raise::QueueAndKick => {
                self.raised = true;
                self.kick |= wrong != Wrong::NoKick;
            }
        }
    }

    /// The bell of a program was heard by another thread: the round in which it is rung again.
    fn pass_on(&mut self, bell: bool, wrong: bool) -> Option<u32> {
        match self.word.heard() {
            Bell::Ring { round } if bell && !wrong => {
                self.bell = true;
                Some(round)
            }
            Bell::Ring { .. } | Bell::Nothing => None,
        }
    }

    /// The rounds have so few numbers here that the walk ends; more than one thread can still wait for.
    fn fold_rounds(&mut self) {
        let bits = self.word.bits();
        self.word = Serving::from_bits(bits & 0xff | (bits >> 8 & 3) << 8);
    }

    fn thread_has_a_processor(&self) -> bool {
        if self.word.is_home() { !self.starved[0] } else { !self.starved[0] || !self.starved[1] }
    }

    fn thread_steps(&self, config: &Config, steps: &mut Vec<Step<Self>>) {
        if !self.thread_has_a_processor() {
            return;
        }
        self.step(steps, "the thread wakes up", |world| {
            let due = world.thread == Thread::Asleep && world.is_called_out();
            if due {
                world.moved = [true; 2];
                let bell = world.hear();
                let passed_on = world.pass_on(bell, config.wrong == Wrong::KeepsTheBell);
                world.thread = Thread::Runs { passed_on };
            }
            Ok(due)
        });
        for away in [Span::ZERO, AWAY_FOR] {
            self.step(steps, "the thread runs what is raised", |world| {
                let Thread::Runs { passed_on } = world.thread else { return Ok(false) };
                world.moved = [true; 2];
                world.raised = false;
                if config.wrong != Wrong::StaysAway {
                    world.word = world.word.comes_round(away).0;
                }
                if away == AWAY_FOR && !world.word.is_home() {
                    return Err("the thread never comes home");
                }
                world.thread = passed_on.map_or(Thread::Asleep, |round| Thread::Aside { round });
                Ok(true)
            });
        }
        self.step(steps, "the thread waits no more for a round", |world| {
            let Thread::Aside { round } = world.thread else { return Ok(false) };
            // Or a millisecond has gone by.
            let goes_on = config.wrong != Wrong::AsideForEver || world.word.is_over(round);
            world.thread = Thread::Asleep;
            Ok(goes_on)
        });
        // It raises in the midst of what it does: what a poll of its own leads to.
        let own = Raiser { may_run_inline: false, polls_on: false, looks_after: true, is_inline: false };
        self.env(steps, "the thread raises", |world| {
            let runs = matches!(world.thread, Thread::Asleep) && world.moved == [true; 2] && !world.raised;
            if runs {
                world.raise(own, config.wrong);
                // It looks before it sleeps.
                if config.wrong != Wrong::SleepsBlindly {
                    world.thread = Thread::Runs { passed_on: None };
                }
            }
            runs
        });
    }

    fn program_steps(&self, at: usize, config: &Config, steps: &mut Vec<Step<Self>>) {
        if self.starved[2] && at == 0 {
            return;
        }
        self.env(steps, "a program sleeps", |world| {
            if world.programs[at] != Program::Runs || world.called[at] {
                return false;
            }
            let lent = match world.word.lend() {
                None if config.wrong == Wrong::LentTwice => Some(world.word),
                lent => lent,
            };
            if let Some(word) = lent {
                (world.word, world.programs[at]) = (word, Program::Sleeps);
            }
            lent.is_some()
        });
        self.step(steps, "the program wakes up", |world| {
            let due = world.programs[at] == Program::Sleeps && world.is_called_out();
            if due {
                world.hear();
                world.word = world.word.wakes();
                world.programs[at] = Program::Awake;
                world.moved = [true; 2];
            }
            Ok(due)
        });
        let ends = |world: &mut Self| {
            world.called[at] = false;
            world.word = world.word.give_back();
            world.programs[at] = Program::Runs;
        };
        self.step(steps, "the program does what there is", |world| {
            let awake = world.programs[at] == Program::Awake;
            if awake {
                world.raised &= config.wrong == Wrong::LeavesWithWork;
                if world.called[at] { ends(world) } else { world.programs[at] = Program::Sleeps }
            }
            Ok(awake)
        });
        self.env(steps, "the program's time is up", |world| {
            let sleeps = world.programs[at] == Program::Sleeps;
            if sleeps {
                ends(world);
            }
            sleeps
        });
    }

    fn watchdog_steps(&self, config: &Config, steps: &mut Vec<Step<Self>>) {
        self.step(steps, "a look", |world| {
            let waiting = world.raised || world.is_called_out();
            // What was noted at the last look, as seen from now.
            let progress = if world.moved[0] { PROGRESS } else { 0 };
            if config.wrong == Wrong::NeverOverdue {
                world.overdue = Overdue::new();
            }
            let overdue = world.overdue.look(Instant::ZERO + OVERDUE_AFTER, waiting, progress);
            world.overdue = Overdue::new();
            if waiting && !overdue {
                let _ = world.overdue.look(Instant::ZERO, true, 0);
                world.moved[0] = false;
            }
            if overdue {
                match rescue(true, world.moved[1] || config.wrong == Wrong::LetGoAgain) {
                    Rescue::LetGo => {
                        world.word = world.word.let_go();
                        world.moved[1] = false;
                        world.kick = true;
                    }
                    Rescue::TakeOver => {
                        let bell = world.hear();
                        let _ = world.pass_on(bell, config.wrong == Wrong::TakesOverTheBell);
                        world.raised = false;
                    }
                }
            }
            Ok(waiting)
        });
    }

    /// A step of the environment.
    fn env(&self, steps: &mut Vec<Step<Self>>, label: &'static str, take: impl FnOnce(&mut Self) -> bool) {
        let mut world = self.clone();
        if take(&mut world) {
            world.fold_rounds();
            steps.push(Step { label: label.into(), by_itself: false, outcome: Ok(world) });
        }
    }
}

impl explore::World for World {
    type Config = Config;
    type Rule = Rule;

    fn steps(&self, config: &Config, steps: &mut Vec<Step<Self>>) {
        let first = steps.len();
        self.thread_steps(config, steps);
        (0..config.programs).for_each(|at| self.program_steps(at, config, steps));
        if config.watchdog {
            self.watchdog_steps(config, steps);
        }
        self.env(steps, "an interrupt", |world| !core::mem::replace(&mut world.interrupt, true));
        let other = Raiser { may_run_inline: false, polls_on: false, looks_after: false, is_inline: false };
        self.env(steps, "another thread raises", |world| {
            let is_new = !world.raised;
            world.raise(other, config.wrong);
            is_new
        });
        for at in 0..config.programs {
            self.env(steps, "something comes for the program", |world| {
                let comes = matches!(world.programs[at], Program::Sleeps | Program::Awake) && !world.called[at];
                world.called[at] |= comes;
                // Who sleeps is called where it sleeps; who is awake looks for itself.
                world.bell |= comes && world.programs[at] == Program::Sleeps;
                comes
            });
        }
        for (who, may) in [(0, config.thread_starves), (1, config.thread_starves), (2, config.programs_starve)] {
            // What a program has taken and does not do is for the watchdog.
            let may = may && (who < 2 || config.watchdog || self.programs[0] != Program::Awake);
            self.env(steps, "a processor is taken", |world| may && !core::mem::replace(&mut world.starved[who], true));
            self.env(steps, "a processor is given back", |world| core::mem::replace(&mut world.starved[who], false));
        }
        for step in &mut steps[first..] {
            if let Ok(world) = &mut step.outcome {
                world.fold_rounds();
            }
        }
    }

    fn check(&self, _config: &Config) -> Result<(), Rule> {
        let have = self.programs.iter().filter(|program| **program != Program::Runs).count();
        if have > 1 {
            return Err("two threads have the CPU");
        }
        if (have == 1) != self.word.is_lent() { Err("lent to no one") } else { Ok(()) }
    }
}
