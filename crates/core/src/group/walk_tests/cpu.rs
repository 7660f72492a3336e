//! The thread of a CPU: turns, parks, leaving.

use alloc::vec::Vec;

use napier_testkit::explore;

use super::handler::Handler;
use super::model::{Config, Rule, Step, World, Wrong};
use crate::group::{ArmStep, Arming, CpuWord, Doing, GroupCpu, Phase};
use crate::state::{GroupTurn, State};

/// Where the thread is.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Thread {
    Loop,
    Begin(usize),
    Poll(usize),
    Give {
        member: usize,
        one: bool,
    },
    /// A disable waits: the seat, then the word.
    GiveUp(usize),
    GiveUpRelease(usize),
    /// Parking: the next member to look at.
    Scan(usize),
    Arm {
        member: usize,
        arming: Arming,
    },
    /// [`Wrong::ReleaseBeforeArm`].
    ArmLate(usize),
    /// Something came while it parked.
    Event {
        member: usize,
        handler: Handler,
    },
    Asleep,
    /// It has no member, and is to leave.
    Leave,
    /// It has left, and looks again.
    Left,
    Gone,
}

impl World {
    pub(super) fn cpu_steps(&self, config: &Config, at: usize, steps: &mut Vec<Step>) {
        let cpu = GroupCpu(at as u16);
        if self.threads[at] != Thread::Loop {
            let label = alloc::format!("cpu{at} {:?}", self.threads[at]);
            explore::World::step(self, steps, label, |world| world.thread(config, at));
            return;
        }
        for member in 0..config.members {
            explore::World::step(self, steps, alloc::format!("cpu{at} takes {member}"), |world| {
                let seat = world.members[member].seat;
                let beside = config.wrong == Wrong::TwoPollers && seat.phase() == Phase::Turn && seat.cpu() == cpu;
                match seat.take(cpu) {
                    Ok(next) => world.members[member].seat = next,
                    Err(_) if beside => {}
                    Err(_) => return Ok(false),
                }
                world.threads[at] = Thread::Begin(member);
                Ok(true)
            });
        }
        let mut parking = self.clone();
        if let Some(word) = self.words[at].announce().filter(|_| config.parks) {
            parking.words[at] = word;
            parking.threads[at] = Thread::Scan(0);
            let label = alloc::format!("cpu{at} parks").into();
            steps.push(Step { label, by_itself: false, outcome: Ok(parking) });
        }
        explore::World::step(self, steps, alloc::format!("cpu{at} leaves"), |world| {
            world.threads[at] = Thread::Leave;
            Ok(world.words[at].is_going() && !world.has_members(cpu))
        });
    }

    pub(super) fn has_members(&self, cpu: GroupCpu) -> bool {
        self.members.iter().any(|member| member.seat.phase() != Phase::Free && member.seat.cpu() == cpu)
    }

    fn thread(&mut self, config: &Config, at: usize) -> Result<bool, Rule> {
        let cpu = GroupCpu(at as u16);
        self.threads[at] = match self.threads[at] {
            Thread::Loop | Thread::Gone => return Ok(false),
            Thread::Begin(member) => {
                let of = &mut self.members[member];
                if config.wrong == Wrong::DisableUnseen && of.word.contains(State::DISABLE) {
                    self.threads[at] = Thread::Poll(member);
                    return Ok(true);
                }
                let (next, turn) = of.word.group_turn();
                of.word = next;
                match turn {
                    GroupTurn::Poll => Thread::Poll(member),
                    GroupTurn::GiveUp => Thread::GiveUp(member),
                }
            }
            Thread::Poll(member) => Thread::Give { member, one: self.members[member].take()? },
            Thread::Give { member, one } => {
                let of = &mut self.members[member];
                of.deliver(one)?;
                of.seat = of.seat.give();
                Thread::Loop
            }
            Thread::GiveUp(member) => {
                self.members[member].seat = self.members[member].seat.arm();
                Thread::GiveUpRelease(member)
            }
            Thread::GiveUpRelease(member) => {
                let (next, missed) = self.members[member].word.group_release();
                assert!(!missed, "a disable takes all");
                self.members[member].word = next;
                Thread::Loop
            }
            Thread::Scan(member) if member == config.members => self.fall_asleep(config, at),
            Thread::Scan(member) => {
                let seat = self.members[member].seat;
                if !seat.keeps_awake(cpu) {
                    Thread::Scan(member + 1)
                } else if let Ok(next) = seat.take(cpu) {
                    self.members[member].seat = next;
                    Thread::Arm { member, arming: Arming::new() }
                } else {
                    self.stop_parking(at)
                }
            }
            Thread::Arm { member, arming } => self.arm(config, at, member, arming),
            Thread::ArmLate(member) => {
                self.members[member].seat = self.members[member].seat.arm();
                let mut arming = Arming::new();
                arming.on_looked(false);
                arming.on_done();
                arming.on_released(false);
                Thread::Arm { member, arming }
            }
            Thread::Event { member, handler } => match self.handle(config, member, handler)? {
                Handler::Idle => self.stop_parking(at),
                handler => Thread::Event { member, handler },
            },
            Thread::Asleep => {
                if !core::mem::take(&mut self.roused[at]) {
                    return Ok(false);
                }
                Thread::Loop
            }
            Thread::Leave | Thread::Left => self.leave(config, at),
        };
        Ok(true)
    }

    /// Out, and one more look.
    fn leave(&mut self, config: &Config, at: usize) -> Thread {
        if self.threads[at] == Thread::Leave {
            self.words[at] = self.words[at].leave().expect("it was told to");
            return if config.wrong == Wrong::LeaveWithoutLook { Thread::Gone } else { Thread::Left };
        }
        if self.has_members(GroupCpu(at as u16)) {
            self.words[at] = self.words[at].stay();
            return Thread::Loop;
        }
        Thread::Gone
    }

    fn fall_asleep(&mut self, config: &Config, at: usize) -> Thread {
        if config.wrong == Wrong::SleepAnyway && self.words[at].doing() == Doing::Active {
            let (joined, going) = (CpuWord::OFF.join().expect("it is off"), self.words[at].is_going());
            assert!(!going, "the mistake is shown without CPUs that leave");
            self.words[at] = joined.announce().and_then(CpuWord::sleep).expect("nobody disturbs");
            return Thread::Asleep;
        }
        match self.words[at].sleep() {
            Some(word) => {
                self.words[at] = word;
                Thread::Asleep
            }
            None => Thread::Loop,
        }
    }

    fn stop_parking(&mut self, at: usize) -> Thread {
        self.words[at] = self.words[at].cancel();
        Thread::Loop
    }

    fn arm(&mut self, config: &Config, at: usize, member: usize, mut arming: Arming) -> Thread {
        let of = &mut self.members[member];
        match arming.next() {
            ArmStep::Look => arming.on_looked(of.has_packets()),
            ArmStep::Arm if config.wrong == Wrong::ReleaseBeforeArm => {
                let (next, missed) = of.word.group_release();
                of.word = next;
                if missed {
                    of.seat = of.seat.give();
                    return self.stop_parking(at);
                }
                return Thread::ArmLate(member);
            }
            ArmStep::Arm => {
                of.seat = of.seat.arm();
                arming.on_done();
            }
            ArmStep::Release => {
                let disabled = of.word.contains(State::DISABLE);
                let (next, missed) = of.word.group_release();
                of.word = next;
                if disabled {
                    // The interrupt stays masked; enabling will look at the ring.
                    return Thread::Scan(member + 1);
                }
                arming.on_released(missed);
            }
            ArmStep::Unmask => {
                of.masked = false;
                if config.wrong == Wrong::NoSecondLook {
                    return Thread::Scan(member + 1);
                }
                arming.on_done();
            }
            ArmStep::Event => return Thread::Event { member, handler: Handler::Prep },
            ArmStep::Ready => {
                let (next, home) = of.seat.ready();
                of.seat = next;
                return Thread::Event { member, handler: Handler::Wake(home) };
            }
            ArmStep::Give => {
                of.seat = of.seat.give();
                return self.stop_parking(at);
            }
            ArmStep::Armed => return Thread::Scan(member + 1),
        }
        Thread::Arm { member, arming }
    }
}
