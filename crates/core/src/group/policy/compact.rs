//! As few CPUs as fit, by the delay that a CPU's queues are estimated to have.

use super::{CpuState, CpuView, Decider, GroupCpu, MemberView, nearest};
use crate::time::{Instant, Span};

/// Targets between two looks at the whole.
const INTERVAL_TARGETS: u64 = 10;
/// Thousandths of a CPU that members may take together.
const FILL_MAX: u32 = 800;

/// What a packet that comes now waits for: all that is queued at the CPU before it.
fn estimate(cpu: &CpuView, members: &[MemberView]) -> Span {
    let of = members.iter().filter(|member| member.cpu == cpu.cpu);
    Span::from_ns(of.map(|member| member.per_packet.ns.saturating_mul(u64::from(member.backlog))).sum())
}

impl Decider {
    pub(super) fn compact(&mut self, now: Instant, members: &[MemberView], cpus: &[CpuView]) {
        if self.fill(cpus) || self.scale_out(now, members, cpus) {
            return;
        }
        let interval = self.settings.delay_target.ns.saturating_mul(INTERVAL_TARGETS);
        if (now - self.looked).ns >= interval {
            self.looked = now;
            self.repack(now, members, cpus);
        }
    }

    /// A CPU has more than the target queued: its largest queue goes to the CPU with the least, or to one that sleeps.
    fn scale_out(&mut self, now: Instant, members: &[MemberView], cpus: &[CpuView]) -> bool {
        let most = cpus.iter().filter(|cpu| self.runs(cpu)).max_by_key(|cpu| estimate(cpu, members));
        let Some(from) = most.filter(|cpu| estimate(cpu, members) > self.settings.delay_target).copied() else {
            return false;
        };
        let here = |member: &MemberView| member.cpu == from.cpu && (member.backlog > 0 || member.load > 0);
        if members.iter().filter(|member| here(member)).count() < 2 {
            return false;
        }
        let movable = |at: usize| here(&members[at]) && !members[at].fixed && self.members[at].settles <= now;
        let Some(at) = (0..members.len()).filter(|at| movable(*at)).max_by_key(|at| members[*at].backlog) else {
            return false;
        };
        let idle = |cpu: &CpuView| self.runs(cpu) && estimate(cpu, members).is_zero();
        let room = |cpu: &CpuView| {
            let load = self.load_of(cpu.cpu, members) + u32::from(members[at].load);
            idle(cpu) && load <= FILL_MAX
        };
        let to = nearest(&from, None, cpus, room)
            .or_else(|| nearest(&from, None, cpus, |cpu| cpu.state == CpuState::Parked))
            .copied();
        let Some(to) = to else { return false };
        self.send(now, at, &to);
        true
    }

    fn awake_for(&self, now: Instant, cpu: GroupCpu) -> Span {
        self.cpus.iter().find(|memory| memory.cpu == cpu).map_or(Span::ZERO, |memory| now - memory.woken)
    }

    /// The CPU with the least load gives its members to the others, if each fits somewhere, and parks.
    fn repack(&mut self, now: Instant, members: &[MemberView], cpus: &[CpuView]) {
        let active = self.active(cpus);
        if active <= usize::from(self.settings.min_active) {
            return;
        }
        // What was woken a moment ago has not shown yet how much it has to do.
        let shown = |cpu: &&CpuView| self.runs(cpu) && self.awake_for(now, cpu.cpu) >= self.patience(cpu.cpu);
        let runs = cpus.iter().filter(shown);
        let Some(goes) = runs.min_by_key(|cpu| self.to_move(cpu.cpu, members)).copied() else { return };
        if members.iter().any(|member| member.cpu == goes.cpu && member.backlog > 0) {
            return;
        }
        if active == 1 {
            if members.iter().all(|member| member.backlog == 0 && member.load == 0) {
                self.park(now, goes.cpu);
            }
            return;
        }
        // First fit.
        let place = |decider: &Self, load: u32| {
            let fits = |cpu: &&CpuView| {
                cpu.cpu != goes.cpu && decider.runs(cpu) && decider.load_to_be(cpu.cpu, members) + load <= FILL_MAX
            };
            cpus.iter().find(fits).map(|cpu| cpu.cpu)
        };
        if self.give_away(now, goes.cpu, members, place) {
            self.park(now, goes.cpu);
        }
    }
}
