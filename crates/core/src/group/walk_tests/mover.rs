//! Somebody who moves members: as no policy would, and late.

use alloc::vec::Vec;

use napier_testkit::explore;

use super::model::{CPUS, Config, Mover, Step, World, Wrong};
use crate::group::{CpuWord, GroupCpu, Phase, Woken};

impl World {
    pub(super) fn mover_steps(&self, config: &Config, steps: &mut Vec<Step>) {
        let moved = |member: usize, to: usize| {
            let mut world = self.clone();
            let cpu = GroupCpu(to as u16);
            let (next, _) = world.members[member].seat.move_to(cpu)?;
            world.members[member].seat = next;
            world.mover = Mover::Wake { member, to: cpu };
            if config.wrong == Wrong::MoveWithoutWake {
                world.mover = Mover::Idle;
            }
            Some(world)
        };
        match self.mover {
            // What is decided may be out of date: a move can go to a CPU that has just left.
            Mover::Idle if config.moves => {
                for (member, to) in (0..config.members).flat_map(|member| (0..config.cpus).map(move |to| (member, to)))
                {
                    let Some(world) = moved(member, to).filter(|_| self.members[member].seat.cpu().0 != to as u16)
                    else {
                        continue;
                    };
                    let label = alloc::format!("move {member} to {to}").into();
                    steps.push(Step { label, by_itself: false, outcome: Ok(world) });
                }
            }
            Mover::Idle => {}
            Mover::Again { member } => {
                // The member may have been detached meanwhile.
                if self.members[member].seat.phase() == Phase::Free {
                    let mut world = self.clone();
                    world.mover = Mover::Idle;
                    steps.push(Step { label: "nothing to move".into(), by_itself: true, outcome: Ok(world) });
                }
                let stays = |to: &usize| !self.words[*to].is_going() && self.words[*to] != CpuWord::OFF;
                for world in (0..CPUS).filter(stays).filter_map(|to| moved(member, to)) {
                    steps.push(Step { label: "move again".into(), by_itself: true, outcome: Ok(world) });
                }
            }
            Mover::Wake { member, to } => explore::World::step(self, steps, "mover wakes", |world| {
                world.mover = match world.wake(to) {
                    Woken::Gone => Mover::Again { member },
                    Woken::Awake | Woken::Rouse => Mover::Idle,
                };
                Ok(true)
            }),
        }
    }
}
