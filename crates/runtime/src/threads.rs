//! The threads of an engine: what they are for and how much CPU time they have used.

use std::cell::Cell;
use std::sync::Mutex;
use std::time::Duration;

use napier_sys::cpuclock::ThreadClock;

/// What a thread of the engine does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ThreadRole {
    /// Runs the softirqs of a CPU.
    Softirq {
        /// The processor.
        cpu: usize,
    },
    /// Polls an instance of this device.
    Napi {
        /// Name of the device.
        device: String,
    },
    /// Polls the members of a group of CPUs.
    Group {
        /// Name of the group.
        name: String,
        /// The processor.
        cpu: usize,
    },
    /// A worker of the pool.
    Worker,
    /// Connects memif devices with peers in other processes; no packet passes through it.
    MemifControl,
    /// A thread of the program, counted on its request ([`crate::engine::Engine::count_thread`]).
    Program {
        /// What the program calls it.
        name: String,
    },
}

/// CPU time of one thread.
#[derive(Clone, Debug)]
pub struct ThreadTime {
    /// What it does.
    pub role: ThreadRole,
    /// CPU time since the thread started or was counted first.
    pub cpu: Duration,
}

/// Threads that are alive, and the time of those that are gone.
#[derive(Default)]
pub(crate) struct Threads {
    entries: Mutex<Vec<Entry>>,
}

struct Entry {
    role: ThreadRole,
    clock: Option<ThreadClock>,
    /// Time up to the end, once the thread is gone.
    ended: Duration,
}

thread_local! {
    static MINE: Cell<Option<usize>> = const { Cell::new(None) };
}

impl Threads {
    /// The calling thread begins its duty.
    pub(crate) fn register(&self, role: ThreadRole) {
        // The first look at any snapshot allocates the thread's part of the hazard list: now, not with a packet.
        drop(arc_swap::ArcSwap::from_pointee(()).load());
        let mut entries = self.entries.lock().expect("no panic while held");
        MINE.set(Some(entries.len()));
        entries.push(Entry { role, clock: ThreadClock::current(), ended: Duration::ZERO });
    }

    /// The calling thread is about to end.
    pub(crate) fn unregister(&self) {
        let Some(mine) = MINE.take() else { return };
        let mut entries = self.entries.lock().expect("no panic while held");
        let entry = &mut entries[mine];
        entry.ended = entry.clock.take().and_then(ThreadClock::read).unwrap_or_default();
    }

    pub(crate) fn times(&self) -> Vec<ThreadTime> {
        let entries = self.entries.lock().expect("no panic while held");
        entries
            .iter()
            .map(|entry| ThreadTime {
                role: entry.role.clone(),
                cpu: entry.clock.and_then(ThreadClock::read).unwrap_or(entry.ended),
            })
            .collect()
    }
}

/// Goes on with the panic of a thread that was joined, unless one is under way: the first is the one to see.
pub(crate) fn pass_on(panic: Box<dyn std::any::Any + Send>) {
    if !std::thread::panicking() {
        std::panic::resume_unwind(panic);
    }
}
