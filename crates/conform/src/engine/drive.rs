//! The clock, the packets and the threads of a run.

use std::sync::Mutex;
use std::time::Duration;

use napier_core::time::{Instant, Span};
use napier_scenario::{Action, Call, Check, Event, Packets, Seen, Target, ThreadIx, TxCheck};

use super::check::Looked;
use super::log::Window;
use super::rig::Rig;
use super::waits::own_wait;
use super::wire::{Sending, Wire};
use super::{Refused, calls, check, last_packet, transmit};

/// From the start of the threads to time zero.
const HEAD_START: Span = Span::from_ms(10);
/// A jiffy of the engine.
const JIFFY: Span = Span::from_ms(1);
/// The last part of a wait is spun: a sleeper wakes up late.
const SPIN: Span = Span::from_us(100);
/// How often is looked at what has come.
const TAKE_EVERY: Span = Span::from_us(50);
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
    /// Checks of the transmit side that did not hold.
    pub(super) tx_failures: Vec<Seen>,
    /// The scenario's thread that waited longest for a processor, and for how long.
    pub(super) waited: Option<(String, Span)>,
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

    /// Waits for a time of the scenario; how late it is then. Whoever comes too late to wait was busy with what came
    /// before, and that is not late.
    fn wait_for(self, at: Instant) -> Span {
        let until_ns = self.window.start_ns + at.ns;
        if self.now_ns() >= until_ns {
            return Span::ZERO;
        }
        self.wait_until(until_ns);
        Span::from_ns(self.now_ns() - until_ns)
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
    Send(Target, u32, Sending),
    Look(&'s Check, u32),
    LookTx(&'s TxCheck, u32),
}

/// What the threads of a run tell it.
#[derive(Default)]
struct Told {
    returns: Vec<Seen>,
    refused: Option<Refused>,
    /// What was done latest after its time: that time, and by how much.
    late: Option<(Instant, Span)>,
    /// Who waited longest for a processor.
    waited: Option<(String, Span)>,
}

impl Told {
    fn has_waited(&mut self, name: &str, waited: Span) {
        if self.waited.as_ref().is_none_or(|(_, most)| waited > *most) {
            self.waited = Some((name.to_owned(), waited));
        }
    }

    fn was_late(&mut self, at: Instant, by: Span) {
        if self.late.is_none_or(|(_, most)| by > most) {
            self.late = Some((at, by));
        }
    }
}

/// Runs the timeline.
///
/// # Errors
/// A call turned out not to be one of the engine's, or the machine was too busy to keep the times of the timeline.
pub(super) fn run(rig: &Rig<'_>, wire: &Wire, end: Instant) -> Result<Driven, Refused> {
    let scenario = rig.scenario;
    let primed = super::log::states(rig, &rig.engine.journal().records, u64::MAX);
    // Time zero begins a jiffy, as in the virtual machine.
    let start_ns = (rig.engine.now_ns() + HEAD_START.ns).next_multiple_of(JIFFY.ns);
    let window = Window { start_ns, end_ns: start_ns + end.ns };
    let pace = Pace { rig, window };
    let last = scenario.timeline.last().map_or(Instant::ZERO, |step| last_packet(step.at, &step.action));
    let mut driven = Driven {
        window,
        latest: last + scenario.expect.settle,
        returns: Vec::new(),
        sent: primed.iter().map(|known| known.taken).collect(),
        looked: Vec::new(),
        tx_failures: Vec::new(),
        waited: None,
    };
    let told = Mutex::new(Told::default());
    std::thread::scope(|scope| {
        for thread in (0..).map(ThreadIx).take(scenario.machine.threads.len()) {
            let calls = calls_of(rig, thread);
            if !calls.is_empty() {
                let told = &told;
                scope.spawn(move || make_calls(rig, pace, thread, calls, told));
            }
        }
        for (at, deed) in deeds(rig) {
            take_until(rig, wire, pace, window.start_ns + at.ns);
            pace.wait_for(at);
            match deed {
                Deed::Send(target, count, how) => {
                    let sent = wire.send(rig, target, count, how);
                    driven.sent[rig.napi_to(target).at()] += u64::from(sent);
                }
                Deed::LookTx(step, line) => {
                    let at = window.place(rig.engine.now_ns());
                    if let (Some((expected, seen)), Some(at)) = (transmit::look(rig, step), at) {
                        driven.tx_failures.push(Seen { at, event: Event::CheckFailed { line, expected, seen } });
                    }
                }
                Deed::Look(step, line) => driven.looked.push(check::look(rig, step, line, &driven.sent)),
            }
            let late = Span::from_ns(pace.now_ns() - window.start_ns - at.ns);
            told.lock().expect("no panic while held").was_late(at, late);
        }
        take_until(rig, wire, pace, window.end_ns);
        pace.wait_until(window.end_ns);
    });
    let told = told.into_inner().expect("no thread panicked");
    if let Some(refused) = told.refused {
        return Err(refused);
    }
    match told.late {
        Some((at, by)) if by > scenario.expect.tolerance.engine && timed(rig) => Err(too_busy(at, by)),
        _ => {
            driven.returns = told.returns;
            driven.waited = told.waited;
            Ok(driven)
        }
    }
}

/// Takes what the devices transmit until then, if they do.
fn take_until(rig: &Rig<'_>, wire: &Wire, pace: Pace<'_, '_>, until_ns: u64) {
    if !transmit::is_part_of(rig.scenario) {
        return;
    }
    wire.take(rig);
    while pace.now_ns() + TAKE_EVERY.ns < until_ns {
        std::thread::sleep(Duration::from_nanos(TAKE_EVERY.ns));
        wire.take(rig);
    }
}

/// Whether it matters when things are done: not if one thread makes calls and nobody asks when they return.
fn timed(rig: &Rig<'_>) -> bool {
    let scenario = rig.scenario;
    let watched = super::watched(scenario);
    let asked = scenario.expect.events.iter().any(|expected| watched.contains(&expected.kind) && expected.at.is_some());
    let callers = (0..).map(ThreadIx).take(scenario.machine.threads.len());
    let callers = callers.filter(|thread| !calls_of(rig, *thread).is_empty()).count();
    asked || callers > 1 || !deeds(rig).is_empty()
}

#[expect(clippy::cast_precision_loss, reason = "a time for people")]
fn too_busy(at: Instant, by: Span) -> Refused {
    let ms = |ns: u64| ns as f64 / 1e6;
    super::refused(format!(
        "this machine is too busy: what is due at {:.1} ms was done {:.1} ms late; run it on a quiet one, or where \
         real-time scheduling is allowed (CAP_SYS_NICE)",
        ms(at.ns),
        ms(by.ns)
    ))
}

/// A thread of the scenario.
fn make_calls(rig: &Rig<'_>, pace: Pace<'_, '_>, me: ThreadIx, calls: Vec<(Instant, &Call)>, told: &Mutex<Told>) {
    let thread = &rig.scenario.machine.threads[me.at()];
    let _counted = rig.engine.count_thread(&thread.name, rig.thread_cpu(thread.cpu));
    for (at, call) in calls {
        let late = pace.wait_for(at);
        let make = || calls::make(rig, pace, thread.cap_net_admin, call);
        let made = match call {
            Call::Send(sending) => transmit::send(rig, pace, me, sending),
            Call::Down { device } | Call::Up { device } => transmit::switch(rig, *device, make),
            _ => make(),
        };
        let returned = pace.window.place(pace.now_ns());
        let mut told = told.lock().expect("no panic while held");
        told.was_late(at, late);
        told.has_waited(&thread.name, own_wait());
        match (made, returned) {
            (Err(refused), _) => {
                told.refused = Some(refused);
                return;
            }
            (Ok(_), None) => return,
            (Ok((answer, ready)), Some(at)) => {
                told.returns.push(Seen { at, event: Event::Return { thread: me, call: call.name(), answer, ready } });
            }
        }
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
            Action::Packets(packets @ Packets { to, count, every, .. }) if every.is_zero() => {
                deeds.push((step.at, Deed::Send(*to, *count, Sending::of(packets))));
            }
            Action::Packets(packets @ Packets { to, count, every, own_flow, .. }) => {
                deeds.extend((0..*count).map(|nth| {
                    let first = Sending::of(packets);
                    let how = Sending { flow: first.flow + if *own_flow { nth } else { 0 }, ..first };
                    (step.at + Span::from_ns(every.ns * u64::from(nth)), Deed::Send(*to, 1, how))
                }));
            }
            Action::Check(check) => deeds.push((step.at, Deed::Look(check, step.line))),
            Action::CheckTx(check) => deeds.push((step.at, Deed::LookTx(check, step.line))),
            _ => {}
        }
    }
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}
