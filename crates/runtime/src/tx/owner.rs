//! The owner: a thread that polls a queue's list and runs its discipline for ever, so that senders only push. It serves
//! all of them, so it waits for none: a lock that a program has is tried again in its next turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::JoinHandle;

use super::{TxHost, TxPath};
use napier_sys::give_way::GiveWay;
use napier_sys::nowait;

/// Looks in vain before the processor is offered to others; with no other thread to run that returns at once.
const IDLE_SPINS: u32 = 64;

/// A running owner; dropping it ends the thread, which leaves the list as it is.
pub(super) struct OwnerThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl OwnerThread {
    /// # Errors
    /// The system refused a thread.
    pub(super) fn start(
        path: Arc<TxPath>,
        host: Weak<dyn TxHost>,
        name: &str,
        cpu: Option<usize>,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, role) = (stop.clone(), name.to_owned());
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            nowait::this_thread();
            // Not the engine itself: it could never end while it waits for this thread.
            if let Some(host) = host.upgrade() {
                host.thread_begins(&role, cpu);
            }
            OwnerTurns::default().until(&path, &stopped);
            if let Some(host) = host.upgrade() {
                host.thread_ends();
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for OwnerThread {
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

/// What an owner remembers from turn to turn.
pub(crate) struct OwnerTurns {
    waiting: bool,
}

/// How a turn of an owner went.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum OwnerTurn {
    /// Nothing waited.
    Idle,
    /// Senders had pushed.
    Served,
    /// Packets that had waited before were run, or some.
    Ran,
    /// A program has the lock.
    Refused,
}

impl Default for OwnerTurns {
    /// It begins with a look.
    fn default() -> Self {
        Self { waiting: true }
    }
}

impl OwnerTurns {
    /// One turn of an owner, whichever thread that is; one at a time.
    pub(super) fn turn(&mut self, path: &TxPath) -> OwnerTurn {
        let listed = !path.defer.is_empty();
        self.waiting |= path.owner.take_wanted();
        if !listed && !self.waiting {
            return OwnerTurn::Idle;
        }
        match path.own_once() {
            Some(some_wait) => self.waiting = some_wait,
            None => {
                self.waiting = true;
                return OwnerTurn::Refused;
            }
        }
        if listed { OwnerTurn::Served } else { OwnerTurn::Ran }
    }

    fn until(mut self, path: &TxPath, stop: &AtomicBool) {
        let mut idle = 0;
        let mut give_way = GiveWay::default();
        while !stop.load(Ordering::Relaxed) {
            match self.turn(path) {
                OwnerTurn::Refused => {
                    // A program needs a processor to go on.
                    give_way.turn();
                    continue;
                }
                OwnerTurn::Served => {
                    (idle, give_way) = (0, GiveWay::default());
                    continue;
                }
                OwnerTurn::Ran => give_way = GiveWay::default(),
                OwnerTurn::Idle => {}
            }
            idle += 1;
            std::hint::spin_loop();
            if idle % IDLE_SPINS == 0 {
                path.look_for_senders();
                std::thread::yield_now();
            }
        }
    }
}

/// Which thread runs a queue for ever, if one does.
#[derive(Default)]
pub(super) struct RunOwner {
    thread: Mutex<Option<OwnerThread>>,
    /// A sender has enqueued by itself, and the owner may not know that packets wait.
    wanted: AtomicBool,
}

impl RunOwner {
    /// The thread, which neither comes nor goes while this is held.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<OwnerThread>> {
        self.thread.lock().expect("no panic while held")
    }

    /// This thread is the owner from now on.
    pub(super) fn keep(&self, owner: Option<OwnerThread>) {
        *self.lock() = owner;
    }

    /// Ends the thread; false: there was none.
    pub(super) fn stop(&self) -> bool {
        // Taken out first: the thread is not waited for under the lock.
        let owner = self.lock().take();
        owner.is_some()
    }

    /// Packets wait that the owner may not know of. Relaxed: it is looked at again and again, and the root lock publishes
    /// the rest.
    pub(super) fn want(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// Packets wait that the owner may not know of.
    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    #[inline]
    fn take_wanted(&self) -> bool {
        self.is_wanted() && self.wanted.swap(false, Ordering::Relaxed)
    }
}
