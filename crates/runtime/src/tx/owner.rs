//! The owner: a thread that polls a queue's list and runs its discipline for ever, so that senders only push.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::TxPath;
use super::lock::lock_root;
use crate::clock::Clock;
use crate::engine::{EngineInner, ThreadRole, pin_current_thread};

/// Looks in vain before the processor is offered to others; with nobody else to run that returns at once.
const IDLE_SPINS: u32 = 64;

/// A running owner; dropping it ends the thread, which leaves the list as it is.
pub(super) struct Owner {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Owner {
    /// # Errors
    /// The system refused a thread.
    pub(super) fn start(
        path: Arc<TxPath>,
        engine: &Arc<EngineInner>,
        name: &str,
        cpu: Option<usize>,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        // Not the engine itself: it could never end while it waits for this thread.
        let engine = Arc::downgrade(engine);
        let (stopped, role) = (stop.clone(), ThreadRole::Program { name: name.to_owned() });
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Some(engine) = engine.upgrade() {
                match cpu {
                    Some(cpu) => pin_current_thread(cpu),
                    None => engine.unpin_thread(),
                }
                engine.threads.register(role);
            }
            path.own_until(&stopped);
            if let Some(engine) = engine.upgrade() {
                engine.threads.unregister();
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl TxPath {
    fn own_until(&self, stop: &AtomicBool) {
        let mut idle = 0;
        let mut waiting = true;
        while !stop.load(Ordering::Relaxed) {
            let listed = !self.defer.list.is_empty();
            if listed || waiting {
                waiting = self.own_once();
            }
            if listed {
                idle = 0;
                continue;
            }
            idle += 1;
            std::hint::spin_loop();
            if idle % IDLE_SPINS == 0 {
                self.look_for_room(Clock.now());
                std::thread::yield_now();
            }
        }
    }

    /// One turn; true if packets still wait.
    fn own_once(&self) -> bool {
        let (guarded, _) = lock_root(&self.root.0);
        let mut rest = self.rest();
        let guarded = self.flush_or_run(guarded, &mut rest);
        let waiting = guarded.root.qlen() > 0;
        // Mostly nothing is left: the owner comes back by itself, but it may begin before the variant is in force.
        self.leave(guarded, rest);
        waiting
    }
}
