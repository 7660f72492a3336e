//! The clock, the packets and the threads of a run.

use std::sync::Mutex;
use std::time::Duration;

use napier_core::time::{Instant, Span};
use napier_scenario::{Action, Call, Check, Event, NapiIx, NapiRef, Packets, Seen, Target, ThreadIx};
use rustix::thread::CapabilitySet;
use rustix::time::{ClockId, clock_gettime};

use super::rig::{Rig, pin};
use super::wire::Wire;
use super::{Refused, calls, check, control, refused, sets_threads};

/// From the start of the threads to time zero.
const HEAD_START: Span = Span::from_ms(10);
/// The last part of a wait is spun: a sleeper wakes up late.
const SPIN: Span = Span::from_us(100);
/// Calls without end return this long after the end of the log.
const GRACE: Span = Span::from_ms(1);
const NS_PER_US: u64 = 1000;

/// `CLOCK_MONOTONIC`, which the kernel's record has too.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// Time zero and the end.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Window {
    start_ns: u64,
    end_ns: u64,
}

impl Window {
    /// A time in the window as the scenario counts it.
    fn place(self, at_ns: u64) -> Option<Instant> {
        (self.start_ns..=self.end_ns).contains(&at_ns).then(|| Instant::from_ns(at_ns - self.start_ns))
    }

    /// The same of a time in whole microseconds, cut off.
    pub(super) fn place_us(self, at_us: u64) -> Option<Instant> {
        self.place((at_us * NS_PER_US).max(self.start_ns)).filter(|_| (at_us + 1) * NS_PER_US > self.start_ns)
    }
}

/// What a run was, apart from what the kernel recorded.
pub(super) struct Driven {
    pub(super) window: Window,
    /// Returns of calls.
    pub(super) returns: Vec<Seen>,
    /// Checks that did not hold.
    pub(super) failures: Vec<Seen>,
    /// Threads that made calls: who polls without being in a softirq and is none of these is a thread of the kernel's.
    pub(super) callers: Vec<u32>,
    /// When threads began to poll without end, and when they ceased to, as far as calls did it; in us.
    modes: Vec<(u64, NapiIx, bool)>,
}

impl Driven {
    /// Whether the thread of an instance is one that polls without end, at a time in us.
    pub(super) fn is_busy_thread(&self, napi: NapiIx, at_us: u64) -> bool {
        let modes = self.modes.iter().filter(|(since, of, _)| *of == napi && *since <= at_us);
        modes.max_by_key(|(since, ..)| *since).is_some_and(|(.., busy)| *busy)
    }
}

/// The clock of a run.
#[derive(Copy, Clone)]
pub(super) struct Pace {
    window: Window,
}

impl Pace {
    /// Until the end of the log and a little, from now.
    pub(super) fn left(self) -> Duration {
        Duration::from_nanos((self.window.end_ns + GRACE.ns).saturating_sub(now_ns()).max(1))
    }

    /// Waits for a time of the scenario; how late it is then. Who comes too late to wait was busy with what came before, and
    /// that is not late.
    fn wait_for(self, at: Instant) -> Span {
        let until_ns = self.window.start_ns + at.ns;
        if now_ns() >= until_ns {
            return Span::ZERO;
        }
        wait_until(until_ns);
        Span::from_ns(now_ns() - until_ns)
    }
}

fn wait_until(until_ns: u64) {
    loop {
        let left = until_ns.saturating_sub(now_ns());
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

/// What the thread of the run does, in order.
enum Deed<'s> {
    Send(Target, u32, bool),
    Look(&'s Check, u32),
}

/// What the threads of a run tell it.
#[derive(Default)]
struct Told {
    returns: Vec<Seen>,
    refused: Option<Refused>,
    callers: Vec<u32>,
    modes: Vec<(u64, NapiIx, bool)>,
    /// What was done latest after its time: that time, and by how much.
    late: Option<(Instant, Span)>,
}

impl Told {
    fn was_late(&mut self, at: Instant, by: Span) {
        if self.late.is_none_or(|(_, most)| by > most) {
            self.late = Some((at, by));
        }
    }
}

/// Runs the timeline. `tolerance`: how late something may be done, if times are compared.
///
/// # Errors
/// A call turned out not to be one that can be made, or the machine was too busy to keep the times of the timeline.
pub(super) fn run(rig: &Rig<'_>, wire: &Wire, end: Instant, tolerance: Option<Span>) -> Result<Driven, Refused> {
    let scenario = rig.scenario;
    // Where no times are compared, threads may take long to be there.
    let head_ns = if tolerance.is_some() { HEAD_START.ns } else { HEAD_START.ns * 10 };
    let start_ns = now_ns() + head_ns;
    let window = Window { start_ns, end_ns: start_ns + end.ns };
    let pace = Pace { window };
    let told = Mutex::new(Told { modes: modes_at_first(rig), ..Told::default() });
    let mut failures = Vec::new();
    let sent = std::thread::scope(|scope| {
        for thread in (0..).map(ThreadIx).take(scenario.machine.threads.len()) {
            let calls = calls_of(rig, thread);
            if !calls.is_empty() {
                let told = &told;
                scope.spawn(move || make_calls(rig, pace, thread, calls, told));
            }
        }
        for (at, deed) in deeds(rig) {
            pace.wait_for(at);
            match deed {
                Deed::Send(Target::Socket(socket), count, true) => Wire::send_local(rig, socket.at(), count)?,
                Deed::Send(target, count, _) => wire.send(rig, target, count)?,
                Deed::Look(step, line) => {
                    let at = window.place(now_ns()).unwrap_or(end);
                    if let Some((expected, seen)) = check::look(rig, step) {
                        failures.push(Seen { at, event: Event::CheckFailed { line, expected, seen } });
                    }
                }
            }
            let late = Span::from_ns(now_ns() - window.start_ns - at.ns);
            told.lock().expect("no panic while held").was_late(at, late);
        }
        wait_until(window.end_ns);
        Ok(())
    });
    let told = told.into_inner().expect("no thread panicked");
    sent?;
    if let Some(refused) = told.refused {
        return Err(refused);
    }
    if let (Some((at, by)), Some(tolerance)) = (told.late, tolerance)
        && by > tolerance
    {
        return Err(too_busy(at, by));
    }
    let Told { returns, callers, modes, .. } = told;
    Ok(Driven { window, returns, failures, callers, modes })
}

#[expect(clippy::cast_precision_loss, reason = "a time for people")]
fn too_busy(at: Instant, by: Span) -> Refused {
    let ms = |ns: u64| ns as f64 / 1e6;
    refused(format!(
        "this machine is too busy: what is due at {:.1} ms was done {:.1} ms late; run it on a quiet one, or give --order-only",
        ms(at.ns),
        ms(by.ns)
    ))
}

/// A thread of the scenario.
fn make_calls(rig: &Rig<'_>, pace: Pace, me: ThreadIx, calls: Vec<(Instant, &Call)>, told: &Mutex<Told>) {
    let thread = &rig.scenario.machine.threads[me.at()];
    pin(rig.cpu(thread.cpu));
    let tid = u32::try_from(rustix::thread::gettid().as_raw_pid()).unwrap_or(0);
    told.lock().expect("no panic while held").callers.push(tid);
    if !thread.cap_net_admin
        && let Err(error) = give_up_net_admin()
    {
        told.lock().expect("no panic while held").refused = Some(refused(format!("giving up CAP_NET_ADMIN: {error}")));
        return;
    }
    for (at, call) in calls {
        let device = control::device_of(rig, call).unwrap_or(super::rig::device_ix(0));
        // Before its time: entering takes a while.
        let entered = rig.end(device).netns().enter();
        let late = pace.wait_for(at);
        let before_us = now_ns() / NS_PER_US;
        let had = sets_threads(call).then(|| threads(rig));
        let made = entered.map_err(|error| refused(error.to_string())).and_then(|()| calls::make(rig, pace, call));
        let returned = pace.window.place(now_ns());
        let mut told = told.lock().expect("no panic while held");
        told.was_late(at, late);
        if let Some(had) = had {
            follow_threads(rig, call, before_us, &mut told.modes);
            // The kernel has no tracepoint that names a thread when it begins; napi-get shows that there is one.
            let began =
                (0..).map(NapiIx).zip(threads(rig).into_iter().zip(had)).filter(|(_, (now, had))| *now && !*had);
            let begun = |napi| Some(Seen { at: returned?, event: Event::KthreadStart { napi } });
            told.returns.extend(began.filter_map(|(napi, _)| begun(napi)));
        }
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

/// Which instances have a thread.
fn threads(rig: &Rig<'_>) -> Vec<bool> {
    let napis = (0..rig.scenario.machine.napis()).map(NapiIx);
    let has = |napi| {
        let (device, _) = rig.scenario.machine.queue_of(napi);
        let id = rig.id(napi);
        rig.end(device)
            .netns()
            .run(|| control::thread_of(id))
            .is_ok_and(|thread| thread.is_ok_and(|thread| thread.is_some()))
    };
    napis.map(has).collect()
}

/// The calling thread is no administrator of networks from now on.
fn give_up_net_admin() -> rustix::io::Result<()> {
    let mut sets = rustix::thread::capabilities(None)?;
    sets.effective.remove(CapabilitySet::NET_ADMIN);
    rustix::thread::set_capabilities(None, sets)
}

fn modes_at_first(rig: &Rig<'_>) -> Vec<(u64, NapiIx, bool)> {
    let machine = &rig.scenario.machine;
    let busy = |napi: NapiIx| {
        let device = &machine.devices[machine.queue_of(napi).0.at()];
        device.threaded == napier_core::control::ThreadedSetting::BusyPoll
    };
    (0..machine.napis()).map(NapiIx).map(|napi| (0, napi, busy(napi))).collect()
}

/// Notes what a call did to the mode of threads, and moves those that it made to their CPUs.
fn follow_threads(rig: &Rig<'_>, call: &Call, at_us: u64, modes: &mut Vec<(u64, NapiIx, bool)>) {
    let machine = &rig.scenario.machine;
    match call {
        Call::NapiSet { napi: NapiRef::Napi(napi), attributes } => {
            let threaded = attributes.iter().find(|(name, _)| name == "threaded");
            modes.extend(threaded.map(|(_, value)| (at_us, *napi, *value == 2)));
            let (device, queue) = machine.queue_of(*napi);
            let busy = threaded.is_some_and(|(_, value)| *value == 2);
            rig.place_thread(device, &machine.devices[device.at()], queue, busy);
        }
        Call::Write { device, .. } => {
            for queue in 0..machine.devices[device.at()].queues {
                modes.push((at_us, machine.napi(*device, queue), false));
                rig.place_thread(*device, &machine.devices[device.at()], queue, false);
            }
        }
        _ => {}
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
            Action::Packets(packets) if packets.every.is_zero() => {
                deeds.push((step.at, Deed::Send(packets.to, packets.count, packets.loopback)));
            }
            Action::Packets(Packets { to, count, every, loopback, .. }) => {
                let at = |nth: u32| step.at + Span::from_ns(every.ns * u64::from(nth));
                deeds.extend((0..*count).map(|nth| (at(nth), Deed::Send(*to, 1, *loopback))));
            }
            Action::Check(check) => deeds.push((step.at, Deed::Look(check, step.line))),
            _ => {}
        }
    }
    deeds.sort_by_key(|(at, _)| *at);
    deeds
}
