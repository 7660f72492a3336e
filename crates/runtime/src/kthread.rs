//! The thread of a NAPI instance, named `napi/<dev>-<id>` (`net/core/dev.c napi_threaded_poll`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use napier_core::state::State;
use napier_core::time::Deadline;

use crate::engine::{EngineInner, ThreadRole};
use crate::journal::Rule;
use crate::napi::{Napi, PollContext};
use crate::sys::tsc::ticks;

/// Empty polls in a row after which a busy-polling thread offers its processor to others.
const YIELD_EVERY: u32 = 256;

/// A running thread of one instance.
pub(crate) struct Kthread {
    stop: Arc<AtomicBool>,
    handle: JoinHandle<()>,
    /// Thread id of the operating system, as `napi-get` reports it.
    pub(crate) pid: u32,
}

impl Kthread {
    /// Starts the thread; it waits until it is scheduled.
    pub(crate) fn spawn(engine: &Arc<EngineInner>, napi: &Arc<Napi>) -> std::io::Result<Self> {
        #[cfg(test)]
        fail::now()?;
        let name = format!("napi/{}-{}", napi.device.name, napi.id());
        let stop = Arc::new(AtomicBool::new(false));
        let (report, pid) = std::sync::mpsc::sync_channel(1);
        let handle = std::thread::Builder::new().name(name).spawn({
            let (engine, napi, stop) = (engine.clone(), napi.clone(), stop.clone());
            move || {
                let cpu = *napi.thread_cpu.lock().expect("only copied");
                match cpu {
                    Some(cpu) => crate::sys::sched::pin_current_thread(cpu),
                    None => engine.unpin_thread(),
                }
                engine.threads.register(ThreadRole::Napi { device: napi.device.name.clone() });
                let _ = report.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
                drop(report);
                engine.kthread_main(&napi, &stop);
                engine.threads.unregister();
            }
        })?;
        let pid = pid.recv().map_err(std::io::Error::other)?;
        Ok(Self { stop, handle, pid })
    }

    /// Stops the thread; the instance must not be scheduled to it any more.
    pub(crate) fn stop(self, napi: &Napi) {
        // Release: pairs with the Acquire of the waiting loop.
        self.stop.store(true, Ordering::Release);
        napi.thread_parker.wake();
        if let Err(panic) = self.handle.join() {
            crate::engine::pass_on(panic);
        }
    }
}

impl EngineInner {
    fn kthread_main(&self, napi: &Napi, stop: &AtomicBool) {
        crate::nowait::this_thread();
        let entitled = || {
            let state = napi.state();
            state.contains(State::SCHED_THREADED) && !state.contains(State::POOL)
        };
        loop {
            napi.thread_parker.wait(|| entitled() || stop.load(Ordering::Acquire), Deadline::NEVER, &self.clock);
            if entitled() {
                self.threaded_turns(napi);
            } else if stop.load(Ordering::Acquire) {
                return;
            }
        }
    }

    /// Polls as long as the thread owns the instance (`napi_threaded_poll_loop`).
    fn threaded_turns(&self, napi: &Napi) {
        let mut empty_in_a_row = 0;
        let mut last = ticks();
        loop {
            let busy = napi.transition(Rule::ThreadTurn, State::thread_turn);
            let context = if busy { PollContext::KthreadBusy } else { PollContext::Kthread };
            let polled = self.poll_once(napi, context);
            if !busy {
                if !polled.repoll || self.hand_over_if_stopped(napi) {
                    return;
                }
                std::thread::yield_now();
                continue;
            }
            let now = ticks();
            if polled.work == 0 {
                napi.counters.spun(now.wrapping_sub(last));
                empty_in_a_row += 1;
                if empty_in_a_row == YIELD_EVERY {
                    empty_in_a_row = 0;
                    std::thread::yield_now();
                }
            } else {
                empty_in_a_row = 0;
            }
            last = now;
        }
    }

    /// One turn of a pool worker: a plain threaded poll; true if the instance wants another.
    pub(crate) fn workqueue_turn(&self, napi: &Napi) -> bool {
        let _ = napi.transition(Rule::ThreadTurn, State::thread_turn);
        self.poll_once(napi, PollContext::Kthread).repoll && !self.hand_over_if_stopped(napi)
    }
}

/// Threads that cannot be started, as a test wants it.
#[cfg(test)]
pub(crate) mod fail {
    use std::cell::Cell;

    thread_local! {
        /// The how manieth start by the calling thread from now on fails; 0: none.
        pub(crate) static IN: Cell<u32> = const { Cell::new(0) };
    }

    pub(super) fn now() -> std::io::Result<()> {
        match IN.replace(IN.get().saturating_sub(1)) {
            1 => Err(std::io::Error::from_raw_os_error(libc::ENOMEM)),
            _ => Ok(()),
        }
    }
}
