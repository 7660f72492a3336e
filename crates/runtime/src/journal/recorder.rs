//! Taking the records.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use napier_core::state::{Poller, State};

use super::{Event, Journal, Record, Rule};
use crate::bounds::NAPI_MAX;
use napier_stack::host::Deliveries;
use napier_sys::clock::Clock;
use napier_sys::current;

/// Answers of rules, as the journal holds them.
pub(crate) trait RuleAnswer: Copy {
    /// True for rules that answer nothing.
    fn as_bool(self) -> bool;
}

impl RuleAnswer for bool {
    fn as_bool(self) -> bool {
        self
    }
}

/// Whether a thread polls; which one, the record of the schedule says.
impl RuleAnswer for Poller {
    fn as_bool(self) -> bool {
        self != Self::Softirq
    }
}

impl RuleAnswer for () {
    fn as_bool(self) -> bool {
        true
    }
}

/// The journal of an engine.
pub(crate) struct Recorder {
    clock: Clock,
    /// Processor by softirq CPU.
    softirq_cpus: Box<[usize]>,
    inner: Mutex<Inner>,
}

struct Inner {
    journal: Journal,
    /// By instance: the rule that was refused last, if the word has not been touched since.
    refused: Box<[Option<(Rule, State)>]>,
}

impl Recorder {
    /// A journal for so many records. Their memory is reserved now and used as they come.
    pub(crate) fn new(clock: Clock, softirq_cpus: &[usize], records_max: usize) -> Self {
        let journal = Journal { records: Vec::with_capacity(records_max), lost: 0 };
        let inner = Inner { journal, refused: vec![None; NAPI_MAX].into() };
        Self { clock, softirq_cpus: softirq_cpus.into(), inner: Mutex::new(inner) }
    }

    /// A copy of what there is.
    pub(crate) fn snapshot(&self) -> Journal {
        self.lock().journal.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no rule panics")
    }
}

impl Inner {
    fn push(&mut self, record: Record) {
        if let Event::Rule { rule, word, answer } = record.event {
            let refused = !answer && matches!(rule, Rule::BusyAcquire | Rule::DisableClaim);
            let refused = refused.then_some((rule, word));
            let last = std::mem::replace(&mut self.refused[record.napi as usize], refused);
            if refused.is_some() && refused == last {
                return;
            }
        }
        let journal = &mut self.journal;
        // No more memory than was asked for: a vector's capacity may be rounded up.
        if journal.lost == 0 && journal.records.len() < journal.records.capacity() {
            journal.records.push(record);
        } else {
            journal.lost += 1;
        }
    }
}

/// Where an instance's records go, and what they say of it.
pub(crate) struct Tap {
    recorder: Arc<Recorder>,
    napi: u32,
    ifindex: u32,
    queue: u16,
}

impl Tap {
    /// The records of an instance begin.
    pub(crate) fn new(recorder: &Arc<Recorder>, napi: u32, ifindex: u32, queue: u16) -> Self {
        let this = Self { recorder: recorder.clone(), napi, ifindex, queue };
        this.record(|| 0, || (), |()| Event::Added { word: State::ADDED });
        this
    }

    /// Does `act` and records it, as one step for all that is journaled. `act` does not wait.
    #[cold]
    pub(crate) fn record<R, E: Into<Option<Event>>>(
        &self,
        napi_id: impl FnOnce() -> u32,
        act: impl FnOnce() -> R,
        event: impl FnOnce(&R) -> E,
    ) -> R {
        let mut inner = self.recorder.lock();
        let answer = act();
        if let Some(event) = event(&answer).into() {
            let &Self { napi, ifindex, queue, .. } = self;
            let (at, napi_id, thread) = (self.recorder.clock.now(), napi_id(), current::number());
            inner.push(Record { at, napi, napi_id, ifindex, queue, thread, event });
        }
        answer
    }

    /// The processor of softirq CPU `index`; none: where the calling thread runs.
    pub(crate) fn cpu(&self, index: Option<u32>) -> usize {
        index.map_or_else(rustix::thread::sched_getcpu, |index| self.recorder.softirq_cpus[index as usize])
    }
}

impl Deliveries for Tap {
    fn delivered(&self, napi_id: u32, to: SocketAddr, packets: u32) {
        self.record(|| napi_id, || (), |()| Event::Deliver { to, packets });
    }
}
