//! Waiting: the executor of the rules in `napier_core::event`.

use napier_core::event::{EpollAfter, EpollWait, WaitStep, after_busy_loop, ep_busy_loop, suspend_on_events};
use napier_core::time::Instant;
use napier_sys::clock::Clock;

use crate::event::context::EventContext;
use crate::event::errors::WaitError;
use crate::event::interest::{Event, Timeout};
use crate::event::state::ContextState;
use crate::wait::deferred::{Deferring, Work};

impl EventContext {
    /// Waits until members are ready, or `timeout` (a [`Timeout`], a `Duration` or an `Option` of one) passes; returns how many of `events` were filled.
    ///
    /// Members are reported in the order in which they became ready. What has no room stays ready: the next call
    /// returns it without polling. Before each sleep the context busy polls once if it is set up to do so; that time
    /// is not bounded by `timeout`. A call that returns events re-arms the suspension of the instance's interrupts if
    /// the context prefers busy polling; one that finds nothing in its busy loop ends it (`fs/eventpoll.c` `ep_poll`).
    ///
    /// Several threads may wait; an event wakes one of them. A wait that returns 0 makes the context's [descriptor](Self::descriptor) unreadable, if
    /// there is one, until there is something to report.
    ///
    /// # Errors
    /// [`WaitError::NoRoom`] if `events` is empty; [`WaitError::Stopped`] once the engine has stopped, whatever is ready.
    #[inline]
    pub fn wait(&self, events: &mut [Event], timeout: impl Into<Timeout>) -> Result<usize, WaitError> {
        self.wait_for(events, timeout.into())
    }

    fn wait_for(&self, events: &mut [Event], timeout: Timeout) -> Result<usize, WaitError> {
        if events.is_empty() {
            return Err(WaitError::NoRoom);
        }
        let state = &**self.state();
        state.counters.waits.add(1);
        let has_news = || state.queue.available() || state.is_stopped();
        // Dropped where this thread sleeps, and before it returns.
        let mut polls = state.parker.hold_external(has_news);
        state.host.poll_deferred();
        // The clock matters only to a wait that may time out later.
        let now = match timeout {
            Timeout::After(_) => Clock.now(),
            Timeout::Now | Timeout::Never | Timeout::Outside => Instant::ZERO,
        };
        let mut wait = EpollWait::new(now, timeout.span(), state.queue.available());
        // From the end of a busy loop, which arms the deferral timer, to the suspension that replaces it.
        let mut held = None;
        loop {
            if state.is_stopped() {
                return Err(WaitError::Stopped);
            }
            match wait.next() {
                WaitStep::Transfer => {
                    let found = state.transfer(events);
                    if found > 0 {
                        return Ok(found);
                    }
                    wait.on_transferred(found);
                }
                WaitStep::Return0 => {
                    drop(polls);
                    state.parker.found_nothing(has_news);
                    return Ok(0);
                }
                WaitStep::Sleep { .. } if timeout == Timeout::Outside => {
                    drop(held.take());
                    if state.has_news_before_outside(&has_news) {
                        wait.on_woken(true);
                        continue;
                    }
                    drop(polls);
                    state.parker.found_nothing(has_news);
                    return Ok(0);
                }
                WaitStep::BusyLoop => {
                    drop(held.take());
                    held = Some(Deferring::begin(Work::Timers));
                    wait.on_busy(state.busy_loop());
                }
                WaitStep::Sleep { until } => {
                    drop(held.take());
                    drop(polls.take());
                    state.begins_to_sleep();
                    let ready = state.parker.sleep_in(&*state.host, has_news, until, &Clock);
                    if !ready {
                        state.hand_on();
                    }
                    polls = state.parker.hold_external(has_news);
                    wait.on_woken(ready);
                }
            }
        }
    }
}

impl ContextState {
    fn begins_to_sleep(&self) {
        self.counters.sleeps.add(1);
        self.host.watchdog_tick(Clock.now());
    }

    /// The caller is about to sleep outside: as before a sleep here, what was deferred for this thread is done first.
    fn has_news_before_outside(&self, has_news: &dyn Fn() -> bool) -> bool {
        self.begins_to_sleep();
        if let Some(cpu) = self.host.prepare_to_wait(has_news) {
            cpu.end();
        }
        has_news()
    }

    /// Moves ready members into `events`, wakes the next sleeper if some are left, and suspends if there were any.
    fn transfer(&self, events: &mut [Event]) -> usize {
        let found = self.table().transfer(&self.queue, events);
        self.hand_on();
        if found > 0 {
            self.counters.events.add(found as u64);
            let (params, first_id) = (self.params.load(), self.host.first_napi_id());
            if let Some(napi_id) = suspend_on_events(self.napi_id(), &params, first_id) {
                self.host.suspend_irqs(napi_id);
            }
        }
        found
    }

    /// One busy loop, if the context is set up for it; true if events are available after it.
    fn busy_loop(&self) -> bool {
        // Read once: the kernel decides with the values from before the loop.
        let (napi_id, params) = (self.napi_id(), self.params.load());
        let (sysctl, first_id) = (self.host.sysctl_busy_poll(), self.host.first_napi_id());
        let Some(busy) = ep_busy_loop(napi_id, &params, sysctl, first_id) else {
            return false;
        };
        self.counters.busy_loops.add(1);
        self.host.busy_loop(napi_id, busy, &mut || self.queue.available());
        match after_busy_loop(napi_id, &params, self.queue.available()) {
            EpollAfter::Events => return true,
            EpollAfter::Resume { napi_id } => self.host.resume_irqs(napi_id),
            EpollAfter::Nothing => {}
        }
        // Last, as in the kernel: an id that the resumed poll has attached goes as well.
        self.set_napi_id(0);
        false
    }

    /// Pays what a wait owes to those that sleep on (see [`Parker`](crate::wait::park::Parker)).
    #[inline]
    fn hand_on(&self) {
        self.parker.hand_on(|| self.queue.available() || self.is_stopped());
    }
}
