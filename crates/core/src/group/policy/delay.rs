//! By queueing delay: grow at once, shrink slowly.

use super::{CpuState, CpuView, Decider, MemberView, nearest};
use crate::time::{Instant, Span};

/// Thousandths of a CPU that the members of two CPUs may take together if they are to go to one. Half: what comes in
/// bursts must not make the group grow again at once.
const TOGETHER_MAX: u32 = 500;
/// A delay is small below this part of the target.
const SMALL_PART: u64 = 4;

impl Decider {
    pub(super) fn delay(&mut self, now: Instant, members: &[MemberView], cpus: &[CpuView]) {
        if self.fill(cpus) || self.grow(now, members, cpus) {
            self.calm_since = None;
            return;
        }
        let small = self.settings.delay_target.ns / SMALL_PART;
        if members.iter().any(|member| member.age.ns > small) {
            self.calm_since = None;
            return;
        }
        let calm_since = *self.calm_since.get_or_insert(now);
        self.shrink(now, now - calm_since, members, cpus);
    }

    /// A member waits too long, and is not alone on its CPU: one of the two goes elsewhere. True: something was decided.
    fn grow(&mut self, now: Instant, members: &[MemberView], cpus: &[CpuView]) -> bool {
        let late = |member: &MemberView| member.age > self.settings.delay_target;
        let oldest = members.iter().enumerate().filter(|(_, member)| late(member)).max_by_key(|(_, member)| member.age);
        let Some((oldest, waits)) = oldest else { return false };
        let Some(home) = cpus.iter().find(|cpu| cpu.cpu == waits.cpu) else { return false };
        // What was moved a moment ago still has its backlog: more moves would not make it shorter.
        let settled = |at: usize| self.members[at].settles <= now && !members[at].fixed;
        let busy = |member: &MemberView| member.backlog > 0 || member.load > 0;
        let beside = members.iter().enumerate().filter(|(_, member)| member.cpu == home.cpu && busy(member)).count();
        if beside < 2 || !settled(oldest) {
            return false;
        }
        let here = self.load_of(home.cpu, members);
        let free = |cpu: &CpuView| {
            let at_ease = !members.iter().any(|member| member.cpu == cpu.cpu && member.age.ns > 0);
            self.runs(cpu) && at_ease && 2 * self.load_of(cpu.cpu, members) <= here
        };
        let to = nearest(home, waits.last, cpus, free)
            .or_else(|| nearest(home, waits.last, cpus, |cpu| cpu.state == CpuState::Parked));
        let Some(to) = to.copied() else { return false };
        self.send(now, oldest, &to);
        true
    }

    /// All delays have been small for `calm`: the CPU with the least to do gives its members away and parks.
    fn shrink(&mut self, now: Instant, calm: Span, members: &[MemberView], cpus: &[CpuView]) {
        let active = self.active(cpus);
        if active <= usize::from(self.settings.min_active) || calm < self.settings.shrink_after {
            return;
        }
        let runs = cpus.iter().filter(|cpu| self.runs(cpu));
        let Some(goes) = runs.min_by_key(|cpu| self.load_of(cpu.cpu, members)).copied() else { return };
        if calm < self.patience(goes.cpu) {
            return;
        }
        if active == 1 {
            // The last one parks only if there is nothing to do at all.
            if members.iter().all(|member| member.backlog == 0 && member.load == 0) {
                self.park(now, goes.cpu);
            }
            return;
        }
        let load = self.load_of(goes.cpu, members);
        let fits = |cpu: &CpuView| self.runs(cpu) && self.load_of(cpu.cpu, members) + load <= TOGETHER_MAX;
        let Some(to) = nearest(&goes, None, cpus, fits).copied() else { return };
        let mine = || members.iter().enumerate().filter(|(_, member)| member.cpu == goes.cpu);
        if mine().any(|(_, member)| member.fixed) {
            return;
        }
        for (at, _) in mine() {
            self.send(now, at, &to);
        }
        self.park(now, goes.cpu);
    }
}
