//! All queues' work on one CPU, and work on CPUs that the scheduler balances nothing on.

use super::placement::{affinity, irq_affinity, pinned};
use super::{Finding, Severity, defers, some};
use crate::change::Line;
use crate::facts::{DeviceFacts, Facts, Irq, Thread};
use crate::setting::text;
use crate::tune::spread;

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    for device in &facts.devices {
        found.extend(interrupts(facts, device));
        found.extend(threads(facts, device));
        found.extend(interrupts_on_isolated(facts, device));
        found.extend(pollers_off_isolated(facts, device));
    }
    found.extend(several_isolated(facts));
}

/// CPUs to spread over: near the device, and not isolated if there are others.
fn places(facts: &Facts, device: &DeviceFacts) -> Vec<u32> {
    let near = spread::near(facts, device);
    let shared: Vec<u32> = near.iter().copied().filter(|cpu| !facts.cpus.isolated.contains(cpu)).collect();
    match (shared.len(), near.len()) {
        (2.., _) => shared,
        (_, 2..) => near,
        _ => facts.cpus.online.clone(),
    }
}

/// Interrupts of queues that are in use.
fn receiving(device: &DeviceFacts) -> Vec<&Irq> {
    let queues = device.rx_queues.len();
    let is_used = |irq: &&Irq| irq.receives() && irq.queue.is_none_or(|queue| queues == 0 || (queue as usize) < queues);
    device.irqs.iter().filter(is_used).collect()
}

fn interrupts(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let all = receiving(device);
    let instances = device.instances();
    // An interrupt that does no more than wake a thread is as well anywhere.
    let wake = !instances.is_empty() && instances.iter().all(|instance| instance.thread.is_some());
    let cpu = all.first()?.only_cpu()?;
    if all.len() < 2 || wake || facts.cpus.online.len() < 2 || all.iter().any(|irq| irq.only_cpu() != Some(cpu)) {
        return None;
    }
    let what =
        format!("The interrupts of all {} receive queues of {} are raised on CPU {cpu}.", all.len(), device.name());
    let why = "Several queues are there so that several CPUs receive. With all interrupts on one of them, that CPU runs the softirqs \
               of all queues: its load is the limit, and the others wait for it.";
    let lines = spread::irqs(device, &places(facts, device));
    let lines = lines.into_iter().map(|(irq, cpu)| irq_affinity(irq, &[cpu]));
    Some(Finding::new("queues-on-one-cpu", Severity::Warning, what, why).of(device).mend(lines))
}

fn threads(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    // Those that poll for ever are the finding `one-cpu`.
    let own = device.instances().iter().filter(|instance| instance.threaded.as_deref() != Some("busy-poll"));
    let all: Vec<&Thread> = own.filter_map(|instance| instance.thread.as_ref()).collect();
    let [cpu] = all.first()?.cpus[..] else { return None };
    if all.len() < 2 || facts.cpus.online.len() < 2 || all.iter().any(|thread| thread.cpus != [cpu]) {
        return None;
    }
    let what = format!("All {} NAPI threads of {} have CPU {cpu} alone.", all.len(), device.name());
    let why = "Threads are there so that the scheduler, or who pins them, can share the queues among CPUs. With all of them on one CPU the \
               queues wait for each other.";
    let lines = spread::threads(device, &places(facts, device));
    let lines = lines.into_iter().map(|(_, thread, cpu)| affinity(thread, &[cpu]));
    Some(Finding::new("queues-on-one-cpu", Severity::Warning, what, why).of(device).mend(lines))
}

fn is_isolated(facts: &Facts, cpu: u32) -> bool {
    facts.cpus.isolated.contains(&cpu)
}

fn list(mut cpus: Vec<u32>) -> String {
    cpus.sort_unstable();
    cpus.dedup();
    text::cpu_list_text(&cpus)
}

/// Source: `kernel/sched/topology.c`: an isolated CPU has no domain, so nothing is moved from one to another.
fn several_isolated(facts: &Facts) -> Option<Finding> {
    let stays = |thread: &&Thread| thread.cpus.len() > 1 && thread.cpus.iter().all(|cpu| is_isolated(facts, *cpu));
    let own: Vec<&Thread> = facts.program.iter().flat_map(|program| &program.threads).filter(stays).collect();
    let instances = facts.devices.iter().flat_map(|device| device.instances());
    let napi: Vec<&Thread> = instances.filter_map(|instance| instance.thread.as_ref()).filter(stays).collect();
    let all: Vec<&Thread> = own.iter().chain(&napi).copied().collect();
    if all.len() < 2 {
        return None;
    }
    let cpus = list(all.iter().flat_map(|thread| thread.cpus.iter().copied()).collect());
    let mut who = Vec::new();
    if let Some(program) = facts.program.as_ref().filter(|_| !own.is_empty()) {
        who.push(format!("{} of {} ({})", count(own.len(), "thread"), program.name, program.pid));
    }
    if !napi.is_empty() {
        who.push(count(napi.len(), "NAPI thread"));
    }
    let what = format!("{} may run on isolated CPUs {cpus}, each on several of them.", who.join(" and "));
    let why = "The scheduler moves no thread between isolated CPUs: threads that start on one of them stay there together, and the \
               others stay idle.";
    let lines: Vec<Line> =
        all.iter().map(|thread| affinity(thread, &[thread.cpus[place(&all, thread) % thread.cpus.len()]])).collect();
    let advice = "Give each thread one CPU: taskset, or the program's own option.";
    Some(Finding::new("isolated-cpus", Severity::Warning, what, why).mend(lines).advice(advice))
}

fn place(all: &[&Thread], thread: &Thread) -> usize {
    all.iter().position(|other| other.tid == thread.tid).unwrap_or_default()
}

fn count(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn interrupts_on_isolated(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    // Nothing is wrong where the program itself runs.
    let own = pinned(facts);
    let is_hit = |cpu: &u32| is_isolated(facts, *cpu) && !own.contains(cpu);
    let hit: Vec<(&Irq, u32)> =
        device.queue_irqs().filter_map(|irq| Some((irq, irq.only_cpu().filter(is_hit)?))).collect();
    let quiet = !device.instances().is_empty()
        && device.instances().iter().all(|instance| defers(instance) || instance.thread.is_some());
    if hit.is_empty() || quiet {
        return None;
    }
    let numbers: Vec<String> = hit.iter().map(|(irq, _)| irq.number.to_string()).collect();
    let cpus = list(hit.iter().map(|(_, cpu)| *cpu).collect());
    let what = format!("Interrupts {} of {} are raised on isolated CPUs ({cpus}).", some(&numbers), device.name());
    let why = "An isolated CPU has what is sent there and nothing else. What polls or computes there is interrupted by each packet of \
               these queues, unless they are deferred.";
    let shared: Vec<u32> = places(facts, device).into_iter().filter(|cpu| !is_isolated(facts, *cpu)).collect();
    let lines = spread::irqs(device, &shared);
    let lines = lines.into_iter().filter(|(irq, _)| hit.iter().any(|(own, _)| own.number == irq.number));
    let lines = lines.map(|(irq, cpu)| irq_affinity(irq, &[cpu]));
    let advice = "Nothing is wrong if the program that receives from these queues runs there.";
    Some(Finding::new("isolated-cpus", Severity::Note, what, why).of(device).mend(lines).advice(advice))
}

fn pollers_off_isolated(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let polls = device.instances().iter().filter(|instance| instance.threaded.as_deref() == Some("busy-poll"));
    let threads: Vec<&Thread> = polls.filter_map(|instance| instance.thread.as_ref()).collect();
    let off = |thread: &&&Thread| thread.cpus.iter().any(|cpu| !is_isolated(facts, *cpu));
    let off: Vec<&&Thread> = threads.iter().filter(off).collect();
    if facts.cpus.isolated.is_empty() || off.is_empty() {
        return None;
    }
    let tids: Vec<String> = off.iter().map(|thread| thread.tid.to_string()).collect();
    let isolated = list(facts.cpus.isolated.clone());
    let what = format!(
        "Threads {} of {} poll for ever and may run beside others, while CPUs {isolated} are isolated.",
        some(&tids),
        device.name()
    );
    let why = "A thread that never sleeps takes half of a CPU or more from what the scheduler puts there, and is put aside for it.";
    let advice = format!(
        "napier host tune --dev {} --cpus {isolated} --delivery threaded-busy-poll puts them there.",
        device.name()
    );
    Some(Finding::new("isolated-cpus", Severity::Note, what, why).of(device).advice(advice))
}
