//! The worker pool: threads that poll whichever instance is scheduled next, as the workqueue variant
//! that threaded NAPI was compared with when it was proposed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use napier_core::context::PollContext;
use napier_core::state::State;
use napier_core::time::Deadline;
use napier_ring::{Links, List};

use super::owner::Owner;
use crate::bounds::NAPI_MAX;
use crate::deliver::Deliver;
use crate::journal::{Event, Rule, Target};
use crate::napi::{Context, Kthread, Napi};
use crate::threads::{ThreadRole, pass_on};
use crate::tx::PerThread;
use napier_stack::park::Parker;

/// Scheduled instances and the workers that poll them. A thread that schedules does not wait; workers lock once per schedule.
pub(crate) struct Workqueue {
    /// Scheduled instances that no worker has seen.
    scheduled: List,
    links: Links,
    /// Those that one has seen. Workers only.
    queue: Mutex<VecDeque<u32>>,
    queued: AtomicUsize,
    parker: Parker,
    workers_wanted: usize,
    workers: Mutex<Vec<JoinHandle<()>>>,
    stop: AtomicBool,
    #[cfg(test)]
    pushes: AtomicUsize,
}

impl Workqueue {
    pub(crate) fn new(workers_wanted: usize) -> Self {
        Self {
            scheduled: List::new(),
            links: Links::new(u32::try_from(NAPI_MAX).expect("a small constant")),
            queue: Mutex::new(VecDeque::with_capacity(64)),
            queued: AtomicUsize::new(0),
            parker: Parker::new(),
            workers_wanted,
            workers: Mutex::new(Vec::new()),
            stop: AtomicBool::new(false),
            #[cfg(test)]
            pushes: AtomicUsize::new(0),
        }
    }

    /// Puts an instance at the end of the queue and wakes a worker.
    pub(crate) fn push(&self, napi: u32) {
        self.push_again(napi);
        self.parker.wake();
    }

    /// The same for a worker, which looks at the queue before it sleeps: it wakes another only if more waits than it takes itself.
    fn push_again(&self, napi: u32) {
        #[cfg(test)]
        self.pushes.fetch_add(1, Ordering::Relaxed);
        self.scheduled.push(&self.links, napi);
    }

    /// Times that an instance was put in the queue.
    #[cfg(test)]
    pub(crate) fn pushes(&self) -> usize {
        self.pushes.load(Ordering::Relaxed)
    }

    fn pop(&self) -> Option<u32> {
        let mut queue = self.queue.lock().expect("queue operations do not panic");
        let mut scheduled = self.scheduled.take(&self.links);
        queue.extend(std::iter::from_fn(|| scheduled.pop(&self.links)));
        let napi = queue.pop_front();
        // Release: pairs with the Acquire of a worker's look.
        self.queued.store(queue.len(), Ordering::Release);
        let more = !queue.is_empty();
        drop(queue);
        if more {
            // Another may have looked after the list was taken and before it was counted here.
            self.parker.wake();
        }
        napi
    }

    fn has_any(&self) -> bool {
        !self.scheduled.is_empty() || self.queued.load(Ordering::Acquire) > 0
    }

    /// Starts the workers on first use.
    pub(crate) fn start(&self, deliver: &Arc<Deliver>) -> std::io::Result<()> {
        let mut workers = self.workers.lock().expect("starting workers does not panic");
        while workers.len() < self.workers_wanted {
            let name = format!("napi/wq{}", workers.len());
            let deliver = deliver.clone();
            workers.push(std::thread::Builder::new().name(name).spawn(move || {
                deliver.pin_worker();
                PerThread::begin_duty(&deliver.threads, ThreadRole::Worker);
                deliver.workqueue.work(&deliver);
                PerThread::end_duty(&deliver.threads);
            })?);
        }
        Ok(())
    }

    /// Stops and joins the workers.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.parker.wake_all();
        for worker in self.workers.lock().expect("stopping workers does not panic").drain(..) {
            if let Err(panic) = worker.join() {
                pass_on(panic);
            }
        }
    }

    /// What a worker does until it is stopped.
    fn work(&self, deliver: &Deliver) {
        Context::begin_duty();
        napier_sys::nowait::this_thread();
        let cx = Context::current();
        while !self.stop.load(Ordering::Acquire) {
            let more = || self.has_any() || self.stop.load(Ordering::Acquire);
            self.parker.sleep(more, Deadline::NEVER, &deliver.clock);
            let napi = self.pop();
            // After it has taken its share: another worker is woken for more than that only.
            self.parker.hand_on(more);
            if let Some(index) = napi
                && turn(cx, deliver, deliver.napi_at(index))
            {
                self.push_again(index);
            }
        }
    }
}

/// One turn of a pool worker: a plain threaded poll; true if the instance wants another.
fn turn(cx: Context, deliver: &Deliver, napi: &Napi) -> bool {
    let _ = napi.transition(Rule::ThreadTurn, State::thread_turn);
    deliver.poll_once(cx, napi, PollContext::Kthread).repoll && !deliver.hand_over_if_stopped(cx, napi)
}

/// The pool as an owner.
pub(super) struct Pool;

impl Owner for Pool {
    fn start(&self, deliver: &Arc<Deliver>, _napi: &Arc<Napi>) -> std::io::Result<Option<Kthread>> {
        deliver.workqueue.start(deliver).map(|()| None)
    }

    fn take(&self, _cx: Context, deliver: &Deliver, napi: &Napi) {
        napi.journaled(|| (), |()| Event::Scheduled { target: Target::Workqueue });
        deliver.workqueue.push(napi.index);
    }
}
