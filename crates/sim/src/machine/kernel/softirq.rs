//! The levels of a CPU: hardware interrupts, softirqs, ksoftirqd.

use napier_core::softirq::{NetRxRun, NetRxStep, SoftirqLoop, SoftirqNext};
use napier_core::state::State;
use napier_core::time::{Deadline, Span};

use crate::machine::cpu::work::{Disturbance, Work};
use crate::machine::dev::napi::NapiOwner;
use crate::machine::kernel::poll::poll_once;
use crate::machine::kernel::schedule::{device_interrupt, napi_schedule, schedule_owned};
use crate::machine::kernel::tx::schedule::{tx_wake, watchdog_interrupt};
use crate::machine::kernel::tx::softirq::net_tx_action;
use crate::machine::sim::coverage::Decision;
use crate::machine::sim::event::HardIrq;
use crate::machine::sim::plant::Plant;
use crate::machine::vm::K;
use napier_scenario::{CpuIx, Event, NapiIx, PollContext};

/// The hardware-interrupt level of a CPU.
pub(crate) async fn hard_main(k: K) {
    loop {
        let irq = k.w().cpus[k.cpu()].hard_queue.pop_front();
        match irq {
            None => k.park().await,
            Some(irq) => match irq {
                HardIrq::Device { napi } => {
                    k.w().napis[napi].interrupts += 1;
                    enter_irq(&k, Work::HardIrq).await;
                    device_interrupt(&k, napi).await;
                }
                HardIrq::Timer { napi, generation } => timer_interrupt(&k, napi, generation).await,
                HardIrq::Schedule { napi } => napi_schedule(&k, napi).await,
                HardIrq::Arm { napi, after } => k.w().arm(napi, after, k.cpu()),
                HardIrq::Watchdog { qd, generation } => {
                    enter_irq(&k, Work::HardIrq).await;
                    watchdog_interrupt(&k, qd, generation).await;
                }
                HardIrq::TxWake { txq, by } => {
                    enter_irq(&k, Work::HardIrq).await;
                    tx_wake(&k, txq, by).await;
                }
            },
        }
    }
}

/// An interrupt handler begins. The program that it comes into finds the CPU's caches full of something else afterwards. Where no program
/// runs there is none to be slowed down, and it is as a switch.
async fn enter_irq(k: &K, handler: Work) {
    let [exit, deep] = {
        let mut w = k.w();
        let Disturbance { after_hard_irq, after_timer_irq, after_switch, unseen, .. } = w.disturbance;
        let cpu = &mut w.cpus[k.cpu()];
        let lasts = match (&cpu.current, handler) {
            (None, _) => after_switch,
            (Some(_), Work::HardIrq) => after_hard_irq,
            (Some(_), _) => after_timer_irq,
        };
        cpu.speed.disturb(lasts);
        let [exit, deep] = w.leave_idle(k.cpu());
        w.cpus[k.cpu()].speed.unseen(if exit.1 > 0 { unseen } else { Span::ZERO });
        [exit, deep]
    };
    k.works(&[exit, deep, (handler, 1)]).await;
}

/// `napi_watchdog`.
async fn timer_interrupt(k: &K, napi: usize, generation: u32) {
    {
        let mut w = k.w();
        let timer = &mut w.napis[napi].timer;
        if !timer.armed || timer.generation != generation {
            // Armed anew or cancelled while this interrupt waited.
            return;
        }
        timer.armed = false;
        w.napis[napi].callbacks += 1;
        w.napis[napi].timer_fires += 1;
        let index = w.napis[napi].index;
        w.note(Event::TimerFire { napi: index, cpu: CpuIx(k.cpu() as u16) });
        w.touch(napi);
    }
    enter_irq(k, Work::TimerIrq).await;
    let got = {
        let mut w = k.w();
        let ignores_owner = w.plant == Plant::TimerIgnoresOwner && !w.napis[napi].word.contains(State::NPSVC);
        let got =
            w.transition_if(
                napi,
                |word| {
                    if ignores_owner { Some(word.with(State::SCHED)) } else { word.timer_acquire() }
                },
            );
        if got {
            w.own(napi, NapiOwner::Ctx(k.me));
        }
        w.hit(if got { Decision::TimerTook } else { Decision::TimerFoundOwner });
        got
    };
    k.op().await;
    if got {
        schedule_owned(k, napi).await;
    }
    let mut w = k.w();
    w.napis[napi].callbacks -= 1;
    w.touch(napi);
}

/// The softirq level of a CPU.
pub(crate) async fn soft_main(k: K) {
    loop {
        if k.w().cpus[k.cpu()].softirq_pending() {
            handle_softirqs(&k, PollContext::Softirq).await;
        }
        k.park().await;
    }
}

/// The thread ksoftirqd of a CPU.
pub(crate) async fn ksoftirqd_main(k: K) {
    loop {
        if k.w().cpus[k.cpu()].softirq_pending() {
            k.bh_off();
            handle_softirqs(&k, PollContext::Ksoftirqd).await;
            k.bh_on_quietly();
            k.cond_resched().await;
        } else {
            k.block(Deadline::NEVER).await;
        }
    }
}

/// `handle_softirqs`.
async fn handle_softirqs(k: &K, context: PollContext) {
    let now = k.w().now;
    let mut passes = SoftirqLoop::begin(now);
    loop {
        let (transmit, receive) = {
            let mut w = k.w();
            let cpu = &mut w.cpus[k.cpu()];
            (std::mem::take(&mut cpu.net_tx_pending), std::mem::take(&mut cpu.net_rx_pending))
        };
        if transmit {
            net_tx_action(k, context).await;
        }
        if receive {
            net_rx_action(k, context).await;
        }
        let mut w = k.w();
        let cpu = &w.cpus[k.cpu()];
        match passes.again(w.now, cpu.need_resched, cpu.softirq_pending()) {
            SoftirqNext::Run => w.hit(Decision::SoftirqAgain),
            SoftirqNext::Done => {
                w.hit(Decision::SoftirqDone);
                return;
            }
            SoftirqNext::WakeKsoftirqd => {
                w.hit(Decision::SoftirqToKsoftirqd);
                w.cpus[k.cpu()].ksoftirqd_wakes += 1;
                w.note(Event::Ksoftirqd { cpu: CpuIx(k.cpu() as u16) });
                let ksoftirqd = w.cpus[k.cpu()].ksoftirqd;
                w.wake(ksoftirqd);
                return;
            }
        }
    }
}

/// `net_rx_action`.
async fn net_rx_action(k: &K, context: PollContext) {
    k.work(Work::SoftirqEntry).await;
    let mut run = {
        let mut w = k.w();
        w.cpus[k.cpu()].softirq_runs += 1;
        let (now, budget) = (w.now, w.sysctl.netdev_budget);
        let limit = Span::from_us(u64::from(w.sysctl.netdev_budget_usecs));
        NetRxRun::begin(&mut w.cpus[k.cpu()].lists, now, budget, limit)
    };
    loop {
        let step = run.next(&mut k.w().cpus[k.cpu()].lists);
        match step {
            NetRxStep::Poll(napi) => {
                let polled = poll_once(k, napi.into(), context).await;
                let mut w = k.w();
                let now = w.now;
                run.polled(&mut w.cpus[k.cpu()].lists, now, napi, polled.work, polled.repoll);
            }
            NetRxStep::Finish { reraise } => {
                end_run(k, run.squeezed(), reraise);
                return;
            }
        }
    }
}

fn end_run(k: &K, squeezed: bool, reraise: bool) {
    let mut w = k.w();
    let cpu = CpuIx(k.cpu() as u16);
    if squeezed {
        w.cpus[k.cpu()].time_squeeze += 1;
        w.note(Event::Squeeze { cpu });
    }
    // Only a log is worth the allocation.
    let left =
        if w.log.is_some() { w.cpus[k.cpu()].lists.iter().map(|napi| NapiIx(*napi)).collect() } else { Vec::new() };
    w.note(Event::RunEnd { cpu, left });
    if reraise {
        w.raise(k.cpu(), false);
    }
}
