//! The threads of an engine: what they are for and how much CPU time they have used.

mod calls;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use napier_core::time::{Instant, Span};
use napier_sys::clock::Clock;
use napier_sys::cpuclock::ThreadClock;

pub(crate) use calls::OwedCalls;

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
        /// The queue of the instance.
        queue: u16,
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

impl ThreadRole {
    /// What it does, what it does it for (empty if the first says all), and the processor that it is for.
    pub(crate) fn words(&self) -> (&'static str, String, Option<usize>) {
        match self {
            Self::Softirq { cpu } => ("softirq", String::new(), Some(*cpu)),
            Self::Napi { device, .. } if device == GONE => ("napi", GONE.to_owned(), None),
            Self::Napi { device, queue } => ("napi", format!("{device}-{queue}"), None),
            Self::Group { name, .. } if name == GONE => ("group", GONE.to_owned(), None),
            Self::Group { name, cpu } => ("group", name.clone(), Some(*cpu)),
            Self::Worker => ("worker", String::new(), None),
            Self::MemifControl => ("memif", String::new(), None),
            Self::Program { name } => ("program", name.clone(), None),
        }
    }

    /// What all threads that do the same are called together.
    fn without_name(&self) -> Self {
        match self {
            Self::Napi { .. } => Self::Napi { device: GONE.to_owned(), queue: 0 },
            Self::Group { .. } => Self::Group { name: GONE.to_owned(), cpu: 0 },
            Self::Program { .. } => Self::Program { name: GONE.to_owned() },
            Self::Softirq { .. } | Self::Worker | Self::MemifControl => self.clone(),
        }
    }
}

/// CPU time of one thread, or of all threads with the same role that are gone.
#[derive(Clone, Debug)]
pub struct ThreadTime {
    /// What it does.
    pub role: ThreadRole,
    /// CPU time since the thread started or was counted first.
    pub cpu: Duration,
}

/// Sums of threads that are gone are kept by role up to so many; what is beyond goes into one of the same kind, which is
/// called [`GONE`].
const GONE_MAX: usize = 64;
const GONE: &str = "(gone)";

/// Threads that are alive, and the time of those that are gone.
///
/// An entry goes with its thread. Its time is added to what threads with the same role have used that are gone, so that
/// the sum over a role only grows.
#[derive(Default)]
pub(crate) struct Threads(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    living: Vec<Living>,
    /// In the order in which the first of each ended; each role once.
    gone: Vec<(ThreadRole, Used)>,
    last_number: u64,
}

struct Living {
    number: u64,
    role: ThreadRole,
    clock: Option<ThreadClock>,
    began: Instant,
    spun_ticks: Arc<AtomicU64>,
}

/// What one thread, or several, have used.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Used {
    /// Threads that are alive.
    pub(crate) alive: u64,
    /// CPU time.
    pub(crate) cpu: Duration,
    /// Ticks in polls that found nothing.
    pub(crate) spun_ticks: u64,
    /// Time since they began, to their ends.
    pub(crate) lived: Span,
}

impl Used {
    fn add(&mut self, other: Self) {
        self.alive += other.alive;
        self.cpu += other.cpu;
        self.spun_ticks = self.spun_ticks.wrapping_add(other.spun_ticks);
        self.lived = self.lived + other.lived;
    }
}

/// A duty of a thread. A drop, at the thread's end at the latest, takes it off the list.
pub(crate) struct Duty {
    of: Weak<Mutex<Entries>>,
    number: u64,
    spun_ticks: Arc<AtomicU64>,
}

impl Drop for Duty {
    fn drop(&mut self) {
        if let Some(entries) = self.of.upgrade() {
            lock(&entries).end(self.number);
        }
    }
}

/// The duties of the calling thread, which keeps them.
pub(crate) struct Duties(Vec<Duty>);

impl Duties {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The thread begins a duty.
    pub(crate) fn begin(&mut self, threads: &Threads, role: ThreadRole) {
        // The first look at any snapshot allocates the thread's part of the hazard list: now, not with a packet.
        drop(arc_swap::ArcSwap::from_pointee(()).load());
        self.0.push(threads.register(role));
    }

    /// The thread ends the duty for this engine that it began last.
    #[must_use = "dropped when the duties are not borrowed any more"]
    pub(crate) fn end(&mut self, threads: &Threads) -> Option<Duty> {
        let last = self.0.iter().rposition(|duty| std::ptr::eq(duty.of.as_ptr(), Arc::as_ptr(&threads.0)));
        last.map(|position| self.0.remove(position))
    }

    /// The thread has spent these ticks in polls that found nothing.
    #[inline]
    pub(crate) fn spun(&self, ticks: u64) {
        if let Some(duty) = self.0.last() {
            // Relaxed, not as one operation: only this thread writes.
            let before = duty.spun_ticks.load(Ordering::Relaxed);
            duty.spun_ticks.store(before.wrapping_add(ticks), Ordering::Relaxed);
        }
    }
}

impl Threads {
    fn register(&self, role: ThreadRole) -> Duty {
        let spun_ticks = Arc::<AtomicU64>::default();
        let mut entries = lock(&self.0);
        entries.last_number += 1;
        let number = entries.last_number;
        let (clock, began) = (ThreadClock::current(), Clock.now());
        entries.living.push(Living { number, role, clock, began, spun_ticks: spun_ticks.clone() });
        drop(entries);
        Duty { of: Arc::downgrade(&self.0), number, spun_ticks }
    }

    /// Each thread that is alive, then for each role those that are gone.
    pub(crate) fn times(&self) -> Vec<ThreadTime> {
        self.used().map(|(role, used)| ThreadTime { role, cpu: used.cpu }).collect()
    }

    /// For each role all threads that have had it, in the order in which it first occurs.
    pub(crate) fn by_role(&self) -> Vec<(ThreadRole, Used)> {
        let mut sums: Vec<(ThreadRole, Used)> = Vec::new();
        for (role, used) in self.used() {
            match sums.iter_mut().find(|(known, _)| *known == role) {
                Some((_, sum)) => sum.add(used),
                None => sums.push((role, used)),
            }
        }
        sums
    }

    fn used(&self) -> impl Iterator<Item = (ThreadRole, Used)> {
        let now = Clock.now();
        let entries = lock(&self.0);
        let living = entries.living.iter().map(|living| (living.role.clone(), living.used(now)));
        let all: Vec<_> = living.chain(entries.gone.iter().cloned()).collect();
        all.into_iter()
    }
}

impl Living {
    fn used(&self, now: Instant) -> Used {
        Used {
            alive: 1,
            cpu: self.clock.and_then(ThreadClock::read).unwrap_or_default(),
            spun_ticks: self.spun_ticks.load(Ordering::Relaxed),
            lived: now - self.began,
        }
    }
}

impl Entries {
    fn end(&mut self, number: u64) {
        let Some(position) = self.living.iter().position(|living| living.number == number) else { return };
        let living = self.living.remove(position);
        let used = Used { alive: 0, ..living.used(Clock.now()) };
        self.add_gone(living.role, used);
        if self.gone.len() > GONE_MAX
            && let Some(first) = self.gone.iter().position(|(role, _)| role.without_name() != *role)
        {
            let (role, used) = self.gone.remove(first);
            self.add_gone(role.without_name(), used);
        }
    }

    fn add_gone(&mut self, role: ThreadRole, used: Used) {
        match self.gone.iter_mut().find(|(known, _)| *known == role) {
            Some((_, sum)) => sum.add(used),
            None => self.gone.push((role, used)),
        }
    }
}

fn lock(entries: &Mutex<Entries>) -> MutexGuard<'_, Entries> {
    // A thread that panics ends as well, and what it used is counted.
    entries.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Goes on with the panic of a thread that was joined, unless one is under way: the first is the one to see.
pub(crate) fn pass_on(panic: Box<dyn std::any::Any + Send>) {
    if !std::thread::panicking() {
        std::panic::resume_unwind(panic);
    }
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
