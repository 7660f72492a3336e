//! Virtual CPUs: levels, threads, wake-ups. FIFO threads run before fair ones; fair threads share by virtual run time
//! with a slice of 3 ms; a thread stays on its CPU, unless it is one of those that are placed (`place`).

use std::collections::VecDeque;

use napier_core::softirq::PollLists;
use napier_core::time::{Deadline, Instant, Span};
use napier_core::tx::softirq::OutputQueue;

use crate::machine::cpu::Cpus;
use crate::machine::cpu::ctx::{Level, RunState};
use crate::machine::cpu::work::{Speed, Work};
use crate::machine::sim::event::{CtxId, Ev, HardIrq};
use napier_scenario::{CpuIx, Event, Policy};

/// What a fair thread gets before another one that waits.
pub(crate) const SLICE: Span = Span::from_ms(3);

/// By how much a woken fair thread must be behind the running one to preempt it.
pub(crate) const WAKE_PREEMPTION_NS: u64 = 1_000_000;

/// One virtual CPU.
pub(crate) struct Cpu {
    /// Interrupts that wait for the handler.
    pub(crate) hard_queue: VecDeque<HardIrq>,
    pub(crate) hard_active: bool,
    pub(crate) soft_active: bool,
    /// The receive softirq is raised.
    pub(crate) net_rx_pending: bool,
    /// The transmit softirq is raised.
    pub(crate) net_tx_pending: bool,
    pub(crate) lists: PollLists<u16>,
    /// Disciplines that wait for the transmit softirq.
    pub(crate) output: OutputQueue<usize>,
    pub(crate) current: Option<CtxId>,
    pub(crate) ready: Vec<CtxId>,
    pub(crate) need_resched: bool,
    /// Run time of the fair threads that it has chosen so far, the most.
    pub(crate) floor: u64,
    pub(crate) ksoftirqd: CtxId,
    pub(crate) hard: CtxId,
    pub(crate) soft: CtxId,
    /// The context whose time an event ends, and since when it has been running.
    pub(crate) top: Option<(CtxId, Instant)>,
    pub(crate) generation: u32,
    pub(crate) slice_generation: u32,
    pub(crate) time_squeeze: u64,
    pub(crate) softirq_runs: u64,
    pub(crate) ksoftirqd_wakes: u64,
    pub(crate) tx_runs: u64,
    pub(crate) speed: Speed,
    /// The host took the CPU away until then.
    pub(crate) stopped_until: Instant,
}

impl Cpu {
    pub(crate) fn new(hard: CtxId) -> Self {
        Self {
            hard_queue: VecDeque::new(),
            hard_active: false,
            soft_active: false,
            net_rx_pending: false,
            net_tx_pending: false,
            lists: PollLists::new(),
            output: OutputQueue::new(),
            current: None,
            ready: Vec::new(),
            need_resched: false,
            floor: 0,
            hard,
            soft: hard + 1,
            ksoftirqd: hard + 2,
            top: None,
            generation: 0,
            slice_generation: 0,
            time_squeeze: 0,
            softirq_runs: 0,
            ksoftirqd_wakes: 0,
            tx_runs: 0,
            speed: Speed::default(),
            stopped_until: Instant::ZERO,
        }
    }

    pub(crate) fn is_current(&self, generation: u32) -> bool {
        self.generation == generation
    }

    /// A softirq is raised.
    pub(crate) fn softirq_pending(&self) -> bool {
        self.net_rx_pending || self.net_tx_pending
    }

    pub(crate) fn is_slice(&self, generation: u32) -> bool {
        self.slice_generation == generation
    }
}

impl Cpus {
    /// The context that the CPU executes now.
    pub(crate) fn pick(&mut self, cpu: usize) -> Option<CtxId> {
        let now = self.now;
        let c = &mut self.cpus[cpu];
        if c.stopped_until > now {
            return None;
        }
        if c.hard_active || !c.hard_queue.is_empty() {
            c.hard_active = true;
            return Some(c.hard);
        }
        if c.soft_active {
            return Some(c.soft);
        }
        if let Some(id) = c.current {
            let frozen = self.is_frozen(id);
            let ctx = &self.ctxs[id];
            let pinned = ctx.preempt_off > 0 || ctx.bh_off > 0;
            if frozen && pinned {
                return None;
            }
            if !frozen && (pinned || !self.cpus[cpu].need_resched) {
                return Some(id);
            }
            self.cpus[cpu].current = None;
            self.ctxs[id].ran_at = self.now;
            self.cpus[cpu].ready.push(id);
        }
        self.switch(cpu)
    }

    /// [`Self::pick`] would choose this context again, which runs, and do nothing else.
    #[inline]
    pub(crate) fn stays(&self, cpu: usize, id: CtxId) -> bool {
        let c = &self.cpus[cpu];
        if c.stopped_until > self.now {
            return false;
        }
        if c.hard_active || !c.hard_queue.is_empty() {
            return c.hard_active && id == c.hard;
        }
        if c.soft_active {
            return id == c.soft;
        }
        let ctx = &self.ctxs[id];
        let pinned = ctx.preempt_off > 0 || ctx.bh_off > 0;
        c.current == Some(id) && !self.is_frozen(id) && (pinned || !c.need_resched)
    }

    /// Chooses the next thread.
    fn switch(&mut self, cpu: usize) -> Option<CtxId> {
        self.cpus[cpu].need_resched = false;
        let mut best: Option<(usize, (bool, u64))> = None;
        for (position, id) in self.cpus[cpu].ready.iter().enumerate() {
            if self.is_frozen(*id) {
                continue;
            }
            let ctx = &self.ctxs[*id];
            // FIFO threads in the order of the queue, then the fair one that had least.
            let key = (ctx.policy == Policy::Fair, if ctx.policy == Policy::Fair { ctx.vruntime } else { 0 });
            if best.is_none_or(|(_, least)| key < least) {
                best = Some((position, key));
            }
        }
        let id = match best {
            Some((position, _)) => self.cpus[cpu].ready.remove(position),
            None => self.pull(cpu)?,
        };
        self.cpus[cpu].current = Some(id);
        if self.ctxs[id].policy == Policy::Fair {
            self.cpus[cpu].floor = self.cpus[cpu].floor.max(self.ctxs[id].vruntime);
        }
        let [exit, deep] = self.leave_idle(cpu);
        let switch = self.time_for(cpu, Level::Task, &[exit, deep, (Work::Switch, 1)]);
        let lasts = self.disturbance.after_switch;
        self.cpus[cpu].speed.disturb(lasts);
        self.ctxs[id].remaining += switch;
        self.start_slice(cpu);
        Some(id)
    }

    /// The CPU has something to do: what that takes if it had nothing.
    pub(crate) fn leave_idle(&mut self, cpu: usize) -> [(Work, u64); 2] {
        let now = self.now;
        let idle = self.cpus[cpu].speed.wakes(now).map(|since| now.ns - since.ns);
        let deep = idle.is_some_and(|ns| !self.deep_after.is_zero() && ns >= self.deep_after.ns);
        [(Work::IdleExit, idle.is_some().into()), (Work::DeepIdleExit, deep.into())]
    }

    fn start_slice(&mut self, cpu: usize) {
        let c = &mut self.cpus[cpu];
        c.slice_generation += 1;
        let generation = c.slice_generation;
        let Some(id) = c.current else { return };
        if self.ctxs[id].policy == Policy::Fair && !self.cpus[cpu].ready.is_empty() {
            let at = Deadline::after(self.now, SLICE);
            self.push(at, Ev::Slice { cpu, generation });
        }
    }

    /// The thread has woken up and wants its CPU.
    pub(crate) fn make_ready(&mut self, id: CtxId) {
        self.place(id);
        self.ctxs[id].waker = None;
        let cpu = self.ctxs[id].cpu.get();
        self.ctxs[id].run = RunState::Ready;
        // Who slept long does not get all of it back. What a FIFO thread ran is no measure for fair ones.
        let least = match self.cpus[cpu].current {
            Some(current) if self.ctxs[current].policy == Policy::Fair => self.ctxs[current].vruntime,
            Some(_) => self.cpus[cpu].floor,
            None => 0,
        };
        self.ctxs[id].vruntime = self.ctxs[id].vruntime.max(least.saturating_sub(SLICE.ns / 2));
        self.cpus[cpu].ready.push(id);
        let Some(current) = self.cpus[cpu].current else {
            // The idle task gives way to everybody; a softirq over it looks at this.
            self.cpus[cpu].need_resched = true;
            return;
        };
        let preempts = match (self.ctxs[id].policy, self.ctxs[current].policy) {
            (Policy::Fifo, Policy::Fair) => true,
            (Policy::Fair, Policy::Fair) => self.ctxs[id].vruntime + WAKE_PREEMPTION_NS < self.ctxs[current].vruntime,
            (_, Policy::Fifo) => false,
        };
        if preempts {
            self.cpus[cpu].need_resched = true;
        } else {
            self.start_slice(cpu);
        }
    }

    /// Wakes a sleeping thread; one that does not sleep will look by itself.
    pub(crate) fn wake(&mut self, id: CtxId) {
        if self.ctxs[id].run != RunState::Blocked {
            return;
        }
        self.ctxs[id].run = RunState::Waking;
        self.ctxs[id].waker = self.on_cpu;
        self.ctxs[id].wake_gen += 1;
        let generation = self.ctxs[id].wake_gen;
        let span = self.costs.get(Work::Wake);
        let delay = Span::from_ns(self.jittered(span));
        let cpu = self.ctxs[id].cpu.get();
        self.cpus[cpu].speed.works.add(Work::Wake, delay.ns);
        let at = Deadline::after(self.now, delay);
        self.push(at, Ev::Wake { ctx: id, generation });
    }

    /// The running thread goes to sleep.
    pub(crate) fn leave_cpu(&mut self, cpu: usize, id: CtxId) {
        assert!(self.cpus[cpu].current == Some(id), "only the running thread can sleep");
        assert!(self.ctxs[id].bh_off == 0 && self.ctxs[id].preempt_off == 0, "a thread sleeps with preemption on");
        self.cpus[cpu].current = None;
        self.ctxs[id].ran_at = self.now;
    }

    /// The running thread goes to the end of the queue.
    pub(crate) fn yield_cpu(&mut self, cpu: usize, id: CtxId) {
        if self.cpus[cpu].current == Some(id) && self.ctxs[id].bh_off == 0 && self.ctxs[id].preempt_off == 0 {
            self.cpus[cpu].current = None;
            self.ctxs[id].ran_at = self.now;
            self.cpus[cpu].ready.push(id);
        }
    }

    /// A level has nothing left. At the end of an interrupt the softirqs that are pending run, unless the interrupt
    /// came into one or into a thread that keeps them out.
    pub(crate) fn park(&mut self, cpu: usize, id: CtxId) {
        let bh_off = self.cpus[cpu].current.is_some_and(|task| self.ctxs[task].bh_off > 0);
        let c = &mut self.cpus[cpu];
        if id == c.soft {
            c.soft_active = false;
            return;
        }
        assert!(id == c.hard, "only levels park");
        c.hard_active = false;
        if c.hard_queue.is_empty() && c.softirq_pending() && !c.soft_active && !bh_off {
            c.soft_active = true;
        }
    }

    /// Bottom halves are enabled once more; true if a softirq runs now.
    pub(crate) fn bh_enabled(&mut self, id: CtxId) -> bool {
        let ctx = &mut self.ctxs[id];
        ctx.bh_off -= 1;
        let cpu = &mut self.cpus[ctx.cpu.get()];
        if ctx.bh_off == 0 && cpu.softirq_pending() {
            cpu.soft_active = true;
        }
        cpu.soft_active
    }

    /// Raises the receive softirq on `cpu`; plain process context leaves it to ksoftirqd.
    pub(crate) fn raise(&mut self, cpu: usize, from_process: bool) {
        self.cpus[cpu].net_rx_pending = true;
        self.note(Event::Raise { cpu: CpuIx(cpu as u16) });
        if from_process {
            let ksoftirqd = self.cpus[cpu].ksoftirqd;
            self.wake(ksoftirqd);
        }
    }

    /// Raises the transmit softirq, likewise.
    pub(crate) fn raise_tx(&mut self, cpu: usize, from_process: bool) {
        self.cpus[cpu].net_tx_pending = true;
        if from_process {
            let ksoftirqd = self.cpus[cpu].ksoftirqd;
            self.wake(ksoftirqd);
        }
    }

    /// Time went into the topmost context until now; what remains is kept.
    pub(crate) fn interrupt_top(&mut self, cpu: usize) {
        let c = &mut self.cpus[cpu];
        c.generation += 1;
        if let Some((id, since)) = c.top.take() {
            let spent = self.now.ns - since.ns;
            self.ran(cpu, id, since, self.now);
            self.ctxs[id].remaining -= spent;
            self.ctxs[id].vruntime += spent;
        }
    }

    /// The CPU is busy with `id` until `end`.
    pub(crate) fn set_top(&mut self, cpu: usize, id: CtxId, end: Instant) {
        let now = self.now;
        let c = &mut self.cpus[cpu];
        c.generation += 1;
        c.top = Some((id, now));
        let generation = c.generation;
        self.push_at(end, Ev::Cpu { cpu, generation });
    }

    fn is_frozen(&self, id: CtxId) -> bool {
        self.ctxs[id].frozen_until > self.now
    }

    /// Another thread could run on this CPU.
    pub(crate) fn others_wait(&self, cpu: usize) -> bool {
        self.cpus[cpu].ready.iter().any(|id| self.ctxs[*id].frozen_until <= self.now)
    }
}
