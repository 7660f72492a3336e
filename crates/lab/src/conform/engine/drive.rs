//! The clock, the packets and the threads of a run.

use std::sync::Mutex;
use std::time::Duration;

use napier_core::time::{Instant, Span};
use napier_sim::scenario::{Action, Call, Check, Event, Packets, Seen, Target, ThreadIx};

use super::check::Looked;
use super::log::Window;
use super::rig::{Rig, Wire};
use super::{Refused, calls, check, last_packet};

/// From the start of the threads to time zero.
const HEAD_START: Span = Span::from_ms(10);
/// The last part of a wait is spun: a sleeper wakes up late.
const SPIN: Span = Span::from_us(100);
/// Calls without end return this long after the end of the log.
const GRACE: Span = Span::from_ms(1);

/// What a run was, apart from what the engine recorded.
pub(super) struct Driven {
    pub(super) window: Window,
    /// Until when packets may wait, since time zero.
    pub(super) latest: Instant,
    /// Returns of calls.
    pub(super) returns: Vec<Seen>,
    /// Packets in the rings of each instance since it was made.
    pub(super) sent: Vec<u64>,
    /// What checks saw at their times.
    pub(super) looked: Vec<Looked>,
}

/// The clock of a run.
#[derive(Copy, Clone)]
pub(super) struct Pace<'r, 's> {
    rig: &'r Rig<'s>,
    pub(super) window: Window,
}

impl Pace<'_, '_> {
    pub(super) fn now_ns(self) -> u64 {
        self.rig.engine.now_ns()
    }

    /// Until the end of the log and a little, from now.
    pub(super) fn left(self) -> Duration {
        Duration::from_nanos((self.window.end_ns + GRACE.ns).saturating_sub(self.now_ns()).max(1))
    }

    /// Waits for a time of the scenario.
    fn wait_for(self, at: Instant) {
        self.wait_until(self.window.start_ns + at.ns);
    }

    fn wait_until(self, until_ns: u64) {
        loop {
            let left = until_ns.saturating_sub(self.now_ns());
            if left == 0 {
                return;
            }
            if left > SPIN.ns {
                std::thread::sleep(Duration::from_nanos(left - SPIN.ns));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

/// What the thread of the run does, in order.
enum Deed<'s> {
    Send(Target, u32),
    Look(&'s Check, u32),
}

/// Runs the timeline.
pub(super) fn run(rig: &Rig<'_>, wire: &Wire, end: Instant) -> Result<Driven, Refused> {
    let scenario = rig.scenario;
    let primed = super::log::states(rig, &rig.engine.journal().records, u64::MAX);
    let start_ns = rig.engine.now_ns() + HEAD_START.ns;
    let window = Window { start_ns, end_ns: start_ns + end.ns };
    let pace = Pace { rig, window };
    let last = scenario.timeline.last().map_or(Instant::ZERO, |step| last_packet(step.at, &step.action));
    let mut driven = Driven {
        window,
        latest: last + scenario.expect.settle,
        returns: Vec::new(),
        sent: primed.iter().map(|known| known.taken).collect(),
        looked: Vec::new(),
    };
    let returns = Mutex::new(Vec::new());
    let refusals = Mutex::new(None);
    std::thread::scope(|scope| {
        for (position, thread) in (0..).zip(&scenario.machine.threads) {
            let calls = calls_of(rig, ThreadIx(position));
            if calls.is_empty() {
                continue;
            }
            let (returns, refusals) = (&returns, &refusals);
            scope.spawn(move || {
                let _counted = rig.engine.count_thread(&thread.name, rig.thread_cpu(thread.cpu));
                for (at, call) in calls {
                    pace.wait_for(at);
                    let made = calls::make(rig, pace, thread.cap_net_admin, call);
                    let Some(at) = window.place(pace.now_ns()) else { return };
                    match made {
                        Ok((answer, ready)) => {
                            let event = Event::Return { thread: ThreadIx(position), call: call.name(), answer, ready };
                            returns.lock().expect("no panic while held").push(Seen { at, event });
                        }
                        Err(refused) => {
                            *refusals.lock().expect("no panic while held") = Some(refused);
                            return;
                        }
                    }
                }
            });
        }
        for (at, deed) in deeds(rig) {
            pace.wait_for(at);
            match deed {
                Deed::Send(target, count) => {
                    let sent = wire.send(rig, target, count);
                    driven.sent[rig.napi_to(target).at()] += u64::from(sent);
                }
                Deed::Look(step, line) => driven.looked.push(check::look(rig, step, line, &driven.sent)),
            }
        }
        pace.wait_until(window.end_ns);
    });
    driven.returns = returns.into_inner().expect("no thread panicked");
    match refusals.into_inner().expect("no thread panicked") {
        Some(refused) => Err(refused),
        None => Ok(driven),
    }
}

fn calls_of<'s>(rig: &Rig<'s>, me: ThreadIx) -> Vec<(Instant, &'s Call)> {
    let calls = rig.scenario.timeline.iter().filter_map(|step| match &step.action {
        Action::Call { thread, call } if *thread == me => Some((step.at, call)),
        _ => None,
    });
    calls.collect()
}

/// Packets and checks, in order of time.
fn deeds<'s>(rig: &Rig<'s>) -> Vec<(Instant, Deed<'s>)> {
    let mut deeds = Vec::new();
    for step in &rig.scenario.timeline {
        match &step.action {
            Action::Packets(Packets { to, count, every, .. }) if every.is_zero() => {
                deeds.push((step.at, Deed::Send(*to, *count)));
            }
            Action::Packets(Packets { to, count, every, .. }) => {
                let times = (0..*count).map(|nth| step.at + Span::from_ns(every.ns * u64::from(nth)));
                deeds.extend(times.map(|at| (at, Deed::Send(*to, 1))));
            }
            Action::Check(check) => deeds.push((step.at, Deed::Look(check, step.line))),
            _ => {}
        }
    }
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}
