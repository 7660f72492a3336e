//! The CPU's timer: one kernel timer for all instances that are armed here.
//!
//! Programming a kernel timer costs microseconds, and a busy program re-arms its instance with every
//! call. So a running thread only notes the new expiry; the kernel timer is set exactly when the
//! softirq thread or the arming thread goes to sleep. While a program keeps re-arming, the softirq
//! thread looks after it at growing intervals, at most [`SLACK_MAX`](napier_core::upkeep::SLACK_MAX) late.
//!
//! A program that sleeps keeps its CPU's timers itself (`stand_in`), and one that finds nothing to do runs what it has armed and
//! is due ([`Deliver::run_own_timers`]). The kernel timer is there for programs that compute, or are about to.
//!
//! A wait that suspends interrupts arms twice: the deferral time-out when its busy loop stops, and a
//! moment later the suspend time-out. It holds the first back ([`Work::Timers`]), else the kernel timer
//! would be moved back and forth with every request.

#[cfg(test)]
pub(crate) mod hold;

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use napier_core::state::State;
use napier_core::time::{Instant, Span};
use napier_core::upkeep::{SLACK_NONE, timer_slack};
use napier_ring::LazyTimer;
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::SoftirqCpu;
use crate::deliver::Deliver;
use crate::journal::{Event, Rule};
use crate::napi::Napi;
use crate::napi::place::{HERE, Here};
use napier_stack::put_off::{self, Work};
use napier_sys::nowait::{self, ForOthers};

pub(super) const NEVER_NS: u64 = LazyTimer::NEVER_NS;

pub(super) struct CpuTimer {
    pub(super) fd: OwnedFd,
    lazy: LazyTimer,
    slack_ns: AtomicU64,
    /// Serialises programming so that descriptor and `lazy` agree.
    programming: Mutex<()>,
}

thread_local! {
    /// What this thread armed last and may have to set the kernel timer to.
    static UNSETTLED: RefCell<Option<Unsettled>> = const { RefCell::new(None) };
}

/// What a look at due timers has run.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Ran {
    /// Nothing was due.
    None,
    /// Only what a program would have found by itself.
    LookedAfter,
    /// What nobody else would have run.
    Exact,
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
            unsettled.cpu.look_after_timers(&deliver, false);
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

impl CpuTimer {
    pub(super) fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            fd: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?,
            lazy: LazyTimer::new(),
            slack_ns: AtomicU64::new(0),
            programming: Mutex::new(()),
        })
    }
}

impl SoftirqCpu {
    /// The timer of `napi` was armed here by the calling thread, which is `here`.
    #[inline]
    pub(crate) fn timer_armed(&self, deliver: &Deliver, here: Here, napi: &Napi, at: Instant) {
        // Whoever looks after the CPU sets the timer before it sleeps, or does what the timer is for.
        if here.thread_of != Some(self.index) {
            napi.timer.look_after(true);
        }
        if !here.looks_after(self.index) {
            self.owe(deliver, napi.index, at.ns);
        }
    }

    /// The calling thread runs, and owes a kernel timer at `at_ns` for instance `napi`.
    #[inline]
    fn owe(&self, deliver: &Deliver, napi: u32, at_ns: u64) {
        // `with`: the shorter ways to borrow are calls, and a thread that polls comes here with each poll that finds nothing.
        UNSETTLED.with(|unsettled| {
            let mut unsettled = unsettled.borrow_mut();
            // Mostly the same instance on the same CPU as the last time.
            let same = unsettled.as_ref().is_some_and(|last| last.napi == napi && last.is_on(self));
            if !same {
                self.owe_another(deliver, &mut unsettled);
            }
            let Some(last) = unsettled.as_mut() else { unreachable!("there is one now") };
            (last.napi, last.at_ns) = (napi, at_ns);
            put_off::owe(Work::ExactTimers, settle_before_sleep);
            last.held = put_off::held(Work::Timers) != 0;
            if last.held {
                put_off::owe(Work::Timers, release_held);
            } else {
                self.program_if_late(at_ns);
            }
        });
    }

    /// What the calling thread owed is for another instance, or on another CPU: that is not replaced by what it owes here.
    #[cold]
    fn owe_another(&self, deliver: &Deliver, unsettled: &mut Option<Unsettled>) {
        unsettled.iter_mut().for_each(Unsettled::release);
        if !unsettled.as_ref().is_some_and(|last| last.is_on(self)) {
            let cpu = deliver.softirq[self.index as usize].clone();
            *unsettled = Some(Unsettled { deliver: deliver.this(), cpu, napi: 0, at_ns: NEVER_NS, held: false });
        }
    }

    /// A program looks after all timers of this CPU from now on, or none does.
    fn look_after_timers(&self, deliver: &Deliver, looks: bool) {
        deliver.for_each_napi(|napi| {
            if napi.timer.expiry_on(self.index).is_some() {
                napi.timer.look_after(looks);
            }
        });
    }

    /// The calling thread is about to sleep, and keeps the CPU's timers meanwhile: the earliest of them, or
    /// [`NEVER_NS`](LazyTimer::NEVER_NS). What it owes elsewhere is done.
    pub(super) fn settle_for_stand_in(&self, deliver: &Deliver) -> u64 {
        let own = UNSETTLED.with_borrow(|unsettled| {
            unsettled.as_ref().is_none_or(|unsettled| std::ptr::eq(&raw const *unsettled.cpu, self))
        });
        if own {
            put_off::forget(Work::ExactTimers);
        } else {
            put_off::settle(Work::ExactTimers);
        }
        self.look_after_timers(deliver, true);
        self.earliest(deliver, 0)
    }

    /// The calling thread has kept the CPU's timers while it slept and goes on with its own work: the kernel timer sees to them,
    /// late, if it does not come back.
    pub(super) fn leave_timers(&self, deliver: &Deliver) {
        let mut first = None;
        deliver.for_each_napi(|napi| {
            if let Some(at) = napi.timer.expiry_on(self.index) {
                first = first.into_iter().chain([(at.ns, napi.index)]).min();
            }
        });
        if let Some((at_ns, napi)) = first {
            self.owe(deliver, napi, at_ns);
        }
    }

    /// The kernel timer fired while a program kept the timers: it need not come so soon.
    pub(super) fn timer_in_vain(&self) {
        let slack_ns = timer_slack(Span::from_ns(self.timer.slack_ns.load(Ordering::Relaxed)), Some(true)).ns;
        self.timer.slack_ns.store(slack_ns, Ordering::Relaxed);
    }

    /// The watchdog of a transmit queue was set, which this CPU's thread looks after. Exact, without slack: a departure
    /// time is meant, and it is not put off again and again.
    pub(crate) fn watchdog_armed(&self, at: Instant) {
        if HERE.get().thread_of == Some(self.index) || self.thread_will_look() {
            return;
        }
        if self.timer.lazy.fires_after(at.ns) {
            let Some(one_at_a_time) = self.programming() else { return self.kick() };
            if self.timer.lazy.fires_after(at.ns) {
                self.program_locked(at.ns, &one_at_a_time);
            }
        }
    }

    /// Sets the kernel timer unless it fires before `at_ns` or not much later.
    #[inline]
    fn program_if_late(&self, at_ns: u64) {
        let late_ns = at_ns.saturating_add(self.timer.slack_ns.load(Ordering::Relaxed));
        if self.thread_will_look() {
            return;
        }
        if self.timer.lazy.fires_after(late_ns) {
            let Some(one_at_a_time) = self.programming() else { return self.kick() };
            // Again: another thread may have programmed something earlier meanwhile, for an instance of its own.
            if self.timer.lazy.fires_after(late_ns) {
                self.program_locked(late_ns, &one_at_a_time);
            }
        }
    }

    /// Whether the CPU's thread runs and will see what the caller armed before it sleeps.
    #[inline]
    fn thread_will_look(&self) -> bool {
        self.timer.lazy.sleeper_will_look()
    }

    /// The CPU's thread has woken up.
    pub(super) fn woken(&self) {
        self.timer.lazy.woken();
    }

    /// The right to set the kernel timer; none if a program has it, for a thread that works for others.
    fn programming(&self) -> Option<MutexGuard<'_, ()>> {
        let programming = &self.timer.programming;
        if nowait::may_wait() {
            Some(programming.lock().expect("programming does not panic"))
        } else {
            programming.try_lock().ok()
        }
    }

    /// The right to set the kernel timer, as a program has it that loses its processor.
    #[cfg(test)]
    pub(crate) fn hold_timer(&self) -> MutexGuard<'_, ()> {
        self.timer.programming.lock().expect("programming does not panic")
    }

    fn program_locked(&self, at_ns: u64, _one_at_a_time: &MutexGuard<'_, ()>) {
        self.counters.timer_programs.fetch_add(1, Ordering::Relaxed);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let at = Timespec {
            tv_sec: i64::try_from(at_ns / 1_000_000_000).expect("u64 ns fit i64 seconds"),
            tv_nsec: (at_ns % 1_000_000_000).cast_signed(),
        };
        self.timer.lazy.set(at_ns, || {
            #[cfg(test)]
            hold::at(hold::Point::BeforeKernelTimer);
            timerfd_settime(
                &self.timer.fd,
                TimerfdTimerFlags::ABSTIME,
                &Itimerspec { it_interval: zero, it_value: at },
            )
            .expect("an absolute time on an own timer descriptor is always accepted");
        });
    }

    /// The kernel timer fired: it is no longer programmed.
    pub(super) fn timer_fired(&self) {
        self.timer.lazy.fired();
    }

    /// Runs the callbacks that are due (`napi_watchdog`).
    pub(super) fn run_due_timers(&self, deliver: &Deliver) -> Ran {
        let now = deliver.clock.now();
        let mut ran = Ran::None;
        deliver.for_each_napi(|napi| {
            if napi.tx_path().run_watchdog(deliver, self.index, now) {
                ran = Ran::Exact;
            }
            let due = napi.journaled(
                || napi.timer.take_due(self.index, now),
                |due| due.map(|due| Event::TimerFire { due, cpu: self.cpu }),
            );
            if let Some(at) = due {
                ran = ran.max(if napi.timer.is_looked_after() { Ran::LookedAfter } else { Ran::Exact });
                napi.counters.timer_fired((now - at).ns);
                if napi.transition_if(Rule::TimerAcquire, State::timer_acquire) {
                    // Not masked here: the timer may belong to an instance whose interrupt was never taken, and stays as
                    // it is then.
                    deliver.schedule_owned(napi);
                }
            }
        });
        ran
    }

    /// Sets the kernel timer for the earliest expiry; the thread is about to sleep. `for_nothing`: whether the timer that woke it
    /// did so for nothing, if one did. Gives how long it may sleep if it could not set the kernel timer.
    pub(super) fn prepare_sleep(&self, deliver: &Deliver, for_nothing: Option<bool>) -> Option<Timespec> {
        let slack_ns = timer_slack(Span::from_ns(self.timer.slack_ns.load(Ordering::Relaxed)), for_nothing).ns;
        self.timer.slack_ns.store(slack_ns, Ordering::Relaxed);
        self.timer.lazy.sleeps();
        let at_ns = self.program_earliest(deliver, slack_ns)?;
        Some(until(at_ns, deliver.clock.now()))
    }

    /// Sets the kernel timer for the earliest expiry of all instances that are armed here, `slack_ns` late for those that a program
    /// looks after. `Some`: it should come at this time, but a program has it in hand.
    pub(super) fn program_earliest(&self, deliver: &Deliver, slack_ns: u64) -> Option<u64> {
        let mut next_ns = self.earliest(deliver, slack_ns);
        loop {
            if next_ns == NEVER_NS {
                // A stale kernel timer costs one wake-up, as much as stopping it.
                return None;
            }
            // First: who has it may have said when the timer fires, and not set it yet.
            let Some(one_at_a_time) = self.programming() else { return Some(next_ns) };
            if self.timer.lazy.off_by_ns(next_ns) > SLACK_NONE.ns {
                self.program_locked(next_ns, &one_at_a_time);
            }
            drop(one_at_a_time);
            // Whoever armed before the line above was published is seen here; later ones see it.
            let again_ns = self.earliest(deliver, slack_ns);
            if again_ns >= next_ns {
                return None;
            }
            next_ns = again_ns;
        }
    }

    /// The earliest expiry, `slack_ns` later for what a program looks after.
    pub(super) fn earliest(&self, deliver: &Deliver, slack_ns: u64) -> u64 {
        self.timer.lazy.before_look();
        let mut next_ns = NEVER_NS;
        deliver.for_each_napi(|napi| {
            if let Some(at) = napi.timer.expiry_on(self.index) {
                let late_ns = if napi.timer.is_looked_after() { slack_ns } else { 0 };
                next_ns = next_ns.min(at.ns.saturating_add(late_ns));
            }
            if let Some(at) = napi.tx_path().watchdog_on(self.index) {
                next_ns = next_ns.min(at.ns);
            }
        });
        next_ns
    }
}

/// From `now` to `at_ns`; nothing if that is past.
pub(super) fn until(at_ns: u64, now: Instant) -> Timespec {
    let left_ns = at_ns.saturating_sub(now.ns);
    Timespec { tv_sec: (left_ns / 1_000_000_000).cast_signed(), tv_nsec: (left_ns % 1_000_000_000).cast_signed() }
}

impl Deliver {
    /// Runs the timers of the CPU where the calling thread has armed one that is due, as the thread of that CPU would have done;
    /// true if there was one. For a thread that holds nothing.
    pub(crate) fn run_own_timers(&self) -> bool {
        let due = UNSETTLED.with_borrow_mut(|unsettled| {
            let last = unsettled.as_mut()?;
            if !std::ptr::eq(last.deliver.as_ptr(), self) || self.clock.now().ns < last.at_ns {
                return None;
            }
            last.at_ns = NEVER_NS;
            Some(last.cpu.clone())
        });
        let (Some(cpu), true) = (due, HERE.get().may_run_inline()) else { return false };
        let _for_others = ForOthers::begin();
        cpu.run_due_timers(self) != Ran::None
    }
}
