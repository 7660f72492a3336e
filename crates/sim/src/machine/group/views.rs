//! How a group looks to its policy and to its counters.

use napier_core::group::{CpuState, CpuView, Distance, Doing, GroupCpu, MemberView, Phase};
use napier_core::time::Span;

use crate::machine::group::Grouped;
use crate::machine::group::MoveWay;

impl Grouped {
    /// The members as a policy sees them, and which instance each is.
    pub(crate) fn member_views(&mut self, group: usize) -> (Vec<MemberView>, Vec<usize>) {
        let (now, stall) = (self.now, self.groups.all[group].decider.settings().stall_after);
        let (mut views, mut which) = (Vec::new(), Vec::new());
        for napi in 0..self.groups.members.len() {
            if !self.groups.has(napi) || self.groups.members[napi].group != group {
                continue;
            }
            let ring = &self.napis[napi].ring;
            let (age, backlog) = (ring.front().map_or(Span::ZERO, |packet| now - packet.came), ring.len() as u32);
            let member = &mut self.groups.members[napi];
            let cpu = member.seat.cpu();
            let silent = now - self.groups.pollers[usize::from(cpu.0)].turned;
            views.push(MemberView {
                cpu,
                last: member.last,
                age,
                backlog,
                load: member.load.permille(now),
                per_packet: member.per_packet,
                fixed: member.seat.is_held() || (member.seat.phase() == Phase::Turn && silent >= stall),
            });
            which.push(napi);
        }
        (views, which)
    }

    pub(crate) fn cpu_views(&self, group: usize) -> Vec<CpuView> {
        self.groups.all[group].cpus.iter().map(|cpu| self.cpu_view(*cpu)).collect()
    }

    fn cpu_view(&self, cpu: usize) -> CpuView {
        let poller = &self.groups.pollers[cpu];
        let state = match poller.word.doing() {
            _ if poller.word.is_going() => CpuState::Leaving,
            Doing::Off => CpuState::Leaving,
            Doing::Asleep => CpuState::Parked,
            Doing::Active | Doing::Announced => CpuState::Active { silent: self.now - poller.turned },
        };
        CpuView { cpu: GroupCpu(cpu as u16), state, core: poller.core, node: poller.node }
    }

    /// Which way a member goes from one CPU to another.
    pub(crate) fn way(&self, last: Option<GroupCpu>, from: GroupCpu, to: GroupCpu) -> MoveWay {
        if last == Some(to) {
            return MoveWay::Back;
        }
        let view = |cpu: GroupCpu| self.cpu_view(cpu.0.into());
        match view(from).distance(&view(to)) {
            Distance::Same | Distance::Sibling => MoveWay::Sibling,
            Distance::Node => MoveWay::Node,
            Distance::Other => MoveWay::Far,
        }
    }

    pub(crate) fn group_counters(&self, add: &mut impl FnMut(String, u64)) {
        for group in &self.groups.all {
            for (what, value) in [
                ("turns", group.turns),
                ("parks", group.parks),
                ("parks_in_vain", group.decider.parks_in_vain()),
                ("wakes", group.wakes),
                ("moves", group.moves.iter().sum()),
                ("moves_back", group.moves[MoveWay::Back as usize]),
                ("moves_sibling", group.moves[MoveWay::Sibling as usize]),
                ("moves_node", group.moves[MoveWay::Node as usize]),
                ("moves_far", group.moves[MoveWay::Far as usize]),
            ] {
                add(format!("{}.{what}", group.name), value);
            }
        }
    }

    /// CPUs of a group that are not asleep.
    pub(crate) fn group_active(&self, group: usize) -> usize {
        let awake = |cpu: &&usize| !matches!(self.groups.pollers[**cpu].word.doing(), Doing::Off | Doing::Asleep);
        self.groups.all[group].cpus.iter().filter(awake).count()
    }
}
