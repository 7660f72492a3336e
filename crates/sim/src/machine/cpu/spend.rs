//! How a CPU's time is spent: what work takes, what a context asks for, and where the time went.

use napier_core::time::{Deadline, Instant, Span};

use crate::machine::cpu::Cpus;
use crate::machine::cpu::ctx::{CtxRequest, Level, RunState};
use crate::machine::cpu::work::{Account, Work};
use crate::machine::sim::event::Ev;

impl Cpus {
    /// True: the context may be polled now. Its time is spent at once if nothing else can happen meanwhile;
    /// otherwise an event is set for when it has been spent.
    pub(crate) fn advance_alone(&mut self, cpu: usize, id: usize) -> bool {
        let remaining = self.ctxs[id].remaining;
        if remaining == 0 {
            return true;
        }
        let end = Instant::from_ns(self.now.ns + remaining);
        if self.is_alone_until(end) {
            self.ctxs[id].remaining = 0;
            self.had(cpu, id, end);
            return true;
        }
        self.set_top(cpu, id, end);
        false
    }

    /// Nothing else can happen until then, or then.
    #[inline]
    pub(crate) fn is_alone_until(&self, end: Instant) -> bool {
        end < self.next_event_at() && end <= self.horizon
    }

    /// A context has had its CPU until `end`, which is now.
    #[inline]
    pub(crate) fn had(&mut self, cpu: usize, id: usize, end: Instant) {
        self.ran(cpu, id, self.now, end);
        self.ctxs[id].vruntime += end.ns - self.now.ns;
        self.now = end;
    }

    pub(crate) fn answer(&mut self, cpu: usize, id: usize, request: CtxRequest) {
        match request {
            CtxRequest::Spend(ns) => self.ctxs[id].remaining = ns,
            CtxRequest::Park => self.park(cpu, id),
            CtxRequest::Block(until) => {
                self.leave_cpu(cpu, id);
                let ctx = &mut self.ctxs[id];
                ctx.run = RunState::Blocked;
                ctx.wake_gen += 1;
                let generation = ctx.wake_gen;
                if !until.is_never() {
                    self.push(until, Ev::Timeout { ctx: id, generation });
                }
            }
            CtxRequest::Resched => {
                // Preemption is looked at whenever the CPU picks; here only a tie among equals is new.
                if self.cpus[cpu].need_resched {
                    self.yield_cpu(cpu, id);
                }
            }
        }
    }

    /// Where the time of a CPU went until now. Work is charged when it begins: what is not done of it is taken off.
    pub(crate) fn spent(&self, cpu: usize) -> Account {
        let c = &self.cpus[cpu];
        let here = self.ctxs.iter().enumerate().filter(|(_, ctx)| ctx.remaining > 0 && ctx.cpu.get() == cpu);
        here.fold(c.speed.account, |account, (id, ctx)| {
            let done = c.top.filter(|(top, _)| *top == id).map_or(0, |(_, since)| self.now.ns - since.ns);
            let level = match id {
                _ if id == c.hard => Level::Hard,
                _ if id == c.soft => Level::Soft,
                _ => Level::Task,
            };
            account.less(c.speed.last_of(level), ctx.remaining.saturating_sub(done))
        })
    }

    /// The data of the next request is not in the CPU's cache any more.
    pub(crate) fn cool(&mut self, cpu: usize) {
        let lasts = Span::from_ns(self.costs.get(Work::Request).ns + self.costs.get(Work::Answer).ns);
        self.cpus[cpu].speed.disturb(lasts);
    }

    /// A context gets no CPU for a while.
    pub(crate) fn freeze(&mut self, ctx: usize, span: Span) -> Option<usize> {
        let until = Deadline::after(self.now, span);
        let frozen_until = until.instant()?.max(self.ctxs[ctx].frozen_until);
        self.ctxs[ctx].frozen_until = frozen_until;
        self.push_at(frozen_until, Ev::Thaw { ctx });
        Some(self.ctxs[ctx].cpu.get())
    }

    /// How long a CPU takes for work of several kinds, each so many times. Their sum turns out one way or another, not each.
    #[inline]
    pub(crate) fn time_for(&mut self, cpu: usize, level: Level, works: &[(Work, u64)]) -> u64 {
        let (slower, shared_pct) = (self.disturbance, self.shared_pct(cpu));
        let (mut plain, mut charged) = (0, 0);
        for (work, times) in works {
            let ns = self.costs.get(*work).ns * times;
            plain += ns;
            charged += self.cpus[cpu].speed.charge(level, *work, ns, slower, shared_pct);
        }
        self.jittered(Span::from_ns(plain)) + (charged - plain)
    }

    /// The host takes a CPU away.
    pub(crate) fn stop_cpu(&mut self, cpu: usize, span: napier_core::time::Span) -> Option<usize> {
        let until = self.after(span).instant()?.max(self.cpus[cpu].stopped_until);
        self.cpus[cpu].stopped_until = until;
        let ctx = self.cpus[cpu].hard;
        self.push_at(until, Ev::Thaw { ctx });
        Some(cpu)
    }
}
