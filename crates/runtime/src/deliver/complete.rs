//! One poll outside busy polling, and what follows it: `__napi_poll` and `napi_complete_done`; the end of a poll at the
//! interrupt line, which is unmasked now or after a hold (`softirq/holds.rs`).

use napier_core::completion::{Completed, Completion, Flush, complete};
use napier_core::context::PollContext;
use napier_core::poll::{AfterPoll, NAPI_POLL_WEIGHT, after_poll};
use napier_core::state::State;
use napier_ring::Entered;

use crate::bounds::HZ;
use crate::deliver::Deliver;
use crate::journal::{Event, Rule};
use crate::napi::{Context, Napi, Owned};
use napier_stack::deferred::{Deferring, Work};
use napier_stack::park::woken_by_this_thread;

/// What the poller does next.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Polled {
    pub(crate) work: u32,
    pub(crate) repoll: bool,
}

impl Deliver {
    /// One poll with the full weight by the owner of SCHED (`net/core/dev.c __napi_poll`).
    #[inline]
    pub(crate) fn poll_once(&self, cx: Context, napi: &Napi, context: PollContext) -> Polled {
        if cx.thread_of().is_none() {
            return self.poll_and_complete(cx, napi, context);
        }
        let woken_before = woken_by_this_thread();
        let polled = self.poll_and_complete(cx, napi, context);
        if polled.work > 0 {
            // Whoever these packets are for slept, and the next ones are not to be late; or runs, and comes by itself.
            napi.timer.look_after(woken_by_this_thread() == woken_before);
        }
        polled
    }

    #[inline]
    fn poll_and_complete(&self, cx: Context, napi: &Napi, context: PollContext) -> Polled {
        let _calls = Deferring::begin(Work::Calls);
        napi.tx_path().napi_polled();
        let mut owned = napi.owned.enter();
        let work = napi.drive(cx, &mut owned, NAPI_POLL_WEIGHT, context);
        if context == PollContext::KthreadBusy {
            // Its completions are refused, so they flush nothing (`napi_threaded_poll_loop`).
            napi.flush_held(&mut owned, Flush::for_hz(HZ));
        }
        if work < NAPI_POLL_WEIGHT {
            self.complete_and_unmask(cx, napi, owned, work);
            return Polled { work, repoll: false };
        }
        let after = napi.journaled(
            || after_poll(napi.state(), work, NAPI_POLL_WEIGHT, HZ),
            |&decision| Event::AfterPoll { work, weight: NAPI_POLL_WEIGHT, hz: HZ, decision },
        );
        let repoll = match after {
            AfterPoll::Repoll { flush } => {
                napi.flush_held(&mut owned, flush);
                drop(owned);
                true
            }
            AfterPoll::CompleteZero => {
                self.complete_done(cx, napi, owned, 0);
                false
            }
            AfterPoll::HandToBusyPoller => {
                if self.complete_done(cx, napi, owned, work) {
                    self.napi_schedule(cx, napi);
                }
                false
            }
            AfterPoll::Done => unreachable!("a full poll is never done"),
        };
        Polled { work, repoll }
    }

    /// What a driver does after a poll that used less than its budget.
    #[inline]
    pub(crate) fn complete_and_unmask(&self, cx: Context, napi: &Napi, owned: Entered<'_, Owned>, work: u32) {
        if self.complete_done(cx, napi, owned, work) {
            self.unmask(cx, napi);
        }
    }

    /// `napi_complete_done`: true = the caller may unmask. Gives the owned data up before SCHED.
    #[inline]
    pub(crate) fn complete_done(&self, cx: Context, napi: &Napi, mut owned: Entered<'_, Owned>, work: u32) -> bool {
        let tunables = napi.tunables();
        let held = owned.merging.held();
        let left = &mut owned.defers_left;
        let (decision, _) = napi.journaled(
            || (complete(napi.state(), work, held, &tunables, left), *left),
            |&(decision, defers_left)| Event::Complete { work, held, tunables, decision, defers_left },
        );
        let Completion::Release(release) = decision else { return false };
        if held {
            napi.counters.completed_holding();
            napi.flush_held(&mut owned, release.flush);
        }
        drop(owned);
        let missed = napi.transition(Rule::CompleteRelease, State::complete_release);
        let completed = napi.journaled(|| release.finish(missed), |&decision| Event::Completed { missed, decision });
        match completed {
            Completed::Reschedule => {
                self.schedule_owned(cx, napi);
                false
            }
            Completed::Released { arm, unmask } => {
                if let Some(span) = arm {
                    if !unmask {
                        napi.counters.deferred();
                    }
                    self.arm_timer(cx, napi, span);
                }
                unmask
            }
        }
    }

    /// Enables the interrupt and looks again: work that came in between is scheduled here.
    pub(crate) fn unmask(&self, cx: Context, napi: &Napi) {
        napi.counters.unmasked();
        if self.holds_back(cx, napi) {
            return;
        }
        if napi.journaled(|| napi.irq.unmask(), |&waiting| Event::Unmask { waiting }) {
            self.interrupt(cx, napi);
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
}
