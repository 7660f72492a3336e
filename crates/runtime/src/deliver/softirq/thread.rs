//! The thread of a softirq CPU: waits for doorbells and timers, takes the interrupts, runs the softirqs.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;

use napier_core::serving::Bell;
use napier_core::softirq::PollLists;
use napier_ring::{CombiningFlag, Exclusive, List};
use rustix::event::{EventfdFlags, epoll, eventfd};

use super::class::Class;
use super::hand_over::HandOver;
use super::placement::Placement;
use super::serving::ServingCell;
use super::timer::{CpuTimer, TimersRan};
use super::{Holds, SoftirqCounters, SoftirqCpu};
use crate::bounds::NAPI_MAX;
use crate::deliver::Deliver;
use crate::napi::Context;
use crate::port::{EDGES, IrqCpu, Tokens};
use crate::tx::PerThread;
use napier_stack::host::IrqHandOver;
use napier_stack::park::woken_by_this_thread;

const TOKEN_TIMER: u64 = u64::MAX;
const TOKEN_KICK: u64 = u64::MAX - 1;
const TOKEN_HAND_OVER: u64 = u64::MAX - 2;

/// Set in the token of a coalescing timer.
const TIMER_BIT: u64 = 1 << 32;

/// What a look at the descriptors of a softirq CPU brought.
pub(super) struct EventsTaken {
    /// The kernel timer fired.
    pub(super) timer_fired: bool,
    /// The sleeping program that has the softirq was called.
    pub(super) called: bool,
    /// How many descriptors had something to say.
    events: usize,
}

/// What a CPU calls the descriptors of an instance.
pub(crate) fn tokens(napi: u32) -> Tokens {
    Tokens { doorbell: u64::from(napi), timer: u64::from(napi) | TIMER_BIT }
}

impl SoftirqCpu {
    /// Makes the CPU's data and descriptors; the thread comes with [`start`].
    pub(crate) fn new(index: u32, cpu: usize, pinned: bool) -> rustix::io::Result<Self> {
        let serving = Arc::new(ServingCell::new());
        let hand_over = Arc::new(HandOver::new(index, &serving)?);
        let this = Self {
            index,
            cpu,
            placement: Placement::new(cpu, pinned, serving),
            raised: List::new(),
            raised_tx: List::new(),
            serving: CombiningFlag::new(),
            // So that scheduling allocates nothing.
            lists: Exclusive::new(PollLists::with_capacity(NAPI_MAX)),
            left_over: AtomicBool::new(false),
            timer: CpuTimer::new()?,
            holds: Holds::default(),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            kick: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            hand_over,
            fifo: AtomicBool::new(false),
            counters: SoftirqCounters::default(),
            #[cfg(test)]
            stand_still: [AtomicBool::new(false), AtomicBool::new(false)],
        };
        this.watch_for(this.timer.fd.as_fd(), TOKEN_TIMER, EDGES)?;
        this.watch_for(this.kick.as_fd(), TOKEN_KICK, EDGES)?;
        this.watch_for(this.hand_over.bell().as_fd(), TOKEN_HAND_OVER, EDGES)?;
        Ok(this)
    }

    fn main(&self, deliver: &Deliver, mut class: Class) {
        napier_sys::nowait::this_thread();
        let cx = Context::current();
        let mut for_nothing = None;
        while !deliver.stopping() {
            let at_most = self.prepare_sleep(deliver, for_nothing);
            let EventsTaken { timer_fired, events, called } = self.wait(cx, deliver, at_most.as_ref());
            let bell = if called { self.hand_over.pass_on() } else { Bell::Nothing };
            let woken_before = woken_by_this_thread();
            let ran = if timer_fired || at_most.is_some() { self.run_due_timers(cx, deliver) } else { TimersRan::None };
            self.run(cx, deliver);
            // A wait that something else ended was not for a timer.
            for_nothing = (timer_fired || at_most.is_some() && events == 0).then(|| match ran {
                TimersRan::None => true,
                TimersRan::LookedAfter => woken_by_this_thread() == woken_before,
                TimersRan::Exact => false,
            });
            self.hand_over.stand_aside(bell);
            while self.left_over.load(Ordering::Relaxed) && !deliver.stopping() {
                self.as_ksoftirqd(cx, deliver, &class);
                // What its last wait took in.
                self.run(cx, deliver);
            }
            let now = deliver.clock.now();
            class.look(self, now);
            self.placement.comes_round(deliver, now);
            deliver.watchdog.tick(cx, deliver, now);
        }
    }

    /// Waits and takes the interrupts that are there.
    fn wait(&self, cx: Context, deliver: &Deliver, timeout: Option<&rustix::time::Timespec>) -> EventsTaken {
        #[cfg(test)]
        self.stand_still_if_told();
        let taken = self.take_events(cx, deliver, timeout, &mut || self.woken());
        self.counters.wakeups.fetch_add(1, Ordering::Relaxed);
        taken
    }

    /// Takes the interrupts that are there, for this thread or in its place; `awake` comes first.
    pub(super) fn take_events(
        &self,
        cx: Context,
        deliver: &Deliver,
        timeout: Option<&rustix::time::Timespec>,
        awake: &mut dyn FnMut(),
    ) -> EventsTaken {
        let mut buffer = [const { MaybeUninit::uninit() }; 128];
        let events: &[epoll::Event] = match napier_sys::poll::wait(self.epoll.as_fd(), &mut buffer, timeout) {
            Ok(events) => events,
            Err(rustix::io::Errno::INTR) => &[],
            Err(error) => panic!("waiting on own descriptors failed: {error}"),
        };
        awake();
        let (mut timer_fired, mut called) = (false, false);
        for event in events {
            match event.data.u64() {
                TOKEN_TIMER => {
                    self.timer_fired();
                    timer_fired = true;
                }
                TOKEN_KICK => {}
                TOKEN_HAND_OVER => called = true,
                token => {
                    let napi = deliver.napi_at((token & !TIMER_BIT) as u32);
                    let doorbell = token & TIMER_BIT == 0;
                    let counts = if doorbell { napi.irq.heard() } else { napi.irq.timer_fired() };
                    if counts {
                        deliver.interrupt_heard(cx, napi);
                    }
                }
            }
        }
        EventsTaken { timer_fired, called, events: events.len() }
    }

    /// Works off what the softirq loop left, at normal priority so that programs get their share.
    fn as_ksoftirqd(&self, cx: Context, deliver: &Deliver, class: &Class) {
        class.suspend();
        let scope = cx.as_ksoftirqd();
        let cx = *scope;
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        while self.left_over.load(Ordering::Relaxed) && !deliver.stopping() {
            self.run(cx, deliver);
            rustix::thread::sched_yield();
            if self.wait(cx, deliver, Some(&now)).called {
                self.hand_over.stand_aside(self.hand_over.pass_on());
            }
            // While this thread runs no other sets the kernel timer, so look at every turn.
            self.run_due_timers(cx, deliver);
        }
        drop(scope);
        class.resume(self);
    }
}

/// Starts the thread `softirq/<cpu>`, which the caller pins ([`Placement::pin`]) once it is ready.
pub(crate) fn start(
    deliver: Arc<Deliver>,
    cpu: Arc<SoftirqCpu>,
    want_fifo: bool,
    ready: SyncSender<()>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(format!("softirq/{}", cpu.cpu)).spawn(move || {
        Context::of_thread(cpu.index).begin();
        // The starter pins it, once it runs: its processor may have no time for it now.
        deliver.unpin_thread();
        let class = Class::begin(&cpu, want_fifo, deliver.clock.now());
        cpu.hand_over.open(deliver.this());
        cpu.placement.begin();
        PerThread::begin_duty(&deliver.threads, crate::threads::ThreadRole::Softirq { cpu: cpu.cpu });
        // The starter waits for this so that reports know the scheduling class in force.
        let _ = ready.send(());
        drop(ready);
        cpu.main(&deliver, class);
        cpu.placement.end();
        PerThread::end_duty(&deliver.threads);
    })
}
