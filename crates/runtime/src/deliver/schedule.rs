//! Scheduling: who will poll an instance that just got an owner.

use napier_core::state::{Poller, State};
use napier_core::time::Span;

use super::Deliver;
use super::group::Grouped;
use super::owner::Owner;
use super::{kthread, softirq, workqueue};
use crate::journal::{Event, Rule};
use crate::napi::{Context, Napi};

/// The owner that an answer of the rules means.
pub(super) fn owner(poller: Poller) -> &'static dyn Owner {
    match poller {
        Poller::Softirq => &softirq::OnCpu,
        Poller::Thread => &kthread::OwnThread,
        Poller::Pool => &workqueue::Pool,
    }
}

impl Deliver {
    /// The interrupt handler: take ownership, mask, schedule. The owner sees MISSED otherwise.
    #[inline]
    pub(crate) fn interrupt(&self, cx: Context, napi: &Napi) {
        if napi.transition(Rule::SchedulePrep, State::schedule_prep) {
            napi.mask();
            self.moderate(cx, napi);
            self.schedule_owned(cx, napi);
        }
    }

    /// As [`Self::interrupt`], and the CPU's thread polls, not the caller.
    pub(crate) fn interrupt_by_thread(&self, napi: &Napi) {
        self.interrupt(*Context::current().kick_only(), napi);
    }

    /// An interrupt was heard. If another owner has taken meanwhile what it was for, and has gone, it needs no mask and no
    /// poll: the line is only made ready for the next one.
    pub(crate) fn interrupt_heard(&self, cx: Context, napi: &Napi) {
        let needless = !napi.state().contains(State::SCHED) && !napi.irq.packets_wait();
        if needless {
            napi.counters.needless_interrupt();
            // Whoever comes in between is unmasked early: an interrupt too many, as after any late unmask.
            if !napi.irq.unmask() {
                return;
            }
        }
        self.interrupt(cx, napi);
    }

    /// `napi_schedule`: true if this call took ownership.
    pub(crate) fn napi_schedule(&self, cx: Context, napi: &Napi) -> bool {
        let acquired = napi.transition(Rule::SchedulePrep, State::schedule_prep);
        if acquired {
            self.schedule_owned(cx, napi);
        }
        acquired
    }

    /// `__napi_schedule` by the thread that just obtained SCHED: hands the instance to its thread, or to the poll
    /// list of this CPU.
    pub(crate) fn schedule_owned(&self, cx: Context, napi: &Napi) {
        napi.counters.scheduled();
        if napi.state().to_group() {
            return Grouped.take(cx, self, napi);
        }
        // Who polls comes with the transition: read later it could be another's turn, with the instance long handed on.
        let poller = napi.transition(Rule::Schedule, State::schedule);
        #[cfg(test)]
        crate::napi::hold::at(crate::napi::hold::Point::Scheduled);
        owner(poller).take(cx, self, napi);
    }

    /// Arms the instance's timer on the CPU of the caller; replaces any earlier expiry.
    #[inline]
    pub(crate) fn arm_timer(&self, cx: Context, napi: &Napi, span: Span) {
        let cpu = self.softirq.of(cx, napi);
        let at = self.clock.now() + span;
        napi.journaled(|| napi.timer.arm(at, cpu.index), |()| Event::TimerStart { span, due: at, cpu: cpu.cpu });
        cpu.timer_armed(cx, self, napi, at);
    }

    /// An interrupt was taken by the caller, who owns the instance and has not polled it.
    #[inline]
    pub(super) fn moderate(&self, cx: Context, napi: &Napi) {
        if napi.moderation.is_on() && !cx.is_unmoderated() {
            let cpu = napi.irq_cpu();
            if let Some(until) = napi.moderation.interrupted(self.clock.now(), cpu) {
                // Before the poll: who sleeps after it has got a packet sees this.
                self.softirq[cpu as usize].holds.begin(until);
            }
        }
    }
}
