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
//! | `drive` | the clock, the packets, the threads |
//! | `calls`, `control` | the calls, and how their answers are spelled |
//! | `log` | the journal as events, and the state of an instance at a time |
//! | `transmit` | sends by way of transmit queues, and what arrives |
//! | `check` | steps that look at something |
//! | `counters` | counters under the names of scenarios |
//! | `waits` | how long threads waited for a processor |

mod calls;
mod check;
mod control;
mod counters;
mod drive;
mod log;
mod refuse;
mod refuse_tx;
mod rig;
mod transmit;
mod waits;
mod wire;

use napier_core::time::{Instant, Span};
use napier_runtime::RealTime;
use napier_scenario::compare::Clock;
use napier_scenario::{Kind, Pattern, Scenario};

use super::{Executor, Observed, Refused};
use drive::Driven;
use rig::Rig;

/// Enough after the last thing that is expected to see what nobody expects.
pub(super) const AFTER_LAST: Span = Span::from_ms(30);
/// How long after the end of the log a packet may still wait for a timer.
const DRAIN_STEP: std::time::Duration = std::time::Duration::from_millis(2);

/// Of all threads of a run but the softirq ones, which have more.
const PRIORITY: i32 = 10;

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
        let (rig, wire) = Rig::build(scenario, cpus)?;
        let before = counters::Reading::take(&rig);
        let waits = waits::Waits::now();
        let driven = drive::run(&rig, &wire, end(scenario, self.after_last))?;
        transmit::check_noted(&rig)?;
        let disturbed = disturbed(scenario, &driven, &waits);
        let counters = counters::since(&rig, &before, &driven)?;
        let broken = broken(&rig, &driven);
        let journal = rig.engine.journal();
        if journal.lost > 0 {
            return Err(refused("more happened than the journal of the engine can hold"));
        }
        let mut events = log::events(&rig, &journal.records, driven.window);
        events.extend(check::failures(&rig, &journal.records, &driven)?);
        events.extend(rig.transmits.events(driven.window));
        events.extend(driven.tx_failures);
        events.extend(driven.returns);
        events.sort_by_key(|seen| seen.at);
        Ok(Observed { events, counters, broken, disturbed })
    }
}

pub(super) fn refused(why: impl Into<String>) -> Refused {
    Refused { why: why.into() }
}

/// The kinds of events that a run in real time is judged by.
fn watched(scenario: &Scenario) -> &[Kind] {
    scenario.engine.watch.as_ref().unwrap_or(&scenario.expect.watch)
}

/// When the log ends: what is expected last, and a little, but no later than the scenario has it.
pub(super) fn end(scenario: &Scenario, after_last: Span) -> Instant {
    let last_step = scenario.timeline.last().map_or(Instant::ZERO, |step| last_packet(step.at, &step.action));
    let mut last = last_step;
    for expected in &scenario.expect.events {
        // A timer that is started is waited for, wherever its expiry stands in the file.
        let after = expected.fields.iter().find_map(|(_, pattern)| match pattern {
            Pattern::Span(span) => Some(*span),
            _ => None,
        });
        last = last.max(expected.at.unwrap_or(last));
        if expected.kind == Kind::TimerStart {
            last += after.unwrap_or(Span::ZERO);
        }
    }
    let latest = last_step + scenario.expect.settle;
    (last + after_last).min(latest)
}

pub(super) fn last_packet(at: Instant, action: &napier_scenario::Action) -> Instant {
    match action {
        napier_scenario::Action::Packets(packets) => {
            at + Span::from_ns(packets.every.ns.saturating_mul(u64::from(packets.count.saturating_sub(1))))
        }
        _ => at,
    }
}

/// What to say if the run came out wrong: that a thread waited for a processor longer than times may be off.
fn disturbed(scenario: &Scenario, driven: &Driven, waits: &waits::Waits) -> Option<String> {
    let others = waits.longest_since();
    let (name, waited) = others.into_iter().chain(driven.waited.clone()).max_by_key(|(_, waited)| *waited)?;
    #[expect(clippy::cast_precision_loss, reason = "a time for people")]
    let ms = waited.ns as f64 / 1e6;
    (waited > scenario.expect.tolerance.engine)
        .then(|| format!("the machine was busy: the thread {name} waited {ms:.1} ms for a processor"))
}

/// What must hold at the end: nobody who is masked is forgotten, and no packet waits for anybody who will not come.
fn broken(rig: &Rig<'_>, driven: &Driven) -> Option<String> {
    let until = driven.window.start_ns + driven.latest.ns;
    loop {
        let records = rig.engine.journal().records;
        let now = rig.engine.now_ns();
        let states = log::states(rig, &records, now);
        let wrong = states.iter().zip(&driven.sent).enumerate().find_map(|(napi, (state, sent))| {
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
