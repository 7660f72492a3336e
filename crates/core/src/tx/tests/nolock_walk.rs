//! Every interleaving of small worlds without root lock: senders, the transmit softirq, and a device that stops and
//! wakes.
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use napier_testkit::explore::{self, Step};

use super::Outcome;
use crate::tx::nolock::*;
use crate::tx::state::QdiscState;

/// Sender and number.
type Packet = (u8, u8);

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Wrong {
    Nothing,
    /// A sender that has set `MISSED` does not try the lock again.
    NoSecondTry,
    /// The runner does not look at `MISSED` when it ends.
    BlindEnd,
    /// A runner that has cleared the bits does not look at the queue again.
    NoSecondLook,
    /// A runner that finds the transmit queue stopped leaves no mark.
    Unmarked,
    /// A sender that has become runner does not look at the bits again.
    NoRecheck,
}

struct Config {
    packets: &'static [u8],
    room: u8,
    quota: u8,
    wrong: Wrong,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Run {
    /// Look for a packet.
    Fetch(NolockDequeue),
    /// Nothing was there: clear the bits for another look.
    Clear(NolockDequeue),
    Send {
        packet: Packet,
        bypass: bool,
    },
    /// The transmit queue is stopped, in front of this packet or of all.
    Stopped {
        stopped: Stopped,
        packet: Option<Packet>,
    },
    PutBack(Packet),
    /// Packets are left: set `MISSED`.
    Miss,
    Unlock,
    /// The lock is released.
    Look,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Actor {
    Idle,
    /// A sender with its packet in hand.
    Passing(NolockBegin, Packet),
    Rechecking(Packet),
    /// The packet is queued, or there was none: the softirq.
    Beginning(NolockBegin),
    Running {
        run: Run,
        quota: u8,
    },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    /// The last one is the softirq.
    actors: Vec<Actor>,
    queue: VecDeque<Packet>,
    requeue: VecDeque<Packet>,
    seqlock: bool,
    state: QdiscState,
    /// The softirq has been given the discipline.
    scheduled: bool,
    stopped: bool,
    in_ring: u8,
    /// Per sender: begun, and sent.
    begun: Vec<u8>,
    sent: Vec<u8>,
    packets: &'static [u8],
}

impl World {
    fn new(config: &Config) -> Self {
        let senders = config.packets.len();
        Self {
            actors: vec![Actor::Idle; senders + 1],
            queue: VecDeque::new(),
            requeue: VecDeque::new(),
            seqlock: false,
            state: QdiscState::EMPTY,
            scheduled: false,
            stopped: false,
            in_ring: 0,
            begun: vec![0; senders],
            sent: vec![0; senders],
            packets: config.packets,
        }
    }

    fn act(&mut self, config: &Config, at: usize) -> Outcome<bool> {
        let fetch = || Run::Fetch(NolockDequeue::new());
        self.actors[at] = match self.actors[at].clone() {
            Actor::Idle if at == self.begun.len() => {
                if !self.scheduled {
                    return Ok(false);
                }
                self.scheduled = false;
                self.state = self.state.unschedule();
                Actor::Beginning(NolockBegin::new())
            }
            Actor::Idle => {
                if self.begun[at] == self.packets[at] {
                    return Ok(false);
                }
                let packet = (at as u8, self.begun[at]);
                self.begun[at] += 1;
                match plan(true, self.state) {
                    NolockPlan::TryBypass => Actor::Passing(NolockBegin::new(), packet),
                    NolockPlan::Enqueue => {
                        self.queue.push_back(packet);
                        Actor::Beginning(NolockBegin::new())
                    }
                }
            }
            Actor::Passing(begin, packet) => match self.begin(config, begin) {
                Begun::On(begin) => Actor::Passing(begin, packet),
                Begun::Runner => Actor::Rechecking(packet),
                Begun::Not => {
                    self.queue.push_back(packet);
                    Actor::Beginning(NolockBegin::new())
                }
            },
            Actor::Rechecking(packet) => {
                let run = match recheck(self.state) {
                    Recheck::Enqueue if config.wrong != Wrong::NoRecheck => {
                        self.queue.push_back(packet);
                        fetch()
                    }
                    Recheck::Transmit | Recheck::Enqueue => Run::Send { packet, bypass: true },
                };
                Actor::Running { run, quota: config.quota }
            }
            Actor::Beginning(begin) => match self.begin(config, begin) {
                Begun::On(begin) => Actor::Beginning(begin),
                Begun::Runner => Actor::Running { run: fetch(), quota: config.quota },
                Begun::Not => Actor::Idle,
            },
            Actor::Running { run, mut quota } => match self.run(config, run, &mut quota)? {
                Some(run) => Actor::Running { run, quota },
                None => Actor::Idle,
            },
        };
        Ok(true)
    }

    fn begin(&mut self, config: &Config, mut begin: NolockBegin) -> Begun {
        match begin.next() {
            BeginStep::TryLock => {
                begin.on_tried(!self.seqlock);
                self.seqlock = true;
            }
            BeginStep::Miss => {
                let (state, was) = self.state.miss();
                self.state = state;
                begin.on_missed(was);
                if config.wrong == Wrong::NoSecondTry {
                    return Begun::Not;
                }
            }
            BeginStep::Run | BeginStep::GiveUp => {}
        }
        match begin.next() {
            BeginStep::TryLock | BeginStep::Miss => Begun::On(begin),
            BeginStep::Run => Begun::Runner,
            BeginStep::GiveUp => Begun::Not,
        }
    }

    fn run(&mut self, config: &Config, run: Run, quota: &mut u8) -> Outcome<Option<Run>> {
        let fetch = || Run::Fetch(NolockDequeue::new());
        Ok(Some(match run {
            Run::Fetch(_) if self.stopped => Run::Stopped { stopped: Stopped::new(), packet: None },
            Run::Fetch(mut dequeue) => match self.requeue.pop_front().or_else(|| self.queue.pop_front()) {
                Some(packet) => Run::Send { packet, bypass: false },
                None if dequeue.on_empty(self.state) => Run::Clear(dequeue),
                None => Run::Unlock,
            },
            Run::Clear(dequeue) => {
                self.state = self.state.clear_holding();
                if config.wrong == Wrong::NoSecondLook { Run::Unlock } else { Run::Fetch(dequeue) }
            }
            Run::Send { packet, .. } if self.stopped => Run::Stopped { stopped: Stopped::new(), packet: Some(packet) },
            Run::Send { packet, bypass } => {
                self.send(config, packet)?;
                if !bypass {
                    *quota -= 1;
                }
                match (bypass, *quota) {
                    (true, _) if !self.state.may_hold() => Run::Unlock,
                    (false, 0) => Run::Miss,
                    _ => fetch(),
                }
            }
            Run::Stopped { packet, .. } if config.wrong == Wrong::Unmarked => packet.map_or(Run::Unlock, Run::PutBack),
            Run::Stopped { mut stopped, packet } => {
                self.state = match stopped.next() {
                    StoppedStep::ClearAndLook => {
                        // The swap and the look are two steps.
                        if self.state.intersects(QdiscState::MISSED) {
                            self.state = self.state.clear_missed();
                            return Ok(Some(Run::Stopped { stopped, packet }));
                        }
                        stopped.on_looked(self.stopped);
                        return Ok(Some(Run::Stopped { stopped, packet }));
                    }
                    StoppedStep::Drain => self.state.drain(),
                    StoppedStep::Miss => self.state.miss().0,
                };
                packet.map_or(Run::Unlock, Run::PutBack)
            }
            Run::PutBack(packet) => {
                self.requeue.push_front(packet);
                Run::Miss
            }
            Run::Miss => {
                self.state = self.state.miss().0;
                Run::Unlock
            }
            Run::Unlock => {
                self.seqlock = false;
                Run::Look
            }
            Run::Look => {
                if end_schedules(self.state) && config.wrong != Wrong::BlindEnd {
                    self.schedule();
                }
                return Ok(None);
            }
        }))
    }

    fn schedule(&mut self) {
        let (state, appended) = self.state.schedule(true);
        self.state = state;
        self.scheduled |= appended;
    }

    fn send(&mut self, config: &Config, (sender, number): Packet) -> Outcome<()> {
        let sent = &mut self.sent[usize::from(sender)];
        if *sent != number {
            return Err("out of order, or sent twice");
        }
        *sent += 1;
        self.in_ring += 1;
        self.stopped = self.in_ring == config.room;
        Ok(())
    }

    fn complete(&mut self) -> bool {
        if self.in_ring == 0 {
            return false;
        }
        self.in_ring = 0;
        if core::mem::replace(&mut self.stopped, false) {
            self.schedule();
        }
        true
    }
}

enum Begun {
    On(NolockBegin),
    Runner,
    Not,
}

impl explore::World for World {
    type Config = Config;
    type Rule = &'static str;

    fn steps(&self, config: &Config, steps: &mut Vec<Step<Self>>) {
        for at in 0..self.actors.len() {
            self.step(steps, format!("actor {at}"), |world| world.act(config, at));
        }
        self.step(steps, "device", |world| Ok(world.complete()));
    }

    fn check(&self, _: &Config) -> Outcome<()> {
        let runners = self.actors.iter().filter(|actor| match actor {
            Actor::Rechecking(_) => true,
            Actor::Running { run, .. } => *run != Run::Look,
            Actor::Idle | Actor::Passing(..) | Actor::Beginning(_) => false,
        });
        if runners.count() == usize::from(self.seqlock) { Ok(()) } else { Err("not exactly one runner") }
    }

    fn check_end(&self) -> Outcome<()> {
        if self.sent == self.packets { Ok(()) } else { Err("a packet is stranded") }
    }
}

const BASE: Config = Config { packets: &[2, 2], room: 1, quota: 64, wrong: Wrong::Nothing };

fn walk(name: &str, config: &Config) {
    explore::walk(name, config, World::new(config));
}

/// Scenario 84, and all others of its size.
#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
fn no_packet_is_stranded() {
    for (room, quota) in [(1, 64), (2, 1), (9, 64)] {
        walk("two senders", &Config { room, quota, packets: &[2, 1], ..BASE });
    }
    walk("two senders", &Config { room: 9, quota: 1, ..BASE });
    walk("three senders", &Config { room: 9, packets: &[1, 1, 1], ..BASE });
}

#[test]
#[ignore = "deep: half a minute"]
fn deep() {
    walk("two senders", &BASE);
    walk("three senders", &Config { packets: &[1, 1, 1], ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
#[should_panic(expected = "a packet is stranded")]
fn without_a_second_try() {
    walk("wrong", &Config { wrong: Wrong::NoSecondTry, ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
#[should_panic(expected = "a packet is stranded")]
fn without_a_look_at_the_end() {
    walk("wrong", &Config { wrong: Wrong::BlindEnd, ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
#[should_panic(expected = "a packet is stranded")]
fn without_a_second_look_at_the_queue() {
    walk("wrong", &Config { wrong: Wrong::NoSecondLook, room: 9, packets: &[1, 1, 1], ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
#[should_panic(expected = "out of order")]
fn without_a_mark_at_a_stopped_queue() {
    walk("wrong", &Config { wrong: Wrong::Unmarked, packets: &[3, 2], ..BASE });
}

#[test]
#[cfg_attr(miri, ignore = "too many worlds")]
#[should_panic(expected = "out of order")]
fn without_a_recheck() {
    walk("wrong", &Config { wrong: Wrong::NoRecheck, packets: &[3, 2], ..BASE });
}
