//! Groups of CPUs that poll: what the machine keeps of them, and how it looks to their policies. The rules are those of
//! `napier_core::group`.

use napier_core::group::{
    Awake, CpuState, CpuView, CpuWord, Decider, Distance, Doing, GiveWay, GroupCpu, Groups as Table, Load,
    Machine as Cpus, MemberId, MemberView, Phase, Policy, Seat, Woken,
};
use napier_core::state::State;
use napier_core::time::{Instant, Span};

use super::napi::Owner;
use super::vm::CtxId;
use super::world::{Ctx, World};
use napier_scenario::{CpuIx, Event, GroupCheck, Machine};

mod arrivals;
mod check;
mod control;
pub mod many;
mod thread;

pub(super) use arrivals::Rates;
pub use arrivals::Shape;

/// Other threads of a CPU wait at most this long for a group's thread that would not be preempted.
pub(super) const GIVE_WAY: Span = Span::from_ms(1);
/// And run for this long, if they want to.
pub(super) const ASIDE: Span = Span::from_us(50);

/// An instance, as a member or not.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) seat: Seat,
    pub(super) group: usize,
    last: Option<GroupCpu>,
    load: Load,
    per_packet: Span,
}

/// A CPU, in a group or not.
#[derive(Debug)]
pub(super) struct Poller {
    pub(super) word: CpuWord,
    ctx: CtxId,
    group: usize,
    /// When its last turn ended.
    turned: Instant,
    /// The policy wants it to park.
    asked_to_park: bool,
    /// Its group counts it among those that poll.
    counted: bool,
    /// Contexts between giving it something to poll and waking it.
    waking: u32,
    /// It was told to leave, and has not yet.
    leaving: bool,
    core: u16,
    node: u16,
    way: GiveWay,
}

/// One group.
#[derive(Debug)]
pub(super) struct Group {
    name: String,
    /// Those that were deleted stay, with nothing in them.
    cpus: Vec<usize>,
    decider: Decider,
    awake: Awake,
    decided: Instant,
    /// A CPU is at it.
    deciding: bool,
    policy: napier_scenario::Policy,
    turns: u64,
    parks: u64,
    wakes: u64,
    /// Moves of members, by [`Way`].
    moves: [u64; Way::COUNT],
}

/// Where a member goes, as the policy prefers it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Way {
    /// To the CPU that had it before.
    Back,
    /// To the other thread of the core.
    Sibling,
    /// To another core of the node.
    Node,
    /// To another node.
    Far,
}

impl Way {
    const COUNT: usize = Self::Far as usize + 1;
}

/// All of it.
#[derive(Default)]
pub(super) struct Groups {
    table: Table,
    all: Vec<Group>,
    members: Vec<Member>,
    pollers: Vec<Poller>,
    /// Somebody changes groups.
    locked: bool,
}

impl Groups {
    /// Contexts that poll for groups: one for each CPU, if there are groups at all.
    pub(super) const fn threads(&self) -> usize {
        self.pollers.len()
    }

    /// The instance is a member, whatever it is doing.
    pub(super) fn has(&self, napi: usize) -> bool {
        self.members.get(napi).is_some_and(|member| member.seat.phase() != Phase::Free)
    }

    fn cpus(&self) -> Cpus<'static> {
        Cpus { cpus: self.pollers.len() as u16, offline: &[] }
    }
}

/// Makes the threads and the groups, without members.
pub(super) fn add_groups(w: &mut World, machine: &Machine) {
    if machine.groups.is_empty() {
        return;
    }
    let member = || Member { seat: Seat::FREE, group: 0, last: None, load: Load::default(), per_packet: Span::ZERO };
    w.groups.members.extend(w.napis.iter().map(|_| member()));
    for cpu in 0..w.cpus.len() {
        let ctx = w.ctxs.len();
        w.ctxs.push(Ctx::new(cpu, napier_scenario::Policy::Fair));
        w.cpus[cpu].ready.push(ctx);
        w.groups.pollers.push(Poller {
            word: CpuWord::OFF,
            ctx,
            group: 0,
            turned: Instant::ZERO,
            asked_to_park: false,
            counted: false,
            waking: 0,
            leaving: false,
            core: machine.topology.core(CpuIx(cpu as u16), machine.cpus),
            node: machine.topology.node(CpuIx(cpu as u16), machine.cpus),
            way: GiveWay::new(GIVE_WAY),
        });
    }
    for group in &machine.groups {
        let cpus: Vec<_> = group.cpus.iter().map(|cpu| GroupCpu(cpu.0)).collect();
        let whole = w.groups.cpus();
        w.groups.table.create(&group.name, &cpus, group.settings, whole).expect("checked when the file was read");
        w.groups.all.push(Group {
            name: group.name.clone(),
            cpus: group.cpus.iter().map(|cpu| cpu.at()).collect(),
            decider: Decider::new(group.settings),
            awake: Awake::default(),
            decided: Instant::ZERO,
            deciding: false,
            policy: group.policy,
            turns: 0,
            parks: 0,
            wakes: 0,
            moves: [0; Way::COUNT],
        });
    }
}

impl World {
    /// The devices are up: groups take their members. As many CPUs poll as have to be active, one at least; all of them
    /// under a policy that never parks.
    pub(super) fn begin_groups(&mut self, machine: &Machine) {
        for (at, group) in machine.groups.iter().enumerate() {
            let active = match group.settings.policy {
                Policy::Static => group.cpus.len(),
                Policy::Delay | Policy::Compact => usize::from(group.settings.min_active).max(1),
            };
            for (nth, cpu) in group.cpus.iter().enumerate() {
                self.join(at, cpu.at());
                if nth >= active {
                    self.groups.all[at].awake = self.groups.all[at].awake.leave();
                    self.groups.pollers[cpu.at()].counted = false;
                    let word = self.groups.pollers[cpu.at()].word;
                    self.groups.pollers[cpu.at()].word =
                        word.announce().and_then(CpuWord::sleep).expect("nobody disturbs");
                }
            }
            for napi in &group.members {
                let (napi, name) = (napi.at(), machine.napi_name(*napi));
                self.groups.table.attach(&group.name, MemberId(napi as u32), &name, true).expect("checked, too");
                self.reserve(at, napi);
                if self.napis[napi].present && !self.begin_attach(napi) {
                    assert!(self.claim(napi), "nothing has happened yet");
                    self.groups.members[napi].seat = self.groups.members[napi].seat.attached().0;
                } else {
                    self.groups.members[napi].seat = self.groups.members[napi].seat.unhold().0;
                }
            }
        }
    }

    /// The CPU comes to the group, awake.
    fn join(&mut self, group: usize, cpu: usize) {
        let poller = &mut self.groups.pollers[cpu];
        poller.word = poller.word.join().expect("it is in no group");
        poller.group = group;
        poller.turned = self.now;
        poller.asked_to_park = false;
        poller.counted = true;
        let ctx = poller.ctx;
        let of = &mut self.groups.all[group];
        of.awake = of.awake.come();
        self.ctxs[ctx].policy = of.policy;
        self.wake(ctx);
    }

    /// A place for a new member.
    fn reserve(&mut self, group: usize, napi: usize) {
        let (members, _) = self.member_views(group);
        let cpus = self.cpu_views(group);
        let cpu = self.groups.all[group].decider.place(&members, &cpus).expect("the group has a CPU");
        let member = &mut self.groups.members[napi];
        member.seat = member.seat.reserve(cpu).expect("the table knows that it is free");
        member.group = group;
        member.last = None;
        member.load = Load::default();
    }

    /// True: it is disabled, and a member at once.
    fn begin_attach(&mut self, napi: usize) -> bool {
        self.transition(napi, State::group_attach_begin)
    }

    /// True: the group owns the instance, and its interrupt is masked.
    fn claim(&mut self, napi: usize) -> bool {
        let got = self.transition_if(napi, State::group_attach_claim);
        if got {
            self.own(napi, Owner::Group);
            self.napis[napi].missed_kept = false;
            self.mask_for_group(napi);
            self.cancel_timer(napi);
        }
        got
    }

    fn mask_for_group(&mut self, napi: usize) {
        if !std::mem::replace(&mut self.napis[napi].masked, true) {
            let index = self.napis[napi].index;
            self.note(Event::Mask { napi: index });
        }
    }

    /// Wakes a CPU of a group that was given something to poll.
    fn wake_poller(&mut self, cpu: GroupCpu) -> Woken {
        let poller = &mut self.groups.pollers[usize::from(cpu.0)];
        let (next, woken) = poller.word.wake();
        poller.word = next;
        let ctx = poller.ctx;
        if woken == Woken::Rouse {
            self.wake(ctx);
        }
        woken
    }

    /// The members as a policy sees them, and which instance each is.
    fn member_views(&mut self, group: usize) -> (Vec<MemberView>, Vec<usize>) {
        let (now, stall) = (self.now, self.groups.all[group].decider.settings().stall_after);
        let (mut views, mut which) = (Vec::new(), Vec::new());
        for napi in 0..self.groups.members.len() {
            if !self.groups.has(napi) || self.groups.members[napi].group != group {
                continue;
            }
            let member = &mut self.groups.members[napi];
            let cpu = member.seat.cpu();
            let silent = now - self.groups.pollers[usize::from(cpu.0)].turned;
            let ring = &self.napis[napi].ring;
            views.push(MemberView {
                cpu,
                last: member.last,
                age: ring.front().map_or(Span::ZERO, |packet| now - packet.came),
                backlog: ring.len() as u32,
                load: member.load.permille(now),
                per_packet: member.per_packet,
                fixed: member.seat.is_held() || (member.seat.phase() == Phase::Turn && silent >= stall),
            });
            which.push(napi);
        }
        (views, which)
    }

    fn cpu_views(&self, group: usize) -> Vec<CpuView> {
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
    fn way(&self, last: Option<GroupCpu>, from: GroupCpu, to: GroupCpu) -> Way {
        if last == Some(to) {
            return Way::Back;
        }
        let view = |cpu: GroupCpu| self.cpu_view(cpu.0.into());
        match view(from).distance(&view(to)) {
            Distance::Same | Distance::Sibling => Way::Sibling,
            Distance::Node => Way::Node,
            Distance::Other => Way::Far,
        }
    }

    pub(super) fn group_counters(&self, add: &mut impl FnMut(String, u64)) {
        for group in &self.groups.all {
            for (what, value) in [
                ("turns", group.turns),
                ("parks", group.parks),
                ("parks_in_vain", group.decider.parks_in_vain()),
                ("wakes", group.wakes),
                ("moves", group.moves.iter().sum()),
                ("moves_back", group.moves[Way::Back as usize]),
                ("moves_sibling", group.moves[Way::Sibling as usize]),
                ("moves_node", group.moves[Way::Node as usize]),
                ("moves_far", group.moves[Way::Far as usize]),
            ] {
                add(format!("{}.{what}", group.name), value);
            }
        }
    }

    /// CPUs of a group that are not asleep.
    fn group_active(&self, group: usize) -> usize {
        let awake = |cpu: &&usize| !matches!(self.groups.pollers[**cpu].word.doing(), Doing::Off | Doing::Asleep);
        self.groups.all[group].cpus.iter().filter(awake).count()
    }

    /// Compares a group with what it should be.
    pub(super) fn look_at_group(&mut self, check: &GroupCheck, line: u32) {
        let mut differs = Vec::new();
        if let Some(want) = check.active {
            let have = self.group_active(check.group.at());
            if want as usize != have {
                differs.push((format!("active = {want}"), format!("active = {have}")));
            }
        }
        if let Some((napi, cpu)) = check.member {
            let seat = self.groups.members[napi.at()].seat;
            if seat.phase() == Phase::Free || seat.cpu() != GroupCpu(cpu.0) {
                differs.push((format!("cpu = {}", cpu.0), format!("{seat:?}")));
            }
        }
        if !differs.is_empty() {
            let (expected, seen): (Vec<_>, Vec<_>) = differs.into_iter().unzip();
            self.note(Event::CheckFailed { line, expected: expected.join(", "), seen: seen.join(", ") });
        }
    }
}
