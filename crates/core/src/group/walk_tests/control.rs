//! The controller: attach, detach, down, up, CPUs that leave and come back. One at a time, as under a lock.

use alloc::vec::Vec;

use napier_testkit::explore;

use super::cpu::Thread;
use super::model::{CPUS, Config, Ctl, Rule, Soft, Step, World, Wrong};
use crate::group::{CpuWord, GroupCpu, Phase, Woken};
use crate::state::{State, Threaded};

impl World {
    pub(super) fn control_steps(&self, config: &Config, steps: &mut Vec<Step>) {
        if self.ctl != Ctl::Idle {
            let label = alloc::format!("controller {:?}", self.ctl);
            explore::World::step(self, steps, label, |world| world.control(config));
            return;
        }
        let mut begin = |label: &'static str, begin: &dyn Fn(&mut Self) -> Option<Ctl>| {
            let mut world = self.clone();
            if let Some(ctl) = begin(&mut world) {
                world.ctl = ctl;
                steps.push(Step { label: label.into(), by_itself: false, outcome: Ok(world) });
            }
        };
        for at in 0..config.members {
            if config.attach {
                for cpu in 0..CPUS {
                    begin("attach", &|world| world.reserve(at, cpu));
                }
                begin("detach", &|world| {
                    world.members[at].seat = world.members[at].seat.hold()?;
                    Some(Ctl::DetachTake(at))
                });
            }
            if config.updown {
                begin("down", &|world| {
                    let member = &mut world.members[at];
                    member.word = (!member.is_down()).then(|| member.word.disable_begin())?;
                    Some(Ctl::DownClaim(at))
                });
                begin("up", &|world| {
                    let member = &mut world.members[at];
                    member.word = member.word.enable(Threaded::Disabled).ok()?;
                    Some(Ctl::UpUnmask(at))
                });
            }
        }
        for cpu in 0..if config.come_and_go { CPUS } else { 0 } {
            begin("cpu goes", &|world| {
                let stays = |at: usize| world.words[at] != CpuWord::OFF && !world.words[at].is_going();
                if !stays(cpu) || !stays(1 - cpu) {
                    return None;
                }
                let (next, woken) = world.words[cpu].go();
                world.words[cpu] = next;
                Some(if woken == Woken::Rouse { Ctl::Rouse(cpu) } else { Ctl::Idle })
            });
            begin("cpu comes", &|world| {
                // A thread that is about to look once more is joined first.
                if world.threads[cpu] != Thread::Gone {
                    return None;
                }
                world.words[cpu] = world.words[cpu].join()?;
                world.threads[cpu] = Thread::Loop;
                Some(Ctl::Idle)
            });
        }
    }

    fn reserve(&mut self, at: usize, cpu: usize) -> Option<Ctl> {
        if self.words[cpu] == CpuWord::OFF || self.words[cpu].is_going() {
            return None;
        }
        self.members[at].seat = self.members[at].seat.reserve(GroupCpu(cpu as u16))?;
        Some(Ctl::AttachBegin(at))
    }

    fn control(&mut self, config: &Config) -> Result<bool, Rule> {
        self.ctl = match self.ctl {
            Ctl::Idle => return Ok(false),
            Ctl::AttachBegin(at) => {
                let (next, at_once) = self.members[at].word.group_attach_begin();
                self.members[at].word = next;
                if config.wrong == Wrong::AttachAtOnce && !at_once {
                    let claimed = next.with(State::SCHED).with(State::GROUP).without(State::DISABLE);
                    self.members[at].word = claimed;
                    Ctl::AttachSeat(at)
                } else if at_once {
                    Ctl::AttachDown(at)
                } else {
                    Ctl::AttachClaim(at)
                }
            }
            Ctl::AttachClaim(at) => {
                let Some(next) = self.members[at].word.group_attach_claim() else { return Ok(false) };
                self.members[at].word = next;
                Ctl::AttachSeat(at)
            }
            Ctl::AttachSeat(at) => {
                self.members[at].masked = true;
                let (next, cpu) = self.members[at].seat.attached();
                self.members[at].seat = next;
                Ctl::AttachWake(cpu)
            }
            Ctl::AttachWake(cpu) => {
                let _ = self.wake(cpu);
                Ctl::Idle
            }
            Ctl::AttachDown(at) => {
                let (next, nobody) = self.members[at].seat.unhold();
                assert_eq!(nobody, None, "a disabled member has no poller");
                self.members[at].seat = next;
                Ctl::Idle
            }
            Ctl::DetachTake(_)
            | Ctl::DetachTook(_)
            | Ctl::DetachLeave(_)
            | Ctl::DetachSchedule(_)
            | Ctl::DetachUnmask(_) => return self.detach(config),
            Ctl::DownClaim(at) => {
                let Some(next) = self.members[at].word.disable_claim() else { return Ok(false) };
                self.members[at].word = next;
                Ctl::DownEnd(at)
            }
            Ctl::DownEnd(at) => {
                self.members[at].masked = true;
                self.members[at].word = self.members[at].word.disable_end();
                Ctl::Idle
            }
            Ctl::UpUnmask(at) => {
                self.members[at].masked = false;
                Ctl::UpLook(at)
            }
            Ctl::UpLook(at) => {
                self.members[at].raised |= self.members[at].has_packets();
                Ctl::Idle
            }
            Ctl::Rouse(cpu) => {
                self.roused[cpu] = true;
                Ctl::Idle
            }
        };
        Ok(true)
    }

    fn detach(&mut self, config: &Config) -> Result<bool, Rule> {
        self.ctl = match self.ctl {
            Ctl::DetachTake(at) => {
                let member = &mut self.members[at];
                if let Some(next) = member.seat.take_held() {
                    member.seat = next;
                    Ctl::DetachLeave(at)
                } else if member.seat.phase() != Phase::Armed {
                    return Ok(false);
                } else if member.is_down() {
                    member.seat = member.seat.take_armed();
                    Ctl::DetachLeave(at)
                } else {
                    let (next, took) = member.word.schedule_prep();
                    if !took {
                        return Ok(false);
                    }
                    member.word = next;
                    Ctl::DetachTook(at)
                }
            }
            Ctl::DetachTook(at) => {
                self.members[at].masked = true;
                self.members[at].seat = self.members[at].seat.take_armed();
                Ctl::DetachLeave(at)
            }
            Ctl::DetachLeave(at) => {
                let member = &mut self.members[at];
                let (next, schedule) = member.word.group_leave();
                member.word = next;
                member.seat = member.seat.free();
                match (schedule, config.wrong == Wrong::DetachWithoutLook) {
                    (false, _) => Ctl::Idle,
                    (true, false) => Ctl::DetachSchedule(at),
                    (true, true) => {
                        member.word = member.word.complete_release().0.without(State::SCHED);
                        Ctl::DetachUnmask(at)
                    }
                }
            }
            Ctl::DetachSchedule(at) => {
                if self.members[at].soft != Soft::Idle {
                    return Ok(false);
                }
                self.members[at].soft = Soft::Listed;
                Ctl::Idle
            }
            Ctl::DetachUnmask(at) => {
                self.members[at].masked = false;
                Ctl::Idle
            }
            _ => unreachable!("not a detach"),
        };
        Ok(true)
    }
}
