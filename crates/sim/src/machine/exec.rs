//! The executor: pops events in order of time, and lets each CPU's topmost context go on.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use napier_core::time::{Deadline, Instant};

use super::event::Ev;
use super::vm::{Request, Vm};
use super::world::{Run, World};

/// A context's code.
pub(super) type Code = Pin<Box<dyn Future<Output = ()>>>;

/// A machine that runs.
pub(super) struct Exec {
    pub(super) vm: Rc<Vm>,
    pub(super) code: Vec<Code>,
}

/// Events between two looks at whether the run is to end.
const EVENTS_PER_LOOK: u32 = 1024;

impl Exec {
    /// Runs until `until`, or until something is broken, or nothing more can happen.
    pub(super) fn run_until(&mut self, until: Instant) {
        self.run_until_or(until, &AtomicBool::new(false));
    }

    /// The same, or until `stop` is set.
    pub(super) fn run_until_or(&mut self, until: Instant, stop: &AtomicBool) {
        let mut events = 0_u32;
        loop {
            events = events.wrapping_add(1);
            if events.is_multiple_of(EVENTS_PER_LOOK) && stop.load(Ordering::Relaxed) {
                return;
            }
            let event = {
                let mut w = self.vm.w();
                if w.is_over() {
                    return;
                }
                w.horizon = until;
                match w.pop_event(until) {
                    Some(event) => event,
                    None => {
                        w.now = w.now.max(until);
                        return;
                    }
                }
            };
            self.handle(event);
            let mut w = self.vm.w();
            w.check_dirty();
        }
    }

    fn handle(&mut self, event: Ev) {
        let kick = self.vm.w().on_event(event);
        if let Some(cpu) = kick {
            self.vm.w().interrupt_top(cpu);
            self.run_cpu(cpu);
        }
    }

    /// Lets the CPU go on until its topmost context spends time that something else may fall into.
    fn run_cpu(&mut self, cpu: usize) {
        loop {
            let id = {
                let mut w = self.vm.w();
                if w.is_over() {
                    return;
                }
                let Some(id) = w.pick(cpu) else {
                    let now = w.now;
                    w.cpus[cpu].speed.idle(now);
                    return;
                };
                if !w.advance_alone(cpu, id) {
                    return;
                }
                w.on_cpu = Some(cpu);
                id
            };
            let mut context = Context::from_waker(Waker::noop());
            let polled = self.code[id].as_mut().poll(&mut context);
            assert!(polled == Poll::Pending, "contexts go on for ever");
            let request = self.vm.take_request().expect("a context stops only to ask");
            let mut w = self.vm.w();
            w.on_cpu = None;
            w.count_step();
            w.answer(cpu, id, request);
            w.check_dirty();
        }
    }
}

/// Steps at one instant after which time is taken to stand still.
const STEPS_PER_INSTANT_MAX: u64 = 1_000_000;

impl World {
    /// Something is broken, or the run took too many steps.
    fn is_over(&self) -> bool {
        self.broken.is_some() || self.steps > self.steps_max
    }

    /// Counts a step; too many at one instant are a loop without an end.
    pub(super) fn count_step(&mut self) {
        self.steps += 1;
        if self.now != self.instant.0 {
            self.instant = (self.now, self.steps);
        } else if self.steps - self.instant.1 > STEPS_PER_INSTANT_MAX {
            self.fail("time stands still".to_owned());
        }
    }

    /// True: the context may be polled now. Its time is spent at once if nothing else can happen meanwhile;
    /// otherwise an event is set for when it has been spent.
    fn advance_alone(&mut self, cpu: usize, id: usize) -> bool {
        let remaining = self.ctxs[id].remaining;
        if remaining == 0 {
            return true;
        }
        let end = Instant::from_ns(self.now.ns + remaining);
        if end < self.next_event_at() && end <= self.horizon {
            self.ran(cpu, id, self.now, end);
            self.now = end;
            self.ctxs[id].remaining = 0;
            self.ctxs[id].vruntime += remaining;
            return true;
        }
        self.set_top(cpu, id, end);
        false
    }

    fn answer(&mut self, cpu: usize, id: usize, request: Request) {
        match request {
            Request::Spend(ns) => self.ctxs[id].remaining = ns,
            Request::Park => self.park(cpu, id),
            Request::Block(until) => {
                self.leave_cpu(cpu, id);
                let ctx = &mut self.ctxs[id];
                ctx.run = Run::Blocked;
                ctx.wake_gen += 1;
                let generation = ctx.wake_gen;
                if !until.is_never() {
                    self.push(until, Ev::Timeout { ctx: id, generation });
                }
            }
            Request::Resched => {
                // Preemption is looked at whenever the CPU picks; here only a tie among equals is new.
                if self.cpus[cpu].need_resched {
                    self.yield_cpu(cpu, id);
                }
            }
        }
    }

    /// Pushes an event; [`Deadline::NEVER`] is dropped.
    pub(super) fn push(&mut self, at: Deadline, event: Ev) {
        if let Some(at) = at.instant() {
            self.push_at(at.max(self.now), event);
        }
    }
}
