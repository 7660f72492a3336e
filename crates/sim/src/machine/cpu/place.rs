//! Threads that are bound to no CPU: where one is put that wakes up, and what a CPU takes over that has nothing to do.
//!
//! As the fair scheduler does it, in short: the CPU that it was on if that is idle, or the waker's; else an idle core, else an idle
//! CPU, which is looked for among the fewer the shorter the pauses of CPUs are; else the one that it was on. A CPU counts as idle while
//! no thread is on it or waits for it, whatever its interrupts and softirqs do: that is what the scheduler sees. At each tick a CPU
//! where a thread waits finds an idle one for it. Left out: load as a measure, caches that only some CPUs share, and how seldom
//! balancing looks far. Source: `kernel/sched/fair.c wake_affine_idle, select_idle_sibling, select_idle_cpu` (`SIS_PROP`, Linux 5.11),
//! `newidle_balance, task_hot, update_avg, nohz_balancer_kick`.

use napier_core::time::Span;

use crate::machine::cpu::Cpus;
use crate::machine::cpu::ctx::RunState;
use crate::machine::cpu::sched::SLICE;
use crate::machine::sim::event::{CtxId, Ev};
use napier_scenario::Policy;

/// What looking at one CPU takes in the search for an idle one; the kernel measures it.
const LOOK: Span = Span::from_ns(50);

/// CPUs of one host, as hyper-threads: the first of all cores, then the second of all.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct HostCpus {
    pub(crate) first: usize,
    pub(crate) cpus: usize,
}

impl HostCpus {
    /// The other hyper-thread of the core.
    fn sibling(self, cpu: usize) -> usize {
        self.first + (cpu - self.first + self.cpus / 2) % self.cpus
    }

    /// All CPUs, beginning with one.
    fn from(self, cpu: usize) -> impl Iterator<Item = usize> {
        (0..self.cpus).map(move |nth| self.first + (cpu - self.first + nth) % self.cpus)
    }
}

/// What placement goes by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Placement {
    /// Hosts whose threads move; empty: every thread stays where it is.
    pub(crate) hosts: Vec<HostCpus>,
    /// By how much work is slower while the core's other hyper-thread works, in percent.
    pub(crate) sibling_pct: u32,
    /// A thread that ran so shortly ago is not taken over, nor does a CPU take over whose pauses are shorter in the mean.
    pub(crate) migration_cost: Span,
    /// CPUs of idle workers of each host, the last that became idle at the end: workers differ in nothing else.
    pub(crate) workers: Option<Vec<Vec<usize>>>,
}

impl Placement {
    fn host(&self, cpu: usize) -> Option<HostCpus> {
        self.hosts.iter().copied().find(|host| (host.first..host.first + host.cpus).contains(&cpu))
    }
}

impl Cpus {
    /// No thread is there, as far as the scheduler sees.
    fn seems_idle(&self, cpu: usize) -> bool {
        self.cpus[cpu].current.is_none() && self.cpus[cpu].ready.is_empty()
    }

    /// By how much the core's other hyper-thread slows this one down, in percent.
    pub(crate) fn shared_pct(&self, cpu: usize) -> u64 {
        if self.places.sibling_pct == 0 {
            return 0;
        }
        let sibling = self.places.host(cpu).map(|host| &self.cpus[host.sibling(cpu)]);
        let works = sibling.is_some_and(|other| other.current.is_some() || other.soft_active || other.hard_active);
        if works { self.places.sibling_pct.into() } else { 0 }
    }

    /// A CPU that seems idle, if possible with an idle core, among the next `most`.
    fn idle_near(&self, host: HostCpus, from: usize, most: usize) -> Option<usize> {
        let idle_core = host.from(from).find(|cpu| self.seems_idle(*cpu) && self.seems_idle(host.sibling(*cpu)));
        idle_core.or_else(|| host.from(from).take(most).find(|cpu| self.seems_idle(*cpu)))
    }

    /// How many CPUs are looked at for one that is idle: a part of the CPU's pauses, at least four.
    fn looks(&self, host: HostCpus, cpu: usize) -> usize {
        let (pauses_ns, look_ns) = (self.cpus[cpu].speed.mean_idle_ns() / 512 * host.cpus as u64, LOOK.ns);
        if pauses_ns > 4 * look_ns { (pauses_ns / look_ns) as usize } else { 4 }
    }

    /// A thread wakes up: it is put on a CPU.
    pub(crate) fn place(&mut self, id: CtxId) {
        let from = self.ctxs[id].cpu.get();
        let Some(host) = self.places.host(from).filter(|_| self.ctxs[id].moves) else { return };
        if self.seems_idle(from) {
            return;
        }
        let waker = self.ctxs[id].waker.filter(|cpu| (host.first..host.first + host.cpus).contains(cpu));
        if let Some(waker) = waker.filter(|cpu| self.seems_idle(*cpu)) {
            self.migrate(id, waker);
        } else if let Some(to) = self.idle_near(host, from, self.looks(host, from)) {
            self.migrate(id, to);
        }
    }

    /// The ticks of all CPUs begin, one after the other.
    pub(crate) fn begin_ticks(&mut self) {
        let period_ns = 1_000_000_000 / u64::from(self.hz);
        let cpus = self.cpus.len();
        for cpu in 0..cpus {
            let at = self.now + Span::from_ns(period_ns * (cpu as u64 + 1) / cpus as u64);
            self.push_at(at, Ev::Tick { cpu });
        }
    }

    /// A tick: a thread that waits here is put on an idle CPU. That CPU, if there is one.
    pub(crate) fn tick(&mut self, cpu: usize) -> Option<usize> {
        let next = self.now + Span::from_ns(1_000_000_000 / u64::from(self.hz));
        self.push_at(next, Ev::Tick { cpu });
        self.cpus[cpu].current?;
        let at = self.cpus[cpu].ready.iter().position(|id| self.may_move(*id))?;
        let to = self.idle_near(self.places.host(cpu)?, cpu, usize::MAX)?;
        let id = self.cpus[cpu].ready.remove(at);
        self.migrate(id, to);
        self.cpus[to].ready.push(id);
        self.cpus[to].need_resched = true;
        Some(to)
    }

    fn may_move(&self, id: CtxId) -> bool {
        let ctx = &self.ctxs[id];
        ctx.moves && ctx.policy == Policy::Fair && ctx.frozen_until <= self.now
    }

    /// The CPU has nothing to do: it takes over a thread that waits for another one, if its pauses are long enough for that.
    pub(crate) fn pull(&mut self, cpu: usize) -> Option<CtxId> {
        let cost = self.places.migration_cost;
        let host = self.places.host(cpu).filter(|_| self.cpus[cpu].speed.mean_idle_ns() >= cost.ns)?;
        for from in host.from(cpu).skip(1) {
            let is_hot = |id: CtxId| self.now.ns - self.ctxs[id].ran_at.ns < cost.ns;
            if let Some(at) = self.cpus[from].ready.iter().position(|id| self.may_move(*id) && !is_hot(*id)) {
                let id = self.cpus[from].ready.remove(at);
                self.migrate(id, cpu);
                return Some(id);
            }
        }
        None
    }

    /// The thread's run time counts from where the threads of its new CPU are.
    fn migrate(&mut self, id: CtxId, to: usize) {
        let from = self.ctxs[id].cpu.replace(to);
        let (was, is) = (self.cpus[from].floor, self.cpus[to].floor);
        let ctx = &mut self.ctxs[id];
        let ahead = ctx.vruntime.saturating_sub(was).min(SLICE.ns);
        let behind = was.saturating_sub(ctx.vruntime).min(SLICE.ns / 2);
        ctx.vruntime = (is + ahead).saturating_sub(behind);
        self.migrations += 1;
    }

    /// Work is queued for a pool: the worker that became idle last takes it, and an unbound one keeps the CPU that it was on.
    pub(crate) fn take_worker(&mut self, id: CtxId) {
        // Who polls, and schedules what it polls once more, goes on where it is.
        if self.ctxs[id].run != RunState::Blocked {
            return;
        }
        let cpu = self.ctxs[id].cpu.get();
        let Some(host) = self.places.hosts.iter().position(|host| (host.first..host.first + host.cpus).contains(&cpu))
        else {
            return;
        };
        if let Some(pool) = &mut self.places.workers
            && let Some(of_worker) = pool[host].pop()
        {
            self.ctxs[id].cpu.set(of_worker);
        }
    }

    /// The worker is idle again.
    pub(crate) fn give_worker(&mut self, id: CtxId) {
        let cpu = self.ctxs[id].cpu.get();
        let host = self.places.hosts.iter().position(|host| (host.first..host.first + host.cpus).contains(&cpu));
        if let (Some(pool), Some(host)) = (&mut self.places.workers, host) {
            pool[host].push(cpu);
        }
    }
}
