//! A machine tuned for low latency, as lines: what the measurements of threaded busy polling were made with. Pure: from
//! [`Facts`], and changes nothing.
//!
//! Source of the list and its values: the setup script in the cover letter of "Add support to do threaded napi busy poll".

#[cfg(test)]
mod tests;

use crate::change::{EthtoolKey, Key, Line, NapiAttribute, ThreadKey, ThreadSetting, text};
use crate::ethtool::Group;
use crate::facts::{Device, Facts};

/// How packets shall be delivered on the tuned machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// By interrupts, none deferred.
    Interrupts,
    /// By programs that receive: `busy_read`, and deferral.
    BusyRead,
    /// By a thread for each instance, at a real-time priority.
    Threaded,
    /// By such threads that poll for ever.
    ThreadedBusyPoll,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Way of delivery.
    pub delivery: Delivery,
    /// CPUs for interrupts and NAPI threads, in turn; work queues get the others.
    pub cpus: Vec<u32>,
    /// Queues of the interface, where they shall be changed.
    pub queues: Option<u32>,
}

/// One thing of the list.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// It can be tried.
    Line(Line),
    /// It cannot be had here.
    Not {
        /// What.
        what: String,
        /// Why.
        why: String,
    },
}

/// Descriptors of a receive ring.
const RX_RING: u32 = 1024;
const BUSY_READ_US: u32 = 400;
const DEFER_COUNT: u32 = 100;
const FLUSH_NS: u32 = 15_000;
/// Priority of NAPI threads.
const FIFO: &str = "fifo 50";

/// The CPU that packets are delivered on where none is named: the last of the device's node.
#[must_use]
pub fn default_cpu(facts: &Facts, device: &Device) -> Option<u32> {
    let node = facts.cpus.nodes.iter().find(|node| Some(node.id) == device.numa_node);
    let near = |cpu: &&u32| node.is_none_or(|node| node.cpus.contains(cpu));
    facts.cpus.online.iter().rev().find(near).or(facts.cpus.online.last()).copied()
}

/// The list for an interface, in its order. Threads' priority and CPUs come after it, by [`threads`]: they are made by it.
#[must_use]
pub fn steps(facts: &Facts, device: &Device, tuning: &Tuning) -> Vec<Step> {
    let mut steps = Vec::new();
    let threaded = matches!(tuning.delivery, Delivery::Threaded | Delivery::ThreadedBusyPoll);
    if !threaded {
        steps.push(file(device, "threaded", 0));
    }
    steps.push(sysctl("kernel.timer_migration", 0));
    steps.push(smt(facts));
    steps.extend(queues(device, tuning));
    steps.push(ring(device));
    steps.push(of_first_namespace("rps_sock_flow_entries", facts.sysctls.rps_sock_flow_entries, 0));
    let kept = tuning.queues.unwrap_or(u32::MAX);
    let steered = device.rx_queues.iter().filter(|queue| queue.index < kept);
    steps.extend(steered.map(|queue| file(device, &format!("queues/rx-{}/rps_cpus", queue.index), 0)));
    steps.extend(interrupts(device, tuning));
    steps.push(real_time(facts, tuning));
    steps.extend(work_queues(facts, tuning));
    let reads = if tuning.delivery == Delivery::BusyRead { BUSY_READ_US } else { 0 };
    steps.push(of_first_namespace("busy_poll", facts.sysctls.busy_poll, 0));
    steps.push(of_first_namespace("busy_read", facts.sysctls.busy_read, reads));
    let defers = if tuning.delivery == Delivery::Interrupts { 0 } else { DEFER_COUNT };
    steps.push(file(device, "napi_defer_hard_irqs", defers));
    steps.push(file(device, "gro_flush_timeout", FLUSH_NS));
    steps.extend(coalescing(device));
    if threaded {
        steps.extend(make_threads(device, tuning.delivery));
    }
    steps
}

/// Priority and CPU of each NAPI thread that there is now.
#[must_use]
pub fn threads(device: &Device, tuning: &Tuning) -> Vec<Line> {
    let of = |thread: &crate::facts::Thread, setting| {
        Key::Thread(ThreadKey { tid: thread.tid, started: thread.started, name: thread.name.clone(), setting })
    };
    let threads = device.instances().iter().filter_map(|instance| instance.thread.as_ref());
    let each = threads.zip(tuning.cpus.iter().cycle()).flat_map(|(thread, cpu)| {
        [
            Line::new(of(thread, ThreadSetting::Affinity), cpu.to_string()),
            Line::new(of(thread, ThreadSetting::Scheduling), FIFO),
        ]
    });
    each.collect()
}

fn file(device: &Device, file: &str, value: impl ToString) -> Step {
    let key = Key::DeviceFile { device: device.device.clone(), file: file.to_owned() };
    Step::Line(Line::new(key, value.to_string()))
}

fn sysctl(name: &str, value: impl ToString) -> Step {
    Step::Line(Line::new(Key::Sysctl { name: name.to_owned() }, value.to_string()))
}

/// A sysctl that other network namespaces do not show.
fn of_first_namespace(name: &str, now: Option<u64>, value: u32) -> Step {
    let name = format!("net.core.{name}");
    match now {
        Some(_) => sysctl(&name, value),
        None => not(format!("{name} = {value}"), "only the machine's first network namespace has it"),
    }
}

/// Real-time threads are throttled where nothing else would ever run.
fn real_time(facts: &Facts, tuning: &Tuning) -> Step {
    let threaded = matches!(tuning.delivery, Delivery::Threaded | Delivery::ThreadedBusyPoll);
    if threaded && facts.cpus.online.iter().all(|cpu| tuning.cpus.contains(cpu)) {
        let why = "no CPU is left for anything but the NAPI threads, so they stay throttled";
        return not("kernel.sched_rt_runtime_us = -1", why);
    }
    sysctl("kernel.sched_rt_runtime_us", -1)
}

fn path(path: impl Into<String>, value: impl Into<String>) -> Step {
    Step::Line(Line::new(Key::File { path: path.into() }, value))
}

fn ethtool(device: &Device, group: Group, name: &str, value: impl ToString) -> Step {
    let key = EthtoolKey { device: device.device.clone(), group, name: name.to_owned() };
    Step::Line(Line::new(Key::Ethtool(key), value.to_string()))
}

fn not(what: impl Into<String>, why: impl Into<String>) -> Step {
    Step::Not { what: what.into(), why: why.into() }
}

fn smt(facts: &Facts) -> Step {
    match facts.cpus.smt_control.as_deref() {
        Some("on" | "off" | "forceoff") => path("/sys/devices/system/cpu/smt/control", "off"),
        other => not("SMT off", format!("this machine has no SMT to switch ({})", other.unwrap_or("no such file"))),
    }
}

fn queues(device: &Device, tuning: &Tuning) -> Vec<Step> {
    let Some(wanted) = tuning.queues else { return Vec::new() };
    let has = |name: &str| {
        device.channels.get(&format!("{name}-max")).and_then(|max| max.parse::<u32>().ok()).filter(|max| *max > 0)
    };
    let kinds = if has("combined").is_some() { &["combined"][..] } else { &["rx", "tx"][..] };
    let step = |kind: &&str| match has(kind) {
        None => {
            not(format!("{wanted} {kind} queues"), format!("the driver of {} does not let them be set", device.name()))
        }
        Some(max) if wanted > max => {
            not(format!("{wanted} {kind} queues"), format!("{} has at most {max}", device.name()))
        }
        Some(_) => ethtool(device, Group::Channels, kind, wanted),
    };
    kinds.iter().map(step).collect()
}

fn ring(device: &Device) -> Step {
    let what = format!("rx ring of {RX_RING}");
    match device.rings.get("rx-max").and_then(|max| max.parse::<u32>().ok()) {
        None => not(what, format!("the driver of {} has no rings to set", device.name())),
        Some(max) if max < RX_RING => not(what, format!("{} has at most {max} descriptors", device.name())),
        Some(_) => ethtool(device, Group::Rings, "rx", RX_RING),
    }
}

fn interrupts(device: &Device, tuning: &Tuning) -> Vec<Step> {
    if device.irqs.is_empty() {
        return vec![not("interrupts pinned", format!("{} has no interrupt of its own", device.name()))];
    }
    let pinned = device.irqs.iter().zip(tuning.cpus.iter().cycle());
    pinned.map(|(irq, cpu)| path(format!("/proc/irq/{}/smp_affinity_list", irq.number), cpu.to_string())).collect()
}

fn work_queues(facts: &Facts, tuning: &Tuning) -> Vec<Step> {
    let others: Vec<u32> = facts.cpus.online.iter().copied().filter(|cpu| !tuning.cpus.contains(cpu)).collect();
    if others.is_empty() {
        return vec![not("work queues kept off the CPUs", "no other CPU is left for them")];
    }
    let mask = text::cpu_mask_text(&others);
    facts.cpus.work_queue_masks.iter().map(|file| path(file.clone(), mask.clone())).collect()
}

fn coalescing(device: &Device) -> Vec<Step> {
    let wanted = [("adaptive-rx", "off"), ("adaptive-tx", "off"), ("rx-usecs", "0"), ("tx-usecs", "0")];
    let has = wanted.iter().filter(|(name, _)| device.coalesce.contains_key(*name));
    let steps: Vec<Step> = has.map(|(name, value)| ethtool(device, Group::Coalesce, name, value)).collect();
    if steps.is_empty() {
        return vec![not("coalescing off", format!("the driver of {} has no coalescing to set", device.name()))];
    }
    steps
}

/// By instance where the kernel has that, and else for the interface.
fn make_threads(device: &Device, delivery: Delivery) -> Vec<Step> {
    let polls = delivery == Delivery::ThreadedBusyPoll;
    let instances = device.instances();
    if instances.is_empty() {
        return vec![not("NAPI threads", format!("{} has no NAPI instance", device.name()))];
    }
    if !polls {
        return vec![file(device, "threaded", 1)];
    }
    let line = |instance: &crate::facts::Instance| {
        let (device, attribute) = (device.device.clone(), NapiAttribute::Threaded);
        Step::Line(Line::new(Key::Napi { device, id: instance.id, place: instance.place, attribute }, "busy-poll"))
    };
    instances.iter().map(line).collect()
}
