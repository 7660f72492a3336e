//! A machine tuned for low latency, as lines: what the measurements of threaded busy polling were made with. Pure: from
//! [`Facts`], and changes nothing.
//!
//! Source of the list and its values: the setup script in the cover letter of "Add support to do threaded napi busy poll".

pub(crate) mod spread;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::change::{EthtoolKey, Key, Line, NapiAttribute, NapiKey, ThreadKey, ThreadSetting};
use crate::ethtool::Group;
use crate::facts::{DeviceFacts, Facts, Instance, Irq};
use crate::setting::text;

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
    /// CPUs for interrupts and NAPI threads: queue 0 has the first one, and so on in turn; work queues get the others.
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

impl Step {
    /// What can be tried.
    #[must_use]
    pub const fn line(&self) -> Option<&Line> {
        match self {
            Self::Line(line) => Some(line),
            Self::Not { .. } => None,
        }
    }

    /// Whether it moves an interrupt.
    #[must_use]
    pub fn is_interrupt(&self) -> bool {
        self.line().is_some_and(|line| matches!(&line.key, Key::File(file) if file.path.starts_with("/proc/irq/")))
    }
}

/// Descriptors of a receive ring.
const RX_RING: u32 = 1024;
const BUSY_READ_US: u32 = 400;
const DEFER_COUNT: u32 = 100;
const FLUSH_NS: u32 = 15_000;
/// Priority of NAPI threads.
const FIFO: &str = "fifo 50";

/// Why a delivery is refused: it would take the machine's network away.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TuneError {
    /// More threads that never sleep than CPUs for them.
    #[error(
        "{device} would have {threads} threads that poll for ever, and {cpus} of the CPUs are for them: those of one CPU keep each \
         other, and all packets of their queues, from running. Give as many CPUs (--cpus), or fewer queues (--queues {cpus})"
    )]
    Crowded {
        /// The interface.
        device: String,
        /// Threads that would be made.
        threads: usize,
        /// CPUs that are given.
        cpus: usize,
    },
}

/// CPUs where none are named: one for each queue as far as there are, the last of the device's node. Isolated ones are for threads that
/// poll for ever; these and other threads of a real-time class leave one CPU to the rest of the machine.
#[must_use]
pub fn default_cpus(facts: &Facts, device: &DeviceFacts, delivery: Delivery, queues: Option<u32>) -> Vec<u32> {
    let near = spread::near(facts, device);
    let of = |isolated: bool| -> Vec<u32> {
        near.iter().copied().filter(|cpu| facts.cpus.isolated.contains(cpu) == isolated).collect()
    };
    let first = of(delivery == Delivery::ThreadedBusyPoll);
    let pool = if first.is_empty() { near.clone() } else { first };
    let is_threaded = matches!(delivery, Delivery::Threaded | Delivery::ThreadedBusyPoll);
    let spare = usize::from(is_threaded && pool.len() == facts.cpus.online.len());
    let there = device.rx_queues.len().max(1);
    let wanted = queues.map_or(there, |queues| queues as usize).min(pool.len().saturating_sub(spare).max(1));
    pool[pool.len().saturating_sub(wanted)..].to_vec()
}

/// Whether what is asked for leaves the machine's network alive.
///
/// # Errors
/// It does not.
pub fn check(device: &DeviceFacts, tuning: &Tuning) -> Result<(), TuneError> {
    let (threads, cpus) = (pollers(device, tuning).len(), tuning.cpus.len());
    if tuning.delivery == Delivery::ThreadedBusyPoll && threads > cpus {
        return Err(TuneError::Crowded { device: device.name().to_owned(), threads, cpus });
    }
    Ok(())
}

/// Instances whose threads poll for ever: those that receive from a queue that is kept, where that can be told. An instance that
/// only sends, or has no queue, would burn a CPU for nothing.
fn pollers<'a>(device: &'a DeviceFacts, tuning: &Tuning) -> Vec<&'a Instance> {
    let kept = tuning.queues.unwrap_or(u32::MAX);
    let all = device.instances();
    if all.iter().all(|instance| device.queue_of(instance).is_none()) {
        return all.iter().take(kept as usize).collect();
    }
    all.iter().filter(|instance| device.queue_of(instance).is_some_and(|queue| queue < kept)).collect()
}

/// The list for an interface, in its order. Threads' priority and CPUs come after it, by [`threads`]: they are made by it.
#[must_use]
pub fn steps(facts: &Facts, device: &DeviceFacts, tuning: &Tuning) -> Vec<Step> {
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
    // Without a count the time-out defers nothing, and only holds packets back.
    steps.push(file(device, "gro_flush_timeout", if defers == 0 { 0 } else { FLUSH_NS }));
    steps.extend(coalescing(device));
    if threaded {
        steps.extend(make_threads(device, tuning));
    }
    steps
}

/// Priority and CPU of each NAPI thread that there is now: that of its queue, as its interrupt.
#[must_use]
pub fn threads(facts: &Facts, device: &DeviceFacts, tuning: &Tuning) -> Vec<Line> {
    let of = |thread: &crate::facts::Thread, setting| {
        Key::Thread(ThreadKey { tid: thread.tid, started: thread.started, name: thread.name.clone(), setting })
    };
    let pollers = pollers(device, tuning);
    let is_meant = |instance: &Instance| {
        tuning.delivery != Delivery::ThreadedBusyPoll || pollers.iter().any(|poller| poller.id == instance.id)
    };
    // Where nothing is left to the rest of the machine, a real-time class would take it.
    let class = if is_whole(facts, tuning) { "other" } else { FIFO };
    let each = spread::threads(device, &tuning.cpus).into_iter().filter(|(instance, ..)| is_meant(instance));
    let lines = each.flat_map(|(_, thread, cpu)| {
        [
            Line::new(of(thread, ThreadSetting::Affinity), cpu.to_string()),
            Line::new(of(thread, ThreadSetting::Scheduling), class),
        ]
    });
    lines.collect()
}

/// All CPUs are given.
fn is_whole(facts: &Facts, tuning: &Tuning) -> bool {
    facts.cpus.online.iter().all(|cpu| tuning.cpus.contains(cpu))
}

fn file(device: &DeviceFacts, file: &str, value: impl ToString) -> Step {
    let key = Key::device_file(&device.device, file);
    Step::Line(Line::new(key, value.to_string()))
}

fn sysctl(name: &str, value: impl ToString) -> Step {
    Step::Line(Line::new(Key::sysctl(name), value.to_string()))
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
    if threaded && is_whole(facts, tuning) {
        let why = "no CPU is left for anything but the NAPI threads, so they stay throttled";
        return not("kernel.sched_rt_runtime_us = -1", why);
    }
    sysctl("kernel.sched_rt_runtime_us", -1)
}

fn path(path: impl Into<String>, value: impl Into<String>) -> Step {
    Step::Line(Line::new(Key::file(path), value))
}

fn ethtool(device: &DeviceFacts, group: Group, name: &str, value: impl ToString) -> Step {
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

fn queues(device: &DeviceFacts, tuning: &Tuning) -> Vec<Step> {
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

fn ring(device: &DeviceFacts) -> Step {
    let what = format!("rx ring of {RX_RING}");
    match device.rings.get("rx-max").and_then(|max| max.parse::<u32>().ok()) {
        None => not(what, format!("the driver of {} has no rings to set", device.name())),
        Some(max) if max < RX_RING => not(what, format!("{} has at most {max} descriptors", device.name())),
        Some(_) => ethtool(device, Group::Rings, "rx", RX_RING),
    }
}

/// Puts the interrupts that an interface has now in the place of those among the steps that are left: a driver that sets its queues up anew may
/// get others. Source: `drivers/net/ethernet/intel/igb/igb_main.c igb_reinit_queues`.
pub fn renew_interrupts(left: &mut VecDeque<Step>, device: &DeviceFacts, tuning: &Tuning) {
    let place = left.iter().position(Step::is_interrupt).unwrap_or(0);
    left.retain(|step| !step.is_interrupt());
    let behind = left.split_off(place);
    left.extend(interrupts(device, tuning).into_iter().chain(behind));
}

fn interrupts(device: &DeviceFacts, tuning: &Tuning) -> Vec<Step> {
    let pinned = spread::irqs(device, &tuning.cpus);
    if pinned.is_empty() {
        return vec![not("interrupts pinned", format!("{} has no interrupt of its own", device.name()))];
    }
    let line = |(irq, cpu): (&Irq, u32)| path(format!("/proc/irq/{}/smp_affinity_list", irq.number), cpu.to_string());
    pinned.into_iter().map(line).collect()
}

fn work_queues(facts: &Facts, tuning: &Tuning) -> Vec<Step> {
    let others: Vec<u32> = facts.cpus.online.iter().copied().filter(|cpu| !tuning.cpus.contains(cpu)).collect();
    if others.is_empty() {
        return vec![not("work queues kept off the CPUs", "no other CPU is left for them")];
    }
    let mask = text::cpu_mask_text(&others);
    facts.cpus.work_queue_masks.iter().map(|file| path(file.clone(), mask.clone())).collect()
}

fn coalescing(device: &DeviceFacts) -> Vec<Step> {
    let wanted = [("adaptive-rx", "off"), ("adaptive-tx", "off"), ("rx-usecs", "0"), ("tx-usecs", "0")];
    let has = wanted.iter().filter(|(name, _)| device.coalesce.contains_key(*name));
    let steps: Vec<Step> = has.map(|(name, value)| ethtool(device, Group::Coalesce, name, value)).collect();
    if steps.is_empty() {
        return vec![not("coalescing off", format!("the driver of {} has no coalescing to set", device.name()))];
    }
    steps
}

/// By instance where the kernel has that, and else for the interface.
fn make_threads(device: &DeviceFacts, tuning: &Tuning) -> Vec<Step> {
    if device.instances().is_empty() {
        return vec![not("NAPI threads", format!("{} has no NAPI instance", device.name()))];
    }
    if tuning.delivery != Delivery::ThreadedBusyPoll {
        return vec![file(device, "threaded", 1)];
    }
    let line = |instance: &Instance| {
        let (device, attribute) = (device.device.clone(), NapiAttribute::Threaded);
        let key = NapiKey { device, id: instance.id, place: instance.place, queue: None, attribute };
        Step::Line(Line::new(Key::Napi(key), "busy-poll"))
    };
    pollers(device, tuning).into_iter().map(line).collect()
}
