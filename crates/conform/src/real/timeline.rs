//! The timeline of a scenario, gone through in real time: each thread makes its calls at their times, and the thread of the run does
//! the rest in order.

use std::collections::BTreeSet;
use std::sync::Mutex;

use napier_core::time::{Instant, Span};
use napier_scenario::{Action, Call, Check, Event, Kind, Packets, Pattern, Scenario, Seen, ThreadIx, TxCheck};

use super::answers::Made;
use super::clock::{RunPace, RunWindow};
use crate::Refused;

/// Enough after the last thing that is expected to see what no file expects.
pub(crate) const AFTER_LAST: Span = Span::from_ms(30);

/// What makes the calls of a scenario's threads.
pub(crate) trait Calls: Sync {
    /// What a thread has for as long as it makes calls.
    type Begun<'c>
    where
        Self: 'c;

    /// The calling thread is one of the scenario's from now on.
    ///
    /// # Errors
    /// It cannot be.
    fn begin(&self, me: ThreadIx) -> Result<Self::Begun<'_>, Refused>;

    /// Waits for the time of a call, and makes it.
    fn make(&self, pace: RunPace<'_>, me: ThreadIx, at: Instant, call: &Call) -> Returned;
}

/// A call that was made.
pub(crate) struct Returned {
    pub(crate) made: Made,
    /// By how much it was begun after its time.
    pub(crate) late: Span,
    /// When it returned, if the log goes on for so long.
    pub(crate) at: Option<Instant>,
    /// What else was seen by it.
    pub(crate) beside: Vec<Seen>,
}

/// What the thread of the run does.
#[derive(Copy, Clone)]
pub(crate) enum Deed<'s> {
    /// Sends so many packets of a step, beginning with the `nth` of it.
    Send { packets: &'s Packets, nth: u32, count: u32 },
    /// Looks at an instance, a socket, an event context.
    Look(&'s Check, u32),
    /// Looks at a transmit queue.
    LookTx(&'s TxCheck, u32),
}

/// What came of a timeline, apart from what was recorded elsewhere.
pub(crate) struct Driven {
    pub(crate) window: RunWindow,
    /// Returns of calls.
    pub(crate) returns: Vec<Seen>,
    /// Checks that did not hold.
    pub(crate) failures: Vec<Seen>,
    /// What was done latest after its time: that time, and by how much.
    late: Option<(Instant, Span)>,
}

/// What the threads of a run report.
#[derive(Default)]
struct Notes {
    returns: Vec<Seen>,
    refused: Option<Refused>,
    late: Option<(Instant, Span)>,
}

impl Notes {
    fn was_late(&mut self, at: Instant, by: Span) {
        if self.late.is_none_or(|(_, most)| by > most) {
            self.late = Some((at, by));
        }
    }
}

/// Runs the timeline. `until` goes on with what has to be done all the time, until a time of the clock; `act` carries out a deed, and
/// returns both sides of a check that does not hold.
///
/// # Errors
/// A call turned out not to be one that can be made, or a deed cannot be done.
pub(crate) fn run(
    scenario: &Scenario,
    calls: &impl Calls,
    pace: RunPace<'_>,
    mut until: impl FnMut(u64),
    mut act: impl FnMut(Deed<'_>) -> Result<Option<(String, String)>, Refused>,
) -> Result<Driven, Refused> {
    let window = pace.window;
    let notes = Mutex::new(Notes::default());
    let mut failures = Vec::new();
    let done = std::thread::scope(|scope| {
        for thread in (0..).map(ThreadIx).take(scenario.machine.threads.len()) {
            let own = calls_of(scenario, thread);
            if !own.is_empty() {
                let notes = &notes;
                scope.spawn(move || make_calls(calls, pace, thread, own, notes));
            }
        }
        for (at, deed) in deeds(scenario) {
            until(window.start_ns + at.ns);
            pace.wait_for(at);
            let looked_at = window.place(pace.now_ns()).unwrap_or(Instant::from_ns(window.end_ns - window.start_ns));
            if let (Some((expected, seen)), Deed::Look(_, line) | Deed::LookTx(_, line)) = (act(deed)?, deed) {
                failures.push(Seen { at: looked_at, event: Event::CheckFailed { line, expected, seen } });
            }
            let late = Span::from_ns(pace.now_ns() - window.start_ns - at.ns);
            notes.lock().expect("no panic while held").was_late(at, late);
        }
        until(window.end_ns);
        pace.wait_until(window.end_ns);
        Ok(())
    });
    let notes = notes.into_inner().expect("no thread panicked");
    done?;
    match notes.refused {
        Some(refused) => Err(refused),
        None => Ok(Driven { window, returns: notes.returns, failures, late: notes.late }),
    }
}

impl Driven {
    /// Refuses a run in which something was done too late; `advice` is what helps.
    ///
    /// # Errors
    /// See above.
    #[expect(clippy::cast_precision_loss, reason = "a time for people")]
    pub(crate) fn in_time(&self, tolerance: Span, advice: &str) -> Result<(), Refused> {
        let Some((at, by)) = self.late.filter(|(_, by)| *by > tolerance) else { return Ok(()) };
        let ms = |ns: u64| ns as f64 / 1e6;
        let (at, by) = (ms(at.ns), ms(by.ns));
        let why = format!("this machine is too busy: what is due at {at:.1} ms was done {by:.1} ms late; {advice}");
        Err(Refused { why, is_late: true })
    }
}

/// A thread of the scenario.
fn make_calls<C: Calls>(calls: &C, pace: RunPace<'_>, me: ThreadIx, own: Vec<(Instant, &Call)>, notes: &Mutex<Notes>) {
    let _begun = match calls.begin(me) {
        Ok(begun) => begun,
        Err(refused) => {
            notes.lock().expect("no panic while held").refused = Some(refused);
            return;
        }
    };
    for (at, call) in own {
        let returned = calls.make(pace, me, at, call);
        let mut notes = notes.lock().expect("no panic while held");
        notes.was_late(at, returned.late);
        notes.returns.extend(returned.beside);
        match (returned.made, returned.at) {
            (Err(refused), _) => {
                notes.refused = Some(refused);
                return;
            }
            (Ok(_), None) => {
                // It returned after the end of the log. Of one that waits for nothing, this machine kept it from running.
                if is_prompt(call) {
                    notes.was_late(at, Span::from_ns(pace.now_ns().saturating_sub(pace.window.start_ns + at.ns)));
                }
                return;
            }
            (Ok((answer, ready)), Some(at)) => {
                notes.returns.push(Seen { at, event: Event::Return { thread: me, call: call.name(), answer, ready } });
            }
        }
    }
}

/// Whether a call asks or sets something, and waits for no packet, no event and no poll.
fn is_prompt(call: &Call) -> bool {
    match call {
        Call::NapiGet { .. } | Call::NapiDump { .. } | Call::QueueGet { .. } | Call::Read { .. } => true,
        Call::Socket { .. } | Call::SetSockOpt { .. } | Call::GetSockOpt { .. } | Call::Ioctl { .. } => true,
        Call::EpollSetParams { .. } | Call::EpollGetParams { .. } => true,
        // These may wait for who polls, or for a lock that is held meanwhile.
        Call::NapiSet { .. } | Call::Write { .. } | Call::Sysctl { .. } | Call::Up { .. } | Call::Down { .. } => false,
        Call::EpollAdd { .. } | Call::EpollMod { .. } | Call::EpollDel { .. } | Call::EpollClose { .. } => false,
        Call::Recv { .. } | Call::EpollWait { .. } | Call::Poll { .. } | Call::BusyLoop { .. } => false,
        Call::SetQueues { .. } | Call::Delete { .. } | Call::Send(_) => false,
        Call::Deactivate { .. } | Call::Activate { .. } | Call::Group(_) => false,
    }
}

/// The calls of a thread, in order.
pub(crate) fn calls_of(scenario: &Scenario, me: ThreadIx) -> Vec<(Instant, &Call)> {
    let calls = scenario.timeline.iter().filter_map(|step| match &step.action {
        Action::Call { thread, call } if *thread == me => Some((step.at, call)),
        _ => None,
    });
    calls.collect()
}

/// Packets and checks, in order of time.
pub(crate) fn deeds(scenario: &Scenario) -> Vec<(Instant, Deed<'_>)> {
    let mut deeds = Vec::new();
    for step in &scenario.timeline {
        match &step.action {
            Action::Packets(packets) if packets.every.is_zero() => {
                deeds.push((step.at, Deed::Send { packets, nth: 0, count: packets.count }));
            }
            Action::Packets(packets) => {
                let at = |nth: u32| step.at + Span::from_ns(packets.every.ns * u64::from(nth));
                deeds.extend((0..packets.count).map(|nth| (at(nth), Deed::Send { packets, nth, count: 1 })));
            }
            Action::Check(check) => deeds.push((step.at, Deed::Look(check, step.line))),
            Action::CheckTx(check) => deeds.push((step.at, Deed::LookTx(check, step.line))),
            _ => {}
        }
    }
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}

/// When packets of the timeline may last wait, since time zero.
pub(crate) fn latest(scenario: &Scenario) -> Instant {
    scenario.timeline.last().map_or(Instant::ZERO, |step| last_packet(step.at, &step.action)) + scenario.expect.settle
}

/// The shortest time between two steps that are not due at once, if there are such.
pub(crate) fn shortest_gap(scenario: &Scenario) -> Option<Span> {
    let steps: BTreeSet<u64> = scenario.timeline.iter().map(|step| step.at.ns).collect();
    let gaps = steps.iter().zip(steps.iter().skip(1)).map(|(step, next)| next - step);
    gaps.min().map(Span::from_ns)
}

/// When the log ends: what is expected last, and a little, but no later than the scenario has it.
pub(crate) fn end(scenario: &Scenario, after_last: Span) -> Instant {
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

fn last_packet(at: Instant, action: &Action) -> Instant {
    match action {
        Action::Packets(packets) => {
            at + Span::from_ns(packets.every.ns.saturating_mul(u64::from(packets.count.saturating_sub(1))))
        }
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each call returns after the end.
    struct Endless;

    impl Calls for Endless {
        type Begun<'c> = ();

        fn begin(&self, _: ThreadIx) -> Result<(), Refused> {
            Ok(())
        }

        fn make(&self, _: RunPace<'_>, _: ThreadIx, _: Instant, _: &Call) -> Returned {
            Returned {
                made: Ok((napier_scenario::Answer::Number(0), Vec::new())),
                late: Span::ZERO,
                at: None,
                beside: Vec::new(),
            }
        }
    }

    #[test]
    fn a_machine_that_kept_a_call_from_returning_was_late() {
        let of = |call: &str| {
            let text = format!(
                "title = \"t\"\n[[device]]\nname = \"eth0\"\n[[socket]]\nname = \"rx\"\n[timeline]\nsteps = [{{ at = \"1ms\", {call} }}]\n\
                 [expect]\nwatch = [\"return\"]\nevents = []\n"
            );
            let scenario = Scenario::parse(&text, "x").expect("a scenario");
            let now_ns = || 50_000_000;
            let pace = RunPace::new(RunWindow { start_ns: 0, end_ns: 40_000_000 }, &now_ns);
            let driven = run(&scenario, &Endless, pace, |_| (), |_| Ok(None)).expect("gone through");
            driven.in_time(Span::from_ms(2), "").map_err(|refused| refused.is_late)
        };
        assert_eq!(of("call = \"napi-get\", napi = \"eth0/0\""), Err(true));
        assert_eq!(of("call = \"recv\", socket = \"rx\""), Ok(()), "it waits for a packet");
    }
}
