//! The busy loop of an application thread: `__napi_busy_loop`, `busy_poll_stop`.

use napier_core::busy::{AfterStopPoll, BusyLoop, BusyParams, BusyStep, BusyStop, after_stop_poll, busy_poll_stop};
use napier_core::completion::Flush;
use napier_core::event;
use napier_core::time::Span;

use crate::machine::kernel::poll::drive;
use crate::machine::kernel::schedule::{napi_schedule, schedule_owned};
use crate::machine::sim::coverage::Decision;
use crate::machine::sim::plant::Plant;
use crate::machine::vm::K;
use crate::machine::world::World;
use napier_scenario::PollContext;

/// Busy polls the instance with this id until `ended`, time, or after one iteration. `rcu`: gives up instead of
/// giving way.
pub(crate) async fn busy_loop(k: &K, id: u32, params: BusyParams, rcu: bool, ended: impl Fn(&World) -> bool) {
    let (mut found, now) = {
        let w = k.w();
        (w.by_id(id), w.now)
    };
    let mut busy = if rcu { BusyLoop::new_rcu(params, now) } else { BusyLoop::new(params, now) };
    k.preempt_off();
    // The device's instance is looked up again after each yield; without one there is nothing to do.
    while let Some(napi) = found {
        match busy.next() {
            BusyStep::Acquire => {
                k.bh_off();
                let got = k.w().try_busy_acquire(napi, params.prefer, k.me);
                k.op().await;
                busy.on_acquire(got);
                if !got {
                    k.w().hit(Decision::BusyLost);
                    k.spin_pause().await;
                    k.bh_on().await;
                }
            }
            BusyStep::Poll { budget_pkts } => {
                if k.w().ctxs[k.me].bh_off == 0 {
                    k.bh_off();
                }
                let work = drive(k, napi, budget_pkts.into(), PollContext::User).await;
                {
                    let mut w = k.w();
                    w.deliver(napi);
                    w.busy_poll_rx_packets += u64::from(work);
                    w.hit(Decision::BusyPolled);
                }
                busy.on_polled(work);
                k.bh_on().await;
            }
            BusyStep::CheckEnd => {
                let w = k.w();
                let ready = ended(&w);
                busy.on_ended(w.now, ready, w.cpus[k.cpu()].need_resched);
            }
            BusyStep::Stop => {
                stop_busy_poll(k, napi, params).await;
                busy.on_stopped();
            }
            BusyStep::Yield => {
                k.w().hit(Decision::BusyYield);
                k.preempt_on();
                k.cond_resched().await;
                k.op().await;
                k.preempt_off();
                let w = k.w();
                busy.on_yielded(w.now, ended(&w));
                found = w.by_id(id);
            }
            BusyStep::Leave => break,
        }
    }
    k.preempt_on();
}

async fn stop_busy_poll(k: &K, napi: usize, params: BusyParams) {
    let stop = {
        let mut w = k.w();
        w.transition(napi, |word| (word.busy_stop_begin(), ()));
        let n = &mut w.napis[napi];
        n.defers_max = n.defers_max.max(n.tunables.defer_hard_irqs);
        busy_poll_stop(params.prefer, &n.tunables, &mut n.defers_left)
    };
    k.op().await;
    k.bh_off();
    let polls_at_stop = k.w().polls_at_stop;
    match stop {
        // Linux before 7.3 polls here too. A poll that takes less than its budget completes, and that arms the same timer; one that takes
        // all of it is released as if it had not been made. Source: net/core/dev.c busy_poll_stop and __busy_poll_stop, after commit
        // 58e2330bd455 and before 7599c13dbe7a.
        BusyStop::ArmTimer(span) if polls_at_stop => {
            let budget = params.budget_pkts();
            let work = drive(k, napi, budget.into(), PollContext::User).await;
            if work >= u32::from(budget) {
                release_and_arm(k, napi, span).await;
            }
        }
        BusyStop::ArmTimer(span) => release_and_arm(k, napi, span).await,
        BusyStop::PollOnce => {
            k.w().hit(Decision::StopPoll);
            let budget = params.budget_pkts();
            let work = drive(k, napi, budget.into(), PollContext::User).await;
            match after_stop_poll(work, budget) {
                AfterStopPoll::Gone => {}
                AfterStopPoll::HandOver => {
                    k.w().hit(Decision::StopHandOver);
                    k.w().deliver(napi);
                    schedule_owned(k, napi).await;
                }
            }
        }
    }
    k.bh_on().await;
}

/// The interrupt stays masked, the instance is free, and the timer polls it if the program does not.
async fn release_and_arm(k: &K, napi: usize, span: Span) {
    {
        let mut w = k.w();
        w.hit(Decision::StopArm);
        let flush = Flush::for_hz(w.hz);
        w.flush(napi, flush);
        w.deliver(napi);
        if w.plant == Plant::ArmBeforeRelease {
            w.arm(napi, span, k.cpu());
        }
    }
    k.op().await;
    {
        let mut w = k.w();
        // An event since the stop began is covered by the timer; MISSED stays behind.
        w.napis[napi].missed_kept = true;
        w.napis[napi].finishing += 1;
        w.transition(napi, |word| (word.busy_stop_release(), ()));
        w.disown(napi);
    }
    k.op().await;
    let mut w = k.w();
    if w.plant != Plant::ArmBeforeRelease {
        w.arm(napi, span, k.cpu());
    }
    w.finished(napi);
}

/// `napi_suspend_irqs`.
pub(crate) async fn suspend_irqs(k: &K, id: u32) {
    {
        let mut w = k.w();
        let Some(napi) = w.by_id(id) else { return };
        match event::suspend(&w.napis[napi].tunables) {
            Some(span) => {
                w.hit(Decision::Suspend);
                w.arm(napi, span, k.cpu());
            }
            None => w.hit(Decision::SuspendNothing),
        }
    }
    k.op().await;
}

/// `napi_resume_irqs`.
pub(crate) async fn resume_irqs(k: &K, id: u32) {
    let napi = {
        let mut w = k.w();
        let Some(napi) = w.by_id(id) else { return };
        if !event::resume(&w.napis[napi].tunables) {
            w.hit(Decision::ResumeNothing);
            return;
        }
        w.hit(Decision::Resume);
        napi
    };
    k.bh_off();
    napi_schedule(k, napi).await;
    k.bh_on().await;
}
