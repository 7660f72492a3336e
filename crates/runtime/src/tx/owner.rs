//! The owner: a thread that polls a queue's list and runs its discipline for ever, so that senders only push. It serves
//! all of them, so it waits for none: a lock that a program has is tried again in its next turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use super::{Mode, TxHost, TxPath};
use napier_sys::clock::Clock;
use napier_sys::give_way::GiveWay;
use napier_sys::nowait;

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
            path.own_until(&stopped);
            if let Some(host) = host.upgrade() {
                host.thread_ends();
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

/// What an owner remembers from turn to turn.
pub(crate) struct OwnerTurns {
    waiting: bool,
}

/// How a turn of an owner went.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum OwnerTurn {
    /// Nothing waited.
    Idle,
    /// Somebody had pushed.
    Served,
    /// Packets that had waited before were run, or some.
    Ran,
    /// Whoever has the lock is a program.
    Refused,
}

impl Default for OwnerTurns {
    /// It begins with a look.
    fn default() -> Self {
        Self { waiting: true }
    }
}

impl TxPath {
    fn own_until(&self, stop: &AtomicBool) {
        let mut idle = 0;
        let mut turns = OwnerTurns::default();
        let mut give_way = GiveWay::default();
        while !stop.load(Ordering::Relaxed) {
            match self.owner_turn(&mut turns) {
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
                self.look_for_senders();
                std::thread::yield_now();
            }
        }
    }

    /// Whoever waits for room is told if there is some.
    pub(crate) fn look_for_senders(&self) {
        let news = self.look_for_room(Clock.now());
        self.tell(news);
    }

    /// A turn of an owner who let nothing wait would find something.
    #[inline]
    pub(crate) fn wants_owner(&self) -> bool {
        !self.defer.list.is_empty() || self.for_owner.load(Ordering::Relaxed)
    }

    /// One turn of an owner, whichever thread that is; one at a time.
    pub(crate) fn owner_turn(&self, turns: &mut OwnerTurns) -> OwnerTurn {
        let listed = !self.defer.list.is_empty();
        turns.waiting |= self.for_owner.load(Ordering::Relaxed) && self.for_owner.swap(false, Ordering::Relaxed);
        if !listed && !turns.waiting {
            return OwnerTurn::Idle;
        }
        match self.own_once() {
            Some(some_wait) => turns.waiting = some_wait,
            None => {
                turns.waiting = true;
                return OwnerTurn::Refused;
            }
        }
        if listed { OwnerTurn::Served } else { OwnerTurn::Ran }
    }

    /// A poller of a group takes the turns of an owner from now on: senders only push. `None`: there is no discipline to run,
    /// or a thread owns it.
    pub(crate) fn group_takes_run(&self) -> Option<Mode> {
        let control = self.control.lock().expect("no panic while held");
        let before = self.mode();
        // With a mode of owners and no thread somebody is about to start one.
        if control.is_some() || matches!(before, Mode::Noqueue | Mode::Owner) {
            return None;
        }
        self.set_mode(Mode::Owner);
        // Packets may wait that a softirq would have run.
        self.for_owner.store(true, Ordering::Relaxed);
        Some(before)
    }

    /// Senders flush for themselves again, as before.
    pub(crate) fn group_gives_run(&self, before: Mode) {
        let control = self.control.lock().expect("no panic while held");
        if control.is_none() && self.mode() == Mode::Owner {
            self.set_mode(before);
            self.flush_rest();
            self.activate();
        }
    }

    /// One turn; true if packets still wait. None if others have the root lock, or had the transmit lock when a packet
    /// was due.
    fn own_once(&self) -> Option<bool> {
        let guarded = self.root.0.try_enter()?;
        let mut rest = self.rest();
        let guarded = self.flush_or_run(guarded, &mut rest);
        let (waiting, refused) = (guarded.root.qlen() > 0, rest.refused);
        // Mostly nothing is left: the owner comes back by itself, but it may begin before the variant is in force.
        self.leave(guarded, rest);
        (!refused).then_some(waiting)
    }
}
