//! Scheduling: `napi_schedule`, and who is handed the instance.

use napier_core::state::{Poller, State};

use crate::machine::cpu::ctx::Level;
use crate::machine::cpu::work::Work;
use crate::machine::dev::napi::NapiOwner;
use crate::machine::sim::coverage::Decision;
use crate::machine::vm::K;
use napier_scenario::Event;

/// `napi_schedule_prep`.
pub(crate) async fn schedule_prep(k: &K, napi: usize) -> bool {
    let took = {
        let mut w = k.w();
        let disabled = w.napis[napi].word.is_disabled();
        let took = w.transition(napi, State::schedule_prep);
        if took {
            w.own(napi, NapiOwner::Ctx(k.me));
        } else if disabled {
            w.napis[napi].missed_kept = true;
        }
        w.hit(if took { Decision::PrepTook } else { Decision::PrepMissed });
        let index = w.napis[napi].index;
        w.note(Event::Schedule { napi: index, took });
        took
    };
    k.op().await;
    took
}

/// `__napi_schedule`, by the owner of the instance.
pub(crate) async fn schedule_owned(k: &K, napi: usize) {
    if k.w().napis[napi].word.to_group() {
        return give_to_group(k, napi).await;
    }
    let threaded = {
        let w = k.w();
        w.napis[napi].word.contains(State::THREADED) && w.napis[napi].has_thread
    };
    if threaded && k.w().places.workers.is_some() {
        k.work(Work::QueueWork).await;
    }
    if threaded {
        // Another CPU may come in between the look and the change.
        k.op().await;
    }
    {
        let mut w = k.w();
        if threaded {
            w.hit(Decision::ScheduleToThread);
            let poller = w.transition(napi, State::schedule);
            assert_ne!(poller, Poller::Softirq, "the mode of an owned instance is not taken away");
            w.hand_over(napi, NapiOwner::Thread);
            let kthread = w.napis[napi].kthread;
            w.take_worker(kthread);
            w.wake(kthread);
        } else {
            w.hit(Decision::ScheduleToList);
            w.hand_over(napi, NapiOwner::Cpu(k.cpu()));
            let raise = w.cpus[k.cpu()].lists.push_back(napi as u16);
            if raise {
                let process = k.level == Level::Task && w.ctxs[k.me].bh_off == 0;
                w.raise(k.cpu(), process);
            }
        }
    }
    k.op().await;
}

/// `napi_schedule`.
pub(crate) async fn napi_schedule(k: &K, napi: usize) {
    if schedule_prep(k, napi).await {
        schedule_owned(k, napi).await;
    }
}

/// The device's interrupt handler: take, mask, schedule.
pub(crate) async fn device_interrupt(k: &K, napi: usize) {
    if schedule_prep(k, napi).await {
        {
            let mut w = k.w();
            if !w.napis[napi].masked {
                w.napis[napi].masked = true;
                let index = w.napis[napi].index;
                w.note(Event::Mask { napi: index });
            }
            w.touch(napi);
        }
        k.op().await;
        schedule_owned(k, napi).await;
    }
}

/// Gives an owned instance to its group, after an event.
pub(crate) async fn give_to_group(k: &K, napi: usize) {
    let cpu = {
        let mut w = k.w();
        w.hit(Decision::GroupGiven);
        w.hand_over(napi, NapiOwner::Group);
        w.seat_ready(napi)
    };
    k.op().await;
    let _ = k.w().wake_for(cpu);
    k.op().await;
}
