//! Work of a softirq CPU whose thread is kept from its processor is done by another thread of the engine.
//!
//! No thread waits for that and nothing is added per packet: threads that are about to sleep, or have just been woken, look at
//! a time of day; every [`LOOK_EVERY`] one of them looks at the CPUs, and [`WatchdogThread`] does for engines whose other threads
//! all sleep or wait. What waited for 10 ms while its thread did nothing (`napier_core::serving`) is taken over: interrupts,
//! timers, scheduled instances and transmit queues. A thread that is pinned is let go elsewhere first (`placement`).
//!
//! What cannot be taken over is an instance whose owner stands still in the midst of a poll. Its data may be half changed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use napier_core::serving::{OVERDUE_AFTER, Overdue, Rescue};
use napier_core::time::{Instant, Span};

use super::SoftirqCpu;
use super::class::FIFO_PRIORITY;
use crate::deliver::Deliver;
use crate::napi::Context;
use crate::threads::ThreadRole;
use crate::tx::PerThread;

/// Time between two looks, at least.
const LOOK_EVERY: Span = Span::from_ms(5);

/// Between two looks while nothing waits: 20 wake-ups a second, which is less than a thousandth of a processor.
const THREAD_LOOKS_EVERY: Duration = Duration::from_millis(50);

/// What looks at the softirq CPUs have found.
pub(crate) struct Watchdog {
    /// The next look, in ns.
    next_ns: AtomicU64,
    /// By softirq CPU, for all but the watchdog's thread. A thread that does not get it goes on: another one looks.
    seen: Mutex<Vec<Overdue>>,
}

impl Watchdog {
    pub(crate) fn new(cpus: usize) -> Self {
        Self { next_ns: AtomicU64::new(0), seen: Mutex::new(vec![Overdue::new(); cpus]) }
    }

    /// Looks after the softirq CPUs if it is time. For threads that hold nothing and have just woken up or will sleep.
    #[inline]
    pub(crate) fn tick(&self, cx: Context, deliver: &Deliver, now: Instant) {
        // Relaxed: a hint. Whoever looks does it under the lock.
        if now.ns >= self.next_ns.load(Ordering::Relaxed) {
            self.tick_now(cx, deliver, now);
        }
    }

    #[cold]
    fn tick_now(&self, cx: Context, deliver: &Deliver, now: Instant) {
        let Ok(mut seen) = self.seen.try_lock() else { return };
        self.next_ns.store((now + LOOK_EVERY).ns, Ordering::Relaxed);
        let _ = look(cx, deliver, now, &mut seen);
    }
}

/// Looks at every softirq CPU, of which `seen` is what was found before; true if work waits at one of them.
fn look(cx: Context, deliver: &Deliver, now: Instant, seen: &mut [Overdue]) -> bool {
    if cx.in_softirq() {
        return false;
    }
    let (mut found, mut waits) = (None, false);
    for (cpu, seen) in deliver.softirq.iter().zip(seen) {
        // A thread that looks is not kept from anything.
        let waiting = cx.thread_of() != Some(cpu.index) && cpu.work_waits(deliver, now);
        waits |= waiting;
        if seen.look(now, waiting, cpu.progress()) {
            found = Some(cpu);
        }
    }
    if let Some(cpu) = found {
        match cpu.placement.rescue(cpu.progress()) {
            // Where it does not help, what the thread has to do is taken over at a later look.
            Rescue::LetGo if cpu.let_go(deliver, now) => {}
            Rescue::LetGo | Rescue::TakeOver => cpu.take_over(cx, deliver),
        }
    }
    waits
}

/// The watchdog's own thread.
pub(crate) struct WatchdogThread {
    /// Gone with this, which tells the thread to end.
    _running: Sender<()>,
    thread: JoinHandle<()>,
}

impl WatchdogThread {
    /// Starts the thread `napier-watch`.
    pub(crate) fn start(deliver: Arc<Deliver>, fifo: bool) -> std::io::Result<Self> {
        let (running, stopped) = channel();
        let thread = std::thread::Builder::new().name("napier-watch".to_owned()).spawn(move || {
            deliver.unpin_thread();
            if fifo {
                // Without it this thread is one among the programs, as the others of the engine are then.
                let _ = napier_sys::sched::set_fifo(FIFO_PRIORITY);
            }
            PerThread::begin_duty(&deliver.threads, ThreadRole::Program { name: "napier-watch".to_owned() });
            watch(&deliver, &stopped);
            PerThread::end_duty(&deliver.threads);
        })?;
        Ok(Self { _running: running, thread })
    }

    /// Tells the thread to end; what is returned is to be joined.
    pub(crate) fn end(self) -> JoinHandle<()> {
        self.thread
    }
}

fn watch(deliver: &Deliver, stopped: &Receiver<()>) {
    napier_sys::nowait::this_thread();
    let cx = Context::current();
    let mut pause = THREAD_LOOKS_EVERY;
    let mut seen = vec![Overdue::new(); deliver.softirq.len()];
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let waits = look(cx, deliver, deliver.clock.now(), &mut seen);
        pause = if waits { Duration::from_nanos(OVERDUE_AFTER.ns) } else { THREAD_LOOKS_EVERY };
    }
}

impl SoftirqCpu {
    /// How often the thread, or a sleeping program in its place, has come round.
    fn progress(&self) -> u64 {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        read(&self.counters.wakeups) + read(&self.counters.stood_in) + read(&self.counters.runs)
    }

    /// Lets the thread run elsewhere if that helps ([`Placement::let_go`](super::placement::Placement::let_go)).
    pub(super) fn let_go(&self, deliver: &Deliver, now: Instant) -> bool {
        let let_go = self.placement.let_go(deliver, self.progress(), now);
        if let_go {
            self.counters.let_go.fetch_add(1, Ordering::Relaxed);
            // In case that it sleeps, and was not woken for what there is to do.
            self.kick();
        }
        let_go
    }

    /// Whether there is something for the thread to do.
    fn work_waits(&self, deliver: &Deliver, now: Instant) -> bool {
        let overdue_ns = now.ns.saturating_sub(OVERDUE_AFTER.ns);
        self.is_raised()
            || self.left_over.load(Ordering::Relaxed)
            || self.has_events()
            || self.earliest(deliver, 0).min(self.earliest_hold(deliver)) < overdue_ns
    }

    /// Whether a doorbell has rung, a timer has fired or it was kicked, and the thread has not heard it.
    fn has_events(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
        let at_once = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    /// Does what waits for the thread: on another softirq CPU, or if there is none in the calling thread.
    fn take_over(&self, cx: Context, deliver: &Deliver) {
        self.counters.taken_over.fetch_add(1, Ordering::Relaxed);
        let _for_others = napier_sys::nowait::ForOthers::begin();
        let others = deliver.softirq.len() as u32; // bounded by the number of processors
        let other = cx.thread_of().or((others > 1).then(|| (self.index + 1) % others));
        // What is raised goes to the other CPU; without one each instance is polled right here, once.
        let scope = cx.take_over(other);
        let taken = self.take_events(*scope, deliver, Some(&AT_ONCE), &mut || {});
        if taken.called {
            let _ = self.hand_over.pass_on();
        }
        self.run_due_timers(*scope, deliver);
        if taken.timer_fired {
            self.program_earliest(deliver, 0);
        }
        self.move_instances(*scope, deliver, other);
        drop(scope);
        let _inline = cx.inline();
        self.net_tx_action(deliver);
    }

    fn move_instances(&self, cx: Context, deliver: &Deliver, other: Option<u32>) {
        let target = other.map_or(self, |other| &deliver.softirq[other as usize]);
        let raise = |index| target.raise(cx, deliver, deliver.napi_at(index));
        // Before any is polled: what asks to be polled again is left for later.
        let mut raised = self.raised.take(&deliver.napi_links);
        let mut waiting = [0; 64];
        // Between two passes the thread has let go of the lists. In the midst of one the rest of the list waits with it.
        while let Some(combiner) = self.serving.try_take() {
            let mut count = 0;
            for index in self.lists.enter().drain().take(waiting.len()) {
                waiting[count] = index;
                count += 1;
            }
            drop(combiner);
            // It may have come and gone meanwhile.
            self.kick();
            waiting[..count].iter().copied().for_each(raise);
            if count < waiting.len() {
                break;
            }
        }
        while let Some(index) = raised.pop(&deliver.napi_links) {
            raise(index);
        }
    }
}

const AT_ONCE: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };

#[cfg(test)]
#[path = "watchdog_tests.rs"]
mod tests;
