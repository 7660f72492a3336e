//! The packets, the checks and the threads of a run.

use std::sync::Mutex;
use std::time::Duration;

use napier_core::time::{Instant, Span};
use napier_scenario::{Call, Event, NapiIx, NapiRef, Packets, Seen, Target, ThreadIx};
use rustix::thread::CapabilitySet;
use rustix::time::{ClockId, clock_gettime};

use super::addresses::{device_ix, pin};
use super::rig::KernelRig;
use super::wire::VethWire;
use super::{calls, check, control, napi, sets_threads};
use crate::Refused;
use crate::real::clock::{NS_PER_US, RunPace, RunWindow};
use crate::real::refused;
use crate::real::timeline::{self, Calls, Deed, Driven, Returned};

/// From one thing that is done meanwhile to the next.
const BETWEEN: Span = Span::from_ms(50);

/// `CLOCK_MONOTONIC`, which the kernel's record has too.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// What a run was, apart from what the kernel recorded.
pub(super) struct KernelRun {
    pub(super) driven: Driven,
    /// Threads that made calls: who polls without being in a softirq and is none of these is a thread of the kernel's.
    pub(super) callers: Vec<u32>,
    /// When threads began to poll without end, and when they ceased to, as far as calls did it; in us.
    modes: Vec<(u64, NapiIx, bool)>,
}

impl KernelRun {
    /// When threads that polled without end were told not to, in us. They poll on until they have seen it.
    pub(super) fn busy_ends(&self) -> impl Iterator<Item = (u64, NapiIx)> {
        self.modes.iter().filter(|(since, _, busy)| *since > 0 && !*busy).map(|(since, napi, _)| (*since, *napi))
    }

    /// Whether the thread of an instance is told to poll without end, at a time in us.
    pub(super) fn is_busy_thread(&self, napi: NapiIx, at_us: u64) -> bool {
        let modes = self.modes.iter().filter(|(since, of, _)| *of == napi && *since <= at_us);
        modes.max_by_key(|(since, ..)| *since).is_some_and(|(.., busy)| *busy)
    }
}

/// The scenario's threads.
struct Threads<'r, 's> {
    rig: &'r KernelRig<'s>,
    callers: Mutex<Vec<u32>>,
    modes: Mutex<Vec<(u64, NapiIx, bool)>>,
}

impl Calls for Threads<'_, '_> {
    type Begun<'c>
        = ()
    where
        Self: 'c;

    fn begin(&self, me: ThreadIx) -> Result<(), Refused> {
        let thread = &self.rig.scenario.machine.threads[me.at()];
        pin(self.rig.cpu(thread.cpu));
        let tid = u32::try_from(rustix::thread::gettid().as_raw_pid()).unwrap_or(0);
        self.callers.lock().expect("no panic while held").push(tid);
        if thread.cap_net_admin {
            return Ok(());
        }
        give_up_net_admin().map_err(|error| refused(format!("giving up CAP_NET_ADMIN: {error}")))
    }

    fn make(&self, pace: RunPace<'_>, _: ThreadIx, at: Instant, call: &Call) -> Returned {
        let rig = self.rig;
        let device = control::device_of(rig, call).unwrap_or(device_ix(0));
        // Before its time: entering takes a while.
        let entered = rig.end(device).netns().enter();
        let late = pace.wait_for(at);
        let before_us = pace.now_ns() / NS_PER_US;
        let had = sets_threads(call).then(|| threads(rig));
        let made = entered.map_err(|error| refused(error.to_string())).and_then(|()| calls::make(rig, pace, call));
        let returned = pace.window.place(pace.now_ns());
        let mut beside = Vec::new();
        if let Some(had) = had {
            follow_threads(rig, call, before_us, &mut self.modes.lock().expect("no panic while held"));
            // The kernel has no tracepoint that names a thread when it begins; napi-get shows that there is one.
            let began =
                (0..).map(NapiIx).zip(threads(rig).into_iter().zip(had)).filter(|(_, (now, had))| *now && !*had);
            let begun = |napi| Some(Seen { at: returned?, event: Event::KthreadStart { napi } });
            beside.extend(began.filter_map(|(napi, _)| begun(napi)));
        }
        Returned { made, late, at: returned, beside }
    }
}

/// Runs the timeline, which begins in `head` from now. `late_max`: how late something may be done, if that is looked at; `meanwhile` is done
/// again and again while nothing is due.
///
/// # Errors
/// A call turned out not to be one that can be made, or the machine was too busy to keep the times of the timeline.
pub(super) fn run(
    rig: &KernelRig<'_>,
    wire: &VethWire,
    end: Instant,
    late_max: Option<Span>,
    head: Span,
    mut meanwhile: impl FnMut(),
) -> Result<KernelRun, Refused> {
    let start_ns = now_ns() + head.ns;
    let pace = RunPace::new(RunWindow { start_ns, end_ns: start_ns + end.ns }, &now_ns);
    let threads = Threads { rig, callers: Mutex::default(), modes: Mutex::new(modes_at_first(rig)) };
    let act = |deed: Deed<'_>| match deed {
        Deed::Send { packets: Packets { to: Target::Socket(socket), loopback: true, .. }, count, .. } => {
            VethWire::send_local(rig, socket.at(), count).map(|()| None)
        }
        Deed::Send { packets, count, .. } => wire.send(rig, packets.to, count).map(|()| None),
        Deed::Look(step, _) => Ok(check::look(rig, step)),
        // Scenarios with transmit queues are refused.
        Deed::LookTx(..) => Ok(None),
    };
    // Where there is time until the next step.
    let until = |until_ns: u64| {
        let mut took_ns = 0;
        while now_ns() + 2 * (BETWEEN.ns + took_ns) < until_ns {
            std::thread::sleep(Duration::from_nanos(BETWEEN.ns));
            let begun_ns = now_ns();
            meanwhile();
            took_ns = took_ns.max(now_ns() - begun_ns);
        }
    };
    let driven = timeline::run(rig.scenario, &threads, pace, until, act)?;
    if let Some(late_max) = late_max {
        driven.in_time(late_max, "run it on a quiet one, or say how slowly (--order-only --stretch)")?;
    }
    let (callers, modes) = (threads.callers.into_inner(), threads.modes.into_inner());
    let (callers, modes) = (callers.expect("no thread panicked"), modes.expect("no thread panicked"));
    Ok(KernelRun { driven, callers, modes })
}

/// Which instances have a thread.
fn threads(rig: &KernelRig<'_>) -> Vec<bool> {
    let napis = (0..rig.scenario.machine.napis()).map(NapiIx);
    let has = |instance| {
        let (device, _) = rig.scenario.machine.queue_of(instance);
        let id = rig.id(instance);
        rig.end(device)
            .netns()
            .run(|| napi::thread_of(id))
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

fn modes_at_first(rig: &KernelRig<'_>) -> Vec<(u64, NapiIx, bool)> {
    let machine = &rig.scenario.machine;
    let busy = |napi: NapiIx| {
        let device = &machine.devices[machine.queue_of(napi).0.at()];
        device.threaded == napier_core::control::ThreadedSetting::BusyPoll
    };
    (0..machine.napis()).map(NapiIx).map(|napi| (0, napi, busy(napi))).collect()
}

/// Notes what a call did to the mode of threads, and moves those that it made to their CPUs.
fn follow_threads(rig: &KernelRig<'_>, call: &Call, at_us: u64, modes: &mut Vec<(u64, NapiIx, bool)>) {
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
