//! The levels of a CPU: hardware interrupts, softirqs, ksoftirqd.

use napier_core::softirq::{NetRxRun, NetRxStep, SoftirqLoop, SoftirqNext};
use napier_core::state::State;
use napier_core::time::{Deadline, Span};

use super::Plant;
use super::coverage::Decision;
use super::event::HardIrq;
use super::napi::Owner;
use super::vm::K;
use super::work::{Disturbance, Work};
use napier_scenario::{CpuIx, Event, NapiIx, PollContext};

impl K {
    /// The hardware-interrupt level of a CPU.
    pub(super) async fn hard_main(self) {
        loop {
            let irq = self.w().cpus[self.cpu()].hard_queue.pop_front();
            match irq {
                None => self.park().await,
                Some(irq) => match irq {
                    HardIrq::Device { napi } => {
                        self.w().napis[napi].interrupts += 1;
                        self.enter_irq(Work::HardIrq).await;
                        self.device_interrupt(napi).await;
                    }
                    HardIrq::Timer { napi, generation } => self.timer_interrupt(napi, generation).await,
                    HardIrq::Schedule { napi } => self.napi_schedule(napi).await,
                    HardIrq::Arm { napi, after } => self.w().arm(napi, after, self.cpu()),
                    HardIrq::Watchdog { qd, generation } => {
                        self.enter_irq(Work::HardIrq).await;
                        self.watchdog_interrupt(qd, generation).await;
                    }
                    HardIrq::TxWake { txq, by } => {
                        self.enter_irq(Work::HardIrq).await;
                        self.tx_wake(txq, by).await;
                    }
                },
            }
        }
    }

    /// An interrupt handler begins. What runs after it finds the CPU's caches full of something else.
    async fn enter_irq(&self, handler: Work) {
        let exit = {
            let mut w = self.w();
            let Disturbance { after_hard_irq, after_timer_irq, .. } = w.disturbance;
            let lasts = if handler == Work::HardIrq { after_hard_irq } else { after_timer_irq };
            w.cpus[self.cpu()].speed.disturb(lasts);
            w.leave_idle(self.cpu())
        };
        let [exit, deep] = exit;
        self.works(&[exit, deep, (handler, 1)]).await;
    }

    /// `napi_watchdog`.
    async fn timer_interrupt(&self, napi: usize, generation: u32) {
        {
            let mut w = self.w();
            let timer = &mut w.napis[napi].timer;
            if !timer.armed || timer.generation != generation {
                // Armed anew or cancelled while this interrupt waited.
                return;
            }
            timer.armed = false;
            w.napis[napi].callbacks += 1;
            w.napis[napi].timer_fires += 1;
            let index = w.napis[napi].index;
            w.note(Event::TimerFire { napi: index, cpu: CpuIx(self.cpu() as u16) });
            w.touch(napi);
        }
        self.enter_irq(Work::TimerIrq).await;
        let got =
            {
                let mut w = self.w();
                let ignores_owner = w.plant == Plant::TimerIgnoresOwner && !w.napis[napi].word.contains(State::NPSVC);
                let got = w.transition_if(napi, |word| {
                    if ignores_owner { Some(word.with(State::SCHED)) } else { word.timer_acquire() }
                });
                if got {
                    w.own(napi, Owner::Ctx(self.me));
                }
                w.hit(if got { Decision::TimerTook } else { Decision::TimerFoundOwner });
                got
            };
        self.op().await;
        if got {
            self.schedule_owned(napi).await;
        }
        let mut w = self.w();
        w.napis[napi].callbacks -= 1;
        w.touch(napi);
    }

    /// The softirq level of a CPU.
    pub(super) async fn soft_main(self) {
        loop {
            if self.w().cpus[self.cpu()].softirq_pending() {
                self.handle_softirqs(PollContext::Softirq).await;
            }
            self.park().await;
        }
    }

    /// The thread ksoftirqd of a CPU.
    pub(super) async fn ksoftirqd_main(self) {
        loop {
            if self.w().cpus[self.cpu()].softirq_pending() {
                self.bh_off();
                self.handle_softirqs(PollContext::Ksoftirqd).await;
                self.bh_on_quietly();
                self.cond_resched().await;
            } else {
                self.block(Deadline::NEVER).await;
            }
        }
    }

    /// `handle_softirqs`.
    async fn handle_softirqs(&self, context: PollContext) {
        let now = self.w().now;
        let mut passes = SoftirqLoop::begin(now);
        loop {
            let (transmit, receive) = {
                let mut w = self.w();
                let cpu = &mut w.cpus[self.cpu()];
                (std::mem::take(&mut cpu.net_tx_pending), std::mem::take(&mut cpu.net_rx_pending))
            };
            if transmit {
                self.net_tx_action(context).await;
            }
            if receive {
                self.net_rx_action(context).await;
            }
            let mut w = self.w();
            let cpu = &w.cpus[self.cpu()];
            match passes.again(w.now, cpu.need_resched, cpu.softirq_pending()) {
                SoftirqNext::Run => w.hit(Decision::SoftirqAgain),
                SoftirqNext::Done => {
                    w.hit(Decision::SoftirqDone);
                    return;
                }
                SoftirqNext::WakeKsoftirqd => {
                    w.hit(Decision::SoftirqToKsoftirqd);
                    w.cpus[self.cpu()].ksoftirqd_wakes += 1;
                    w.note(Event::Ksoftirqd { cpu: CpuIx(self.cpu() as u16) });
                    let ksoftirqd = w.cpus[self.cpu()].ksoftirqd;
                    w.wake(ksoftirqd);
                    return;
                }
            }
        }
    }

    /// `net_rx_action`.
    async fn net_rx_action(&self, context: PollContext) {
        self.work(Work::SoftirqEntry).await;
        let mut run = {
            let mut w = self.w();
            w.cpus[self.cpu()].softirq_runs += 1;
            let (now, budget) = (w.now, w.sysctl.netdev_budget);
            let limit = Span::from_us(u64::from(w.sysctl.netdev_budget_usecs));
            NetRxRun::begin(&mut w.cpus[self.cpu()].lists, now, budget, limit)
        };
        loop {
            let step = run.next(&mut self.w().cpus[self.cpu()].lists);
            match step {
                NetRxStep::Poll(napi) => {
                    let polled = self.poll_once(napi.into(), context).await;
                    let mut w = self.w();
                    let now = w.now;
                    run.polled(&mut w.cpus[self.cpu()].lists, now, napi, polled.work, polled.repoll);
                }
                NetRxStep::Finish { reraise } => {
                    self.end_run(run.squeezed(), reraise);
                    return;
                }
            }
        }
    }

    fn end_run(&self, squeezed: bool, reraise: bool) {
        let mut w = self.w();
        let cpu = CpuIx(self.cpu() as u16);
        if squeezed {
            w.cpus[self.cpu()].time_squeeze += 1;
            w.note(Event::Squeeze { cpu });
        }
        // Only a log is worth the allocation.
        let left = if w.log.is_some() {
            w.cpus[self.cpu()].lists.iter().map(|napi| NapiIx(*napi)).collect()
        } else {
            Vec::new()
        };
        w.note(Event::RunEnd { cpu, left });
        if reraise {
            w.raise(self.cpu(), false);
        }
    }
}
