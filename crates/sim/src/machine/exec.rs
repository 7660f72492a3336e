//! The executor: pops events in order of time, and lets each CPU's topmost context go on.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use napier_core::time::Instant;

use crate::machine::sim::event::Ev;
use crate::machine::vm::Vm;

/// A context's code.
pub(crate) type Code = Pin<Box<dyn Future<Output = ()>>>;

/// A machine that runs.
pub(crate) struct Exec {
    pub(crate) vm: Rc<Vm>,
    pub(crate) code: Vec<Code>,
}

/// Events between two looks at whether the run is to end.
const EVENTS_PER_LOOK: u32 = 1024;

impl Exec {
    /// Runs until `until`, or until something is broken, or nothing more can happen.
    pub(crate) fn run_until(&mut self, until: Instant) {
        self.run_until_or(until, &AtomicBool::new(false));
    }

    /// The same, or until `stop` is set.
    pub(crate) fn run_until_or(&mut self, until: Instant, stop: &AtomicBool) {
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

    /// Lets the CPU go on until its topmost context spends time that something else may fall into. What a context spends in between does not
    /// come here (`World::spends_at_once`), which has to do then what is done here.
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
