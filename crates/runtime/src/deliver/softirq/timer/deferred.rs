//! The timer that a thread has armed and has not set the kernel's timer for, and how it settles that.

use std::ptr;

use napier_core::time::Instant;

use super::{NEVER_NS, SoftirqCpu};
use crate::deliver::Deliver;
use crate::napi::Context;
use crate::tx::{DeferredTimer, PerThread, TimerCpu};
use napier_stack::deferred::{self, Work};

impl TimerCpu for SoftirqCpu {
    fn program_if_late(&self, at_ns: u64) {
        Self::program_if_late(self, at_ns);
    }

    fn settle_before_sleep(&self) {
        let Some(deliver) = self.hand_over.deliver() else { return };
        look_after_timers(self, &deliver, false);
        // Not what the thread armed last: another instance of the CPU may be due before.
        if !self.thread_will_look() && self.program_earliest(&deliver, 0).is_some() {
            self.kick();
        }
    }
}

impl DeferredTimer {
    fn is_on(&self, cpu: &SoftirqCpu) -> bool {
        ptr::addr_eq(&raw const *self.cpu, cpu)
    }

    /// Sets the kernel's timer if it would come too late, with the slack that running threads are given.
    fn release(&mut self) {
        if std::mem::replace(&mut self.held, false) {
            self.cpu.program_if_late(self.at_ns);
        }
    }
}

/// Sets the kernel's timer to what the calling thread armed last: it is about to sleep.
fn settle_before_sleep() {
    PerThread::with(|mine| {
        if let Some(timer) = mine.timer.borrow_mut().as_mut() {
            timer.held = false;
            timer.cpu.settle_before_sleep();
        }
    });
}

/// Sets the kernel's timer for what the calling thread has armed meanwhile.
fn release_held() {
    PerThread::with(|mine| mine.timer.borrow_mut().iter_mut().for_each(DeferredTimer::release));
}

/// The calling thread runs, and has armed instance `napi` for `at_ns`: the kernel's timer is set late, or later.
#[inline]
pub(super) fn defer(cpu: &SoftirqCpu, deliver: &Deliver, napi: u32, at_ns: u64) {
    let deferred = PerThread::with(|mine| {
        let mut timer = mine.timer.borrow_mut();
        // Mostly the same instance on the same CPU as the last time.
        let same = timer.as_ref().is_some_and(|last| last.napi == napi && last.is_on(cpu));
        if !same {
            defer_another(cpu, deliver, &mut timer);
        }
        let Some(last) = timer.as_mut() else { unreachable!("there is one now") };
        (last.napi, last.at_ns) = (napi, at_ns);
        deferred::owe(Work::ExactTimers, settle_before_sleep);
        last.held = deferred::held(Work::Timers) != 0;
        if last.held {
            deferred::owe(Work::Timers, release_held);
        }
        last.held
    });
    // Also of a thread that ends, and keeps nothing any more.
    if deferred != Some(true) {
        cpu.program_if_late(at_ns);
    }
}

/// What the calling thread has deferred is for another instance, or on another CPU: that is not replaced by what it defers here.
#[cold]
fn defer_another(cpu: &SoftirqCpu, deliver: &Deliver, timer: &mut Option<DeferredTimer>) {
    timer.iter_mut().for_each(DeferredTimer::release);
    if !timer.as_ref().is_some_and(|last| last.is_on(cpu)) {
        let cpu = deliver.softirq[cpu.index as usize].clone();
        *timer = Some(DeferredTimer { cpu, napi: 0, at_ns: NEVER_NS, held: false });
    }
}

/// A program looks after all timers of this CPU from now on, or none does.
fn look_after_timers(cpu: &SoftirqCpu, deliver: &Deliver, looks: bool) {
    deliver.for_each_napi(|napi| {
        if napi.timer.expiry_on(cpu.index).is_some() {
            napi.timer.look_after(looks);
        }
    });
}

/// The calling thread is about to sleep, and keeps the CPU's timers meanwhile: the earliest of them, or
/// [`NEVER_NS`](LazyTimer::NEVER_NS). What it has deferred elsewhere is done.
pub(in crate::deliver::softirq) fn keep_timers(cpu: &SoftirqCpu, deliver: &Deliver) -> u64 {
    let elsewhere = |mine: &PerThread| mine.timer.borrow().as_ref().is_some_and(|last| !last.is_on(cpu));
    if PerThread::with(elsewhere) != Some(true) {
        deferred::forget(Work::ExactTimers);
    } else {
        deferred::settle(Work::ExactTimers);
    }
    look_after_timers(cpu, deliver, true);
    cpu.earliest(deliver, 0)
}

/// The calling thread has kept the CPU's timers while it slept and goes on with its own work: the kernel timer sees to them,
/// late, if it does not come back.
pub(in crate::deliver::softirq) fn leave_timers(cx: Context, cpu: &SoftirqCpu, deliver: &Deliver) {
    let (mut first, mut watchdog) = (None, None);
    deliver.for_each_napi(|napi| {
        if let Some(at) = napi.timer.expiry_on(cpu.index) {
            first = first.into_iter().chain([(at.ns, napi.index)]).min();
        }
        watchdog = watchdog.into_iter().chain(napi.tx_path().watchdog_on(cpu.index)).min();
    });
    if let Some((at_ns, napi)) = first {
        // It looks for its own. Of the others it does not know who waits for them.
        look_after_timers(cpu, deliver, false);
        deliver.napi_at(napi).timer.look_after(true);
        defer(cpu, deliver, napi, at_ns);
    }
    // It may have taken the kernel timer's expiry that these relied on.
    if let Some(at) = watchdog {
        cpu.watchdog_armed(cx, at);
    }
    let hold_ns = cpu.earliest_hold(deliver);
    if hold_ns != NEVER_NS {
        cpu.hold_armed(cx, Instant { ns: hold_ns });
    }
}
