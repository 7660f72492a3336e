//! The thread of a CPU of a group: its turns, what its policy decides, how it parks. Interrupts cut into it as into any
//! thread; the softirqs that they raise run when a poll is over and bottom halves are enabled again.

use napier_core::completion::Flush;
use napier_core::group::{ArmStep, Arming, Decision as Decided, Doing, GroupCpu, NoTurn, Woken};
use napier_core::state::{GroupTurn, State};
use napier_core::time::{Deadline, Span};

use super::super::Plant;
use super::super::coverage::Decision;
use super::super::napi::Owner;
use super::super::vm::K;
use super::super::work::Work;
use super::super::world::World;
use super::ASIDE;
use napier_scenario::{CpuIx, Event, GroupEvent, PollContext};

/// The policy is asked once in so long.
const DECIDE_EVERY: Span = Span::from_us(1);

impl K {
    /// The thread's code; it sleeps while its CPU is in no group.
    pub(in super::super) async fn group_main(self) {
        loop {
            let doing = self.w().groups.pollers[self.cpu()].word.doing();
            match doing {
                Doing::Off => self.block(Deadline::NEVER).await,
                Doing::Asleep => self.group_sleep().await,
                Doing::Active | Doing::Announced => {
                    self.w().awake_again(self.cpu());
                    self.group_round().await;
                }
            }
        }
    }

    fn as_group_cpu(&self) -> GroupCpu {
        GroupCpu(self.cpu() as u16)
    }

    /// A turn of each member, and what comes between.
    async fn group_round(&self) {
        let mut polled = false;
        let napis = self.w().napis.len();
        for napi in 0..napis {
            if self.w().groups.members[napi].seat.keeps_awake(self.as_group_cpu()) {
                polled |= self.group_turn(napi).await;
            }
        }
        if !polled {
            self.work(Work::SpinPause).await;
        }
        {
            let mut w = self.w();
            let now = w.now;
            w.groups.pollers[self.cpu()].turned = now;
        }
        self.group_decide().await;
        let park = std::mem::take(&mut self.w().groups.pollers[self.cpu()].asked_to_park);
        let going = self.w().groups.pollers[self.cpu()].word.is_going();
        if park {
            self.group_park().await;
        } else if going && self.leave_group().await {
            return;
        }
        self.cond_resched().await;
        let aside = {
            let mut w = self.w();
            let (now, others) = (w.now, w.others_wait(self.cpu()));
            w.groups.pollers[self.cpu()].way.asks(now, others)
        };
        if aside {
            self.w().hit(Decision::GroupStepAside);
            self.pause(ASIDE).await;
        }
    }

    /// One turn of a member; false if it was not to be had.
    async fn group_turn(&self, napi: usize) -> bool {
        {
            let mut w = self.w();
            let seat = w.groups.members[napi].seat;
            match seat.take(self.as_group_cpu()) {
                Ok(next) => w.groups.members[napi].seat = next,
                Err(NoTurn::Busy) if w.plant == Plant::TwoPollers => {}
                Err(_) => return false,
            }
            w.touch(napi);
        }
        self.op().await;
        let turn = self.w().group_turn(napi);
        if turn == GroupTurn::GiveUp {
            self.give_up(napi).await;
            return true;
        }
        self.bh_off();
        let begun = self.w().now;
        let weight = self.w().napis[napi].weight;
        let work = self.drive(napi, weight, PollContext::Group).await;
        {
            let mut w = self.w();
            let flush = Flush::for_hz(w.hz);
            w.flush(napi, flush);
            w.deliver(napi);
            w.polled_by_group(napi, self.cpu(), work, begun);
            w.groups.members[napi].seat = w.groups.members[napi].seat.give();
            w.touch(napi);
        }
        self.bh_on().await;
        true
    }

    /// A disable waits: the member keeps its place, and the instance is let go.
    async fn give_up(&self, napi: usize) {
        {
            let mut w = self.w();
            w.hit(Decision::GroupGaveUp);
            w.groups.members[napi].seat = w.groups.members[napi].seat.arm();
        }
        self.op().await;
        let mut w = self.w();
        let missed = w.transition(napi, State::group_release);
        assert!(!missed, "a disable takes all");
        w.disown(napi);
    }

    /// Gives an owned instance to its group, after an event.
    pub(in super::super) async fn give_to_group(&self, napi: usize) {
        let cpu = {
            let mut w = self.w();
            w.hit(Decision::GroupGiven);
            w.hand_over(napi, Owner::Group);
            w.seat_ready(napi)
        };
        self.op().await;
        let _ = self.w().wake_for(cpu);
        self.op().await;
    }

    /// Asks the policy, if nobody has for a while, and does what it says.
    async fn group_decide(&self) {
        let (group, looked, decisions, which) = {
            let mut w = self.w();
            let (now, group) = (w.now, w.groups.pollers[self.cpu()].group);
            if w.groups.all[group].deciding || now - w.groups.all[group].decided < DECIDE_EVERY {
                return;
            }
            w.groups.all[group].decided = now;
            w.groups.all[group].deciding = true;
            let (members, which) = w.member_views(group);
            let cpus = w.cpu_views(group);
            let looked = (members.len() + cpus.len()) as u64;
            (group, looked, w.groups.all[group].decider.decide(now, &members, &cpus).to_vec(), which)
        };
        self.works(&[(Work::GroupLook, looked)]).await;
        self.w().groups.all[group].deciding = false;
        for decision in decisions {
            self.op().await;
            match decision {
                Decided::Wake(cpu) => drop(self.w().wake_poller(cpu)),
                Decided::Park(cpu) => self.w().groups.pollers[usize::from(cpu.0)].asked_to_park = true,
                Decided::Move { member, to } => self.move_member(which[member], to).await,
            }
        }
    }

    async fn move_member(&self, napi: usize, to: GroupCpu) {
        let mut to = Some(to);
        while let Some(cpu) = to {
            if !self.w().send_member(napi, cpu) {
                return;
            }
            self.op().await;
            // The CPU may have left in between: on to another.
            let woken = self.w().wake_for(cpu);
            to = match woken {
                Woken::Gone => self.w().other_cpu(napi),
                Woken::Awake | Woken::Rouse => None,
            };
        }
    }

    /// Two-phase park: announced, every member armed, slept.
    async fn group_park(&self) {
        if !self.w().announce_park(self.cpu()) {
            return;
        }
        self.op().await;
        let napis = self.w().napis.len();
        for napi in 0..napis {
            let me = self.as_group_cpu();
            if !self.w().groups.members[napi].seat.keeps_awake(me) {
                continue;
            }
            let taken = self.w().groups.members[napi].seat.take(me);
            let armed = match taken {
                Ok(next) => {
                    self.w().groups.members[napi].seat = next;
                    self.op().await;
                    self.group_arm(napi).await
                }
                Err(_) => false,
            };
            if !armed {
                self.w().undo_park(self.cpu());
                return;
            }
        }
        self.op().await;
        // Nothing happens between this and the sleep.
        if self.w().fall_asleep(self.cpu()) {
            self.group_sleep().await;
        }
    }

    /// Sleeps until woken, or until somebody has to be taken over from.
    async fn group_sleep(&self) {
        loop {
            let until = self.w().watch_until(self.cpu());
            self.block(until).await;
            let mut w = self.w();
            if w.groups.pollers[self.cpu()].word.doing() != Doing::Asleep {
                break;
            }
            if w.somebody_stopped(self.cpu()) {
                w.hit(Decision::GroupTookOver);
                w.groups.pollers[self.cpu()].word = w.groups.pollers[self.cpu()].word.cancel();
                break;
            }
        }
    }

    /// Arms one member, in a turn of it; false if it has something to poll.
    async fn group_arm(&self, napi: usize) -> bool {
        let mut arming = Arming::new();
        loop {
            match arming.next() {
                ArmStep::Look => {
                    let mut w = self.w();
                    w.flush(napi, Flush::All);
                    w.deliver(napi);
                    let found = !w.napis[napi].ring.is_empty() || w.tx_done(napi);
                    arming.on_looked(found);
                }
                ArmStep::Arm => {
                    let mut w = self.w();
                    w.groups.members[napi].seat = w.groups.members[napi].seat.arm();
                    arming.on_done();
                }
                ArmStep::Release => match self.w().release_armed(napi) {
                    Some(missed) => arming.on_released(missed),
                    None => return true,
                },
                ArmStep::Unmask => {
                    let mut w = self.w();
                    w.rearm_irq(napi);
                    w.napis[napi].unmasks += 1;
                    let index = w.napis[napi].index;
                    w.note(Event::Unmask { napi: index });
                    if w.plant == Plant::ParkWithoutSecondLook {
                        w.finished(napi);
                        return true;
                    }
                    arming.on_done();
                }
                ArmStep::Event => {
                    self.w().hit(Decision::GroupArmEvent);
                    self.device_interrupt(napi).await;
                    self.w().finished(napi);
                    return false;
                }
                ArmStep::Ready => {
                    let cpu = self.w().seat_ready(napi);
                    self.op().await;
                    let _ = self.w().wake_for(cpu);
                    return false;
                }
                ArmStep::Give => {
                    let mut w = self.w();
                    w.groups.members[napi].seat = w.groups.members[napi].seat.give();
                    return false;
                }
                ArmStep::Armed => {
                    self.w().finished(napi);
                    return true;
                }
            }
            self.op().await;
        }
    }

    /// The CPU was told to leave: it does if it has no member. True: it has left.
    async fn leave_group(&self) -> bool {
        if self.w().has_members(self.cpu()) {
            return false;
        }
        self.op().await;
        {
            let mut w = self.w();
            let word = w.groups.pollers[self.cpu()].word;
            w.groups.pollers[self.cpu()].word = word.leave().expect("it was told to");
        }
        self.op().await;
        let mut w = self.w();
        if w.has_members(self.cpu()) {
            w.groups.pollers[self.cpu()].word = w.groups.pollers[self.cpu()].word.stay();
            return false;
        }
        w.left_group(self.cpu());
        true
    }
}

impl World {
    /// The first step of a turn. It masks what it finds unmasked, so that a member that is polled does not interrupt.
    fn group_turn(&mut self, napi: usize) -> GroupTurn {
        let turn = self.transition(napi, State::group_turn);
        if turn == GroupTurn::Poll {
            self.hit(Decision::GroupTurn);
            self.mask_for_group(napi);
        }
        turn
    }

    fn polled_by_group(&mut self, napi: usize, cpu: usize, work: u32, begun: napier_core::time::Instant) {
        let (now, group) = (self.now, self.groups.pollers[cpu].group);
        let member = &mut self.groups.members[napi];
        if work > 0 {
            member.load.polled(now, now - begun);
            member.per_packet = Span::from_ns((now - begun).ns / u64::from(work));
        }
        self.groups.all[group].turns += 1;
        self.groups.pollers[cpu].turned = now;
    }

    /// The member has something to poll; its CPU is to be woken by [`Self::wake_for`].
    pub(super) fn seat_ready(&mut self, napi: usize) -> GroupCpu {
        let (next, cpu) = self.groups.members[napi].seat.ready();
        self.groups.members[napi].seat = next;
        self.groups.pollers[usize::from(cpu.0)].waking += 1;
        self.touch(napi);
        cpu
    }

    pub(super) fn wake_for(&mut self, cpu: GroupCpu) -> Woken {
        self.groups.pollers[usize::from(cpu.0)].waking -= 1;
        self.wake_poller(cpu)
    }

    /// Moves a member; false if there is nothing to move, or somebody holds it.
    fn send_member(&mut self, napi: usize, to: GroupCpu) -> bool {
        let seat = self.groups.members[napi].seat;
        let Some((next, _)) = seat.move_to(to).filter(|_| !seat.is_held() && seat.cpu() != to) else { return false };
        let group = self.groups.members[napi].group;
        self.groups.members[napi].seat = next;
        let last = self.groups.members[napi].last.replace(seat.cpu());
        let way = self.way(last, seat.cpu(), to);
        self.groups.pollers[usize::from(to.0)].waking += 1;
        self.groups.all[group].moves[way as usize] += 1;
        self.hit(Decision::GroupMoved);
        let index = self.napis[napi].index;
        self.note(Event::Group(GroupEvent::Move { napi: index, to: CpuIx(to.0) }));
        self.touch(napi);
        true
    }

    /// Another CPU for a member whose CPU has left.
    fn other_cpu(&self, napi: usize) -> Option<GroupCpu> {
        let group = self.groups.members[napi].group;
        self.groups.all[group].decider.place(&[], &self.cpu_views(group))
    }

    pub(super) fn has_members(&self, cpu: usize) -> bool {
        let cpu = GroupCpu(cpu as u16);
        (0..self.groups.members.len()).any(|napi| self.groups.has(napi) && self.groups.members[napi].seat.cpu() == cpu)
    }

    /// Another thread could run on this CPU.
    fn others_wait(&self, cpu: usize) -> bool {
        self.cpus[cpu].ready.iter().any(|id| self.ctxs[*id].frozen_until <= self.now)
    }
}
