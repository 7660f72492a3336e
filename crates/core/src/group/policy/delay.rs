//! By queueing delay: grow at once, shrink slowly.

use super::{CpuState, CpuView, Decider, Decision, GroupCpu, MemberView, nearest};
use crate::time::{Instant, Span};

/// Thousandths of a CPU that members may take together if some of them are to come from another one. Half: what comes in
/// bursts must not make the group grow again at once.
const TOGETHER_MAX: u32 = 500;
/// A delay is small below this part of the target.
const SMALL_PART: u64 = 2;

impl Decider {
    pub(super) fn delay(&mut self, now: Instant, members: &[MemberView], cpus: &[CpuView]) {
        self.feel(now, members, cpus);
        if !self.fill(cpus) && !self.grow(now, members, cpus) {
            self.shrink(now, members, cpus);
        }
    }

    /// Remembers of each CPU since when its delays have been small. Each by itself: of many CPUs there is always one where
    /// something waits.
    fn feel(&mut self, now: Instant, members: &[MemberView], cpus: &[CpuView]) {
        let small = self.settings.delay_target.ns / SMALL_PART;
        for (memory, view) in self.cpus.iter_mut().zip(cpus) {
            let waits = members.iter().any(|member| member.cpu == view.cpu && member.age.ns > small);
            if waits || !matches!(view.state, CpuState::Active { .. }) {
                memory.calm_since = None;
            } else {
                memory.calm_since.get_or_insert(now);
            }
        }
    }

    /// Whether the delays of a CPU have been small for so long.
    fn calm_for(&self, now: Instant, cpu: GroupCpu, span: Span) -> bool {
        let memory = self.cpus.iter().find(|memory| memory.cpu == cpu);
        memory.and_then(|memory| memory.calm_since).is_some_and(|since| now - since >= span)
    }

    /// Members wait too long that are not alone on their CPUs: the oldest goes elsewhere, then the next, each to a CPU of its
    /// own, until no member is late beside others. True: something was decided.
    fn grow(&mut self, now: Instant, members: &[MemberView], cpus: &[CpuView]) -> bool {
        let before = self.decisions.len();
        for _ in 0..members.len() {
            let Some((member, to)) = self.relief(now, members, cpus) else { break };
            self.send(now, member, &to);
        }
        self.decisions.len() > before
    }

    /// The oldest that is late, and where it goes.
    fn relief(&self, now: Instant, members: &[MemberView], cpus: &[CpuView]) -> Option<(usize, CpuView)> {
        let goes =
            |at: usize| self.decisions.iter().any(|it| matches!(it, Decision::Move { member, .. } if *member == at));
        let taken =
            |cpu: &CpuView| self.decisions.iter().any(|it| matches!(it, Decision::Move { to, .. } if *to == cpu.cpu));
        // What was moved a moment ago still has its backlog: more moves would not make it shorter.
        let settled = |at: usize| self.members[at].settles <= now && !members[at].fixed;
        let busy = |at: usize| members[at].backlog > 0 || members[at].load > 0;
        let beside = |cpu| (0..members.len()).filter(|at| members[*at].cpu == cpu && busy(*at) && !goes(*at)).count();
        let late = (0..members.len()).filter(|at| members[*at].age > self.settings.delay_target && settled(*at));
        let late = late.filter(|at| !goes(*at) && beside(members[*at].cpu) >= 2);
        let oldest = late.max_by_key(|at| members[*at].age)?;
        let waits = &members[oldest];
        let home = cpus.iter().find(|cpu| cpu.cpu == waits.cpu)?;
        let here = self.load_of(home.cpu, members);
        // Two thirds of the load: much less sends nearly all that is late to CPUs that sleep, and they do not get together again.
        let free = |cpu: &CpuView| {
            let at_ease = !members.iter().any(|member| member.cpu == cpu.cpu && member.age.ns > 0);
            self.runs(cpu) && !taken(cpu) && at_ease && 3 * self.load_of(cpu.cpu, members) <= 2 * here
        };
        let to = nearest(home, waits.last, cpus, free)
            .or_else(|| nearest(home, waits.last, cpus, |cpu| cpu.state == CpuState::Parked && !taken(cpu)))?;
        Some((oldest, *to))
    }

    /// Of the CPUs that have been calm for long enough, the one with the least to do gives its members to other calm ones and
    /// parks.
    fn shrink(&mut self, now: Instant, members: &[MemberView], cpus: &[CpuView]) {
        let active = self.active(cpus);
        if active <= usize::from(self.settings.min_active) {
            return;
        }
        let patient = |cpu: &&CpuView| self.runs(cpu) && self.calm_for(now, cpu.cpu, self.patience(cpu.cpu));
        let goes = cpus.iter().filter(patient).min_by_key(|cpu| self.to_move(cpu.cpu, members));
        let Some(goes) = goes.copied() else { return };
        if active == 1 {
            // The last one parks only if there is nothing to do at all.
            if members.iter().all(|member| member.backlog == 0 && member.load == 0) {
                self.park(now, goes.cpu);
            }
            return;
        }
        let place = |decider: &Self, load: u32| {
            let fits = |cpu: &CpuView| {
                decider.runs(cpu)
                    && decider.calm_for(now, cpu.cpu, decider.settings.shrink_after)
                    && decider.load_to_be(cpu.cpu, members) + load <= TOGETHER_MAX
            };
            nearest(&goes, None, cpus, fits).map(|cpu| cpu.cpu)
        };
        if !self.give_away(now, goes.cpu, members, place) {
            return;
        }
        // It takes time to see what the others make of them.
        let Self { decisions, cpus: memories, .. } = self;
        let gets = |cpu| decisions.iter().any(|it| matches!(it, Decision::Move { to, .. } if *to == cpu));
        memories.iter_mut().filter(|memory| gets(memory.cpu)).for_each(|memory| memory.calm_since = None);
        self.park(now, goes.cpu);
    }
}
