//! What there is, and everything but the CPUs of the group and the controller: packets, interrupts, softirqs, moves.

use alloc::string::String;
use alloc::vec::Vec;

use napier_testkit::explore;

use super::cpu::Thread;
use super::handler::Handler;
use crate::completion::{Completion, Tunables, complete};
use crate::group::{CpuWord, GroupCpu, Phase, Seat, Woken};
use crate::state::State;

pub(super) const CPUS: usize = 2;
const MEMBERS_MAX: usize = 2;

/// What exists, and what may happen.
#[derive(Copy, Clone, Debug)]
pub(super) struct Config {
    /// CPUs of the group, at most two.
    pub(super) cpus: usize,
    /// Members, at most two.
    pub(super) members: usize,
    /// Packets of each that wait or are being delivered at the same time; any number in all.
    pub(super) packets: u8,
    /// The controller attaches and detaches; at the start nothing is attached. Else all is.
    pub(super) attach: bool,
    /// It takes devices down and up.
    pub(super) updown: bool,
    /// It takes CPUs away and gives them back.
    pub(super) come_and_go: bool,
    /// Members are moved.
    pub(super) moves: bool,
    /// CPUs park.
    pub(super) parks: bool,
    /// Who takes an interrupt polls once before it wakes the group's thread.
    pub(super) first_turn: bool,
    pub(super) wrong: Wrong,
}

/// A deliberate mistake.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    Nothing,
    /// A poller parks when it has unmasked, and does not look again.
    NoSecondLook,
    /// A poller looks whose member it is, and not whether somebody is in a turn.
    TwoPollers,
    /// A detach releases and unmasks, and nobody looks at the ring again.
    DetachWithoutLook,
    /// A move does not wake the CPU that it goes to.
    MoveWithoutWake,
    /// Who takes an armed member for an event does not wake its CPU.
    EventWithoutWake,
    /// A CPU that announced itself sleeps although it was woken meanwhile.
    SleepAnyway,
    /// Parking releases the instance first, and arms the seat second.
    ReleaseBeforeArm,
    /// A poller polls on while a disable waits.
    DisableUnseen,
    /// A CPU that leaves does not look at its members again.
    LeaveWithoutLook,
    /// An attach takes the instance from its owner.
    AttachAtOnce,
}

/// The softirq of a member that is in no group.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Soft {
    Idle,
    Listed,
    Complete { work: u32 },
}

/// What the softirq does after it has released: it does not begin anew before that is done.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum After {
    Nothing,
    Unmask,
    Look,
    Event(Handler),
}

#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Member {
    pub(super) word: State,
    pub(super) seat: Seat,
    pub(super) masked: bool,
    /// The device has raised its interrupt.
    pub(super) raised: bool,
    pub(super) handler: Handler,
    pub(super) soft: Soft,
    pub(super) after: After,
    /// Packets so far: arrived, taken from the ring, delivered.
    pub(super) arrived: u8,
    pub(super) taken: u8,
    pub(super) delivered: u8,
    /// Contexts between taking a packet, or finding none, and being done with it.
    pub(super) inside: u8,
}

/// A move under way.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Mover {
    Idle,
    Wake { member: usize, to: GroupCpu },
    Again { member: usize },
}

/// What the controller is doing. The members and CPUs are positions.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Ctl {
    Idle,
    AttachBegin(usize),
    AttachClaim(usize),
    AttachSeat(usize),
    AttachWake(GroupCpu),
    AttachDown(usize),
    DetachTake(usize),
    DetachTook(usize),
    DetachLeave(usize),
    DetachSchedule(usize),
    DetachUnmask(usize),
    DownClaim(usize),
    DownEnd(usize),
    UpUnmask(usize),
    UpLook(usize),
    Rouse(usize),
}

/// All that is there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct World {
    pub(super) members: [Member; MEMBERS_MAX],
    pub(super) words: [CpuWord; CPUS],
    pub(super) threads: [Thread; CPUS],
    /// A real wake-up is on its way to the thread.
    pub(super) roused: [bool; CPUS],
    pub(super) mover: Mover,
    pub(super) ctl: Ctl,
}

pub(super) type Rule = &'static str;
pub(super) type Step = explore::Step<World>;

impl World {
    pub(super) fn new(config: &Config) -> Self {
        let idle = Member {
            word: State::LISTED,
            seat: Seat::FREE,
            masked: false,
            raised: false,
            handler: Handler::Idle,
            soft: Soft::Idle,
            after: After::Nothing,
            arrived: 0,
            taken: 0,
            delivered: 0,
            inside: 0,
        };
        let active = CpuWord::OFF.join().expect("it is off");
        let mut world = Self {
            members: [idle; MEMBERS_MAX],
            words: core::array::from_fn(|at| if at < config.cpus { active } else { CpuWord::OFF }),
            threads: core::array::from_fn(|at| if at < config.cpus { Thread::Loop } else { Thread::Gone }),
            roused: [false; CPUS],
            mover: Mover::Idle,
            ctl: Ctl::Idle,
        };
        for (at, member) in world.members.iter_mut().enumerate().take(config.members) {
            if !config.attach {
                let (begun, _) = member.word.group_attach_begin();
                member.word = begun.group_attach_claim().expect("nobody owns it");
                member.seat =
                    member.seat.reserve(GroupCpu((at % config.cpus) as u16)).expect("it is free").attached().0;
                member.masked = true;
            }
        }
        world
    }

    pub(super) fn is_drained(&self) -> bool {
        self.members.iter().all(|member| member.is_down() || member.delivered == member.arrived)
    }

    /// Wakes a CPU, as every waker does.
    pub(super) fn wake(&mut self, cpu: GroupCpu) -> Woken {
        let at = usize::from(cpu.0);
        let (next, woken) = self.words[at].wake();
        self.words[at] = next;
        if woken == Woken::Rouse {
            self.roused[at] = true;
        }
        woken
    }

    fn device_steps(&self, config: &Config, at: usize, steps: &mut Vec<Step>) {
        let name = |what: &str| -> String { alloc::format!("{what} {at}") };
        if self.members[at].arrived < config.packets && !self.members[at].is_down() {
            let mut world = self.clone();
            let member = &mut world.members[at];
            member.arrived += 1;
            member.raised |= !member.masked;
            steps.push(Step { label: name("packet").into(), by_itself: false, outcome: Ok(world) });
        }
        self.irq_step(config, at, steps);
        explore::World::step(self, steps, name("softirq"), |world| world.soft(config, at));
    }

    fn irq_step(&self, config: &Config, at: usize, steps: &mut Vec<Step>) {
        explore::World::step(self, steps, alloc::format!("interrupt {at}"), |world| {
            let member = &mut world.members[at];
            let handler = match member.handler {
                Handler::Idle if !core::mem::take(&mut member.raised) => return Ok(false),
                Handler::Idle => Handler::Prep,
                other => other,
            };
            world.members[at].handler = world.handle(config, at, handler)?;
            Ok(true)
        });
    }

    fn soft(&mut self, config: &Config, at: usize) -> Result<bool, Rule> {
        let member = &mut self.members[at];
        if member.after != After::Nothing {
            return self.after(config, at);
        }
        member.soft = match member.soft {
            Soft::Idle => return Ok(false),
            Soft::Listed => Soft::Complete { work: u32::from(member.take()?) },
            Soft::Complete { work } => {
                member.deliver(work > 0)?;
                let Completion::Release(_) = complete(member.word, work, false, &Tunables::default(), &mut 0) else {
                    return Err("taken by a group while somebody else owns it");
                };
                let (next, missed) = member.word.complete_release();
                member.word = next;
                if missed {
                    Soft::Listed
                } else {
                    member.after = After::Unmask;
                    Soft::Idle
                }
            }
        };
        Ok(true)
    }

    fn after(&mut self, config: &Config, at: usize) -> Result<bool, Rule> {
        let member = &mut self.members[at];
        let next = match member.after {
            After::Nothing => return Ok(false),
            After::Unmask => {
                member.masked = false;
                After::Look
            }
            After::Look if member.has_packets() => After::Event(Handler::Prep),
            After::Look => After::Nothing,
            After::Event(handler) => match self.handle(config, at, handler)? {
                Handler::Idle => After::Nothing,
                next => After::Event(next),
            },
        };
        self.members[at].after = next;
        Ok(true)
    }
}

impl Member {
    pub(super) fn is_down(&self) -> bool {
        self.word.contains(State::NPSVC)
    }

    pub(super) fn has_packets(&self) -> bool {
        self.taken < self.arrived
    }

    /// Goes into the driver's poll and takes a packet, if there is one.
    pub(super) fn take(&mut self) -> Result<bool, Rule> {
        self.inside += 1;
        if self.inside > 1 {
            return Err("two pollers of a member");
        }
        let found = self.has_packets();
        self.taken += u8::from(found);
        Ok(found)
    }

    /// Delivers what was taken, and leaves the poll.
    pub(super) fn deliver(&mut self, one: bool) -> Result<(), Rule> {
        self.inside -= 1;
        self.delivered += u8::from(one);
        if self.delivered != self.taken {
            return Err("a packet out of order, or lost");
        }
        if self.delivered == self.arrived {
            // Counting begins anew, so that there is no end to the packets, and one to the worlds.
            (self.arrived, self.taken, self.delivered) = (0, 0, 0);
        }
        Ok(())
    }
}

impl explore::World for World {
    type Config = Config;
    type Rule = Rule;

    fn steps(&self, config: &Config, steps: &mut Vec<Step>) {
        for at in 0..config.members {
            self.device_steps(config, at, steps);
        }
        for cpu in 0..CPUS {
            self.cpu_steps(config, cpu, steps);
        }
        self.mover_steps(config, steps);
        self.control_steps(config, steps);
    }

    fn check(&self, _: &Config) -> Result<(), Rule> {
        for member in &self.members {
            member.word.is_legal()?;
            let polled = matches!(member.seat.phase(), Phase::Ready | Phase::Turn);
            if polled && !member.word.contains(State::SCHED) {
                return Err("a member has a poller, and its instance has no owner");
            }
            if member.is_down() && polled && !member.seat.is_held() {
                return Err("a member is polled while its device is down");
            }
        }
        Ok(())
    }
}
