//! Interfaces and their instances.

use std::collections::BTreeMap;
use std::fs;

use napier_core::control::{NapiInfo, ThreadedSetting};
use napier_core::metric::{Metric, Sink, Unit};

use super::{counter, cpu, gauge, mode};
use crate::irqs::IrqTable;
use crate::link::Counters;
use crate::netdev::places;
use crate::observe::polled_of_veth;
use crate::procfs::{Stat, schedstat};

const DEVICE: &[&str] = &["device"];
const NAPI: &[&str] = &["device", "napi_id"];
const THREAD: &[&str] = &["device", "napi_id", "thread"];

static UP: Metric =
    gauge("napier_kernel_device_up", Unit::Truth, "Whether an interface is set up", &["device", "ifindex"]);
/// Takes one of an interface's counters.
type Take = fn(&Counters) -> u64;

/// What every driver counts. Source: `include/uapi/linux/if_link.h struct rtnl_link_stats64`.
static COUNTERS: [(Metric, Take); 9] = [
    (counter("napier_kernel_device_rx_packets", Unit::Count, "Packets received", DEVICE), |all| all.rx_packets),
    (counter("napier_kernel_device_rx", Unit::Bytes, "Bytes received", DEVICE), |all| all.rx_bytes),
    (counter("napier_kernel_device_tx_packets", Unit::Count, "Packets sent", DEVICE), |all| all.tx_packets),
    (counter("napier_kernel_device_tx", Unit::Bytes, "Bytes sent", DEVICE), |all| all.tx_bytes),
    (counter("napier_kernel_device_rx_errors", Unit::Count, "Packets that came damaged", DEVICE), |all| all.rx_errors),
    (counter("napier_kernel_device_tx_errors", Unit::Count, "Packets that could not be sent", DEVICE), |all| {
        all.tx_errors
    }),
    (
        counter(
            "napier_kernel_device_rx_dropped",
            Unit::Count,
            "Packets received and not processed, such as for want of memory",
            DEVICE,
        ),
        |all| all.rx_dropped,
    ),
    (counter("napier_kernel_device_tx_dropped", Unit::Count, "Packets dropped on their way out", DEVICE), |all| {
        all.tx_dropped
    }),
    (
        counter(
            "napier_kernel_device_rx_missed",
            Unit::Count,
            "Packets that the device dropped for want of room in a ring",
            DEVICE,
        ),
        |all| all.rx_missed_errors,
    ),
];

static POLLED: Metric = counter(
    "napier_kernel_device_rx_polled_packets",
    Unit::Count,
    "Packets received that the NAPI instances of a veth took; what is missing to rx_packets passed them by, and no mode acts on it",
    DEVICE,
);
static MODE: Metric = gauge(
    "napier_kernel_napi_mode",
    Unit::Truth,
    "1 for the mode that the settings of an instance amount to, by napier compare's names; what a program does comes on top",
    &["device", "napi_id", "mode"],
);
static DEFER: Metric = gauge(
    "napier_kernel_napi_defer_hard_irqs",
    Unit::Count,
    "How many empty polls defer the interrupt (defer-hard-irqs)",
    NAPI,
);
static FLUSH: Metric = gauge(
    "napier_kernel_napi_gro_flush_timeout",
    Unit::Nanoseconds,
    "How long a deferral lasts (gro-flush-timeout)",
    NAPI,
);
static SUSPEND: Metric = gauge(
    "napier_kernel_napi_irq_suspend_timeout",
    Unit::Nanoseconds,
    "How long a busy program may keep the interrupt suspended (irq-suspend-timeout)",
    NAPI,
);
static THREADED: Metric = gauge(
    "napier_kernel_napi_threaded",
    Unit::Count,
    "Whether a thread polls: 0 no, 1 when it is woken, 2 for ever",
    NAPI,
);
static IRQ: Metric =
    gauge("napier_kernel_napi_irq", Unit::Truth, "1 for the interrupt of an instance", &["device", "napi_id", "irq"]);
static THREAD_CPU: Metric =
    counter("napier_kernel_napi_thread_cpu", Unit::Nanoseconds, "CPU time of the thread of an instance", THREAD);
static THREAD_DELAY: Metric = counter(
    "napier_kernel_napi_thread_delay",
    Unit::Nanoseconds,
    "How long the thread of an instance could have run and had no CPU",
    THREAD,
);
static THREAD_SWITCHES: Metric = counter(
    "napier_kernel_napi_thread_runs",
    Unit::Count,
    "How often the thread of an instance was given a CPU",
    THREAD,
);
static INTERRUPTS: Metric = counter(
    "napier_kernel_interrupts",
    Unit::Count,
    "Interrupts of an interface, by the name that its driver gave them; CPUs that took none are left out, but for the first one \
     where none did",
    &["device", "irq", "name", "cpu"],
);

/// All of them, in the order of a walk.
pub(super) fn all() -> impl Iterator<Item = &'static Metric> {
    let of_instances =
        [&MODE, &DEFER, &FLUSH, &SUSPEND, &THREADED, &IRQ, &THREAD_CPU, &THREAD_DELAY, &THREAD_SWITCHES, &INTERRUPTS];
    [&UP].into_iter().chain(COUNTERS.iter().map(|(metric, _)| metric)).chain([&POLLED]).chain(of_instances)
}

/// Number, name, whether it is up, counters.
pub(super) type Link = (u32, String, bool, Counters);

pub(super) fn links(links: &[Link], sink: &mut dyn Sink) {
    for (ifindex, name, is_up, counters) in links {
        sink.sample(&UP, &[name, &ifindex.to_string()], u64::from(*is_up));
        COUNTERS.iter().for_each(|(metric, take)| sink.sample(metric, &[name], take(counters)));
    }
}

/// Of those that are a veth: other drivers do not count them apart.
pub(super) fn polled(links: &[Link], kinds: &BTreeMap<u32, String>, sink: &mut dyn Sink) {
    let veths = links.iter().filter(|(ifindex, ..)| kinds.get(ifindex).is_some_and(|kind| kind == "veth"));
    for (_, name, ..) in veths {
        if let Some(polled) = polled_of_veth(name) {
            sink.sample(&POLLED, &[name], polled);
        }
    }
}

pub(super) fn instances(instances: &[NapiInfo], names: &BTreeMap<u32, &str>, sink: &mut dyn Sink) {
    for info in instances {
        let Some(device) = names.get(&info.ifindex) else { continue };
        let id = info.id.to_string();
        let settings = [
            (&DEFER, info.defer_hard_irqs.map(u64::from)),
            (&FLUSH, info.gro_flush_timeout.map(|span| span.ns)),
            (&SUSPEND, info.irq_suspend_timeout.map(|span| span.ns)),
            (&THREADED, info.threaded.and_then(ThreadedSetting::number).map(u64::from)),
        ];
        sink.sample(&MODE, &[device, &id, &mode::name_of(info)], 1);
        for (metric, value) in settings {
            value.into_iter().for_each(|value| sink.sample(metric, &[device, &id], value));
        }
        if let Some(irq) = info.irq {
            sink.sample(&IRQ, &[device, &id, &irq.to_string()], 1);
        }
        if let Some((name, [cpu, delay, runs])) = info.pid.and_then(thread) {
            let labels = [*device, id.as_str(), name.as_str()];
            sink.sample(&THREAD_CPU, &labels, cpu);
            sink.sample(&THREAD_DELAY, &labels, delay);
            sink.sample(&THREAD_SWITCHES, &labels, runs);
        }
    }
}

/// Name of a thread of the kernel, and ns on a CPU, ns of waiting for one, times on one. Source: `proc(5)`, `schedstat`.
fn thread(pid: u32) -> Option<(String, [u64; 3])> {
    let times = schedstat(&fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?)?;
    // In another namespace of processes the number may be another process'.
    let Stat { name, .. } = Stat::of(pid).ok().filter(|stat| stat.name.starts_with("napi/"))?;
    Some((name, times))
}

/// The CPU on which the thread of an instance is that polls for ever.
pub(super) fn polling_cpu(info: &NapiInfo) -> Option<usize> {
    let thread = info.pid.filter(|_| info.threaded == Some(ThreadedSetting::BusyPoll))?;
    usize::try_from(Stat::of(thread).ok()?.last_cpu).ok()
}

/// `told`: instances of the namespace, which may name their interrupts.
pub(super) fn interrupts(table: &str, names: &BTreeMap<u32, &str>, told: &[NapiInfo], sink: &mut dyn Sink) {
    let (rows, numbered) = (cpu::Interrupts::parse(table), IrqTable::parse(table));
    for (ifindex, device) in names {
        let told: Vec<u32> = told.iter().filter(|info| info.ifindex == *ifindex).filter_map(|info| info.irq).collect();
        for (irq, name) in places::interrupts_of(&numbered, device, *ifindex, &told) {
            let number = irq.to_string();
            let all: Vec<(u32, u64)> = rows.of(&number).collect();
            let some: Vec<&(u32, u64)> = all.iter().filter(|(_, count)| *count > 0).collect();
            // One that has not been raised yet is there, with nothing: it is not one of which nothing is known.
            let shown = if some.is_empty() { all.iter().take(1).collect() } else { some };
            for (cpu, count) in shown {
                sink.sample(&INTERRUPTS, &[device, &number, name, &cpu.to_string()], *count);
            }
        }
    }
}
