//! Scheduling: who will poll an instance that just got an owner.

use std::cell::Cell;

use napier_core::state::State;
use napier_core::time::Span;

use super::Deliver;
use super::group::Grouped;
use super::owner::{Owner as _, owner};
use crate::journal::{Event, Rule};
use crate::napi::Napi;
use crate::napi::place::HERE;

impl Deliver {
    /// The interrupt handler: take ownership, mask, schedule. The owner sees MISSED otherwise.
    #[inline]
    pub(crate) fn interrupt(&self, napi: &Napi) {
        if napi.transition(Rule::SchedulePrep, State::schedule_prep) {
            napi.mask();
            self.moderate(napi);
            self.schedule_owned(napi);
        }
    }

    /// An interrupt was heard. If another owner has taken meanwhile what it was for, and has gone, it needs no mask and no
    /// poll: the line is only made ready for the next one.
    pub(crate) fn interrupt_heard(&self, napi: &Napi) {
        let needless = !napi.state().contains(State::SCHED) && !napi.irq.packets_wait();
        if needless {
            napi.counters.needless_interrupt();
            // Whoever comes in between is unmasked early: an interrupt too many, as after any late unmask.
            if !napi.irq.unmask() {
                return;
            }
        }
        self.interrupt(napi);
    }

    /// `napi_schedule`: true if this call took ownership.
    pub(crate) fn napi_schedule(&self, napi: &Napi) -> bool {
        let acquired = napi.transition(Rule::SchedulePrep, State::schedule_prep);
        if acquired {
            self.schedule_owned(napi);
        }
        acquired
    }

    /// `__napi_schedule` by whoever just obtained SCHED: hands the instance to its thread, or to the poll
    /// list of this CPU.
    pub(crate) fn schedule_owned(&self, napi: &Napi) {
        napi.counters.scheduled();
        if napi.state().to_group() {
            return Grouped.take(self, napi);
        }
        // Who polls comes with the transition: read later it could be another's turn, with the instance long handed on.
        let poller = napi.transition(Rule::Schedule, State::schedule);
        #[cfg(test)]
        crate::napi::hold::at(crate::napi::hold::Point::Scheduled);
        owner(poller).take(self, napi);
    }

    /// Arms the instance's timer on the CPU of the caller; replaces any earlier expiry.
    #[inline]
    pub(crate) fn arm_timer(&self, napi: &Napi, span: Span) {
        let here = HERE.with(Cell::get);
        let cpu = self.softirq_of(here, napi);
        let at = self.clock.now() + span;
        napi.journaled(|| napi.timer.arm(at, cpu.index), |()| Event::TimerStart { span, due: at, cpu: cpu.cpu });
        cpu.timer_armed(self, here, napi, at);
    }
}
