//! The busy loop of an application thread: `__napi_busy_loop`, `busy_poll_stop`.

use napier_core::busy::{AfterStopPoll, BusyLoop, BusyParams, BusyStep, BusyStop, after_stop_poll, busy_poll_stop};
use napier_core::completion::Flush;
use napier_core::event;
use napier_core::state::State;

use super::Plant;
use super::coverage::Decision;
use super::napi::Owner;
use super::vm::K;
use super::work::Work;
use super::world::World;
use napier_scenario::PollContext;

impl K {
    /// Busy polls the instance with this id until `ended`, time, or after one iteration. `rcu`: gives up instead of
    /// giving way.
    pub(super) async fn busy_loop(&self, id: u32, params: BusyParams, rcu: bool, ended: impl Fn(&World) -> bool) {
        let (mut found, now) = {
            let w = self.w();
            (w.by_id(id), w.now)
        };
        let mut busy = if rcu { BusyLoop::new_rcu(params, now) } else { BusyLoop::new(params, now) };
        self.preempt_off();
        // The device's instance is looked up again after each yield; without one there is nothing to do.
        while let Some(napi) = found {
            match busy.next() {
                BusyStep::Acquire => {
                    self.bh_off();
                    let got = self.w().try_busy_acquire(napi, params.prefer, self.me);
                    self.op().await;
                    busy.on_acquire(got);
                    if !got {
                        self.w().hit(Decision::BusyLost);
                        self.spin_pause().await;
                        self.bh_on().await;
                    }
                }
                BusyStep::Poll { budget_pkts } => {
                    if self.w().ctxs[self.me].bh_off == 0 {
                        self.bh_off();
                    }
                    let work = self.drive(napi, budget_pkts.into(), PollContext::User).await;
                    {
                        let mut w = self.w();
                        w.deliver(napi);
                        w.busy_poll_rx_packets += u64::from(work);
                        w.hit(Decision::BusyPolled);
                    }
                    busy.on_polled(work);
                    self.bh_on().await;
                }
                BusyStep::CheckEnd => {
                    let w = self.w();
                    let ready = ended(&w);
                    busy.on_ended(w.now, ready, w.cpus[self.cpu()].need_resched);
                }
                BusyStep::Stop => {
                    self.busy_poll_stop(napi, params).await;
                    busy.on_stopped();
                }
                BusyStep::Yield => {
                    self.w().hit(Decision::BusyYield);
                    self.preempt_on();
                    self.cond_resched().await;
                    self.op().await;
                    self.preempt_off();
                    let w = self.w();
                    busy.on_yielded(w.now, ended(&w));
                    found = w.by_id(id);
                }
                BusyStep::Leave => break,
            }
        }
        self.preempt_on();
    }

    /// What an iteration costs that polls nothing; never nothing, so that a loop of them ends.
    pub(super) async fn spin_pause(&self) {
        self.work(Work::SpinPause).await;
    }

    async fn busy_poll_stop(&self, napi: usize, params: BusyParams) {
        let stop = {
            let mut w = self.w();
            w.transition(napi, |word| (word.busy_stop_begin(), ()));
            let n = &mut w.napis[napi];
            n.defers_max = n.defers_max.max(n.tunables.defer_hard_irqs);
            busy_poll_stop(params.prefer, &n.tunables, &mut n.defers_left)
        };
        self.op().await;
        self.bh_off();
        match stop {
            BusyStop::ArmTimer(span) => {
                {
                    let mut w = self.w();
                    w.hit(Decision::StopArm);
                    let flush = Flush::for_hz(w.hz);
                    w.flush(napi, flush);
                    w.deliver(napi);
                    if w.plant == Plant::ArmBeforeRelease {
                        w.arm(napi, span, self.cpu());
                    }
                }
                self.op().await;
                {
                    let mut w = self.w();
                    // An event since the stop began is covered by the timer; MISSED stays behind.
                    w.napis[napi].missed_kept = true;
                    w.napis[napi].finishing += 1;
                    w.transition(napi, |word| (word.busy_stop_release(), ()));
                    w.disown(napi);
                }
                self.op().await;
                let mut w = self.w();
                if w.plant != Plant::ArmBeforeRelease {
                    w.arm(napi, span, self.cpu());
                }
                w.finished(napi);
            }
            BusyStop::PollOnce => {
                self.w().hit(Decision::StopPoll);
                let budget = params.budget_pkts();
                let work = self.drive(napi, budget.into(), PollContext::User).await;
                match after_stop_poll(work, budget) {
                    AfterStopPoll::Gone => {}
                    AfterStopPoll::HandOver => {
                        self.w().hit(Decision::StopHandOver);
                        self.w().deliver(napi);
                        self.schedule_owned(napi).await;
                    }
                }
            }
        }
        self.bh_on().await;
    }

    /// `napi_suspend_irqs`.
    pub(super) async fn suspend_irqs(&self, id: u32) {
        {
            let mut w = self.w();
            let Some(napi) = w.by_id(id) else { return };
            match event::suspend(&w.napis[napi].tunables) {
                Some(span) => {
                    w.hit(Decision::Suspend);
                    w.arm(napi, span, self.cpu());
                }
                None => w.hit(Decision::SuspendNothing),
            }
        }
        self.op().await;
    }

    /// `napi_resume_irqs`.
    pub(super) async fn resume_irqs(&self, id: u32) {
        let napi = {
            let mut w = self.w();
            let Some(napi) = w.by_id(id) else { return };
            if !event::resume(&w.napis[napi].tunables) {
                w.hit(Decision::ResumeNothing);
                return;
            }
            w.hit(Decision::Resume);
            napi
        };
        self.bh_off();
        self.napi_schedule(napi).await;
        self.bh_on().await;
    }
}

impl World {
    /// One attempt; a prefer poller that loses leaves its mark.
    fn try_busy_acquire(&mut self, napi: usize, prefer: bool, me: usize) -> bool {
        if self.transition_if(napi, State::busy_acquire) {
            self.own(napi, Owner::Ctx(me));
            return true;
        }
        if prefer {
            self.transition(napi, |word| (word.busy_contended(), ()));
        }
        false
    }
}
