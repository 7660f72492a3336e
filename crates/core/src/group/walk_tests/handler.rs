//! Interrupts of members, and whoever else does what an interrupt does.

use super::model::{Config, Rule, Soft, World, Wrong};
use crate::group::GroupCpu;
use crate::state::GroupTurn;

/// An interrupt handler of a member, or whoever else does what an interrupt does.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Handler {
    Idle,
    Prep,
    /// It masks, and gives the instance to whom it belongs.
    Hand,
    /// It is the softirq thread of the CPU that has the member, and polls once before it wakes the group's.
    First(GroupCpu),
    FirstTurn(GroupCpu),
    FirstPoll,
    FirstGive {
        one: bool,
    },
    FirstRelease(GroupCpu),
    Wake(GroupCpu),
}

impl World {
    /// A step of whoever does what an interrupt does. False: it has to wait, or is done.
    pub(super) fn handle(&mut self, config: &Config, at: usize, handler: Handler) -> Result<Handler, Rule> {
        let member = &mut self.members[at];
        Ok(match handler {
            Handler::Idle => Handler::Idle,
            Handler::Prep => {
                let (next, took) = member.word.schedule_prep();
                member.word = next;
                if took { Handler::Hand } else { Handler::Idle }
            }
            Handler::Hand if member.word.to_group() => {
                member.masked = true;
                let (next, cpu) = member.seat.ready();
                member.seat = next;
                match config.wrong {
                    Wrong::EventWithoutWake => Handler::Idle,
                    _ if config.first_turn => Handler::First(cpu),
                    _ => Handler::Wake(cpu),
                }
            }
            Handler::First(cpu) => match member.seat.take(cpu) {
                Ok(next) => {
                    member.seat = next;
                    Handler::FirstTurn(cpu)
                }
                Err(_) => Handler::Wake(cpu),
            },
            Handler::FirstTurn(cpu) => {
                let (next, turn) = member.word.group_turn();
                member.word = next;
                match turn {
                    GroupTurn::Poll => Handler::FirstPoll,
                    GroupTurn::GiveUp => {
                        member.seat = member.seat.arm();
                        Handler::FirstRelease(cpu)
                    }
                }
            }
            Handler::FirstPoll => Handler::FirstGive { one: member.take()? },
            Handler::FirstGive { one } => {
                member.deliver(one)?;
                member.seat = member.seat.give();
                Handler::Wake(member.seat.cpu())
            }
            Handler::FirstRelease(cpu) => {
                let (next, missed) = member.word.group_release();
                assert!(!missed, "a disable takes all");
                member.word = next;
                Handler::Wake(cpu)
            }
            Handler::Hand => {
                if member.soft != Soft::Idle {
                    return Err("on a poll list twice");
                }
                member.masked = true;
                member.soft = Soft::Listed;
                Handler::Idle
            }
            Handler::Wake(cpu) => {
                let _ = self.wake(cpu);
                Handler::Idle
            }
        })
    }
}
