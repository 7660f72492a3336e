//! The packets, the checks and the threads of a run.

use std::sync::Mutex;
use std::time::Duration;

use napier_core::time::{Instant, Span};
use napier_scenario::{Call, ThreadIx};

use super::check::{Looked, look};
use super::flows::is_part_of;
use super::rig::EngineRig;
use super::waits::own_wait;
use super::wire::{LinkWire, Sending};
use super::{calls, log, transmit, watched};
use crate::Refused;
use crate::real::clock::{HEAD_START, RunPace, RunWindow};
use crate::real::timeline::{self, Calls, Deed, Driven, Returned};

/// A jiffy of the engine.
const JIFFY: Span = Span::from_ms(1);
/// How often is looked at what has come.
const TAKE_EVERY: Span = Span::from_us(50);

/// What a run was, apart from what the engine recorded.
pub(super) struct EngineRun {
    pub(super) driven: Driven,
    /// Packets in the rings of each instance since it was made.
    pub(super) sent: Vec<u64>,
    /// What checks saw at their times.
    pub(super) looked: Vec<Looked>,
    /// The scenario's thread that waited longest for a processor, and for how long.
    pub(super) waited: Option<(String, Span)>,
}

/// The scenario's threads.
struct Threads<'r, 's> {
    rig: &'r EngineRig<'s>,
    waited: Mutex<Option<(String, Span)>>,
}

impl Calls for Threads<'_, '_> {
    type Begun<'c>
        = napier_runtime::engine::CountedThread<'c>
    where
        Self: 'c;

    fn begin(&self, me: ThreadIx) -> Result<Self::Begun<'_>, Refused> {
        let thread = &self.rig.scenario.machine.threads[me.at()];
        Ok(self.rig.engine.count_thread(&thread.name, self.rig.thread_cpu(thread.cpu)))
    }

    fn make(&self, pace: RunPace<'_>, me: ThreadIx, at: Instant, call: &Call) -> Returned {
        let thread = &self.rig.scenario.machine.threads[me.at()];
        let late = pace.wait_for(at);
        let make = || calls::make(self.rig, pace, thread.cap_net_admin, call);
        let made = match call {
            Call::Send(sending) => transmit::send(self.rig, pace, me, sending),
            Call::Down { device } | Call::Up { device } => transmit::switch(self.rig, *device, make),
            _ => make(),
        };
        let returned = pace.window.place(pace.now_ns());
        let waited = own_wait();
        let mut most = self.waited.lock().expect("no panic while held");
        if most.as_ref().is_none_or(|(_, most)| waited > *most) {
            *most = Some((thread.name.clone(), waited));
        }
        Returned { made, late, at: returned, beside: Vec::new() }
    }
}

/// Runs the timeline.
///
/// # Errors
/// A call turned out not to be one of the engine's, or the machine was too busy to keep the times of the timeline.
pub(super) fn run(rig: &EngineRig<'_>, wire: &LinkWire, end: Instant) -> Result<EngineRun, Refused> {
    let scenario = rig.scenario;
    let primed = log::states(rig, &rig.engine.journal().records, u64::MAX);
    // Time zero begins a jiffy, as in the virtual machine.
    let start_ns = (rig.engine.now_ns() + HEAD_START.ns).next_multiple_of(JIFFY.ns);
    let window = RunWindow { start_ns, end_ns: start_ns + end.ns };
    let now_ns = || rig.engine.now_ns();
    let pace = RunPace::new(window, &now_ns);
    let mut sent: Vec<u64> = primed.iter().map(|known| known.taken).collect();
    let mut looked = Vec::new();
    let threads = Threads { rig, waited: Mutex::new(None) };
    let act = |deed: Deed<'_>| {
        match deed {
            Deed::Send { packets, nth, count } => {
                let found_room = wire.send(rig, packets.to, count, Sending::of(packets, nth));
                sent[rig.napi_to(packets.to).at()] += u64::from(found_room);
            }
            Deed::LookTx(step, _) => return Ok(transmit::look(rig, step)),
            Deed::Look(step, line) => looked.push(look(rig, step, line, &sent)),
        }
        Ok(None)
    };
    let driven = timeline::run(scenario, &threads, pace, |until_ns| take_until(rig, wire, pace, until_ns), act)?;
    if timed(rig) {
        let advice = "run it on a quiet one, or where real-time scheduling is allowed (CAP_SYS_NICE)";
        driven.in_time(scenario.expect.tolerance.engine, advice)?;
    }
    let waited = threads.waited.into_inner().expect("no thread panicked");
    Ok(EngineRun { driven, sent, looked, waited })
}

/// Takes what the devices transmit until then, if they do.
fn take_until(rig: &EngineRig<'_>, wire: &LinkWire, pace: RunPace<'_>, until_ns: u64) {
    if !is_part_of(rig.scenario) {
        return;
    }
    wire.take(rig);
    while pace.now_ns() + TAKE_EVERY.ns < until_ns {
        std::thread::sleep(Duration::from_nanos(TAKE_EVERY.ns));
        wire.take(rig);
    }
}

/// Whether it matters when things are done: not if one thread makes calls and no file asks when they return.
fn timed(rig: &EngineRig<'_>) -> bool {
    let scenario = rig.scenario;
    let watched = watched(scenario);
    let asked = scenario.expect.events.iter().any(|expected| watched.contains(&expected.kind) && expected.at.is_some());
    let callers = (0..).map(ThreadIx).take(scenario.machine.threads.len());
    let callers = callers.filter(|thread| !timeline::calls_of(scenario, *thread).is_empty()).count();
    asked || callers > 1 || !timeline::deeds(scenario).is_empty()
}
