//! The CPU's timer: one kernel timer for all instances that are armed here.
//!
//! Programming a kernel timer costs microseconds, and a busy program re-arms its instance with every
//! call. So a running thread only notes the new expiry; the kernel timer is set exactly when the
//! softirq thread or the arming thread goes to sleep. While a program keeps re-arming, the softirq
//! thread looks after it at growing intervals, at most [`SLACK_MAX`](napier_core::upkeep::SLACK_MAX) late.
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
use crate::napi::place::HERE;
use napier_stack::put_off::{self, Work};
use napier_sys::nowait;

const NEVER_NS: u64 = LazyTimer::NEVER_NS;

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
    /// The timer of instance `napi` was armed here by the calling thread.
    #[inline]
    pub(crate) fn timer_armed(&self, deliver: &Deliver, napi: u32, at: Instant) {
        // The CPU's own thread programs the timer before it sleeps.
        if self.is_own_thread() {
            return;
        }
        UNSETTLED.with_borrow_mut(|unsettled| {
            let unsettled = match unsettled {
                Some(last) if std::ptr::eq(&raw const *last.cpu, self) => {
                    // Another instance's expiry is not replaced by this one.
                    if last.napi != napi {
                        last.release();
                    }
                    last
                }
                other => {
                    other.iter_mut().for_each(Unsettled::release);
                    let cpu = deliver.softirq[self.index as usize].clone();
                    other.insert(Unsettled { deliver: deliver.this(), cpu, napi, at_ns: NEVER_NS, held: false })
                }
            };
            (unsettled.napi, unsettled.at_ns, unsettled.held) = (napi, at.ns, true);
            put_off::owe(Work::ExactTimers, settle_before_sleep);
            if put_off::held(Work::Timers) == 0 {
                unsettled.release();
            } else {
                put_off::owe(Work::Timers, release_held);
            }
        });
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
    pub(super) fn program_if_late(&self, at_ns: u64) {
        let late_ns = at_ns.saturating_add(self.timer.slack_ns.load(Ordering::Relaxed));
        if !self.thread_will_look() && !self.program_unless_before(late_ns) {
            self.kick();
        }
    }

    /// Sets the kernel timer to `at_ns` if it fires later; false if a program has it in hand.
    #[inline]
    pub(super) fn program_unless_before(&self, at_ns: u64) -> bool {
        if self.timer.lazy.fires_after(at_ns) {
            let Some(one_at_a_time) = self.programming() else { return false };
            // Again: another thread may have programmed something earlier meanwhile, for an instance of its own.
            if self.timer.lazy.fires_after(at_ns) {
                self.program_locked(at_ns, &one_at_a_time);
            }
        }
        true
    }

    /// Whether the CPU's own thread calls, which sets the timer before it sleeps.
    #[inline]
    pub(super) fn is_own_thread(&self) -> bool {
        HERE.get().thread_of == Some(self.index)
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

    /// Runs the callbacks that are due (`napi_watchdog`); false if none was.
    pub(super) fn run_due_timers(&self, deliver: &Deliver) -> bool {
        let now = deliver.clock.now();
        let mut any = self.end_due_holds(deliver, now, false);
        deliver.for_each_napi(|napi| {
            any |= napi.tx_path().run_watchdog(deliver, self.index, now);
            let due = napi.journaled(
                || napi.timer.take_due(self.index, now),
                |due| due.map(|due| Event::TimerFire { due, cpu: self.cpu }),
            );
            if let Some(at) = due {
                any = true;
                napi.counters.timer_fired((now - at).ns);
                if napi.transition_if(Rule::TimerAcquire, State::timer_acquire) {
                    // Not masked here: the timer may belong to an instance whose interrupt was never taken, and stays as
                    // it is then.
                    deliver.schedule_owned(napi);
                }
            }
        });
        any
    }

    /// Sets the kernel timer for the earliest expiry; the thread is about to sleep. `chased`: it woke for
    /// a timer that had been re-armed meanwhile. Gives how long it may sleep if it could not set the kernel timer.
    pub(super) fn prepare_sleep(&self, deliver: &Deliver, chased: bool) -> Option<Timespec> {
        let slack_ns = timer_slack(Span::from_ns(self.timer.slack_ns.load(Ordering::Relaxed)), chased).ns;
        self.timer.slack_ns.store(slack_ns, Ordering::Relaxed);
        self.timer.lazy.sleeps();
        // A timer that did expire is followed by an exact one.
        let at_ns = self.program_earliest(deliver, if chased { slack_ns } else { 0 });
        self.program_holds(deliver, slack_ns);
        let at_ns = at_ns?;
        let left_ns = at_ns.saturating_sub(deliver.clock.now().ns);
        Some(Timespec {
            tv_sec: (left_ns / 1_000_000_000).cast_signed(),
            tv_nsec: (left_ns % 1_000_000_000).cast_signed(),
        })
    }

    /// Sets the kernel timer for the earliest expiry of all instances that are armed here, `slack_ns` late. `Some`: it
    /// should come at this time, but a program has it in hand.
    pub(super) fn program_earliest(&self, deliver: &Deliver, slack_ns: u64) -> Option<u64> {
        let mut next_ns = self.earliest(deliver);
        loop {
            if next_ns == NEVER_NS {
                // A stale kernel timer costs one wake-up, as much as stopping it.
                return None;
            }
            let at_ns = next_ns.saturating_add(slack_ns);
            // First: who has it may have said when the timer fires, and not set it yet.
            let Some(one_at_a_time) = self.programming() else { return Some(at_ns) };
            if self.timer.lazy.off_by_ns(at_ns) > SLACK_NONE.ns {
                self.program_locked(at_ns, &one_at_a_time);
            }
            drop(one_at_a_time);
            // Whoever armed before the line above was published is seen here; later ones see it.
            let again_ns = self.earliest(deliver);
            if again_ns >= next_ns {
                return None;
            }
            next_ns = again_ns;
        }
    }

    pub(super) fn earliest(&self, deliver: &Deliver) -> u64 {
        self.timer.lazy.before_look();
        let mut next_ns = NEVER_NS;
        deliver.for_each_napi(|napi| {
            if let Some(at) = napi.timer.expiry_on(self.index) {
                next_ns = next_ns.min(at.ns);
            }
            if let Some(at) = napi.tx_path().watchdog_on(self.index) {
                next_ns = next_ns.min(at.ns);
            }
        });
        next_ns
    }
}
