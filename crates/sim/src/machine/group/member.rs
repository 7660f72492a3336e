//! Instances as members of a group: how they come, are polled, move and go.

use napier_core::completion::Tunables;
use napier_core::control::ThreadedSetting;
use napier_core::group::{GroupCpu, Woken};
use napier_core::state::{GroupTurn, State};
use napier_core::time::Span;

use crate::machine::dev::napi::NapiOwner;
use crate::machine::group::Grouped;
use crate::machine::sim::coverage::Decision;
use napier_scenario::{CpuIx, Event, GroupEvent};

impl Grouped {
    /// A fresh instance, disabled; the threaded setting that it starts with.
    pub(crate) fn add_instance(&mut self, napi: usize) -> ThreadedSetting {
        let dev = self.napis[napi].dev;
        let (settings, persistent) = (self.devs[dev].settings, self.devs[dev].persistent);
        let slot = self.devs[dev].config.slots()[usize::from(self.napis[napi].queue)];
        let member = self.groups.has(napi);
        let no_busy_poll = self.devs[dev].no_busy_poll;
        let n = &mut self.napis[napi];
        n.present = true;
        n.word = if no_busy_poll { State::ADDED.with(State::NO_BUSY_POLL) } else { State::ADDED };
        if member {
            n.word = n.word.with(State::GROUP);
        }
        n.owner = Some(NapiOwner::Disabled);
        n.defers_left = 0;
        n.defers_max = 0;
        n.missed_kept = false;
        n.armed_late = false;
        n.masked = true;
        n.tunables = Tunables {
            defer_hard_irqs: settings.defer_hard_irqs,
            gro_flush_timeout: settings.gro_flush_timeout,
            irq_suspend_timeout: Span::ZERO,
        };
        n.threaded = if persistent { slot.threaded } else { settings.threaded };
        let threaded = n.threaded;
        self.hit(Decision::Added);
        self.touch(napi);
        threaded
    }

    /// True: it is disabled, and a member at once.
    pub(crate) fn begin_attach(&mut self, napi: usize) -> bool {
        self.transition(napi, State::group_attach_begin)
    }

    /// True: the group owns the instance, and its interrupt is masked.
    pub(crate) fn claim(&mut self, napi: usize) -> bool {
        let got = self.transition_if(napi, State::group_attach_claim);
        if got {
            self.own(napi, NapiOwner::Group);
            self.napis[napi].missed_kept = false;
            self.mask_for_group(napi);
            self.cancel_timer(napi);
        }
        got
    }

    pub(crate) fn mask_for_group(&mut self, napi: usize) {
        if !std::mem::replace(&mut self.napis[napi].masked, true) {
            let index = self.napis[napi].index;
            self.note(Event::Mask { napi: index });
        }
    }

    /// The first step of a turn. It masks what it finds unmasked, so that a member that is polled does not interrupt.
    pub(crate) fn group_turn(&mut self, napi: usize) -> GroupTurn {
        let turn = self.transition(napi, State::group_turn);
        if turn == GroupTurn::Poll {
            self.hit(Decision::GroupTurn);
            self.mask_for_group(napi);
        }
        turn
    }

    pub(crate) fn polled_by_group(&mut self, napi: usize, cpu: usize, work: u32, begun: napier_core::time::Instant) {
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
    pub(crate) fn seat_ready(&mut self, napi: usize) -> GroupCpu {
        let (next, cpu) = self.groups.members[napi].seat.ready();
        self.groups.members[napi].seat = next;
        self.groups.pollers[usize::from(cpu.0)].waking += 1;
        self.touch(napi);
        cpu
    }

    pub(crate) fn wake_for(&mut self, cpu: GroupCpu) -> Woken {
        self.groups.pollers[usize::from(cpu.0)].waking -= 1;
        self.wake_poller(cpu)
    }

    /// Moves a member; false if there is nothing to move, or a call holds it.
    pub(crate) fn send_member(&mut self, napi: usize, to: GroupCpu) -> bool {
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
    pub(crate) fn other_cpu(&self, napi: usize) -> Option<GroupCpu> {
        let group = self.groups.members[napi].group;
        self.groups.all[group].decider.place(&[], &self.cpu_views(group))
    }

    pub(crate) fn has_members(&self, cpu: usize) -> bool {
        let cpu = GroupCpu(cpu as u16);
        (0..self.groups.members.len()).any(|napi| self.groups.has(napi) && self.groups.members[napi].seat.cpu() == cpu)
    }
}
