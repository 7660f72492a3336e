//! The executor in real time: the engine of `napier-runtime`, with real threads, timers and packets.
//!
//! One engine per scenario, with its journal on; the link of each device has the test as its other end. Each thread of
//! the scenario is a thread of the operating system that makes its calls at their times; the thread of the run sends
//! the packets and makes the checks. What is reported was recorded by the engine or returned by it. A scenario that
//! asks for anything else is refused.
//!
//! | file | holds |
//! |---|---|
//! | `refuse`, `refuse_tx` | what cannot be done, found before anything is started |
//! | `rig` | engine, devices, sockets, event contexts as the scenario has them at time zero |
//! | `build`, `addresses` | how it gets there |
//! | `drive` | the packets, the checks, the threads |
//! | `calls`, `control` | the calls, and how their answers are spelled |
//! | `log` | the journal as events, and the state of an instance at a time |
//! | `transmit`, `flows` | sends by way of transmit queues, and what arrives |
//! | `check` | steps that look at something |
//! | `counters` | counters under the names of scenarios |
//! | `waits` | how long threads waited for a processor |

mod addresses;
mod build;
mod calls;
mod check;
mod control;
mod counters;
mod drive;
mod flows;
mod log;
mod refuse;
mod refuse_tx;
mod rig;
mod transmit;
mod waits;
mod wire;

use napier_core::time::Span;
use napier_runtime::RealTime;
use napier_scenario::compare::Clock;
use napier_scenario::{Kind, Scenario};

use super::real::timeline::{AFTER_LAST, end, latest};
use super::real::{PRIORITY, refused};
use super::{Executor, Observed, Refused};
use drive::EngineRun;
use rig::EngineRig;

/// How long after the end of the log a packet may still wait for a timer.
const DRAIN_STEP: std::time::Duration = std::time::Duration::from_millis(2);

/// Runs scenarios on the engine.
pub(super) struct RealEngine {
    /// How long the log goes on after the last thing that is expected.
    after_last: Span,
}

impl Default for RealEngine {
    fn default() -> Self {
        Self { after_last: AFTER_LAST }
    }
}

impl Executor for RealEngine {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn clock(&self) -> Clock {
        Clock::Real
    }

    fn run(&mut self, scenario: &Scenario) -> Result<Observed, Refused> {
        let cpus = napier_runtime::available_cpus();
        refuse::check(scenario, cpus.len())?;
        // All threads of the run, so that other programs do not move its times. Where it is not allowed the times are
        // looked at all the same, and a run that was late is refused.
        let _real_time = RealTime::begin(PRIORITY).ok();
        let (rig, wire) = EngineRig::build(scenario, cpus)?;
        let before = counters::EngineReading::take(&rig);
        let waits = waits::Waits::now();
        let run = drive::run(&rig, &wire, end(scenario, self.after_last))?;
        let window = run.driven.window;
        transmit::check_noted(&rig)?;
        let disturbed = disturbed(scenario, &run, &waits);
        let counters = counters::since(&rig, &before, window)?;
        let broken = broken(&rig, &run);
        let journal = rig.engine.journal();
        if journal.lost > 0 {
            return Err(refused("more happened than the journal of the engine can hold"));
        }
        let mut events = log::events(&rig, &journal.records, window);
        events.extend(check::failures(&rig, &journal.records, &run.looked, window)?);
        events.extend(rig.transmits.events(window));
        events.extend(run.driven.failures);
        events.extend(run.driven.returns);
        events.sort_by_key(|seen| seen.at);
        Ok(Observed { events, counters, broken, disturbed })
    }
}

/// The kinds of events that a run in real time is judged by.
fn watched(scenario: &Scenario) -> &[Kind] {
    scenario.engine.watch.as_ref().unwrap_or(&scenario.expect.watch)
}

/// What to say if the run came out wrong: that a thread waited for a processor longer than times may be off.
fn disturbed(scenario: &Scenario, run: &EngineRun, waits: &waits::Waits) -> Option<String> {
    let others = waits.longest_since();
    let (name, waited) = others.into_iter().chain(run.waited.clone()).max_by_key(|(_, waited)| *waited)?;
    #[expect(clippy::cast_precision_loss, reason = "a time for people")]
    let ms = waited.ns as f64 / 1e6;
    (waited > scenario.expect.tolerance.engine)
        .then(|| format!("the machine was busy: the thread {name} waited {ms:.1} ms for a processor"))
}

/// What must hold at the end: no instance that is masked is forgotten, and no packet waits for a poll that will not come.
fn broken(rig: &EngineRig<'_>, run: &EngineRun) -> Option<String> {
    let until = run.driven.window.start_ns + latest(rig.scenario).ns;
    loop {
        let records = rig.engine.journal().records;
        let now = rig.engine.now_ns();
        let states = log::states(rig, &records, now);
        let wrong = states.iter().zip(&run.sent).enumerate().find_map(|(napi, (state, sent))| {
            let name = rig.napi_name(napi);
            if state.forgotten() {
                return Some(format!("{name}: masked, without an owner, and nothing will poll it ({:?})", state.word));
            }
            let waits = rig.scenario.expect.drains && !state.word.is_disabled() && state.taken < *sent;
            waits.then(|| format!("{name}: at the end packets wait in the ring ({:?})", state.word))
        });
        if wrong.is_none() || now > until {
            return wrong;
        }
        std::thread::sleep(DRAIN_STEP);
    }
}

#[cfg(test)]
mod tests;
