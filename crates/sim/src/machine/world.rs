//! Everything that exists in a simulated machine, and what its events do.

use napier_core::time::Span;
use rand::RngExt;

use crate::machine::cpu::Cpus;
use crate::machine::cpu::ctx::RunState;
use crate::machine::dev::Devices;
use crate::machine::group::Grouped;
use crate::machine::net::Network;
use crate::machine::peers::Peers;
use crate::machine::peers::bulk::BulkFlows;
use crate::machine::peers::rpc::RoundTrips;
use crate::machine::sim::Sim;
use crate::machine::sim::event::{CtxId, Ev, HardIrq};
use crate::machine::sim::plant::Options;
use crate::machine::tx::Outbound;
use napier_rng::load::Load;
use napier_scenario::{Call, Machine, Step};

#[cfg(test)]
thread_local! {
    /// Every step is the executor's: what comes out has to be the same.
    pub(crate) static STEP_BY_STEP: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// An application thread's calls that are not done.
#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) ctx: CtxId,
    pub(crate) calls: std::collections::VecDeque<Call>,
    pub(crate) cap_net_admin: bool,
    /// A call is being made.
    pub(crate) busy: bool,
}

/// The machine, with the programs of its scenario on top.
pub(crate) struct World {
    below: Peers,
    pub(crate) inboxes: Vec<Inbox>,
    pub(crate) timeline: Vec<Step>,
    /// Thread creations until one fails; 0 = none will.
    pub(crate) fail_thread_in: u32,
}

stands_on!(World, Peers);

impl World {
    pub(crate) fn new(machine: &Machine, timeline: &[Step], options: &Options) -> Self {
        let cpus = Cpus::new(Sim::new(machine, options), machine);
        let transmit = Outbound::new(Network::new(Devices::new(cpus, machine), machine));
        Self {
            below: Peers::new(Grouped::new(transmit)),
            inboxes: Vec::new(),
            timeline: timeline.to_vec(),
            fail_thread_in: 0,
        }
    }

    /// The flows begin: at a rate as if they had been asking for ever, else spread over a millisecond.
    pub(crate) fn begin_bulk(&mut self, mut streams: BulkFlows) {
        for flow in 0..streams.flows.len() {
            let due = self.now
                + match streams.load {
                    Load::Max => Span::from_ns(streams.rng.random_range(0..=1_000_000)),
                    // What is left of a gap that is exponential is exponential.
                    Load::Rps(rate_rps) => streams.gap(rate_rps),
                };
            streams.flows[flow].due = due;
            self.push_at(due, Ev::Due { flow: flow as u16 });
        }
        self.bulk = Some(Box::new(streams));
        for thread in 0..self.inboxes.len() {
            let ctx = self.inboxes[thread].ctx;
            self.wake(ctx);
        }
    }

    /// The programs of both ends may begin.
    pub(crate) fn begin_rpc(&mut self, trips: RoundTrips) {
        self.rpc = Some(trips);
        for thread in 0..self.inboxes.len() {
            let ctx = self.inboxes[thread].ctx;
            self.wake(ctx);
        }
    }

    /// The context that runs spends time, as the executor would have it: true if nothing else comes in between, so that it goes on at once.
    #[inline]
    pub(crate) fn spends_at_once(&mut self, id: CtxId, ns: u64) -> bool {
        #[cfg(test)]
        if STEP_BY_STEP.get() {
            return false;
        }
        let Some(cpu) = self.on_cpu else { return false };
        let end = self.now + Span::from_ns(ns);
        if self.steps >= self.steps_max || !self.is_alone_until(end) || !self.stays(cpu, id) {
            return false;
        }
        self.check_dirty();
        if self.is_over() {
            return false;
        }
        self.count_step();
        self.had(cpu, id, end);
        true
    }

    /// Carries an event out; the CPU that must look again.
    pub(crate) fn on_event(&mut self, event: Ev) -> Option<usize> {
        self.count_step();
        match event {
            Ev::Cpu { cpu, generation } => self.cpus[cpu].is_current(generation).then_some(cpu),
            Ev::Irq { cpu, irq } => {
                if let HardIrq::Device { napi } = irq {
                    self.napis[napi].irq_latched = false;
                }
                self.cpus[cpu].hard_queue.push_back(irq);
                Some(cpu)
            }
            Ev::Timer { napi, generation } => self.timer_expires(napi, generation),
            Ev::Coalesce { napi, generation } => {
                self.coalesce_expires(napi, generation);
                None
            }
            Ev::TxDone { txq, generation } => {
                self.packet_left(txq, generation);
                None
            }
            Ev::Watchdog { qd, generation } => self.watchdog_expires(qd, generation),
            Ev::Wake { ctx, generation } | Ev::Timeout { ctx, generation } => {
                if self.ctxs[ctx].wake_gen != generation || self.ctxs[ctx].run == RunState::Ready {
                    return None;
                }
                self.ctxs[ctx].wake_gen += 1;
                self.make_ready(ctx);
                Some(self.ctxs[ctx].cpu.get())
            }
            Ev::Slice { cpu, generation } => {
                if !self.cpus[cpu].is_slice(generation) || self.cpus[cpu].ready.is_empty() {
                    return None;
                }
                self.cpus[cpu].need_resched = true;
                Some(cpu)
            }
            Ev::Tick { cpu } => self.tick(cpu),
            Ev::Thaw { ctx } => Some(self.ctxs[ctx].cpu.get()),
            Ev::Step { step, left } => {
                self.check_conserved();
                self.take_step(step, left)
            }
            traffic => {
                self.on_traffic(traffic);
                None
            }
        }
    }
}
