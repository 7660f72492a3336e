//! Parking and leaving as the machine accounts for them, and what must always hold of a group.

use napier_core::group::{Doing, GroupCpu, Phase};
use napier_core::state::State;
use napier_core::time::Deadline;

use crate::machine::dev::napi::NapiOwner;
use crate::machine::group::Grouped;
use crate::machine::sim::coverage::Decision;
use napier_scenario::{CpuIx, Event, GroupEvent};

impl Grouped {
    /// What must hold of a member, or of what is none, after every step.
    pub(crate) fn check_member(&self, napi: usize) -> Result<(), &'static str> {
        let n = &self.napis[napi];
        let Some(member) = self.groups.members.get(napi) else { return Ok(()) };
        let seat = member.seat;
        if seat.phase() == Phase::Free {
            return if n.word.contains(State::GROUP) { Err("GROUP is set of what is no member") } else { Ok(()) };
        }
        let polled = matches!(seat.phase(), Phase::Ready | Phase::Turn);
        if polled && !seat.is_held() && n.owner != Some(NapiOwner::Group) {
            return Err("a member has a poller, and its group does not own it");
        }
        if n.owner == Some(NapiOwner::Group) && !n.word.contains(State::GROUP) {
            return Err("a group owns what is no member");
        }
        let poller = &self.groups.pollers[usize::from(seat.cpu().0)];
        if polled && poller.waking == 0 && poller.word.doing() == Doing::Asleep {
            return Err("a member waits for a CPU that sleeps");
        }
        // A CPU that leaves looks once more, and who moves a member to it finds that it is gone.
        let off = poller.word.doing() == Doing::Off && !poller.leaving;
        if polled && !seat.is_held() && poller.waking == 0 && off {
            return Err("a member waits for a CPU that has left");
        }
        Ok(())
    }

    fn touch_members_of(&mut self, cpu: usize) {
        for napi in 0..self.groups.members.len() {
            if self.groups.members[napi].seat.cpu() == GroupCpu(cpu as u16) {
                self.touch(napi);
            }
        }
    }

    /// The CPU says that it is about to sleep; false if it is needed, or has members while others are awake.
    pub(crate) fn announce_park(&mut self, cpu: usize) -> bool {
        let group = self.groups.pollers[cpu].group;
        let of = &self.groups.all[group];
        let leaving = of.cpus.iter().filter(|cpu| self.groups.pollers[**cpu].leaving).count() as u16;
        let min = of.decider.settings().min_awake(of.cpus.len() as u16 - leaving) + leaving;
        let Some(awake) = of.awake.park(min) else { return false };
        // A member came after the policy had asked.
        if awake.count() > 0 && self.has_members(cpu) {
            return false;
        }
        let Some(word) = self.groups.pollers[cpu].word.announce() else { return false };
        self.groups.pollers[cpu].word = word;
        self.groups.pollers[cpu].counted = false;
        self.groups.all[group].awake = awake;
        true
    }

    pub(crate) fn undo_park(&mut self, cpu: usize) {
        self.hit(Decision::GroupParkUndone);
        let poller = &mut self.groups.pollers[cpu];
        poller.word = poller.word.cancel();
        self.count_awake(cpu);
    }

    fn count_awake(&mut self, cpu: usize) {
        let group = self.groups.pollers[cpu].group;
        self.groups.pollers[cpu].counted = true;
        self.groups.all[group].awake = self.groups.all[group].awake.come();
    }

    /// False: another thread woke the CPU meanwhile.
    pub(crate) fn fall_asleep(&mut self, cpu: usize) -> bool {
        let group = self.groups.pollers[cpu].group;
        let Some(word) = self.groups.pollers[cpu].word.sleep() else {
            self.hit(Decision::GroupParkUndone);
            self.count_awake(cpu);
            return false;
        };
        self.groups.pollers[cpu].word = word;
        self.groups.all[group].parks += 1;
        self.hit(Decision::GroupParked);
        self.note(Event::Group(GroupEvent::Park { cpu: CpuIx(cpu as u16) }));
        self.touch_members_of(cpu);
        self.check_active(group);
        self.check_armed(cpu);
        true
    }

    /// What a CPU leaves armed when it goes to sleep has nothing in its ring, or an interrupt is on its way. Where the
    /// device itself lets packets wait that cannot be known.
    fn check_armed(&mut self, cpu: usize) {
        for napi in 0..self.groups.members.len() {
            let seat = self.groups.members[napi].seat;
            let n = &self.napis[napi];
            let armed = seat.phase() == Phase::Armed && !seat.is_held() && seat.cpu() == GroupCpu(cpu as u16);
            let free = n.present && !n.word.intersects(State::SCHED.with(State::DISABLE));
            let irq = &self.cpus[n.irq_cpu];
            let looks = n.callbacks > 0 || n.finishing > 0;
            let comes = n.irq_latched || irq.hard_active || !irq.hard_queue.is_empty() || looks;
            let (moderation, _) = &self.devs[n.dev].moderation[usize::from(n.queue)];
            if armed && free && !n.ring.is_empty() && !comes && moderation.coalesce().rx_usecs() == 0 {
                let name = self.napi_name(napi);
                self.fail(format!("{name}: armed with packets in its ring, and no interrupt to come"));
            }
        }
    }

    /// As many CPUs are awake as have to be, and no more than there are.
    fn check_active(&mut self, group: usize) {
        let of = &self.groups.all[group];
        let staying = of.cpus.iter().filter(|cpu| !self.groups.pollers[**cpu].leaving).count();
        let min = usize::from(of.decider.settings().min_awake(staying as u16));
        let awake = self.group_active(group);
        // A call that takes CPUs away wakes the others when they have left.
        if awake < min && !self.groups.locked {
            let name = self.groups.all[group].name.clone();
            self.fail(format!("{name}: a CPU parked, and {awake} are awake where {min} have to be"));
        }
    }

    /// A CPU that sleeps while others poll looks after them from time to time.
    pub(crate) fn watch_until(&self, cpu: usize) -> Deadline {
        let group = self.groups.pollers[cpu].group;
        let of = &self.groups.all[group];
        if self.group_active(group) == 0 { Deadline::NEVER } else { self.after(of.decider.settings().stall_after) }
    }

    /// A CPU of the group polls and has not ended a turn for too long.
    pub(crate) fn one_stopped(&self, cpu: usize) -> bool {
        let of = &self.groups.all[self.groups.pollers[cpu].group];
        of.cpus.iter().any(|other| {
            let poller = &self.groups.pollers[*other];
            poller.word.doing() == Doing::Active && self.now - poller.turned >= of.decider.settings().stall_after
        })
    }

    /// The thread of a CPU runs: if it slept, it is one of those that poll again.
    pub(crate) fn awake_again(&mut self, cpu: usize) {
        if self.groups.pollers[cpu].counted {
            return;
        }
        let (now, group) = (self.now, self.groups.pollers[cpu].group);
        self.groups.pollers[cpu].turned = now;
        self.groups.pollers[cpu].asked_to_park = false;
        self.count_awake(cpu);
        self.groups.all[group].wakes += 1;
        self.note(Event::Group(GroupEvent::Wake { cpu: CpuIx(cpu as u16) }));
    }

    /// `None`: a disable waits for the instance, and has it now; the interrupt stays masked. Else whether an event was
    /// missed.
    pub(crate) fn release_armed(&mut self, napi: usize) -> Option<bool> {
        let disabled = self.napis[napi].word.contains(State::DISABLE);
        let missed = self.transition(napi, State::group_release);
        if !missed {
            self.disown(napi);
        }
        if disabled {
            return None;
        }
        if !missed {
            self.napis[napi].finishing += 1;
        }
        Some(missed)
    }

    pub(crate) fn left_group(&mut self, cpu: usize) {
        self.hit(Decision::GroupCpuLeft);
        let group = self.groups.pollers[cpu].group;
        let of = &mut self.groups.all[group];
        of.awake = of.awake.leave();
        of.cpus.retain(|one| *one != cpu);
        self.groups.pollers[cpu].leaving = false;
        self.groups.pollers[cpu].counted = false;
    }
}
