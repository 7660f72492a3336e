//! One poll and its completion: `__napi_poll`, `napi_complete_done`.

use napier_core::completion::{Completed, Completion, complete};
use napier_core::poll::{AfterPoll, after_poll, may_poll};
use napier_core::state::State;

use crate::machine::cpu::work::Work;
use crate::machine::dev::napi::NapiOwner;
use crate::machine::dev::tune::TunedPoll;
use crate::machine::kernel::schedule::{device_interrupt, napi_schedule, schedule_owned};
use crate::machine::kernel::tx::driver::tx_clean;
use crate::machine::sim::coverage::Decision;
use crate::machine::sim::plant::Plant;
use crate::machine::vm::K;
use napier_scenario::{CpuIx, Event, PollContext, Quirk};

/// What the poller does next.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Polled {
    pub(crate) work: u32,
    pub(crate) repoll: bool,
}

/// The driver's poll: takes packets, sends them up, and completes if it took less than its budget. It does not know
/// who polls; a busy poller's completion is refused. The caller owns the instance.
pub(crate) async fn drive(k: &K, napi: usize, budget: u32, context: PollContext) -> u32 {
    k.w().enter_poll(napi, k.me);
    if k.w().tx_done(napi) {
        tx_clean(k, napi).await;
    }
    if k.w().napis[napi].to_send > 0 {
        send_ring(k, napi).await;
    }
    let (work, works) = {
        let mut w = k.w();
        let taken = (w.napis[napi].ring.len() as u32).min(budget);
        let work = if w.napis[napi].quirk == Quirk::AlwaysFull { budget } else { taken };
        let index = w.napis[napi].index;
        let cpu = CpuIx(k.cpu() as u16);
        w.note(Event::Poll { napi: index, context, cpu, work, budget });
        w.napis[napi].polls += 1;
        w.napis[napi].empty_polls += u64::from(taken == 0);
        w.napis[napi].packets += u64::from(taken);
        let (mut acks, mut further, mut answered) = (0, 0, 0);
        for packet in w.napis[napi].ring.iter().take(taken as usize) {
            acks += u64::from(packet.is_ack);
            further += u64::from(packet.segments - 1);
            // What is more than a frame is acknowledged at once. Source: net/ipv4/tcp_input.c __tcp_ack_snd_check.
            answered += u64::from(packet.segments > 1);
        }
        w.receive(napi, taken);
        let poll = if taken == 0 { Work::PollEmpty } else { Work::Poll };
        let up = u64::from(taken) - acks;
        let of_frames = (Work::SegmentUp, further);
        (work, [(poll, 1), (Work::PacketUp, up), (Work::AckUp, acks), of_frames, (Work::AckDown, answered)])
    };
    k.works(&works).await;
    if k.w().napis[napi].tuner.is_some() {
        k.op().await; // a setting is stored
        tune(k, napi, work, budget, context);
    }
    {
        let mut w = k.w();
        if matches!(context, PollContext::User | PollContext::KthreadBusy) {
            w.napis[napi].busy_at = w.now;
        }
        w.leave_poll(napi, k.me);
    }
    if work < budget && k.w().napis[napi].quirk != Quirk::NeverCompletes {
        if complete_done(k, napi, work).await {
            unmask(k, napi).await;
        }
        k.w().finished(napi);
    }
    work
}

/// The rule of an instance's own sees a poll, and says what the settings are from then on.
fn tune(k: &K, napi: usize, packets: u32, budget: u32, context: PollContext) {
    let mut w = k.w();
    let at = w.now;
    let napi = &mut w.napis[napi];
    let (tunables, by_program) = (napi.tunables, context == PollContext::User);
    if let Some(tuner) = &mut napi.tuner {
        napi.tunables = tuner.polled(TunedPoll { at, packets, budget, by_program, tunables });
    }
}

/// One poll with the full weight in softirq or thread, and what follows it.
pub(crate) async fn poll_once(k: &K, napi: usize, context: PollContext) -> Polled {
    let weight = {
        let w = k.w();
        if !may_poll(w.napis[napi].word) {
            return Polled { work: 0, repoll: false };
        }
        w.napis[napi].weight
    };
    let work = drive(k, napi, weight, context).await;
    if work < weight {
        return Polled { work, repoll: false };
    }
    let (after, wrong) = {
        let w = k.w();
        (after_poll(w.napis[napi].word, work, weight, w.hz), w.plant == Plant::HandOverAndForget)
    };
    k.op().await;
    let repoll = match after {
        AfterPoll::Done => unreachable!("a full poll is never done"),
        AfterPoll::Repoll { flush } => {
            let mut w = k.w();
            w.hit(Decision::Repoll);
            w.flush(napi, flush);
            w.deliver(napi);
            true
        }
        AfterPoll::CompleteZero => {
            k.w().hit(Decision::CompleteZero);
            complete_done(k, napi, 0).await;
            k.w().finished(napi);
            false
        }
        AfterPoll::HandToBusyPoller => {
            k.w().hit(Decision::HandToBusyPoller);
            let alone = complete_done(k, napi, work).await;
            if alone && !wrong {
                napi_schedule(k, napi).await;
            }
            k.w().finished(napi);
            false
        }
    };
    Polled { work, repoll }
}

/// `napi_complete_done`: true = the caller may unmask. The caller says [`World::finished`] when it has.
///
/// [`World::finished`]: World::finished
pub(crate) async fn complete_done(k: &K, napi: usize, work: u32) -> bool {
    let decision = {
        let mut w = k.w();
        let held = w.napis[napi].merge.held();
        let n = &mut w.napis[napi];
        let decision = complete(n.word, work, held, &n.tunables, &mut n.defers_left);
        n.defers_max = n.defers_max.max(n.tunables.defer_hard_irqs);
        decision
    };
    let Completion::Release(release) = decision else {
        let mut w = k.w();
        w.hit(Decision::CompleteRefused);
        let index = w.napis[napi].index;
        w.note(Event::Complete { napi: index, unmask: false });
        // Nothing to finish; the caller counts down.
        w.napis[napi].finishing += 1;
        return false;
    };
    {
        let mut w = k.w();
        w.flush(napi, release.flush);
        w.deliver(napi);
    }
    k.op().await;
    if k.w().plant == Plant::ArmBeforeRelease
        && let Completed::Released { arm: Some(span), .. } = release.finish(false)
    {
        k.w().arm(napi, span, k.cpu());
        k.op().await;
    }
    let missed = {
        let mut w = k.w();
        let missed = w.transition(napi, State::complete_release);
        w.napis[napi].missed_kept = false;
        w.napis[napi].finishing += 1;
        if missed {
            w.hand_over(napi, NapiOwner::Ctx(k.me));
        } else {
            w.disown(napi);
        }
        missed
    };
    k.op().await;
    let completed = release.finish(missed);
    {
        let mut w = k.w();
        let index = w.napis[napi].index;
        w.note(Event::Complete { napi: index, unmask: completed.may_unmask() });
    }
    after_release(k, napi, completed).await
}

/// The word is released: schedules again, or arms the timer. True = the caller may unmask.
async fn after_release(k: &K, napi: usize, completed: Completed) -> bool {
    match completed {
        Completed::Reschedule => {
            k.w().hit(Decision::CompleteReschedule);
            schedule_owned(k, napi).await;
            false
        }
        Completed::Released { arm, unmask } => {
            let mut w = k.w();
            w.hit(match (arm.is_some(), unmask) {
                (false, true) => Decision::CompleteUnmask,
                (true, true) => Decision::CompleteArmUnmask,
                (true, false) => Decision::CompleteArm,
                (false, false) => unreachable!("masked with no poller to come back"),
            });
            if let Some(span) = arm
                && w.plant != Plant::ArmBeforeRelease
            {
                w.arm(napi, span, k.cpu());
            }
            unmask
        }
    }
}

/// Enables the interrupt and looks again.
pub(crate) async fn unmask(k: &K, napi: usize) {
    let again = {
        let mut w = k.w();
        w.rearm_irq(napi);
        let n = &mut w.napis[napi];
        n.unmasks += 1;
        let index = n.index;
        let again = !n.ring.is_empty() || w.tx_done(napi);
        w.note(Event::Unmask { napi: index });
        // A card that moderates by itself looks at its own ring, in its own time.
        again && !w.look_at_ring(napi) && w.plant != Plant::NoSecondLook
    };
    k.op().await;
    if again {
        k.w().hit(Decision::SecondLook);
        device_interrupt(k, napi).await;
    }
}

/// A poll sends what waits in the ring of its queue.
pub(crate) async fn send_ring(k: &K, napi: usize) {
    let frames = std::mem::take(&mut k.w().napis[napi].to_send);
    k.works(&[(Work::PacketDown, frames.into())]).await;
    k.w().launch(napi, frames);
}
