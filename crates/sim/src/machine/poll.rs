//! Scheduling, one poll and its completion: `napi_schedule`, `__napi_poll`, `napi_complete_done`.

use napier_core::completion::{Completed, Completion, complete};
use napier_core::poll::{AfterPoll, after_poll, may_poll};
use napier_core::state::{Poller, State};

use super::Plant;
use super::coverage::Decision;
use super::napi::Owner;
use super::vm::{K, Level};
use super::work::Work;
use napier_scenario::{CpuIx, Event, PollContext, Quirk};

/// What the poller does next.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Polled {
    pub(super) work: u32,
    pub(super) repoll: bool,
}

impl K {
    /// `napi_schedule_prep`.
    pub(super) async fn schedule_prep(&self, napi: usize) -> bool {
        let took = {
            let mut w = self.w();
            let disabled = w.napis[napi].word.is_disabled();
            let took = w.transition(napi, State::schedule_prep);
            if took {
                w.own(napi, Owner::Ctx(self.me));
            } else if disabled {
                w.napis[napi].missed_kept = true;
            }
            w.hit(if took { Decision::PrepTook } else { Decision::PrepMissed });
            let index = w.napis[napi].index;
            w.note(Event::Schedule { napi: index, took });
            took
        };
        self.op().await;
        took
    }

    /// `__napi_schedule`, by whoever owns the instance.
    pub(super) async fn schedule_owned(&self, napi: usize) {
        if self.w().napis[napi].word.to_group() {
            return self.give_to_group(napi).await;
        }
        let threaded = {
            let w = self.w();
            w.napis[napi].word.contains(State::THREADED) && w.napis[napi].has_thread
        };
        if threaded && self.w().places.workers.is_some() {
            self.work(Work::QueueWork).await;
        }
        if threaded {
            // Another CPU may come in between the look and the change.
            self.op().await;
        }
        {
            let mut w = self.w();
            if threaded {
                w.hit(Decision::ScheduleToThread);
                let poller = w.transition(napi, State::schedule);
                assert_ne!(poller, Poller::Softirq, "the mode of an owned instance is not taken away");
                w.hand_over(napi, Owner::Thread);
                let kthread = w.napis[napi].kthread;
                w.take_worker(kthread);
                w.wake(kthread);
            } else {
                w.hit(Decision::ScheduleToList);
                w.hand_over(napi, Owner::Cpu(self.cpu()));
                let raise = w.cpus[self.cpu()].lists.push_back(napi as u16);
                if raise {
                    let process = self.level == Level::Task && w.ctxs[self.me].bh_off == 0;
                    w.raise(self.cpu(), process);
                }
            }
        }
        self.op().await;
    }

    /// `napi_schedule`.
    pub(super) async fn napi_schedule(&self, napi: usize) {
        if self.schedule_prep(napi).await {
            self.schedule_owned(napi).await;
        }
    }

    /// The device's interrupt handler: take, mask, schedule.
    pub(super) async fn device_interrupt(&self, napi: usize) {
        if self.schedule_prep(napi).await {
            {
                let mut w = self.w();
                if !w.napis[napi].masked {
                    w.napis[napi].masked = true;
                    let index = w.napis[napi].index;
                    w.note(Event::Mask { napi: index });
                }
                w.touch(napi);
            }
            self.op().await;
            self.schedule_owned(napi).await;
        }
    }

    /// The driver's poll: takes packets, sends them up, and completes if it took less than its budget. It does not know
    /// who polls; a busy poller's completion is refused. The caller owns the instance.
    pub(super) async fn drive(&self, napi: usize, budget: u32, context: PollContext) -> u32 {
        self.w().enter_poll(napi, self.me);
        if self.w().tx_done(napi) {
            self.tx_clean(napi).await;
        }
        if self.w().napis[napi].to_send > 0 {
            self.send_ring(napi).await;
        }
        let (work, works) = {
            let mut w = self.w();
            let taken = (w.napis[napi].ring.len() as u32).min(budget);
            let work = if w.napis[napi].quirk == Quirk::AlwaysFull { budget } else { taken };
            let index = w.napis[napi].index;
            let cpu = CpuIx(self.cpu() as u16);
            w.note(Event::Poll { napi: index, context, cpu, work, budget });
            w.napis[napi].polls += 1;
            w.napis[napi].empty_polls += u64::from(taken == 0);
            w.napis[napi].packets += u64::from(taken);
            let (mut acks, mut further) = (0, 0);
            for packet in w.napis[napi].ring.iter().take(taken as usize) {
                acks += u64::from(packet.is_ack);
                further += u64::from(packet.segments - 1);
            }
            w.receive(napi, taken);
            let poll = if taken == 0 { Work::PollEmpty } else { Work::Poll };
            let up = u64::from(taken) - acks;
            (work, [(poll, 1), (Work::PacketUp, up), (Work::AckUp, acks), (Work::SegmentUp, further)])
        };
        self.works(&works).await;
        {
            let mut w = self.w();
            if matches!(context, PollContext::User | PollContext::KthreadBusy) {
                w.napis[napi].busy_at = w.now;
            }
            w.leave_poll(napi, self.me);
        }
        if work < budget && self.w().napis[napi].quirk != Quirk::NeverCompletes {
            if self.complete_done(napi, work).await {
                self.unmask(napi).await;
            }
            self.w().finished(napi);
        }
        work
    }

    /// One poll with the full weight in softirq or thread, and what follows it.
    pub(super) async fn poll_once(&self, napi: usize, context: PollContext) -> Polled {
        let weight = {
            let w = self.w();
            if !may_poll(w.napis[napi].word) {
                return Polled { work: 0, repoll: false };
            }
            w.napis[napi].weight
        };
        let work = self.drive(napi, weight, context).await;
        if work < weight {
            return Polled { work, repoll: false };
        }
        let (after, wrong) = {
            let w = self.w();
            (after_poll(w.napis[napi].word, work, weight, w.hz), w.plant == Plant::HandOverAndForget)
        };
        self.op().await;
        let repoll = match after {
            AfterPoll::Done => unreachable!("a full poll is never done"),
            AfterPoll::Repoll { flush } => {
                let mut w = self.w();
                w.hit(Decision::Repoll);
                w.flush(napi, flush);
                w.deliver(napi);
                true
            }
            AfterPoll::CompleteZero => {
                self.w().hit(Decision::CompleteZero);
                self.complete_done(napi, 0).await;
                self.w().finished(napi);
                false
            }
            AfterPoll::HandToBusyPoller => {
                self.w().hit(Decision::HandToBusyPoller);
                let alone = self.complete_done(napi, work).await;
                if alone && !wrong {
                    self.napi_schedule(napi).await;
                }
                self.w().finished(napi);
                false
            }
        };
        Polled { work, repoll }
    }

    /// `napi_complete_done`: true = the caller may unmask. The caller says [`World::finished`] when it has.
    ///
    /// [`World::finished`]: super::world::World::finished
    pub(super) async fn complete_done(&self, napi: usize, work: u32) -> bool {
        let decision = {
            let mut w = self.w();
            let held = w.napis[napi].merge.held();
            let n = &mut w.napis[napi];
            let decision = complete(n.word, work, held, &n.tunables, &mut n.defers_left);
            n.defers_max = n.defers_max.max(n.tunables.defer_hard_irqs);
            decision
        };
        let Completion::Release(release) = decision else {
            let mut w = self.w();
            w.hit(Decision::CompleteRefused);
            let index = w.napis[napi].index;
            w.note(Event::Complete { napi: index, unmask: false });
            // Nothing to finish; the caller counts down.
            w.napis[napi].finishing += 1;
            return false;
        };
        {
            let mut w = self.w();
            w.flush(napi, release.flush);
            w.deliver(napi);
        }
        self.op().await;
        if self.w().plant == Plant::ArmBeforeRelease
            && let Completed::Released { arm: Some(span), .. } = release.finish(false)
        {
            self.w().arm(napi, span, self.cpu());
            self.op().await;
        }
        let missed = {
            let mut w = self.w();
            let missed = w.transition(napi, State::complete_release);
            w.napis[napi].missed_kept = false;
            w.napis[napi].finishing += 1;
            if missed {
                w.hand_over(napi, Owner::Ctx(self.me));
            } else {
                w.disown(napi);
            }
            missed
        };
        self.op().await;
        let completed = release.finish(missed);
        {
            let mut w = self.w();
            let index = w.napis[napi].index;
            w.note(Event::Complete { napi: index, unmask: completed.may_unmask() });
        }
        self.completed(napi, completed).await
    }

    /// The word is released: schedules again, or arms the timer. True = the caller may unmask.
    async fn completed(&self, napi: usize, completed: Completed) -> bool {
        match completed {
            Completed::Reschedule => {
                self.w().hit(Decision::CompleteReschedule);
                self.schedule_owned(napi).await;
                false
            }
            Completed::Released { arm, unmask } => {
                let mut w = self.w();
                w.hit(match (arm.is_some(), unmask) {
                    (false, true) => Decision::CompleteUnmask,
                    (true, true) => Decision::CompleteArmUnmask,
                    (true, false) => Decision::CompleteArm,
                    (false, false) => unreachable!("masked with nobody to come back"),
                });
                if let Some(span) = arm
                    && w.plant != Plant::ArmBeforeRelease
                {
                    w.arm(napi, span, self.cpu());
                }
                unmask
            }
        }
    }

    /// Enables the interrupt and looks again.
    pub(super) async fn unmask(&self, napi: usize) {
        let again = {
            let mut w = self.w();
            w.rearm_irq(napi);
            let n = &mut w.napis[napi];
            n.unmasks += 1;
            let index = n.index;
            let again = !n.ring.is_empty() || w.tx_done(napi);
            w.note(Event::Unmask { napi: index });
            // A card that moderates by itself looks at its own ring, in its own time.
            again && !w.look_at_ring(napi) && w.plant != Plant::NoSecondLook
        };
        self.op().await;
        if again {
            self.w().hit(Decision::SecondLook);
            self.device_interrupt(napi).await;
        }
    }
}
