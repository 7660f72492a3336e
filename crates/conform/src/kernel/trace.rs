//! What the kernel records: static tracepoints in an instance of our own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use napier_core::time::Span;
use napier_linux::tracefs::{NAPI_POLL, Recorded, TraceError, TraceEvent, Tracepoint, Tracer};
use napier_scenario::{Action, DeviceIx, Kind, NapiIx, Scenario, Seen, SocketIx, Target};

use super::drive::KernelRun;
use super::order::{self, Deed, Noted};
use super::rig::KernelRig;
use super::{sets_threads, watches, wire};
use crate::Refused;
use crate::real::clock::NS_PER_US;
use crate::real::refused;
use crate::real::timeline;

const HRTIMER_START: Tracepoint = Tracepoint("timer", "hrtimer_start");
const HRTIMER_EXPIRE: Tracepoint = Tracepoint("timer", "hrtimer_expire_entry");
const HRTIMER_CANCEL: Tracepoint = Tracepoint("timer", "hrtimer_cancel");
const NETIF_RECEIVE_SKB: Tracepoint = Tracepoint("net", "netif_receive_skb");
const KTHREAD_STOP: Tracepoint = Tracepoint("sched", "sched_kthread_stop");

/// The function of an instance's timer: `net/core/dev.c`.
const NAPI_WATCHDOG: &str = "napi_watchdog";
/// Of each processor: some 100,000 polls of a busy loop.
const BUFFER_KIB: u32 = 16 << 10;
/// How long room is made at a time, and events that are taken at once: an emulated machine takes 50 ms for so many.
const ROOM_FOR: Duration = Duration::from_millis(50);
const AT_ONCE: u64 = 256;
/// The timer is a field of the instance, which is smaller than this: `include/linux/netdevice.h struct napi_struct`.
const INSTANCE_BYTES: u64 = 2048;
/// Bytes of a thread's name in the kernel, without the end: `TASK_COMM_LEN`.
const COMM_BYTES: usize = 15;

/// A recording.
pub(super) struct Trace {
    tracer: Tracer,
    names: Vec<String>,
    /// Addresses of the instances in the kernel.
    napis: Vec<(u64, NapiIx)>,
    /// What was taken during the run.
    taken: Recorded,
}

impl Trace {
    /// Begins to record what the scenario watches.
    ///
    /// # Errors
    /// Not root, or a kernel without these tracepoints.
    pub(super) fn begin(scenario: &Scenario) -> Result<Self, Refused> {
        let cannot = |error: TraceError| refused(error.to_string());
        let mut tracer = Tracer::new().map_err(cannot)?;
        tracer.buffer(BUFFER_KIB).map_err(cannot)?;
        // Which timer is which instance's is seen by where they are.
        tracer.write("options/hash-ptr", "0").map_err(cannot)?;
        let names: Vec<_> = scenario.machine.devices.iter().map(|_| name()).collect();
        let any =
            |field: &str| names.iter().map(|name| format!("{field} == \"{name}\"")).collect::<Vec<_>>().join(" || ");
        tracer.record(NAPI_POLL, Some(&any("dev_name"))).map_err(cannot)?;
        if watches(scenario, &[Kind::Deliver])
            || scenario.expect.counters.iter().any(|(name, _)| name.ends_with(".delivered"))
        {
            tracer.record(NETIF_RECEIVE_SKB, Some(&any("name"))).map_err(cannot)?;
        }
        if watches(scenario, &[Kind::TimerStart, Kind::TimerFire, Kind::TimerCancel])
            || scenario.expect.counters.iter().any(|(name, _)| name.ends_with(".timer_fires"))
            // What a thread polls for that was busy before.
            || scenario.timeline.iter().any(|step| matches!(&step.action, Action::Call { call, .. } if sets_threads(call)))
        {
            let ours = format!("function.function == {NAPI_WATCHDOG}");
            tracer.record(HRTIMER_START, Some(&ours)).map_err(cannot)?;
            tracer.record(HRTIMER_EXPIRE, Some(&ours)).map_err(cannot)?;
            tracer.record(HRTIMER_CANCEL, None).map_err(cannot)?;
        }
        if watches(scenario, &[Kind::KthreadStart, Kind::KthreadStop]) {
            tracer.record(KTHREAD_STOP, None).map_err(cannot)?;
        }
        Ok(Self { tracer, names, napis: Vec::new(), taken: Recorded::default() })
    }

    /// Names for the interfaces, one for each device: no other run has them.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Where the instances are, from the polls before time zero, and forgets what was recorded until now.
    pub(super) fn learn(&mut self, scenario: &Scenario) -> Result<(), Refused> {
        let recorded = self.tracer.take().map_err(|error| refused(error.to_string()))?;
        for (position, name) in (0..).zip(&self.names) {
            let polls = recorded.events.iter().filter(|event| event.field("device") == Some(name));
            let mut found: Vec<u64> = polls.filter_map(|event| address(event, "struct")).collect();
            found.sort_unstable();
            found.dedup();
            let queues = scenario.machine.devices[usize::from(position)].queues;
            if found.len() != usize::from(queues) {
                return Err(refused(format!("{} of {queues} instances were polled before time zero", found.len())));
            }
            // An array of queues has them in order: drivers/net/veth.c struct veth_priv.
            let queue = |queue| scenario.machine.napi(DeviceIx(position), queue);
            self.napis.extend(found.into_iter().zip((0..queues).map(queue)));
        }
        Ok(())
    }

    /// Makes room in the buffer: a thread that polls for ever fills it where a run takes seconds. It takes about [`ROOM_FOR`], however much is
    /// there, for the next step is not to be late for it.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn make_room(&mut self) -> Result<(), Refused> {
        let begun = Instant::now();
        while begun.elapsed() < ROOM_FOR && self.take_at_most(AT_ONCE)? > AT_ONCE {}
        Ok(())
    }

    /// Takes what is there, or so much of it; how much there was.
    fn take_at_most(&mut self, most: u64) -> Result<u64, Refused> {
        let cannot = |error: TraceError| refused(error.to_string());
        let there = self.tracer.seen().map_err(cannot)?.kept;
        let more = self.tracer.take_of(there.min(most)).map_err(cannot)?;
        self.taken.lost += more.lost;
        self.taken.events.extend(more.events);
        Ok(there)
    }

    /// What was recorded between time zero and the end, as a scenario has it.
    ///
    /// # Errors
    /// Some of it was lost, so that the rest says nothing.
    pub(super) fn events(&mut self, rig: &KernelRig<'_>, run: &KernelRun, slow: u32) -> Result<Vec<Seen>, Refused> {
        self.take_at_most(u64::MAX)?;
        let recorded = std::mem::take(&mut self.taken);
        if recorded.lost > 0 {
            return Err(refused("more happened than the kernel's trace buffer can hold"));
        }
        let noted = recorded.events.iter().filter_map(|event| {
            Some(Noted {
                at_us: event.at_us,
                cpu: event.cpu,
                tid: event.tid,
                in_softirq: event.in_softirq,
                deed: self.deed(rig, event)?,
            })
        });
        Ok(order::events(
            rig,
            run,
            noted.collect(),
            &order::RecordsKnown {
                spans: spans(rig.scenario),
                slow: slow.into(),
                sent: sent(rig.scenario, run.driven.window.start_ns),
            },
        ))
    }

    fn deed(&self, rig: &KernelRig<'_>, event: &TraceEvent) -> Option<Deed> {
        let number = |name: &str| event.field(name)?.parse::<u32>().ok();
        match event.name.as_str() {
            "napi_poll" => {
                let napi = self.instance(address(event, "struct")?)?;
                Some(Deed::Poll { napi, work: number("work")?, budget: number("budget")? })
            }
            "hrtimer_start" => {
                let napi = self.instance(address(event, "hrtimer")?)?;
                let expires_ns = event.field("expires")?.parse().ok()?;
                Some(Deed::Start { napi, expires_ns, was_armed: event.field("was_armed") == Some("1") })
            }
            "hrtimer_expire_entry" => Some(Deed::Fire { napi: self.instance(address(event, "hrtimer")?)? }),
            "hrtimer_cancel" => Some(Deed::Cancel { napi: self.instance(address(event, "hrtimer")?)? }),
            "netif_receive_skb" => {
                let position = wire::socket_of(number("len")? as usize)?;
                let socket = SocketIx(u16::try_from(position).ok()?);
                (position < rig.scenario.machine.sockets.len()).then_some(Deed::Deliver { socket })
            }
            "sched_kthread_stop" => Some(Deed::Stopped { napi: self.thread(rig, event.field("comm")?)? }),
            _ => None,
        }
    }

    /// The instance at an address, or the one that has the timer at it.
    fn instance(&self, address: u64) -> Option<NapiIx> {
        let below = self.napis.iter().filter(|(at, _)| *at <= address && address - at < INSTANCE_BYTES);
        below.max_by_key(|(at, _)| *at).map(|(_, napi)| *napi)
    }

    /// The instance whose thread has this name: `napi/DEVICE-ID`, cut off (`net/core/dev.c napi_kthread_create`).
    fn thread(&self, rig: &KernelRig<'_>, comm: &str) -> Option<NapiIx> {
        let machine = &rig.scenario.machine;
        let mut napis = (0..machine.napis()).map(NapiIx);
        napis.find(|napi| {
            let (device, _) = machine.queue_of(*napi);
            let whole = format!("napi/{}-{}", self.names[device.at()], rig.id(*napi));
            comm == &whole[..whole.len().min(COMM_BYTES)]
        })
    }
}

/// Short, so that the names of threads have room for the id of the instance behind it.
fn name() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut number = (std::process::id() << 6) ^ MADE.fetch_add(1, Ordering::Relaxed);
    let mut name = String::from("n");
    for _ in 0..3 {
        name.push(char::from(DIGITS[number as usize % DIGITS.len()]));
        number /= 36;
    }
    name
}

fn address(event: &TraceEvent, field: &str) -> Option<u64> {
    let text = event.field(field)?;
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// When packets are sent to which instance, in us of the clock.
fn sent(scenario: &Scenario, start_ns: u64) -> Vec<(u64, NapiIx)> {
    let of = |(at, deed): (napier_core::time::Instant, timeline::Deed<'_>)| {
        let timeline::Deed::Send { packets, .. } = deed else { return None };
        let napi = match packets.to {
            Target::Socket(socket) => scenario.machine.sockets[socket.at()].napi,
            Target::Napi(napi) => napi,
        };
        Some(((start_ns + at.ns) / NS_PER_US, napi))
    };
    timeline::deeds(scenario).into_iter().filter_map(of).collect()
}

/// All time-outs that a timer of the scenario can be armed with.
fn spans(scenario: &Scenario) -> Vec<Span> {
    let mut spans = Vec::new();
    for device in &scenario.machine.devices {
        spans.extend([device.tunables.gro_flush_timeout, device.tunables.irq_suspend_timeout]);
    }
    for step in &scenario.timeline {
        let napier_scenario::Action::Call { call, .. } = &step.action else { continue };
        match call {
            napier_scenario::Call::NapiSet { attributes, .. } => {
                let timeouts = attributes.iter().filter(|(name, _)| name.ends_with("-timeout"));
                spans.extend(timeouts.map(|(_, ns)| Span::from_ns(*ns)));
            }
            napier_scenario::Call::Write { value, .. } => spans.extend(value.parse().ok().map(Span::from_ns)),
            _ => {}
        }
    }
    spans
}
