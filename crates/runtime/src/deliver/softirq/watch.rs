//! Looks after the softirq threads of engines whose other threads all sleep or wait, and sees to those that are pinned.
//!
//! Nothing that a program holds keeps it from looking. A pinned `SCHED_FIFO` thread waits for as long as a real-time thread of the same priority has its processor. The kernel's
//! softirqs cannot come into that: they run on top of whatever is there. So a pinned thread that stands still with work
//! (`takeover`) is let go to the other processors for [`AWAY`].

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use napier_core::time::{Instant, Span};
use napier_core::upkeep::{OVERDUE_AFTER, Overdue};
use rustix::thread::{CpuSet, Pid, sched_setaffinity};

use super::SoftirqCpu;
use super::class::FIFO_PRIORITY;
use crate::deliver::Deliver;
use crate::napi::Context;
use crate::threads::ThreadRole;
use napier_sys::sched::pin_current_thread;

/// Between two looks while nothing waits: 20 wake-ups a second, which is less than a thousandth of a processor.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a thread is away from its processor before it tries it again.
const AWAY: Span = Span::from_ms(10_000);

/// The thread that watches.
pub(crate) struct Watch {
    /// Gone with this, which tells the thread to end.
    _running: Sender<()>,
    thread: JoinHandle<()>,
}

impl Watch {
    /// Starts the thread `napier-watch`.
    pub(crate) fn start(deliver: Arc<Deliver>, fifo: bool) -> std::io::Result<Self> {
        let (running, stopped) = channel();
        let thread = std::thread::Builder::new().name("napier-watch".to_owned()).spawn(move || {
            deliver.unpin_thread();
            if fifo {
                // Without it this thread is one among the programs, as the others of the engine are then.
                let _ = napier_sys::sched::set_fifo(FIFO_PRIORITY);
            }
            deliver.threads.register(ThreadRole::Program { name: "napier-watch".to_owned() });
            watch(&deliver, &stopped);
            deliver.threads.unregister();
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
    let mut pause = LOOK_EVERY;
    let mut seen = vec![Overdue::new(); deliver.softirq.len()];
    while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        let waits = deliver.look_after_softirqs(cx, deliver.clock.now(), &mut seen);
        pause = if waits { Duration::from_nanos(OVERDUE_AFTER.ns) } else { LOOK_EVERY };
    }
}

impl SoftirqCpu {
    /// Pins the thread to its processor, if that was asked for and the system allows it.
    pub(crate) fn pin(&self) {
        if self.pinned
            && let Ok(tid) = u32::try_from(self.thread.load(Ordering::Relaxed))
        {
            napier_sys::sched::pin_thread(tid, self.cpu);
        }
    }

    /// Lets the thread run anywhere, so that it ends though its own processor has no time for it.
    pub(crate) fn unpin(&self) {
        if let Ok(tid) = u32::try_from(self.thread.load(Ordering::Relaxed)) {
            napier_sys::sched::unpin_thread(tid);
        }
    }

    /// Lets a pinned thread that stands still run anywhere but there; false if there is no other place for it, or if it
    /// has not gone on since it was let go.
    pub(super) fn let_go(&self, deliver: &Deliver, now: Instant) -> bool {
        let tid = self.thread.load(Ordering::Relaxed);
        let (true, Some(thread)) = (self.pinned, Pid::from_raw(tid)) else { return false };
        let progress = self.progress();
        if self.progress_at_let_go.load(Ordering::Relaxed) == progress {
            return false;
        }
        // One that is away already may stand still there too.
        let stands_on = napier_sys::sched::processor_of(tid).unwrap_or(self.cpu);
        let Some(elsewhere) = deliver.cpus_without(stands_on) else { return false };
        if sched_setaffinity(Some(thread), &elsewhere).is_err() {
            return false;
        }
        self.progress_at_let_go.store(progress, Ordering::Relaxed);
        self.counters.let_go.fetch_add(1, Ordering::Relaxed);
        // After the call: one who comes home at the same time is then away once more on paper only.
        self.away_since_ns.store(now.ns, Ordering::Relaxed);
        // In case that it sleeps, and was not woken for what there is to do.
        self.kick();
        true
    }

    /// Where the calling thread, which is this CPU's, may run: anywhere while it is away, and at home again after
    /// [`AWAY`]. `known_ns` is when it went away, as far as the thread has noticed.
    #[inline]
    pub(super) fn see_to_place(&self, deliver: &Deliver, now: Instant, known_ns: &mut u64) {
        let since_ns = self.away_since_ns.load(Ordering::Relaxed);
        if since_ns != 0 {
            self.change_place(deliver, now, since_ns, known_ns);
        }
    }

    #[cold]
    fn change_place(&self, deliver: &Deliver, now: Instant, since_ns: u64, known_ns: &mut u64) {
        if now.ns.saturating_sub(since_ns) >= AWAY.ns {
            self.away_since_ns.store(0, Ordering::Relaxed);
            pin_current_thread(self.cpu);
        } else if *known_ns != since_ns {
            *known_ns = since_ns;
            deliver.unpin_thread();
        }
    }
}

/// The processors of `all` but one, if there are any.
pub(crate) fn without(all: &CpuSet, cpu: usize) -> Option<CpuSet> {
    let mut others = *all;
    if cpu < CpuSet::MAX_CPU {
        others.unset(cpu);
    }
    (others.count() > 0).then_some(others)
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
