//! Who polls what: which CPUs of a group are awake, and which of them has which member. Pure: what is seen goes in, what
//! to do comes out, and no clock, lock or allocation is touched in a turn.
//!
//! | policy | grows | shrinks | moves |
//! |---|---|---|---|
//! | [`Policy::Delay`] | at once, when a member's oldest packet has waited longer than the target | when all delays have been small for a while, which gets longer with each park that was in vain | the member that waits, to the CPU that had it last, else the nearest |
//! | [`Policy::Compact`] | when the estimated delay of a CPU is over the target | when its members fit on fewer CPUs, looked at in intervals | what fits, first fit by load |
//! | [`Policy::Static`] | never | never | only from a CPU that leaves the group |
//!
//! Whole members move, never packets: order within a queue is the order in which one poller takes it.

use alloc::vec::Vec;

use super::GroupCpu;
use crate::time::{Instant, Span};

mod compact;
mod delay;
mod view;

pub use view::{CpuState, CpuView, Distance, MemberView};

/// How a group decides.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash, Default)]
pub enum Policy {
    /// By queueing delay against a target.
    #[default]
    Delay,
    /// All CPUs poll what they were given, for ever.
    Static,
    /// As few CPUs as fit, by estimated queueing delay. After the scheduler of Snap (Marty and others, SOSP 2019).
    Compact,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Delay, Self::Static, Self::Compact];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Static => "static",
            Self::Compact => "compact",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// What can be set of a group.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub struct Settings {
    /// How it decides.
    pub policy: Policy,
    /// How long a packet may wait before another CPU is woken.
    pub delay_target: Span,
    /// CPUs that poll however little there is to do. 0: all may sleep, with the interrupts armed.
    pub min_active: u16,
    /// How long delays must have been small before a CPU parks, the first time.
    pub shrink_after: Span,
    /// A CPU that has not ended a turn for so long is taken for stopped, and its members go to others.
    pub stall_after: Span,
}

impl Settings {
    /// CPUs that have to be awake, of a group of so many. What was asked of a CPU may be out of date when it gets there.
    #[must_use]
    pub const fn min_awake(&self, cpus: u16) -> u16 {
        match self.policy {
            Policy::Static => cpus,
            Policy::Delay | Policy::Compact if self.min_active < cpus => self.min_active,
            Policy::Delay | Policy::Compact => cpus,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::Delay,
            delay_target: Span::from_us(10),
            min_active: 1,
            shrink_after: Span::from_us(200),
            stall_after: Span::from_ms(1),
        }
    }
}

/// One thing to do. They are to be done in order: a move to a CPU that sleeps comes after its wake-up.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// This CPU tries to park, if it still has nothing to do when it gets there.
    Park(GroupCpu),
    /// Wake this one.
    Wake(GroupCpu),
    /// The member, by its position in what was seen, goes there.
    Move {
        /// Position.
        member: usize,
        /// Where to.
        to: GroupCpu,
    },
}

/// What a policy knows of one member beside what it sees.
#[derive(Copy, Clone, Debug)]
struct MemberMemory {
    /// It was moved: until then it is left alone.
    settles: Instant,
}

/// And of one CPU.
#[derive(Copy, Clone, Debug)]
struct CpuMemory {
    cpu: GroupCpu,
    /// A park was asked for at this time, and how it ended is not known yet.
    parked: Option<Instant>,
    /// It was seen asleep since.
    slept: bool,
    /// Parks in a row that were in vain.
    vain: u32,
    /// Since when the delays of its members have been small ([`Policy::Delay`]).
    calm_since: Option<Instant>,
    /// When it was last woken ([`Policy::Compact`]).
    woken: Instant,
}

/// Doublings of [`Settings::shrink_after`] at most, for parks that were in vain.
const VAIN_MAX: u32 = 8;

/// A policy that was not asked for so long was not asked because all CPUs slept: who polls asks every few microseconds.
const UNSEEN: Span = Span::from_us(10);

/// A policy with its memory. One turn of it is made by one CPU at a time.
#[derive(Clone, Debug)]
pub struct Decider {
    settings: Settings,
    members: Vec<MemberMemory>,
    cpus: Vec<CpuMemory>,
    decisions: Vec<Decision>,
    /// When the policy was last asked.
    asked: Instant,
    /// When it last looked at the whole ([`Policy::Compact`]).
    looked: Instant,
    vain: u64,
}

impl Decider {
    /// Begins.
    #[must_use]
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            members: Vec::new(),
            cpus: Vec::new(),
            decisions: Vec::new(),
            asked: Instant::ZERO,
            looked: Instant::ZERO,
            vain: 0,
        }
    }

    /// The settings in force.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Other settings, from the next turn on.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
        self.cpus.iter_mut().for_each(|memory| memory.calm_since = None);
    }

    /// Parks so far that ended before they had paid: something came within [`Settings::shrink_after`].
    #[must_use]
    pub const fn parks_in_vain(&self) -> u64 {
        self.vain
    }

    /// One turn. `members` and `cpus` stand in the same order each time, except after one was attached or detached. The
    /// room for decisions is kept from turn to turn.
    pub fn decide(&mut self, now: Instant, members: &[MemberView], cpus: &[CpuView]) -> &[Decision] {
        self.decisions.clear();
        self.remember(now, members.len(), cpus);
        self.take_over(now, members, cpus);
        match self.settings.policy {
            Policy::Static => self.wake_all(cpus),
            _ if !self.decisions.is_empty() => {} // stopped CPUs first; the rest is looked at when that is done
            Policy::Delay => self.delay(now, members, cpus),
            Policy::Compact => self.compact(now, members, cpus),
        }
        &self.decisions
    }

    /// Where a new member goes: the CPU with the least to do, among those awake unless the policy keeps all awake; of
    /// equals the one with fewer members, then the first. `None`: the group has no CPU.
    #[must_use]
    pub fn place(&self, members: &[MemberView], cpus: &[CpuView]) -> Option<GroupCpu> {
        let rank = |cpu: &CpuView| {
            let sleeps = cpu.state == CpuState::Parked && self.settings.policy != Policy::Static;
            let of = members.iter().filter(|member| member.cpu == cpu.cpu);
            let (count, load) = of.fold((0, 0), |(count, load), member| (count + 1, load + u32::from(member.load)));
            (sleeps, load, count)
        };
        let staying = cpus.iter().filter(|cpu| cpu.state != CpuState::Leaving);
        staying.min_by_key(|cpu| rank(cpu)).map(|cpu| cpu.cpu)
    }

    /// Brings the memory to what is seen, and learns how parks ended.
    fn remember(&mut self, now: Instant, members: usize, cpus: &[CpuView]) {
        self.members.resize(members, MemberMemory { settles: Instant::ZERO });
        let same = self.cpus.len() == cpus.len() && self.cpus.iter().zip(cpus).all(|(old, new)| old.cpu == new.cpu);
        if !same {
            self.cpus.clear();
            let fresh = |view: &CpuView| CpuMemory {
                cpu: view.cpu,
                parked: None,
                slept: false,
                vain: 0,
                calm_since: None,
                woken: Instant::ZERO,
            };
            self.cpus.extend(cpus.iter().map(fresh));
            // A turn makes at most a move for each member, and a wake-up or a park for each CPU.
            self.decisions.reserve(members + cpus.len());
        }
        // With all asleep nobody looks.
        let unseen = now - self.asked >= UNSEEN;
        self.asked = now;
        for (memory, view) in self.cpus.iter_mut().zip(cpus) {
            let Some(since) = memory.parked else { continue };
            let soon = now - since < self.settings.shrink_after;
            memory.slept |= view.state == CpuState::Parked || unseen;
            // It takes a CPU a round or two to get there.
            let over = matches!(view.state, CpuState::Active { .. }) && (memory.slept || !soon);
            if over {
                if soon || !memory.slept {
                    memory.vain = (memory.vain + 1).min(VAIN_MAX);
                    self.vain += 1;
                } else {
                    memory.vain /= 2;
                }
                (memory.parked, memory.slept, memory.calm_since) = (None, false, None);
            }
        }
    }

    fn wake_all(&mut self, cpus: &[CpuView]) {
        let parked = cpus.iter().filter(|cpu| cpu.state == CpuState::Parked);
        self.decisions.extend(parked.map(|cpu| Decision::Wake(cpu.cpu)));
    }

    /// Members of CPUs that leave, or that stopped unless the policy is static, go to others.
    fn take_over(&mut self, now: Instant, members: &[MemberView], cpus: &[CpuView]) {
        for (at, member) in members.iter().enumerate() {
            let Some(home) = cpus.iter().find(|cpu| cpu.cpu == member.cpu) else { continue };
            let stopped = self.settings.policy != Policy::Static && self.stopped(home);
            if member.fixed || !(stopped || home.state == CpuState::Leaving) {
                continue;
            }
            let able = |cpu: &&CpuView| cpu.cpu != home.cpu && self.runs(cpu);
            let to = cpus.iter().filter(able).min_by_key(|cpu| (self.load_of(cpu.cpu, members), home.distance(cpu)));
            let to = to.or_else(|| nearest(home, member.last, cpus, |cpu| cpu.state == CpuState::Parked));
            if let Some(to) = to.copied() {
                self.send(now, at, &to);
            }
        }
    }

    fn stopped(&self, cpu: &CpuView) -> bool {
        matches!(cpu.state, CpuState::Active { silent } if silent >= self.settings.stall_after)
    }

    /// It polls, and answers.
    fn runs(&self, cpu: &CpuView) -> bool {
        matches!(cpu.state, CpuState::Active { .. }) && !self.stopped(cpu)
    }

    fn active(&self, cpus: &[CpuView]) -> usize {
        cpus.iter().filter(|cpu| self.runs(cpu)).count()
    }

    fn load_of(&self, cpu: GroupCpu, members: &[MemberView]) -> u32 {
        members.iter().filter(|member| member.cpu == cpu).map(|member| u32::from(member.load)).sum()
    }

    /// How much would move if this CPU parked: load, and members.
    fn to_move(&self, cpu: GroupCpu, members: &[MemberView]) -> (u32, usize) {
        (self.load_of(cpu, members), members.iter().filter(|member| member.cpu == cpu).count())
    }

    /// Decides a move, and the wake-up before it if one is needed.
    fn send(&mut self, now: Instant, member: usize, to: &CpuView) {
        if to.state == CpuState::Parked && !self.decisions.contains(&Decision::Wake(to.cpu)) {
            self.decisions.push(Decision::Wake(to.cpu));
            if let Some(memory) = self.memory(to.cpu) {
                memory.woken = now;
            }
        }
        self.decisions.push(Decision::Move { member, to: to.cpu });
        self.let_settle(now, member);
    }

    /// What waits has to be polled before it can be seen whether a move helped.
    fn let_settle(&mut self, now: Instant, member: usize) {
        self.members[member].settles = now + Span::from_ns(self.settings.delay_target.ns.saturating_mul(4));
    }

    /// Moves all members of a CPU to others that are awake; `place` gives one that has room for so much load. False: a member has
    /// no place or cannot be moved, and nothing was decided.
    fn give_away(
        &mut self,
        now: Instant,
        from: GroupCpu,
        members: &[MemberView],
        place: impl Fn(&Self, u32) -> Option<GroupCpu>,
    ) -> bool {
        let before = self.decisions.len();
        let mine = || members.iter().enumerate().filter(|(_, member)| member.cpu == from);
        for (at, member) in mine() {
            let to = if member.fixed { None } else { place(self, member.load.into()) };
            let Some(to) = to else {
                self.decisions.truncate(before);
                return false;
            };
            self.decisions.push(Decision::Move { member: at, to });
        }
        mine().for_each(|(at, _)| self.let_settle(now, at));
        true
    }

    /// The load of a CPU with what was decided to go there.
    fn load_to_be(&self, cpu: GroupCpu, members: &[MemberView]) -> u32 {
        let comes = |decision: &Decision| match decision {
            Decision::Move { member, to } if *to == cpu => u32::from(members[*member].load),
            _ => 0,
        };
        self.load_of(cpu, members) + self.decisions.iter().map(comes).sum::<u32>()
    }

    fn park(&mut self, now: Instant, cpu: GroupCpu) {
        self.decisions.push(Decision::Park(cpu));
        if let Some(memory) = self.memory(cpu) {
            memory.parked = Some(now);
            memory.calm_since = None;
        }
    }

    fn memory(&mut self, cpu: GroupCpu) -> Option<&mut CpuMemory> {
        self.cpus.iter_mut().find(|memory| memory.cpu == cpu)
    }

    /// Wakes CPUs until enough are active. True: some were.
    fn fill(&mut self, cpus: &[CpuView]) -> bool {
        let missing = usize::from(self.settings.min_active).saturating_sub(self.active(cpus));
        let parked = cpus.iter().filter(|cpu| cpu.state == CpuState::Parked).take(missing);
        self.decisions.extend(parked.map(|cpu| Decision::Wake(cpu.cpu)));
        !self.decisions.is_empty()
    }

    /// How long delays must have been small before this CPU parks.
    fn patience(&self, cpu: GroupCpu) -> Span {
        let vain = self.cpus.iter().find(|memory| memory.cpu == cpu).map_or(0, |memory| memory.vain);
        Span::from_ns(self.settings.shrink_after.ns.saturating_mul(1 << vain))
    }
}

/// The nearest of those that will do: the one that had the member last, then by distance, then the first.
fn nearest<'a>(
    from: &CpuView,
    last: Option<GroupCpu>,
    cpus: &'a [CpuView],
    able: impl Fn(&CpuView) -> bool,
) -> Option<&'a CpuView> {
    let able = cpus.iter().filter(|cpu| cpu.cpu != from.cpu && able(cpu));
    able.min_by_key(|cpu| (Some(cpu.cpu) != last, from.distance(cpu)))
}

#[cfg(test)]
mod tests;
