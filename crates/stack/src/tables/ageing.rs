//! The thread that carries out how long neighbours are believed ([`napier_core::neighbour`]).
//!
//! It sleeps until something ends, or a question has to be asked again (`neighbour/pending`), or the rest of a packet has
//! not come (`reassembly`): for ever where all neighbours are
//! permanent or stale. What it changes it changes in one go, so
//! that many neighbours cost one copy of the table.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use napier_core::icmp::answers::Trouble;
use napier_core::time::{Deadline, Instant, Span};
use napier_ring::Alarm;
use napier_sys::clock::Clock;

use crate::tables::Tables;
use crate::tables::answer::tell_sender;
use crate::tables::reassembly::Overdue;
use crate::tables::writer::Note;
use crate::wait::park::Parker;

/// Nanoseconds of a tick of the alarm.
const TICK_NS: u64 = 1_000_000;
/// Least time between two changes.
const GAP: Span = Span::from_ms(100);

/// What others see of the thread. Dropping it ends the thread.
pub(crate) struct Ageing(Arc<AgeingThread>);

struct AgeingThread {
    alarm: Alarm,
    /// When the next question is asked again, in ns; `u64::MAX`: none is out.
    questions: AtomicU64,
    stop: AtomicBool,
    started: AtomicBool,
    parker: Parker,
}

impl Ageing {
    /// No thread yet.
    pub(crate) fn new() -> Self {
        let (stop, started) = (AtomicBool::new(false), AtomicBool::new(false));
        let questions = AtomicU64::new(u64::MAX);
        Self(Arc::new(AgeingThread { alarm: Alarm::new(), questions, stop, started, parker: Parker::new() }))
    }

    /// Starts the thread of `ns`, unless it runs. For programs. Where the system has no thread, neighbours are believed until
    /// something else is heard; the next device tries again.
    pub(crate) fn start(&self, ns: &Arc<Tables>) {
        let shared = &self.0;
        // Relaxed, both: decides only who starts the thread, which is shown nothing by it.
        if shared.started.swap(true, Ordering::Relaxed) {
            return;
        }
        let (shared, of) = (shared.clone(), Arc::downgrade(ns));
        let thread = std::thread::Builder::new().name("napier-neigh".to_owned()).spawn(move || {
            if let Some(ns) = of.upgrade() {
                ns.host.thread_begins("neighbour timer");
            }
            shared.run(&of);
        });
        self.0.started.store(thread.is_ok(), Ordering::Relaxed);
    }

    /// Something ends at `at`.
    pub(crate) fn ask(&self, at: Deadline) {
        if let Some(at) = at.instant()
            && self.0.alarm.ask(at.ns.div_ceil(TICK_NS))
        {
            self.0.parker.wake();
        }
    }

    /// The first of the questions that are out ends at `at`. For writers.
    pub(crate) fn questions_end(&self, at: Deadline) {
        let ns = at.instant().map_or(u64::MAX, |at| at.ns);
        // Relaxed: the alarm publishes it.
        if self.0.questions.swap(ns, Ordering::Relaxed) > ns {
            self.ask(at);
        }
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        // Release: pairs with the Acquire load in `run`.
        self.0.stop.store(true, Ordering::Release);
        self.0.parker.wake_all();
    }
}

impl Drop for Ageing {
    fn drop(&mut self) {
        self.stop();
    }
}

impl AgeingThread {
    fn questions(&self) -> Deadline {
        Deadline::at(Instant { ns: self.questions.load(Ordering::Relaxed) })
    }

    fn run(&self, ns: &Weak<Tables>) {
        napier_sys::nowait::this_thread();
        let mut not_before = Instant::ZERO;
        loop {
            self.alarm.begin();
            let ends = match ns.upgrade() {
                Some(ns) => {
                    let neighbours = ns.snapshot.load().neighbours.ends();
                    neighbours.earliest(self.questions()).earliest(ns.reassembly.ends())
                }
                None => return,
            };
            let at = ends.instant().map(|at| at.max(not_before));
            let target = at.map_or(Alarm::NEVER, |at| at.ns.div_ceil(TICK_NS));
            self.alarm.sleep_until(target);
            let stopped = || self.stop.load(Ordering::Acquire);
            let sooner = || stopped() || self.alarm.is_sooner(target);
            self.parker.wait(sooner, at.map_or(Deadline::NEVER, Deadline::at), &Clock);
            if stopped() {
                return;
            }
            let (Some(ns), now) = (ns.upgrade(), Clock.now()) else { return };
            if !ends.is_due(now) || now < not_before {
                continue;
            }
            not_before = now + GAP;
            for Overdue { ifindex, frame } in ns.reassembly.age(&ns.counters, now) {
                let devices = ns.snapshot.load().devices.clone();
                if let Some(interface) = devices.interface(ifindex) {
                    tell_sender(&ns, (&devices, interface), &frame, Trouble::NotWhole, now);
                }
            }
            if let Some(mut writing) = ns.lock_or_leave(|| Note::Age) {
                writing.age(now);
            }
        }
    }
}
