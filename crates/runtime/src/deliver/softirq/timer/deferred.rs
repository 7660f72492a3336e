//! What a thread that runs has armed and owes a kernel timer for, and how it settles that.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use napier_core::time::Instant;

use super::{NEVER_NS, SoftirqCpu};
use crate::deliver::Deliver;
use crate::napi::Context;
use napier_stack::put_off::{self, Work};

thread_local! {
    /// What this thread armed last and may have to set the kernel timer to.
    static UNSETTLED: RefCell<Option<Unsettled>> = const { RefCell::new(None) };
}

/// An expiry that a thread armed without setting the kernel timer to it exactly.
struct Unsettled {
    deliver: Weak<Deliver>,
    cpu: Arc<SoftirqCpu>,
    napi: u32,
    at_ns: u64,
    /// The kernel timer was not even set late.
    held: bool,
}

impl Unsettled {
    fn is_on(&self, cpu: &SoftirqCpu) -> bool {
        std::ptr::eq(&raw const *self.cpu, cpu)
    }

    /// Sets the kernel timer if it would come too late, with the slack that running threads are given.
    fn release(&mut self) {
        if std::mem::replace(&mut self.held, false) {
            self.cpu.program_if_late(self.at_ns);
        }
    }
}

/// Sets the kernel timer to what the calling thread armed last: it is about to sleep.
fn settle_before_sleep() {
    UNSETTLED.with_borrow_mut(|unsettled| {
        if let Some(unsettled) = unsettled.as_mut() {
            unsettled.held = false;
            let Some(deliver) = unsettled.deliver.upgrade() else { return };
            look_after_timers(&unsettled.cpu, &deliver, false);
            // Not what this thread armed last: another instance of the CPU may be due before.
            if !unsettled.cpu.thread_will_look() && unsettled.cpu.program_earliest(&deliver, 0).is_some() {
                unsettled.cpu.kick();
            }
        }
    });
}

/// Sets the kernel timer for what the calling thread has armed meanwhile.
fn release_held() {
    UNSETTLED.with_borrow_mut(|unsettled| unsettled.iter_mut().for_each(Unsettled::release));
}

/// The calling thread runs, and owes a kernel timer at `at_ns` for instance `napi`.
#[inline]
pub(super) fn owe(cpu: &SoftirqCpu, deliver: &Deliver, napi: u32, at_ns: u64) {
    // `with`: the shorter ways to borrow are calls, and a thread that polls comes here with each poll that finds nothing.
    UNSETTLED.with(|unsettled| {
        let mut unsettled = unsettled.borrow_mut();
        // Mostly the same instance on the same CPU as the last time.
        let same = unsettled.as_ref().is_some_and(|last| last.napi == napi && last.is_on(cpu));
        if !same {
            owe_another(cpu, deliver, &mut unsettled);
        }
        let Some(last) = unsettled.as_mut() else { unreachable!("there is one now") };
        (last.napi, last.at_ns) = (napi, at_ns);
        put_off::owe(Work::ExactTimers, settle_before_sleep);
        last.held = put_off::held(Work::Timers) != 0;
        if last.held {
            put_off::owe(Work::Timers, release_held);
        } else {
            cpu.program_if_late(at_ns);
        }
    });
}

/// What the calling thread owed is for another instance, or on another CPU: that is not replaced by what it owes here.
#[cold]
fn owe_another(cpu: &SoftirqCpu, deliver: &Deliver, unsettled: &mut Option<Unsettled>) {
    unsettled.iter_mut().for_each(Unsettled::release);
    if !unsettled.as_ref().is_some_and(|last| last.is_on(cpu)) {
        let cpu = deliver.softirq[cpu.index as usize].clone();
        *unsettled = Some(Unsettled { deliver: deliver.this(), cpu, napi: 0, at_ns: NEVER_NS, held: false });
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
/// [`NEVER_NS`](LazyTimer::NEVER_NS). What it owes elsewhere is done.
pub(in crate::deliver::softirq) fn settle_for_stand_in(cpu: &SoftirqCpu, deliver: &Deliver) -> u64 {
    let own = UNSETTLED.with_borrow(|unsettled| unsettled.as_ref().is_none_or(|last| last.is_on(cpu)));
    if own {
        put_off::forget(Work::ExactTimers);
    } else {
        put_off::settle(Work::ExactTimers);
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
        // It comes by for its own. Of the others it does not know who waits for them.
        look_after_timers(cpu, deliver, false);
        deliver.napi_at(napi).timer.look_after(true);
        owe(cpu, deliver, napi, at_ns);
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
