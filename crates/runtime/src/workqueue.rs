//! The worker pool: threads that poll whichever instance is scheduled next, as the workqueue variant
//! that threaded NAPI was compared with when it was proposed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use napier_core::time::Deadline;

use crate::engine::{EngineInner, ThreadRole};
use crate::park::Parker;

/// Scheduled instances and the workers that poll them. Locked once per schedule, never per packet.
pub(crate) struct Workqueue {
    queue: Mutex<VecDeque<u32>>,
    queued: AtomicUsize,
    parker: Parker,
    workers_wanted: usize,
    workers: Mutex<Vec<JoinHandle<()>>>,
    stop: AtomicBool,
}

impl Workqueue {
    pub(crate) fn new(workers_wanted: usize) -> Self {
        Self {
            queue: Mutex::new(VecDeque::with_capacity(64)),
            queued: AtomicUsize::new(0),
            parker: Parker::new(),
            workers_wanted,
            workers: Mutex::new(Vec::new()),
            stop: AtomicBool::new(false),
        }
    }

    /// Puts an instance at the end of the queue and wakes a worker.
    pub(crate) fn push(&self, napi: u32) {
        let mut queue = self.queue.lock().expect("queue operations do not panic");
        queue.push_back(napi);
        // Release: pairs with the Acquire of a worker's look.
        self.queued.store(queue.len(), Ordering::Release);
        drop(queue);
        self.parker.wake();
    }

    fn pop(&self) -> Option<u32> {
        let mut queue = self.queue.lock().expect("queue operations do not panic");
        let napi = queue.pop_front();
        self.queued.store(queue.len(), Ordering::Release);
        napi
    }

    /// Starts the workers on first use.
    pub(crate) fn start(&self, engine: &Arc<EngineInner>) -> std::io::Result<()> {
        let mut workers = self.workers.lock().expect("starting workers does not panic");
        while workers.len() < self.workers_wanted {
            let name = format!("napi/wq{}", workers.len());
            let engine = engine.clone();
            workers.push(std::thread::Builder::new().name(name).spawn(move || {
                engine.pin_worker();
                engine.threads.register(ThreadRole::Worker);
                engine.workqueue_main();
                engine.threads.unregister();
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
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl EngineInner {
    fn workqueue_main(&self) {
        let queue = &self.workqueue;
        while !queue.stop.load(Ordering::Acquire) {
            let more = || queue.queued.load(Ordering::Acquire) > 0 || queue.stop.load(Ordering::Acquire);
            queue.parker.wait(more, Deadline::NEVER, &self.clock);
            if let Some(index) = queue.pop() {
                let napi = self.napi_at(index);
                if self.workqueue_turn(napi) {
                    queue.push(index);
                }
            }
        }
    }
}
