//! Groups of CPUs that poll: what the machine keeps of them, and how it looks to their policies. The rules are those of
//! `napier_core::group`.

pub(crate) mod member;
pub(crate) mod park;
pub(crate) mod views;

use napier_core::group::{
    Awake, CpuWord, Decider, GiveWay, GroupCpu, Groups as Table, Load, Machine as Cpus, MemberId, Phase, Policy, Seat,
    Settings, Woken,
};
use napier_core::time::{Instant, Span};

use crate::machine::cpu::ctx::Ctx;
use crate::machine::sim::event::CtxId;
use crate::machine::tx::Outbound;
use napier_scenario::{CpuIx, Event, GroupCheck, Machine};

/// Groups of CPUs that poll.
pub(crate) struct Grouped {
    below: Outbound,
    pub(crate) groups: Groups,
}

stands_on!(Grouped, Outbound);

/// Other threads of a CPU wait at most this long for a group's thread that would not be preempted.
pub(crate) const GIVE_WAY: Span = Span::from_ms(1);

/// And run for this long, if they want to.
pub(crate) const ASIDE: Span = Span::from_us(50);

/// An instance, as a member or not.
#[derive(Debug)]
pub(crate) struct GroupMember {
    pub(crate) seat: Seat,
    pub(crate) group: usize,
    pub(crate) last: Option<GroupCpu>,
    pub(crate) load: Load,
    pub(crate) per_packet: Span,
}

/// A CPU, in a group or not.
#[derive(Debug)]
pub(crate) struct GroupPoller {
    pub(crate) word: CpuWord,
    pub(crate) ctx: CtxId,
    pub(crate) group: usize,
    /// When its last turn ended.
    pub(crate) turned: Instant,
    /// The policy wants it to park.
    pub(crate) asked_to_park: bool,
    /// Its group counts it among those that poll.
    pub(crate) counted: bool,
    /// Contexts between giving it something to poll and waking it.
    pub(crate) waking: u32,
    /// It was told to leave, and has not yet.
    pub(crate) leaving: bool,
    pub(crate) core: u16,
    pub(crate) node: u16,
    pub(crate) way: GiveWay,
}

/// One group.
#[derive(Debug)]
pub(crate) struct PollGroup {
    pub(crate) name: String,
    /// Those that were deleted stay, with nothing in them.
    pub(crate) cpus: Vec<usize>,
    pub(crate) decider: Decider,
    pub(crate) awake: Awake,
    pub(crate) decided: Instant,
    /// A CPU is at it.
    pub(crate) deciding: bool,
    pub(crate) policy: napier_scenario::Policy,
    pub(crate) turns: u64,
    pub(crate) parks: u64,
    pub(crate) wakes: u64,
    /// Moves of members, by [`MoveWay`].
    pub(crate) moves: [u64; MoveWay::COUNT],
}

/// Where a member goes, as the policy prefers it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum MoveWay {
    /// To the CPU that had it before.
    Back,
    /// To the other thread of the core.
    Sibling,
    /// To another core of the node.
    Node,
    /// To another node.
    Far,
}

impl MoveWay {
    const COUNT: usize = Self::Far as usize + 1;
}

/// All of it.
#[derive(Default)]
pub(crate) struct Groups {
    pub(crate) table: Table,
    pub(crate) all: Vec<PollGroup>,
    pub(crate) members: Vec<GroupMember>,
    pub(crate) pollers: Vec<GroupPoller>,
    /// A call changes groups.
    pub(crate) locked: bool,
}

impl Groups {
    /// Contexts that poll for groups: one for each CPU, if there are groups at all.
    pub(crate) const fn threads(&self) -> usize {
        self.pollers.len()
    }

    /// The instance is a member, whatever it is doing.
    pub(crate) fn has(&self, napi: usize) -> bool {
        self.members.get(napi).is_some_and(|member| member.seat.phase() != Phase::Free)
    }

    pub(crate) fn cpus(&self) -> Cpus<'static> {
        Cpus { cpus: self.pollers.len() as u16, offline: &[] }
    }
}

/// Makes the threads and the groups, without members.
pub(crate) fn add_groups(w: &mut Grouped, machine: &Machine) {
    if machine.groups.is_empty() {
        return;
    }
    let member =
        || GroupMember { seat: Seat::FREE, group: 0, last: None, load: Load::default(), per_packet: Span::ZERO };
    let napis = w.napis.len();
    w.groups.members.extend((0..napis).map(|_| member()));
    for cpu in 0..w.cpus.len() {
        let ctx = w.ctxs.len();
        w.ctxs.push(Ctx::new(cpu, napier_scenario::Policy::Fair));
        w.cpus[cpu].ready.push(ctx);
        w.groups.pollers.push(GroupPoller {
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
        w.groups.all.push(PollGroup {
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
            moves: [0; MoveWay::COUNT],
        });
    }
}

impl Grouped {
    pub(crate) fn new(below: Outbound) -> Self {
        Self { below, groups: Groups::default() }
    }

    /// Settings as the table has them, which may have changed with the number of CPUs.
    pub(crate) fn keep_settings(&mut self, group: usize, name: &str) {
        let at = self.groups.table.find(name).expect("it was there a moment ago");
        let settings = self.groups.table.all()[at].settings;
        self.set_group(group, settings);
    }

    /// New settings are looked at by all CPUs, those that sleep too.
    pub(crate) fn set_group(&mut self, group: usize, settings: Settings) {
        self.groups.all[group].decider.set(settings);
        self.wake_group(group);
    }

    /// Wakes all CPUs of a group.
    pub(crate) fn wake_group(&mut self, group: usize) {
        for cpu in self.groups.all[group].cpus.clone() {
            let _ = self.wake_poller(GroupCpu(cpu as u16));
        }
    }

    /// The devices are up: groups take their members. As many CPUs poll as have to be active, one at least; all of them
    /// under a policy that never parks.
    pub(crate) fn begin_groups(&mut self, machine: &Machine) {
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
                        word.announce().and_then(CpuWord::sleep).expect("nothing disturbs");
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
    pub(crate) fn join(&mut self, group: usize, cpu: usize) {
        let now = self.now;
        let poller = &mut self.groups.pollers[cpu];
        poller.word = poller.word.join().expect("it is in no group");
        poller.group = group;
        poller.turned = now;
        poller.asked_to_park = false;
        poller.counted = true;
        let ctx = poller.ctx;
        let of = &mut self.groups.all[group];
        of.awake = of.awake.come();
        self.ctxs[ctx].policy = of.policy;
        self.wake(ctx);
    }

    /// A place for a new member.
    pub(crate) fn reserve(&mut self, group: usize, napi: usize) {
        let (members, _) = self.member_views(group);
        let cpus = self.cpu_views(group);
        let cpu = self.groups.all[group].decider.place(&members, &cpus).expect("the group has a CPU");
        let member = &mut self.groups.members[napi];
        member.seat = member.seat.reserve(cpu).expect("the table knows that it is free");
        member.group = group;
        member.last = None;
        member.load = Load::default();
    }

    /// Wakes a CPU of a group that was given something to poll.
    pub(crate) fn wake_poller(&mut self, cpu: GroupCpu) -> Woken {
        let poller = &mut self.groups.pollers[usize::from(cpu.0)];
        let (next, woken) = poller.word.wake();
        poller.word = next;
        let ctx = poller.ctx;
        if woken == Woken::Rouse {
            self.wake(ctx);
        }
        woken
    }

    /// Compares a group with what it should be.
    pub(crate) fn look_at_group(&mut self, check: &GroupCheck, line: u32) {
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
