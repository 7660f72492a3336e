//! Who runs where: instances' threads, interrupts, the program, queues and workers.

use super::program::{ids, polls};
use super::{Finding, Severity, defers, file, some};
use crate::change::{EthtoolKey, Key, Line, ThreadKey, ThreadSetting};
use crate::ethtool::Group;
use crate::facts::{DeviceFacts, Facts, Instance, Irq, RxQueue, Thread};
use crate::setting::text;

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    for device in &facts.devices {
        found.extend(threads_on_one_cpu(facts, device));
        found.extend(interrupt_on_one_cpu(facts, device));
        found.extend(numa_apart(facts, device));
        found.extend(queues_and_workers(facts, device));
        found.extend(rps(facts, device));
    }
}

fn polls_for_ever(instance: &Instance) -> bool {
    instance.threaded.as_deref() == Some("busy-poll")
}

/// The only CPU of a thread.
fn only(thread: &Thread) -> Option<u32> {
    match thread.cpus[..] {
        [cpu] => Some(cpu),
        _ => None,
    }
}

/// CPUs that the program's threads are pinned to.
pub(super) fn pinned(facts: &Facts) -> Vec<u32> {
    let program = facts.program.iter().flat_map(|program| &program.threads);
    program.filter_map(only).collect()
}

/// A CPU that none of these uses, on the node of the device if there is one.
fn spare(facts: &Facts, device: &DeviceFacts, used: &[u32]) -> Option<u32> {
    let near = |cpu: &u32| {
        let node = facts.cpus.nodes.iter().find(|node| Some(node.id) == device.numa_node);
        node.is_none_or(|node| node.cpus.contains(cpu))
    };
    let free = || facts.cpus.online.iter().rev().copied().filter(|cpu| !used.contains(cpu));
    free().find(near).or_else(|| free().next())
}

pub(super) fn affinity(thread: &Thread, cpus: &[u32]) -> Line {
    let (tid, started, name) = (thread.tid, thread.started, thread.name.clone());
    let key = ThreadKey { tid, started, name, setting: ThreadSetting::Affinity };
    Line::new(Key::Thread(key), text::cpu_list_text(cpus))
}

pub(super) fn irq_affinity(irq: &Irq, cpus: &[u32]) -> Line {
    let path = format!("/proc/irq/{}/smp_affinity_list", irq.number);
    Line::new(Key::file(path), text::cpu_list_text(cpus))
}

fn threads_on_one_cpu(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let threads = device.instances().iter().filter_map(|instance| {
        let thread = instance.thread.as_ref()?;
        Some((instance, thread, only(thread)?))
    });
    let threads: Vec<(&Instance, &Thread, u32)> = threads.collect();
    let program = pinned(facts);
    let rival = |(at, (_, _, cpu)): (usize, &(&Instance, &Thread, u32))| {
        program.contains(cpu) || threads[..at].iter().any(|(instance, _, own)| own == cpu && polls_for_ever(instance))
    };
    let hit: Vec<_> =
        threads.iter().enumerate().filter(|(at, thread)| rival((*at, thread))).map(|(_, hit)| hit).collect();
    let (_, _, cpu) = hit.first()?;
    let spins = hit.iter().any(|(instance, ..)| polls_for_ever(instance));
    let names: Vec<String> = hit.iter().map(|(_, thread, _)| thread.tid.to_string()).collect();
    let with = match &facts.program {
        Some(found) if program.contains(cpu) => format!("{} ({})", found.name, found.pid),
        _ => "another thread that polls for ever".to_owned(),
    };
    let word = if names.len() == 1 { "NAPI thread" } else { "NAPI threads" };
    let what = format!("{word} {} of {} and {with} have CPU {cpu} alone.", some(&names), device.name());
    let (severity, why) = if spins {
        let why = "A thread that polls for ever leaves the CPU only when it is preempted: each packet waits for the scheduler \
                   twice, and at a real-time priority the program gets next to nothing.";
        (Severity::Serious, why)
    } else {
        let why = "The thread and the program take turns on one CPU: each packet costs two context switches and waits for the \
                   program to give way, where a softirq would have interrupted it.";
        (Severity::Warning, why)
    };
    let mut used: Vec<u32> = program.clone();
    used.extend(threads.iter().map(|(_, _, cpu)| *cpu));
    let mut lines = Vec::new();
    for (_, thread, _) in &hit {
        let Some(cpu) = spare(facts, device, &used) else { break };
        used.push(cpu);
        lines.push(affinity(thread, &[cpu]));
    }
    let short = lines.len() < hit.len();
    let finding = Finding::new("one-cpu", severity, what, why).of(device).mend(lines);
    Some(if short {
        finding.advice("There is no CPU left for all of them: take fewer queues, or no threads.")
    } else {
        finding
    })
}

fn interrupt_on_one_cpu(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let program = facts.program.as_ref()?;
    let cpus = pinned(facts);
    let is_whole = !program.threads.is_empty() && cpus.len() == program.threads.len();
    let [cpu] = cpus.iter().copied().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>()[..]
    else {
        return None;
    };
    // An interrupt that is deferred or handed to a thread does little where it is raised.
    let quiet = device.instances().iter().any(|instance| defers(instance) || instance.thread.is_some());
    let all: Vec<&Irq> = device.queue_irqs().collect();
    let hit: Vec<&Irq> = all.iter().copied().filter(|irq| irq.only_cpu() == Some(cpu)).collect();
    if !is_whole || quiet || hit.is_empty() || hit.len() < all.len() || facts.cpus.online.len() < 2 {
        return None;
    }
    let numbers: Vec<String> = hit.iter().map(|irq| irq.number.to_string()).collect();
    let word = if numbers.len() == 1 { "Interrupt" } else { "Interrupts" };
    let what = format!(
        "{word} {} of {} and all of {} ({}) are on CPU {cpu}.",
        some(&numbers),
        device.name(),
        program.name,
        program.pid
    );
    let why = "Every packet interrupts the program that is to work on it. That is the cheapest place at low load and the dearest \
               at high load, when interrupts take the time that the program needs.";
    let advice = "Or leave them there and defer or suspend interrupts (napier run --mode suspend20).";
    let lines = spare(facts, device, &[cpu]).map(|free| hit.iter().map(move |irq| irq_affinity(irq, &[free])));
    let finding = Finding::new("one-cpu", Severity::Warning, what, why).of(device);
    Some(finding.mend(lines.into_iter().flatten()).advice(advice))
}

fn numa_apart(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let node = facts.cpus.nodes.iter().find(|node| Some(node.id) == device.numa_node)?;
    let apart = |cpus: &[u32]| !cpus.is_empty() && cpus.iter().all(|cpu| !node.cpus.contains(cpu));
    let threads: Vec<&Thread> = device.instances().iter().filter_map(|instance| instance.thread.as_ref()).collect();
    let threads: Vec<&Thread> = threads.into_iter().filter(|thread| apart(&thread.cpus)).collect();
    let is_apart = |irq: &&Irq| irq.effective.as_deref().is_some_and(apart);
    let irqs: Vec<&Irq> = device.queue_irqs().filter(is_apart).collect();
    let program = facts.program.as_ref().filter(|program| program.threads.iter().any(|thread| apart(&thread.cpus)));
    let mut who = Vec::new();
    if !irqs.is_empty() {
        who.push(format!("interrupts {}", some(&irqs.iter().map(|irq| irq.number.to_string()).collect::<Vec<_>>())));
    }
    if !threads.is_empty() {
        let tids: Vec<String> = threads.iter().map(|thread| thread.tid.to_string()).collect();
        who.push(format!("NAPI threads {}", some(&tids)));
    }
    who.extend(program.map(|program| format!("threads of {} ({})", program.name, program.pid)));
    if who.is_empty() {
        return None;
    }
    let what =
        format!("{} is at NUMA node {}, and on CPUs of other nodes run: {}.", device.name(), node.id, who.join("; "));
    let why = "Each packet and each descriptor then crosses from one node to the other, several times: that adds latency to \
               every packet and takes bandwidth of the link between the nodes.";
    let lines = irqs.iter().map(|irq| irq_affinity(irq, &node.cpus));
    let lines = lines.chain(threads.iter().map(|thread| affinity(thread, &node.cpus)));
    let finding = Finding::new("numa-apart", Severity::Warning, what, why).of(device).mend(lines);
    Some(match program {
        Some(_) => finding.advice(format!("Start the program with numactl --cpunodebind={0} --membind={0}.", node.id)),
        None => finding,
    })
}

/// Workers as told, or epoll instances that receive from the device.
fn workers(facts: &Facts, device: &DeviceFacts) -> Option<u32> {
    if facts.workers.is_some() {
        return facts.workers.filter(|_| device.is_asked || facts.devices.len() == 1);
    }
    let program = facts.program.as_ref()?;
    let is_ours = |id: &u32| device.instances().iter().any(|instance| instance.id == *id);
    let count = program.epolls.iter().filter(|epoll| ids(facts, program, epoll).iter().any(is_ours)).count();
    u32::try_from(count).ok().filter(|count| *count > 0)
}

fn queues_and_workers(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let workers = workers(facts, device)?;
    let queues = u32::try_from(device.rx_queues.len()).ok().filter(|queues| *queues > 0)?;
    let program = facts.program.as_ref();
    let is_polling = program.is_some_and(|program| program.epolls.iter().any(|epoll| polls(facts, epoll)))
        || device.instances().iter().any(|instance| instance.irq_suspend_timeout_ns > Some(0));
    let what = format!("{} has {queues} receive queues for {workers} workers.", device.name());
    let what = if queues == 1 { what.replace("queues", "queue") } else { what };
    let (severity, why) = match workers.cmp(&queues) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Greater => {
            let why = "Workers that share a queue share its NAPI instance, which one thread at a time can poll: the others find \
                       it taken and sleep, or wait for the softirq.";
            (Severity::Warning, why)
        }
        std::cmp::Ordering::Less => {
            let why = "A worker that receives from several instances polls the one of its last event; at the others interrupts \
                       and timers go on, or it waits for them.";
            (if is_polling { Severity::Warning } else { Severity::Note }, why)
        }
    };
    let most = |name: &str| device.channels.get(&format!("{name}-max"))?.parse::<u32>().ok().filter(|max| *max > 0);
    let key = |name: &str| {
        let (device, group) = (device.device.clone(), Group::Channels);
        Key::Ethtool(EthtoolKey { device, group, name: name.to_owned() })
    };
    let finding = Finding::new("queues-and-workers", severity, what, why).of(device);
    let kind = ["combined", "rx"].into_iter().find_map(|kind| Some((kind, most(kind)?)));
    Some(match kind {
        Some((kind, most)) if workers <= most => finding.mend([Line::new(key(kind), workers.to_string())]),
        Some((kind, most)) => {
            let more = (most > queues).then(|| Line::new(key(kind), most.to_string()));
            finding.mend(more).advice(format!("The device has at most {most}: start that many workers."))
        }
        None => finding.advice("The driver does not let queues be changed: start as many workers as there are queues."),
    })
}

fn rps(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let is_steered = |queue: &&RxQueue| queue.rps_cpus.as_ref().is_some_and(|cpus| !cpus.is_empty());
    let steered: Vec<_> = device.rx_queues.iter().filter(is_steered).collect();
    let follows = facts.sysctls.rps_sock_flow_entries > Some(0);
    let flows: Vec<_> = device.rx_queues.iter().filter(|queue| follows && queue.rps_flow_cnt > Some(0)).collect();
    let mut lines: Vec<Line> =
        steered.iter().map(|queue| file(device, format!("queues/rx-{}/rps_cpus", queue.index), 0)).collect();
    if !flows.is_empty() {
        lines.push(Line::new(Key::sysctl("net.core.rps_sock_flow_entries"), "0"));
    }
    if lines.is_empty() {
        return None;
    }
    let how = match (steered.is_empty(), flows.is_empty()) {
        (false, true) => "receive packet steering (RPS)",
        (true, false) => "receive flow steering (RFS)",
        _ => "receive packet and flow steering (RPS, RFS)",
    };
    let what = format!(
        "{} has {how} on {} of its {} receive queues.",
        device.name(),
        steered.len().max(flows.len()),
        device.rx_queues.len()
    );
    let why = "Packets go from the CPU that polls to the backlog of another one, by an interrupt between processors. A program \
               that busy polls, or suspends interrupts, then waits for a CPU that it does not poll.";
    Some(Finding::new("rps-in-the-way", Severity::Warning, what, why).of(device).mend(lines))
}
