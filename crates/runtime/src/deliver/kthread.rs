//! The thread of a NAPI instance, named `napi/<dev>-<id>` (`net/core/dev.c napi_threaded_poll`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use napier_core::context::PollContext;
use napier_core::state::State;
use napier_core::time::Deadline;

use super::owner::Owner;
use crate::deliver::Deliver;
use crate::journal::{Event, Rule, Target};
use crate::napi::{Context, Kthread, Napi};
use crate::threads::ThreadRole;
use crate::tx::PerThread;
use napier_sys::tsc::ticks;

/// Empty polls in a row after which a busy-polling thread offers its processor to others.
const YIELD_EVERY: u32 = 256;

impl Kthread {
    /// Starts the thread; it waits until it is scheduled.
    pub(crate) fn spawn(deliver: &Arc<Deliver>, napi: &Arc<Napi>) -> std::io::Result<Self> {
        #[cfg(test)]
        fail::now()?;
        let name = format!("napi/{}-{}", napi.device.name, napi.id());
        let stop = Arc::new(AtomicBool::new(false));
        let (report, pid) = std::sync::mpsc::sync_channel(1);
        let handle = std::thread::Builder::new().name(name).spawn({
            let (deliver, napi, stop) = (deliver.clone(), napi.clone(), stop.clone());
            move || {
                deliver.unpin_thread();
                PerThread::begin_duty(
                    &deliver.threads,
                    ThreadRole::Napi { device: napi.device.name.clone(), queue: napi.queue },
                );
                let _ = report.send(rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
                drop(report);
                main(&deliver, &napi, &stop);
                PerThread::end_duty(&deliver.threads);
            }
        })?;
        let pid = pid.recv().map_err(std::io::Error::other)?;
        if let Some(cpu) = *napi.thread_cpu.lock().expect("only copied") {
            napier_sys::sched::pin_thread(pid, cpu);
        }
        Ok(Self { stop, handle, pid })
    }
}

/// The instance's thread as its owner.
pub(super) struct OwnThread;

impl Owner for OwnThread {
    fn start(&self, deliver: &Arc<Deliver>, napi: &Arc<Napi>) -> std::io::Result<Option<Kthread>> {
        let there = napi.kthread.lock().expect("no panic while held").is_some();
        if there { Ok(None) } else { Kthread::spawn(deliver, napi).map(Some) }
    }

    fn take(&self, _cx: Context, _deliver: &Deliver, napi: &Napi) {
        napi.journaled(|| (), |()| Event::Scheduled { target: Target::Kthread });
        napi.thread_parker.wake();
    }
}

fn main(deliver: &Deliver, napi: &Napi, stop: &AtomicBool) {
    Context::begin_duty();
    napier_sys::nowait::this_thread();
    let cx = Context::current();
    let entitled = || {
        let state = napi.state();
        state.contains(State::SCHED_THREADED) && !state.contains(State::POOL)
    };
    loop {
        napi.thread_parker.wait(|| entitled() || stop.load(Ordering::Acquire), Deadline::NEVER, &deliver.clock);
        if entitled() {
            turns(cx, deliver, napi);
        } else if stop.load(Ordering::Acquire) {
            return;
        }
    }
}

/// Polls as long as the thread owns the instance (`napi_threaded_poll_loop`).
fn turns(cx: Context, deliver: &Deliver, napi: &Napi) {
    let mut empty_in_a_row = 0;
    let mut last = ticks();
    loop {
        let busy = napi.transition(Rule::ThreadTurn, State::thread_turn);
        let context = if busy { PollContext::KthreadBusy } else { PollContext::Kthread };
        let polled = deliver.poll_once(cx, napi, context);
        if !busy {
            if !polled.repoll || deliver.hand_over_if_stopped(cx, napi) {
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
