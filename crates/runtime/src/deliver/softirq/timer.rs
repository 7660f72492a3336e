//! The CPU's timer: one kernel timer for all instances that are armed here.
//!
//! Programming a kernel timer costs microseconds, and a busy program re-arms its instance with every
//! call. So a running thread only notes the new expiry; the kernel timer is set exactly when the
//! softirq thread or the arming thread goes to sleep. While a program keeps re-arming, the softirq
//! thread looks after it at growing intervals, at most [`SLACK_MAX`](napier_core::upkeep::SLACK_MAX) late.
//!
//! A program that sleeps keeps its CPU's timers itself (`hand_over`), and one that waits or finds nothing to receive runs what is
//! due on its CPU ([`SoftirqCpu::run_deferred_timers`]). The kernel timer is there for programs that compute, or are about to.
//!
//! A wait that suspends interrupts arms twice: the deferral time-out when its busy loop stops, and a
//! moment later the suspend time-out. It holds the first back ([`Work::Timers`](napier_stack::deferred::Work)), else the kernel timer
//! would be moved back and forth with every request.

mod deferred;
#[cfg(test)]
pub(crate) mod hold;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use napier_core::state::State;
use napier_core::time::{Instant, Span};
use napier_core::upkeep::{SLACK_NONE, timer_slack};
use napier_ring::LazyTimer;
use napier_sys::clock::timespec;
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::SoftirqCpu;
use crate::deliver::Deliver;
use crate::journal::{Event, Rule};
use crate::napi::{Context, Napi};
pub(super) use deferred::{keep_timers, leave_timers};
use napier_sys::nowait::{self, ForOthers};

pub(super) const NEVER_NS: u64 = LazyTimer::NEVER_NS;

pub(super) struct CpuTimer {
    pub(super) fd: OwnedFd,
    lazy: LazyTimer,
    slack_ns: AtomicU64,
    /// The earliest expiry, or a time before it: a hint for the thread that looks, which finds out the truth.
    next_ns: AtomicU64,
    /// Serialises programming so that descriptor and `lazy` agree.
    programming: Mutex<()>,
}

/// What a look at due timers has run.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum TimersRan {
    /// Nothing was due.
    None,
    /// Only what a program would have found by itself.
    LookedAfter,
    /// What no other thread would have run.
    Exact,
}

impl CpuTimer {
    pub(super) fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            fd: timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?,
            lazy: LazyTimer::new(),
            slack_ns: AtomicU64::new(0),
            next_ns: AtomicU64::new(NEVER_NS),
            programming: Mutex::new(()),
        })
    }

    /// An expiry is armed. Others may say so at the same time, and one of the two may be lost.
    #[inline]
    fn expects(&self, at_ns: u64) {
        if at_ns < self.next_ns.load(Ordering::Relaxed) {
            self.next_ns.store(at_ns, Ordering::Relaxed);
        }
    }
}

impl SoftirqCpu {
    /// The timer of `napi` was armed here by the calling thread.
    #[inline]
    pub(crate) fn timer_armed(&self, cx: Context, deliver: &Deliver, napi: &Napi, at: Instant) {
        // Whoever looks after the CPU sets the timer before it sleeps, or does what the timer is for.
        self.timer.expects(at.ns);
        if cx.thread_of() != Some(self.index) {
            napi.timer.look_after(true);
        }
        if !cx.looks_after(self.index) {
            deferred::defer(self, deliver, napi.index, at.ns);
        }
    }

    /// The kernel timer fired while a program kept the timers: it need not come so soon.
    pub(super) fn timer_in_vain(&self) {
        self.learn_slack(Some(true));
    }

    /// The slack from now on, in ns.
    fn learn_slack(&self, for_nothing: Option<bool>) -> u64 {
        let slack_ns = timer_slack(Span::from_ns(self.timer.slack_ns.load(Ordering::Relaxed)), for_nothing).ns;
        self.timer.slack_ns.store(slack_ns, Ordering::Relaxed);
        slack_ns
    }

    /// The watchdog of a transmit queue was set, which this CPU's thread looks after. Exact, without slack: a departure
    /// time is meant, and it is not put off again and again.
    pub(crate) fn watchdog_armed(&self, cx: Context, at: Instant) {
        let own_thread = cx.thread_of() == Some(self.index);
        if !own_thread && !self.thread_will_look() && !self.program_unless_before(at.ns) {
            self.kick();
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
        let (zero, at) = (timespec(0), timespec(at_ns));
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
    pub(super) fn run_due_timers(&self, cx: Context, deliver: &Deliver) -> TimersRan {
        let now = deliver.clock.now();
        self.timer.next_ns.store(NEVER_NS, Ordering::Relaxed);
        let works = cx.may_run_inline();
        // A program that works would have ended it itself.
        let mut ran =
            if self.end_due_holds(cx, deliver, now, works) { TimersRan::LookedAfter } else { TimersRan::None };
        deliver.for_each_napi(|napi| {
            if napi.tx_path().run_watchdog(deliver, self.index, now) {
                ran = TimersRan::Exact;
            }
            let due = napi.journaled(
                || napi.timer.take_due(self.index, now),
                |due| due.map(|due| Event::TimerFire { due, cpu: self.cpu }),
            );
            if let Some(at) = due {
                ran = ran.max(if napi.timer.is_looked_after() { TimersRan::LookedAfter } else { TimersRan::Exact });
                napi.counters.timer_fired((now - at).ns);
                if napi.transition_if(Rule::TimerAcquire, State::timer_acquire) {
                    // Not masked here: the timer may belong to an instance whose interrupt was never taken, and stays as
                    // it is then.
                    deliver.schedule_owned(cx, napi);
                }
            }
            if let Some(at) = napi.timer.expiry_on(self.index) {
                self.timer.expects(at.ns);
            }
        });
        ran
    }

    /// Whether something may be armed here.
    #[inline]
    pub(crate) fn has_timers(&self) -> bool {
        self.timer.next_ns.load(Ordering::Relaxed) != NEVER_NS
    }

    /// Whether something may be due here.
    #[inline]
    pub(crate) fn timer_is_due(&self, now: Instant) -> bool {
        now.ns >= self.timer.next_ns.load(Ordering::Relaxed)
    }

    /// For a program that holds nothing: what is due here it runs itself, and the kernel timer need not.
    #[inline]
    pub(crate) fn run_deferred_timers(&self, cx: Context, deliver: &Deliver) {
        if self.has_timers() && self.timer_is_due(deliver.clock.now()) && cx.may_run_inline() {
            let _for_others = ForOthers::begin();
            self.run_due_timers(cx, deliver);
        }
    }

    /// Sets the kernel timer for the earliest expiry; the thread is about to sleep. `for_nothing`: whether the timer that woke it
    /// did so for nothing, if one did. Gives how long it may sleep if it could not set the kernel timer.
    pub(super) fn prepare_sleep(&self, deliver: &Deliver, for_nothing: Option<bool>) -> Option<Timespec> {
        let slack_ns = self.learn_slack(for_nothing);
        self.timer.lazy.sleeps();
        let at_ns = self.program_earliest(deliver, slack_ns)?;
        Some(until(at_ns, deliver.clock.now()))
    }

    /// Sets the kernel timer for the earliest expiry of all instances that are armed here, `slack_ns` late for those that a program
    /// looks after. `Some`: it should come at this time, but a program has it in hand.
    pub(super) fn program_earliest(&self, deliver: &Deliver, slack_ns: u64) -> Option<u64> {
        let (mut next_ns, mut exact) = self.first(deliver, slack_ns);
        loop {
            if next_ns == NEVER_NS {
                // A stale kernel timer costs one wake-up, as much as stopping it.
                return None;
            }
            // First: who has it may have said when the timer fires, and not set it yet.
            let Some(one_at_a_time) = self.programming() else { return Some(next_ns) };
            let wrong = if exact {
                self.timer.lazy.off_by_ns(next_ns) > SLACK_NONE.ns
            } else {
                self.timer.lazy.fires_after(next_ns)
            };
            if wrong {
                self.program_locked(next_ns, &one_at_a_time);
            }
            drop(one_at_a_time);
            // Whoever armed before the line above was published is seen here; later ones see it.
            let (again_ns, again_exact) = self.first(deliver, slack_ns);
            if again_ns >= next_ns {
                return None;
            }
            (next_ns, exact) = (again_ns, again_exact);
        }
    }

    /// The earliest expiry, or the end of a hold, for which the kernel timer may as well fire before: then it is not exact.
    fn first(&self, deliver: &Deliver, slack_ns: u64) -> (u64, bool) {
        let expiry_ns = self.earliest(deliver, slack_ns);
        let hold_ns = self.earliest_hold(deliver).saturating_add(slack_ns);
        if hold_ns < expiry_ns { (hold_ns, false) } else { (expiry_ns, true) }
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
    timespec(at_ns.saturating_sub(now.ns))
}
