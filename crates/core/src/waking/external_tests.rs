//! The table, and every interleaving of two programs that sleep on the descriptor and two threads that tell.

extern crate std;

use alloc::vec::Vec;

use napier_testkit::explore::{self, Step};

use super::{Arming, External};

const STATES: [External; 6] =
    [External::Open, External::Draining, External::Armed, External::Telling, External::Held, External::Again];

#[test]
fn the_table() {
    use External::{Again, Armed, Draining, Held, Open, Telling};
    let rows = [
        // state, found nothing, held, released, called
        (Open, (Draining, Arming::Drain), None, None, None),
        (Draining, (Draining, Arming::Leave), None, None, None),
        (Armed, (Armed, Arming::Look), Some(Held), None, Some(Telling)),
        (Telling, (Again, Arming::Leave), None, None, None),
        (Again, (Again, Arming::Leave), None, None, None),
        (Held, (Armed, Arming::Arm), None, Some(Armed), None),
    ];
    for (state, nothing, held, released, called) in rows {
        assert_eq!(state.found_nothing(), nothing, "{state:?}");
        assert_eq!((state.held(), state.released(), state.called()), (held, released, called), "{state:?}");
        assert_eq!(External::from_bits(state.bits()), state);
    }
    assert_eq!((Draining.drained(), Telling.told(), Again.told()), (Armed, (Open, true), (Telling, false)));
}

#[test]
fn what_one_thread_began_no_other_ends() {
    for state in STATES {
        let drains = std::panic::catch_unwind(|| state.drained()).is_ok();
        let tells = std::panic::catch_unwind(|| state.told()).is_ok();
        assert_eq!(drains, state == External::Draining);
        assert_eq!(tells, matches!(state, External::Telling | External::Again));
    }
    assert!(std::panic::catch_unwind(|| External::from_bits(6)).is_err());
}

/// A deliberate mistake.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Wrong {
    Nothing,
    /// A wait does not look after it has armed.
    NoLook,
    /// Two waits may drain at a time.
    DrainsTogether,
    /// It is open as soon as it is told, before the descriptor is written.
    OpenAtOnce,
    /// It is not written once more for a wait that found nothing meanwhile.
    WritesOnce,
    /// A poll that is over leaves it held.
    StaysHeld,
    /// A wait that found something does not look whether there is more.
    NoHandOn,
}

/// Where a thread stands. A program waits, and sleeps on the descriptor when it has found nothing; a teller publishes and rings.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
enum At {
    Awake,
    Polls,
    Found,
    FoundNothing,
    Drains,
    Looks,
    /// It has rung, for itself or for another, and is to call; then it sleeps, if it is a program that found nothing.
    Calls {
        sleeps: bool,
    },
    Writes {
        sleeps: bool,
    },
    Written {
        sleeps: bool,
    },
    Sleeps,
    /// A teller that has published, and is to ring.
    Rings,
}

const PROGRAMS: usize = 2;
/// The program that is told by edges, as `EPOLLET` does; the other one by level.
const BY_EDGES: usize = 1;
const THREADS: usize = 4;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    state: External,
    readable: bool,
    /// It was written since the program, which is told by edges, began its last wait.
    edge: bool,
    /// The announcement is on the bell.
    bell: bool,
    /// The sleeper counts.
    counts: bool,
    /// Events that no wait has taken.
    events: u8,
    threads: [At; THREADS],
}

const EVENTS_MAX: u8 = 2;

impl World {
    const START: Self = Self {
        state: External::Open,
        readable: true,
        edge: true,
        bell: false,
        counts: false,
        events: 0,
        threads: [At::Awake; THREADS],
    };

    /// Rings the bell; where the thread stands after it.
    fn ring(&mut self, sleeps: bool) -> At {
        let rung = core::mem::take(&mut self.bell) && self.counts;
        match (rung, sleeps) {
            (true, _) => At::Calls { sleeps },
            (false, true) => At::Sleeps,
            (false, false) => At::Awake,
        }
    }

    /// A wait that arms looks once more.
    fn look(&mut self, sleeps: bool, wrong: Wrong) -> At {
        self.bell = true;
        if self.events > 0 && wrong != Wrong::NoLook {
            self.ring(sleeps)
        } else if sleeps {
            At::Sleeps
        } else {
            At::Awake
        }
    }

    fn found_nothing(&mut self, wrong: Wrong) -> At {
        let (mut next, arming) = self.state.found_nothing();
        if wrong == Wrong::DrainsTogether && next == External::Draining {
            // The state that says so is missing.
            next = External::Open;
        }
        self.state = next;
        match arming {
            Arming::Drain => At::Drains,
            Arming::Arm => {
                self.counts = true;
                At::Looks
            }
            Arming::Look => At::Looks,
            Arming::Leave => At::Sleeps,
        }
    }

    fn drains(&mut self, wrong: Wrong) -> At {
        self.readable = false;
        self.state = match self.state {
            External::Draining => self.state.drained(),
            External::Open if wrong == Wrong::DrainsTogether => External::Armed,
            other => other,
        };
        self.counts |= self.state == External::Armed;
        At::Looks
    }

    /// One step of a thread that is in the midst of something.
    fn go_on(&mut self, thread: usize, wrong: Wrong) {
        let ended = |sleeps| if sleeps { At::Sleeps } else { At::Awake };
        self.threads[thread] = match self.threads[thread] {
            At::Polls => {
                if let Some(released) = self.state.released()
                    && wrong != Wrong::StaysHeld
                {
                    (self.state, self.counts) = (released, true);
                }
                if self.events > 0 {
                    self.events -= 1;
                    At::Found
                } else {
                    At::FoundNothing
                }
            }
            At::Found if self.counts && wrong != Wrong::NoHandOn => self.look(false, wrong),
            At::Found => At::Awake,
            At::FoundNothing => self.found_nothing(wrong),
            At::Drains => self.drains(wrong),
            At::Looks => self.look(true, wrong),
            At::Calls { sleeps } => match self.state.called() {
                Some(telling) => {
                    (self.state, self.counts) = (telling, false);
                    if wrong == Wrong::OpenAtOnce {
                        self.state = External::Open;
                    }
                    At::Writes { sleeps }
                }
                None => ended(sleeps),
            },
            At::Writes { sleeps } => {
                (self.readable, self.edge) = (true, true);
                if wrong == Wrong::OpenAtOnce { ended(sleeps) } else { At::Written { sleeps } }
            }
            At::Written { sleeps } => {
                let (state, is_told) = self.state.told();
                if is_told || wrong == Wrong::WritesOnce {
                    self.state = External::Open;
                    ended(sleeps)
                } else {
                    self.state = state;
                    At::Writes { sleeps }
                }
            }
            At::Rings => self.ring(false),
            At::Awake | At::Sleeps => unreachable!("begins by its environment"),
        };
    }

    fn wakes(&self, program: usize) -> bool {
        if program == BY_EDGES { self.edge } else { self.readable }
    }

    fn is_quiet(&self) -> bool {
        self.threads.iter().all(|at| matches!(at, At::Awake | At::Sleeps))
    }
}

impl explore::World for World {
    type Config = Wrong;
    type Rule = &'static str;

    fn steps(&self, &wrong: &Wrong, steps: &mut Vec<Step<Self>>) {
        for thread in 0..THREADS {
            let mut next = self.clone();
            let program = thread < PROGRAMS;
            let (label, by_itself) = match self.threads[thread] {
                At::Awake if program => {
                    if let Some(held) = next.state.held() {
                        (next.state, next.counts) = (held, false);
                    }
                    next.edge &= thread != BY_EDGES;
                    next.threads[thread] = At::Polls;
                    ("a wait begins", true)
                }
                At::Sleeps if self.wakes(thread) => {
                    next.threads[thread] = At::Awake;
                    ("a program wakes up", true)
                }
                At::Sleeps => continue,
                At::Awake if self.events == EVENTS_MAX => continue,
                At::Awake => {
                    next.events += 1;
                    next.threads[thread] = At::Rings;
                    ("an event", false)
                }
                _ => {
                    next.go_on(thread, wrong);
                    ("a thread goes on", true)
                }
            };
            steps.push(Step { label: label.into(), by_itself, outcome: Ok(next) });
        }
    }

    fn check(&self, _: &Wrong) -> Result<(), Self::Rule> {
        let sleeps = self.threads[..PROGRAMS].contains(&At::Sleeps);
        if !self.is_quiet() || !sleeps {
            return Ok(());
        }
        // Programs that are awake look before they sleep.
        let all = self.threads[..PROGRAMS].iter().all(|at| *at == At::Sleeps);
        match self.state {
            External::Open if !self.readable => Err("open and not readable"),
            External::Armed if self.readable => Err("readable, and a wait has found nothing since"),
            External::Armed if !self.bell => Err("armed without an announcement"),
            External::Draining | External::Telling | External::Again => Err("left in the midst"),
            _ if all && self.events > 0 && !self.readable => Err("programs sleep while there are events"),
            _ if self.threads[BY_EDGES] == At::Sleeps && self.events > 0 && !self.edge => Err("an edge is missing"),
            External::Held => Err("held by no wait"),
            External::Open | External::Armed => Ok(()),
        }
    }
}

fn check(wrong: Wrong) {
    let walk = explore::walk("an external sleeper", &wrong, World::START);
    walk.can_reach("all events are taken and all sleep", |world| {
        world.events == 0 && world.threads[..PROGRAMS].iter().all(|at| *at == At::Sleeps)
    });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn no_program_sleeps_while_there_are_events() {
    check(Wrong::Nothing);
}

fn finds(wrong: Wrong) -> bool {
    std::panic::catch_unwind(|| check(wrong)).is_err()
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn mistakes_are_found() {
    for wrong in
        [Wrong::NoLook, Wrong::DrainsTogether, Wrong::OpenAtOnce, Wrong::WritesOnce, Wrong::StaysHeld, Wrong::NoHandOn]
    {
        assert!(finds(wrong), "{wrong:?}");
    }
}
