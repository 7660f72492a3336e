//! The busy loop: `__napi_busy_loop` and `busy_poll_stop`, run by an application thread.

use napier_core::busy::{
    AfterStopPoll, BusyLimit, BusyLoop, BusyParams, BusyStep, BusyStop, after_stop_poll, busy_poll_stop,
};
use napier_core::completion::Flush;
use napier_core::context::PollContext;
use napier_core::event::{resume, suspend};
use napier_core::state::State;
use napier_ring::Entered;

use crate::bounds::HZ;
use crate::deliver::Deliver;
use crate::journal::{Event, Rule};
use crate::napi::{Context, Napi, Owned};
use napier_stack::deferred::{Deferring, Work};
use napier_sys::tsc::ticks;

/// Iterations between two readings of the clock: a reading costs about as much as an empty poll.
const CLOCK_EVERY: u32 = 8;

impl Deliver {
    /// Busy polls instance `napi_id` until `ready`, the time limit, or after one iteration, as `params` say.
    ///
    /// An id that names no enabled instance returns at once.
    pub(crate) fn busy_loop(&self, napi_id: u32, params: BusyParams, ready: &mut dyn FnMut() -> bool) {
        let Some(napi) = self.napi_by_id(napi_id) else { return };
        let cx = Context::current();
        match params.limit {
            BusyLimit::Once => self.busy_once(cx, napi, params),
            BusyLimit::For(_) => self.busy_many(cx, napi, params, ready),
        }
    }

    /// What [`BusyLoop`] asks for with [`BusyLimit::Once`], written down: acquire, poll, stop. A program that polls and finds
    /// nothing pays for each step between, and there is no clock and no question here.
    fn busy_once(&self, cx: Context, napi: &Napi, params: BusyParams) {
        let prefer = params.prefer;
        let spin = Spin::begin(napi, params.limit);
        if let Some(mut owned) = self.busy_take(napi, prefer) {
            let found = napi.busy_drive(cx, &mut owned, params.budget_pkts());
            let spin = if found > 0 { spin.found() } else { spin };
            self.busy_poll_stop(cx, napi, owned, prefer, params.budget_pkts());
            return spin.end(napi);
        }
        spin.end(napi);
    }

    /// Until `ready` or the time limit, as [`BusyLoop`] says.
    fn busy_many(&self, cx: Context, napi: &Napi, params: BusyParams, ready: &mut dyn FnMut() -> bool) {
        let prefer = params.prefer;
        let mut now = self.clock.now();
        let limit = params.limit;
        let mut machine = BusyLoop::new(params, now);
        let mut owned: Option<Entered<'_, Owned>> = None;
        let mut spin = Spin::begin(napi, limit);
        let budget = params.budget_pkts();
        let mut iterations = 0_u32;
        loop {
            match machine.next() {
                BusyStep::Acquire => {
                    owned = self.busy_take(napi, prefer);
                    machine.on_acquire(owned.is_some());
                }
                BusyStep::Poll { budget_pkts } => {
                    let owned = owned.as_mut().expect("polls only as owner");
                    let work = napi.busy_drive(cx, owned, budget_pkts);
                    if work > 0 {
                        spin = spin.found();
                    }
                    machine.on_polled(work);
                }
                BusyStep::CheckEnd => {
                    iterations += 1;
                    let ready = ready();
                    if !ready && iterations.is_multiple_of(CLOCK_EVERY) {
                        now = self.clock.now();
                        std::hint::spin_loop();
                    }
                    // The operating system preempts this thread by itself, so it never asks for a yield.
                    machine.on_ended(now, ready, false);
                }
                BusyStep::Stop => {
                    self.busy_poll_stop(cx, napi, owned.take().expect("stops only as owner"), prefer, budget);
                    machine.on_stopped();
                }
                BusyStep::Yield => machine.on_yielded(now, ready()),
                BusyStep::Leave => break,
            }
        }
        spin.end(napi);
    }

    /// One attempt to become the busy-polling owner, with what belongs to that.
    #[inline]
    fn busy_take<'a>(&self, napi: &'a Napi, prefer: bool) -> Option<Entered<'a, Owned>> {
        napi.try_busy_acquire(prefer).then(|| {
            napi.timer.moot();
            let owned = napi.owned.enter();
            self.mask_for_busy_poller(napi);
            owned
        })
    }

    /// The kernel leaves the interrupt as it is while a program polls, and takes one then that finds nothing. Here it is
    /// masked if the end of the loop unmasks it for certain: where nothing is deferred.
    #[inline]
    fn mask_for_busy_poller(&self, napi: &Napi) {
        if napi.masks_for_busy_poller() {
            napi.irq.mask();
        }
    }

    /// `busy_poll_stop`: keep the pledge by arming the timer, or poll once more and complete.
    fn busy_poll_stop(&self, cx: Context, napi: &Napi, mut owned: Entered<'_, Owned>, prefer: bool, budget_pkts: u16) {
        napi.transition(Rule::BusyStopBegin, |state| (state.busy_stop_begin(), ()));
        let tunables = napi.tunables();
        let left = &mut owned.defers_left;
        let (decision, _) = napi.journaled(
            || (busy_poll_stop(prefer, &tunables, left), *left),
            |&(decision, defers_left)| Event::BusyStop { prefer, tunables, decision, defers_left },
        );
        match decision {
            BusyStop::ArmTimer(span) => {
                napi.flush_held(&mut owned, Flush::for_hz(HZ));
                drop(owned);
                napi.transition(Rule::BusyStopRelease, |state| (state.busy_stop_release(), ()));
                napi.counters.deferred();
                self.arm_timer(cx, napi, span);
            }
            BusyStop::PollOnce => {
                let _calls = Deferring::begin(Work::Calls);
                let work = napi.drive(cx, &mut owned, u32::from(budget_pkts), PollContext::User);
                let after = napi.journaled(
                    || after_stop_poll(work, budget_pkts),
                    |&decision| Event::AfterStopPoll { work, budget: budget_pkts, decision },
                );
                match after {
                    // The driver completes inside its poll, so this is where it would have done so.
                    AfterStopPoll::Gone => self.complete_and_unmask(cx, napi, owned, work),
                    AfterStopPoll::HandOver => {
                        drop(owned);
                        self.schedule_owned(cx, napi);
                    }
                }
            }
        }
    }

    /// Masks nothing: stretches the timer that keeps the interrupt masked (`napi_suspend_irqs`).
    pub(crate) fn suspend_irqs(&self, napi_id: u32) {
        let Some(napi) = self.napi_by_id(napi_id) else { return };
        let tunables = napi.tunables();
        let arm = napi.journaled(|| suspend(&tunables), |&arm| Event::Suspend { tunables, arm });
        if let Some(span) = arm {
            napi.counters.suspended();
            self.arm_timer(Context::current(), napi, span);
        }
    }

    /// Schedules the instance so that deferral takes over again (`napi_resume_irqs`).
    pub(crate) fn resume_irqs(&self, napi_id: u32) {
        let Some(napi) = self.napi_by_id(napi_id) else { return };
        let tunables = napi.tunables();
        if napi.journaled(|| resume(&tunables), |&schedule| Event::Resume { tunables, schedule }) {
            napi.counters.resumed();
            self.napi_schedule(Context::current(), napi);
        }
    }
}

impl Napi {
    /// One poll of a busy loop.
    #[inline]
    fn busy_drive(&self, cx: Context, owned: &mut Owned, budget_pkts: u16) -> u32 {
        let _calls = Deferring::begin(Work::Calls);
        let work = self.drive(cx, owned, u32::from(budget_pkts), PollContext::User);
        if work > 0 {
            self.counters.busy_packets(work);
        }
        work
    }

    /// One attempt to become the busy-polling owner; a prefer poller that loses leaves its mark.
    #[inline]
    fn try_busy_acquire(&self, prefer: bool) -> bool {
        let acquire = |bits| State::from_bits(bits).busy_acquire().map(State::bits);
        let rule = Rule::BusyAcquire;
        let got = self.journaled(
            || self.state.update_once(acquire).is_ok(),
            |&answer| Event::Rule { rule, word: self.state(), answer },
        );
        if !got && prefer && !self.state().contains(State::PREFER_BUSY_POLL) {
            self.transition(Rule::BusyContended, |state| (state.busy_contended(), ()));
        }
        got
    }
}

/// Time of a busy loop until it found something: that much was spinning.
struct Spin {
    begun: u64,
    found: Option<u64>,
    /// Loops that this one stands for; 0 = it is not timed.
    weight: u64,
}

/// Single iterations are so short that timing each would show: one in so many stands for all.
const SINGLE_SAMPLED: u64 = 16;

impl Spin {
    #[inline]
    fn begin(napi: &Napi, limit: BusyLimit) -> Self {
        let weight = match limit {
            BusyLimit::For(_) => 1,
            BusyLimit::Once if napi.counters.busy_polls().is_multiple_of(SINGLE_SAMPLED) => SINGLE_SAMPLED,
            BusyLimit::Once => 0,
        };
        Self { begun: if weight > 0 { ticks() } else { 0 }, found: None, weight }
    }

    #[inline]
    fn found(mut self) -> Self {
        if self.weight > 0 && self.found.is_none() {
            self.found = Some(ticks());
        }
        self
    }

    #[inline]
    fn end(self, napi: &Napi) {
        if self.weight > 0 {
            napi.counters.spun(self.weight * self.found.unwrap_or_else(ticks).wrapping_sub(self.begun));
        }
    }
}
