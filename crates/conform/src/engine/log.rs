//! The journal as events, and what it says about an instance at a time.

use napier_core::completion::Completion;
use napier_core::state::State;
use napier_runtime::journal::{Event as Recorded, Record, Rule};
use napier_scenario::{CpuIx, Event, NapiIx, Seen};

use super::rig::EngineRig;
use crate::real::clock::RunWindow;

/// What the records of an instance say about it.
#[derive(Copy, Clone, Debug)]
pub(super) struct NapiKnown {
    pub(super) word: State,
    pub(super) masked: bool,
    pub(super) armed: bool,
    pub(super) defers_left: u32,
    /// Packets that polls took.
    pub(super) taken: u64,
    pub(super) thread: bool,
    /// Packets of the wire that are held for merging.
    pub(super) held: u32,
    /// The change of the mask that is next belongs to a disable or an enable.
    switching: bool,
}

impl NapiKnown {
    fn at_first() -> Self {
        Self {
            word: State::ADDED,
            masked: true,
            armed: false,
            defers_left: 0,
            taken: 0,
            thread: false,
            held: 0,
            switching: false,
        }
    }

    /// Whether it is masked and free, and no timer brings it back.
    pub(super) fn forgotten(&self) -> bool {
        self.masked && !self.armed && !self.word.contains(State::SCHED) && !self.word.contains(State::DISABLE)
    }

    /// Free, unmasked, and nothing is due.
    pub(super) fn quiet(&self) -> bool {
        !self.masked && !self.armed && !self.word.contains(State::SCHED)
    }

    /// Takes one record; true if it is an event. Masking what is masked is none, nor is what a disable and an enable do
    /// with the mask: a device that is down has no interrupts.
    fn take(&mut self, event: &Recorded) -> bool {
        match *event {
            Recorded::Added { word } => self.word = word,
            Recorded::Rule { rule, word, answer } => {
                self.word = word;
                self.switching = matches!(rule, Rule::Enable(_)) || (rule == Rule::DisableClaim && answer);
            }
            Recorded::Mask => {
                let changes = !std::mem::replace(&mut self.masked, true);
                return changes && !self.switching;
            }
            Recorded::Unmask { .. } => {
                self.masked = false;
                return !std::mem::take(&mut self.switching);
            }
            Recorded::TimerStart { .. } => self.armed = true,
            Recorded::TimerFire { .. } | Recorded::TimerCancel => self.armed = false,
            Recorded::Complete { defers_left, .. } | Recorded::BusyStop { defers_left, .. } => {
                self.defers_left = defers_left;
            }
            Recorded::Poll { work, .. } => self.taken += u64::from(work),
            Recorded::Held { packets } => self.held = packets,
            Recorded::KthreadStart => self.thread = true,
            Recorded::KthreadStop => self.thread = false,
            _ => {}
        }
        true
    }
}

/// What is known about each instance at a time.
pub(super) fn states(rig: &EngineRig<'_>, records: &[Record], at_ns: u64) -> Vec<NapiKnown> {
    let mut known = vec![NapiKnown::at_first(); rig.scenario.machine.napis().into()];
    for record in records.iter().take_while(|record| record.at.ns <= at_ns) {
        if let Some(napi) = rig.napi_of(record.ifindex, record.queue) {
            known[napi.at()].take(&record.event);
        }
    }
    known
}

/// The events of the window.
pub(super) fn events(rig: &EngineRig<'_>, records: &[Record], window: RunWindow) -> Vec<Seen> {
    let mut known = vec![NapiKnown::at_first(); rig.scenario.machine.napis().into()];
    let mut seen = Vec::new();
    for record in records {
        let Some(napi) = rig.napi_of(record.ifindex, record.queue) else { continue };
        if !known[napi.at()].take(&record.event) {
            continue;
        }
        let Some(at) = window.place(record.at.ns) else { continue };
        seen.extend(event(rig, napi, &record.event).map(|event| Seen { at, event }));
    }
    seen
}

/// Packets that came to each socket up to a time.
pub(super) fn delivered(rig: &EngineRig<'_>, records: &[Record], at_ns: u64) -> Vec<u64> {
    let mut delivered = vec![0; rig.scenario.machine.sockets.len()];
    for record in records.iter().take_while(|record| record.at.ns <= at_ns) {
        if let Recorded::Deliver { to, packets } = record.event
            && let Some(socket) = rig.socket_at(to)
        {
            delivered[socket.at()] += u64::from(packets);
        }
    }
    delivered
}

fn event(rig: &EngineRig<'_>, napi: NapiIx, recorded: &Recorded) -> Option<Event> {
    Some(match *recorded {
        Recorded::Rule { rule: Rule::SchedulePrep, answer, .. } => Event::Schedule { napi, took: answer },
        Recorded::Poll { context, cpu, work, budget } => {
            Event::Poll { napi, context, cpu: cpu_of(rig, cpu), work, budget }
        }
        Recorded::Complete { decision: Completion::Refused, .. } => Event::Complete { napi, unmask: false },
        Recorded::Completed { decision, .. } => Event::Complete { napi, unmask: decision.may_unmask() },
        Recorded::TimerStart { span, cpu, .. } => Event::TimerStart { napi, after: span, cpu: cpu_of(rig, cpu) },
        Recorded::TimerFire { cpu, .. } => Event::TimerFire { napi, cpu: cpu_of(rig, cpu) },
        Recorded::TimerCancel => Event::TimerCancel { napi },
        Recorded::Mask => Event::Mask { napi },
        Recorded::Unmask { .. } => Event::Unmask { napi },
        Recorded::Deliver { to, packets } => Event::Deliver { socket: rig.socket_at(to)?, packets },
        Recorded::KthreadStart => Event::KthreadStart { napi },
        Recorded::KthreadStop => Event::KthreadStop { napi },
        _ => return None,
    })
}

fn cpu_of(rig: &EngineRig<'_>, processor: usize) -> CpuIx {
    let position = rig.cpus.iter().position(|cpu| *cpu == processor);
    CpuIx(position.and_then(|position| u16::try_from(position).ok()).unwrap_or(u16::MAX))
}
