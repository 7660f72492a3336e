//! Holding interrupts back: the line of an instance stays masked for a while after the poll, so that an interrupt does not take
//! the processor from a program that works.
//!
//! The rules see a line that was unmasked and an interrupt that comes later, as with a NIC that moderates. What ends a hold:
//! its time, which the softirq CPU sees to as late as it sees to other timers; and a program that is about to sleep on that
//! CPU, for then there is nothing left to be protected. So a machine with little to do answers as quickly as without.

use super::Deliver;
use super::softirq::SoftirqCpu;
use crate::journal::Event;
use crate::napi::{Context, Napi};
use napier_core::moderation::{ADAPTIVE_HOLD, Coalesce};
use napier_core::time::Instant;

impl Deliver {
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

    /// The caller has given the instance up and would unmask its line. True: it stays masked for now.
    #[inline]
    pub(super) fn holds_back(&self, cx: Context, napi: &Napi) -> bool {
        if napi.moderation.is_free() {
            return false;
        }
        let Some((cpu, at)) = napi.moderation.close(self.clock.now()) else { return false };
        napi.counters.held_back();
        // As far as the rules know it is unmasked, and the interrupt is on its way.
        napi.journaled(|| (), |()| Event::Unmask { waiting: false });
        self.softirq[cpu as usize].hold_armed(cx, at);
        true
    }

    /// A hold has ended, and the caller is who unmasks.
    pub(super) fn hold_ended(&self, cx: Context, napi: &Napi) {
        if napi.irq.unmask() {
            napi.moderation.was_waited_for(self.clock.now());
            self.interrupt(cx, napi);
        }
    }

    /// Changes coalescing, and holds nothing back by the old rule. False: the line's peer counts no frames.
    pub(crate) fn set_coalesce(&self, napi: &Napi, coalesce: Coalesce) -> bool {
        let adaptive = coalesce.use_adaptive_rx();
        let by_line = napi.irq.set_coalesce(if adaptive { Coalesce::default() } else { coalesce });
        if !by_line && coalesce.rx_frames() > 1 {
            return false;
        }
        napi.moderation.set(coalesce, adaptive || !by_line);
        if napi.moderation.end() {
            self.hold_ended(*Context::current().kick_only(), napi);
        }
        true
    }

    /// The calling thread, a program's that holds nothing, is about to sleep unless `ready`: nothing is held back that its
    /// processor would be interrupted for.
    #[inline]
    pub(crate) fn about_to_sleep(&self, ready: &dyn Fn() -> bool) {
        if self.holds_any() {
            self.release_holds(Context::current(), ready);
        }
    }

    /// The calling thread, a program's that holds nothing, comes by: holds of its processor whose time has come are ended, and
    /// timers that are due are run, and the kernel's timer need not.
    #[inline]
    pub(crate) fn comes_by(&self) {
        let holds = self.holds_any();
        if !holds && !self.any_timer_is_due() {
            return;
        }
        let cx = Context::current();
        let Some(cpu) = self.cpu_of_program(cx) else { return };
        if holds {
            let cx = cx.poll_on();
            cpu.end_due_holds(*cx, self, self.clock.now(), true);
        }
        cpu.run_timers_in_passing(cx, self);
    }

    fn any_timer_is_due(&self) -> bool {
        self.softirq.iter().any(|cpu| cpu.has_timers()) && {
            let now = self.clock.now();
            self.softirq.iter().any(|cpu| cpu.timer_is_due(now))
        }
    }

    /// The softirq CPU of the processor that a program runs on; none in the midst of a softirq.
    fn cpu_of_program(&self, cx: Context) -> Option<&SoftirqCpu> {
        if cx.in_softirq() || cx.thread_of().is_some() {
            return None;
        }
        self.softirq_index_of(rustix::thread::sched_getcpu()).map(|index| &*self.softirq[index as usize])
    }

    /// Whether some CPU may have a hold: one load for each, and there are few.
    #[inline]
    fn holds_any(&self) -> bool {
        self.softirq.iter().any(|cpu| cpu.holds.any())
    }

    fn release_holds(&self, cx: Context, ready: &dyn Fn() -> bool) {
        let Some(cpu) = self.cpu_of_program(cx) else { return };
        let cx = cx.poll_on();
        cpu.end_holds(*cx, self);
        // What was polled just now may be for others, and this thread goes to sleep after all.
        if cpu.holds.any() && !ready() {
            cpu.end_holds(*cx.unmoderated(), self);
        }
    }
}

impl SoftirqCpu {
    /// Ends all holds that this CPU sees to.
    fn end_holds(&self, cx: Context, deliver: &Deliver) {
        if self.holds.take() {
            deliver.for_each_napi(|napi| {
                if napi.moderation.end_on(self.index) {
                    deliver.hold_ended(cx, napi);
                }
            });
        }
    }

    /// A program that stands in for this CPU's thread is about to sleep: nothing is held back meanwhile.
    pub(super) fn release_before_sleep(&self, cx: Context, deliver: &Deliver) {
        if self.holds.any() {
            let cx = cx.unmoderated();
            self.end_holds(*cx, deliver);
            self.run(*cx, deliver);
        }
    }

    /// Ends those that are due; false if none was. Not those that have nothing to tell if a program `works`, which comes by
    /// again or is about to sleep some time: then its next packet would interrupt it.
    pub(super) fn end_due_holds(&self, cx: Context, deliver: &Deliver, now: Instant, works: bool) -> bool {
        let Some(due_ns) = self.holds.due(now, works) else { return false };
        let (mut any, mut next) = (false, None::<Instant>);
        deliver.for_each_napi(|napi| {
            if works && !napi.irq.packets_wait() && napi.moderation.extend(self.index, now) {
                next = Some(next.map_or(now + ADAPTIVE_HOLD, |next| next.min(now + ADAPTIVE_HOLD)));
            } else if napi.moderation.take_due(self.index, now) {
                any = true;
                deliver.hold_ended(cx, napi);
            } else if let Some(until) = napi.moderation.until_on(self.index) {
                next = Some(next.map_or(until, |next| next.min(until)));
            }
        });
        self.holds.looked(due_ns, next);
        any
    }
}
