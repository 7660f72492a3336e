//! Random groups of CPUs: members, policies, CPUs that come, go and stop. Their draws come from a stream of their own, so
//! that the rest of a scenario is the same with and without them.

use napier_core::group::{Policy as How, Settings};
use napier_core::time::{Instant, Span};
use napier_rng::Xoshiro256PlusPlus;
use rand::RngExt;

use super::random::Random;
use napier_scenario::{
    Action, Call, CpuIx, Group, GroupCall, GroupDeed, GroupIx, Machine, NapiIx, Packets, Policy, Step, Target,
    ThreadIx, Topology,
};

/// Gives some scenarios groups, and things that happen to them.
pub(super) fn add(seed: u64, machine: &mut Machine, timeline: &mut Vec<Step>) {
    let mut draw = GroupDraw { rng: napier_rng::stream(seed, "groups") };
    if draw.one_in(2) {
        return;
    }
    draw.groups(machine);
    machine.topology = topology(seed, machine.cpus);
    // Long steps, so that something comes between those of a park.
    machine.costs.op = Span::from_ns(draw.of(&[10, 200, 1000, 1000]));
    let last = timeline.last().map_or(Instant::ZERO, |step| step.at);
    for _ in 0..draw.of(&[5, 15, 30]) {
        let at = Instant::from_ns(draw.rng.random_range(0..=last.ns));
        let action = draw.action(machine);
        timeline.push(Step { at, line: 0, action });
    }
    timeline.sort_by_key(|step| step.at);
    // In peace no CPU spins for ever: it has left, or it sleeps while there is nothing to do.
    for group in (0..machine.groups.len() as u16).map(GroupIx) {
        let sleepy = Settings { min_active: 0, ..Settings::default() };
        let deed = if draw.one_in(2) { GroupDeed::Delete } else { GroupDeed::Set(sleepy) };
        timeline.push(Step { at: last, line: 0, action: control(machine, group, deed) });
    }
}

/// How the CPUs share cores and nodes; from a stream of its own, for it came later than the other draws.
fn topology(seed: u64, cpus: u16) -> Topology {
    let mut draw = GroupDraw { rng: napier_rng::stream(seed, "topology") };
    let topology = Topology { threads_per_core: draw.of(&[1, 2]), nodes: draw.of(&[1, 2]) };
    if topology.fits(cpus) { topology } else { Topology::FLAT }
}

/// A call of the control thread, which is the last one.
fn control(machine: &Machine, group: GroupIx, deed: GroupDeed) -> Action {
    Action::Call { thread: ThreadIx(machine.threads.len() as u16 - 1), call: Call::Group(GroupCall { group, deed }) }
}

struct GroupDraw {
    rng: Xoshiro256PlusPlus,
}

impl Random for GroupDraw {
    fn rng(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.rng
    }
}

impl GroupDraw {
    /// One group or two, of some of the CPUs and some of the instances.
    fn groups(&mut self, machine: &mut Machine) {
        let count = if machine.cpus > 1 && self.one_in(3) { 2 } else { 1 };
        for index in 0..count {
            let mine = |at: u16| at % count == index;
            let mut cpus: Vec<_> = (0..machine.cpus).filter(|cpu| mine(*cpu)).map(CpuIx).collect();
            if cpus.len() > 1 && self.one_in(4) {
                cpus.remove(0);
            }
            let members = (0..machine.napis()).filter(|napi| mine(*napi) && !self.one_in(4)).map(NapiIx).collect();
            let settings = self.settings(cpus.len() as u16);
            let policy = if self.one_in(4) { Policy::Fifo } else { Policy::Fair };
            machine.groups.push(Group { name: format!("g{index}"), cpus, members, settings, policy });
        }
    }

    fn settings(&mut self, cpus: u16) -> Settings {
        Settings {
            policy: self.of(&[How::Delay, How::Delay, How::Delay, How::Compact, How::Static]),
            delay_target: Span::from_us(self.of(&[1, 2, 10, 50])),
            min_active: self.of(&[0, 0, 0, 1, cpus]).min(cpus),
            shrink_after: Span::from_us(self.of(&[2, 2, 10, 100])),
            stall_after: Span::from_us(self.of(&[50, 200, 1000])),
        }
    }

    fn action(&mut self, machine: &Machine) -> Action {
        let group = GroupIx(self.below(machine.groups.len() as u32) as u16);
        let napi = NapiIx(self.below(machine.napis().into()) as u16);
        let cpu = CpuIx(self.below(machine.cpus.into()) as u16);
        let deed = match self.below(20) {
            0..3 => GroupDeed::Attach(napi),
            3..6 => GroupDeed::Detach(napi),
            6 | 7 => GroupDeed::AttachCpu(cpu),
            8 | 9 => GroupDeed::DetachCpu(cpu),
            10..12 => GroupDeed::Set(self.settings(machine.groups[group.at()].cpus.len() as u16)),
            12 if self.one_in(4) => GroupDeed::Delete,
            12..15 => return Action::StopCpu { cpu, span: self.us(3000) },
            _ => return self.packets(napi),
        };
        control(machine, group, deed)
    }

    /// Some that come one by one, so that a CPU is on its way to sleep when one does.
    fn packets(&mut self, napi: NapiIx) -> Action {
        Action::Packets(Packets {
            to: Target::Napi(napi),
            count: self.of(&[1, 20, 60]),
            every: Span::from_ns(self.of(&[100, 2000, 5300, 12_100, 51_000])),
            flow: self.below(4),
            own_flow: self.one_in(2),
            hash: None,
            mergeable: !self.one_in(4),
            rss: false,
            loopback: false,
            syn: None,
        })
    }
}
