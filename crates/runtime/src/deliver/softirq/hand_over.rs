//! A program's thread that sleeps is its CPU's softirq meanwhile.
//!
//! In the kernel an interrupt runs on top of whatever the processor does, also of a program that sleeps there: one wake-up brings a
//! packet to its program. Here the CPU's thread would be woken, poll, and wake the program. So a program's thread that sleeps waits
//! where the CPU's thread waits, takes the interrupts and timers that come, polls, and goes on with its own events.
//!
//! Both wait on one epoll instance, which wakes who came last (`fs/eventpoll.c` `ep_poll` puts exclusive waiters at the head): the
//! program, as a rule. The CPU's thread takes what comes while the program runs, and what comes faster than the program wakes up.
//! Who wants to wake the program by its [`Parker`] writes to the softirq's bell. If the CPU's thread hears that
//! bell, it rings it again and keeps away until the program has heard it.
//!
//! The program is not of a real-time class and may get no processor when it is woken. What it has been woken for is then taken
//! over like all that waits for 10 ms (`watchdog`).

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};

use napier_core::serving::{Bell, Serving};
use napier_core::time::{Deadline, Instant, Span};
use napier_stack::host::IrqHandOver;
use napier_stack::park::Parker;
use napier_sys::clock::Clock;
use napier_sys::nowait::ForOthers;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use super::SoftirqCpu;
use super::serving::ServingCell;
use super::timer::{NEVER_NS, keep_timers, leave_timers, until};
use crate::deliver::Deliver;
use crate::napi::Context;

/// How long the CPU's thread keeps away at most, so that the program hears its bell.
const ASIDE: Span = Span::from_ms(1);

/// The softirq of a CPU, which one sleeping thread at a time takes.
pub(super) struct HandOver {
    /// Set when the CPU's thread has begun.
    deliver: OnceLock<Weak<Deliver>>,
    index: u32,
    bell: Arc<OwnedFd>,
    serving: Arc<ServingCell>,
    /// Where the CPU's thread keeps away.
    aside: Parker,
}

impl HandOver {
    pub(super) fn new(index: u32, serving: &Arc<ServingCell>) -> rustix::io::Result<Self> {
        Ok(Self {
            deliver: OnceLock::new(),
            index,
            bell: Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?),
            serving: serving.clone(),
            aside: Parker::new(),
        })
    }

    /// What polls the engine's instances; none before the CPU's thread has begun, and after its engine.
    pub(super) fn deliver(&self) -> Option<Arc<Deliver>> {
        self.deliver.get().and_then(Weak::upgrade)
    }

    /// From here on it can be taken.
    pub(super) fn open(&self, deliver: Weak<Deliver>) {
        let _ = self.deliver.set(deliver);
    }

    /// It, if no other thread has it.
    pub(super) fn take(self: &Arc<Self>) -> Option<Arc<dyn IrqHandOver>> {
        let got = !self.serving.load().is_lent() && self.serving.change_if(Serving::lend);
        got.then(|| self.clone() as Arc<dyn IrqHandOver>)
    }

    /// Another thread has heard the bell: it rings for who has the softirq. Who comes later looks for its work after it has
    /// taken the softirq.
    pub(super) fn pass_on(&self) -> Bell {
        let heard = self.serving.load().heard();
        if matches!(heard, Bell::Ring { .. }) {
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
        heard
    }

    /// The CPU's thread has passed the bell on, and keeps away for a moment: waiting again at once, it would hear that too.
    pub(super) fn stand_aside(&self, bell: Bell) {
        if let Bell::Ring { round } = bell {
            let is_over = || self.serving.load().is_over(round);
            self.aside.wait(is_over, Deadline::after(Clock.now(), ASIDE), &Clock);
        }
    }
}

impl IrqHandOver for HandOver {
    fn bell(&self) -> &Arc<OwnedFd> {
        &self.bell
    }

    fn sleep(&self, deadline: Deadline, awake: &mut dyn FnMut()) {
        let Some(deliver) = self.deliver() else { return awake() };
        napier_sys::sched::exact_timers();
        let cx = Context::current().serve(self.index);
        let awake = &mut || {
            awake();
            self.serving.change(|word| (word.wakes(), ()));
            self.aside.wake();
        };
        sleep_as_softirq(*cx, &deliver.softirq[self.index as usize], &deliver, deadline, awake);
    }

    fn end(&self) {
        if let Some(deliver) = self.deliver() {
            let _for_others = ForOthers::begin();
            leave_timers(Context::current(), &deliver.softirq[self.index as usize], &deliver);
        }
        self.serving.change(|word| (word.give_back(), ()));
        self.aside.wake();
    }
}

/// The calling thread, a program's, sleeps as the softirq of `cpu`.
fn sleep_as_softirq(cx: Context, cpu: &SoftirqCpu, deliver: &Deliver, deadline: Deadline, awake: &mut dyn FnMut()) {
    // It does what the CPU's thread would do: for others.
    let _for_others = ForOthers::begin();
    // What it took the time before was for others.
    cpu.release_before_sleep(cx, deliver);
    let due_ns = keep_timers(cpu, deliver);
    let until_ns = deadline.instant().map_or(due_ns, |deadline| deadline.ns.min(due_ns));
    let timeout = (until_ns != NEVER_NS).then(|| until(until_ns, deliver.clock.now()));
    let taken = cpu.take_events(cx, deliver, timeout.as_ref(), awake);
    cpu.counters.stood_in.fetch_add(1, Ordering::Relaxed);
    if taken.timer_fired {
        cpu.timer_in_vain();
    }
    if taken.timer_fired || due_ns != NEVER_NS && deliver.clock.now() >= (Instant { ns: due_ns }) {
        cpu.run_due_timers(cx, deliver);
    }
    cpu.run(cx, deliver);
    if deliver.stopping() {
        cpu.kick();
    }
}

#[cfg(test)]
#[path = "hand_over_tests.rs"]
mod tests;
