//! How the threads of a program are scheduled, against those of the instances that it receives from.

use super::{Finding, Severity, some};
use crate::facts::{DeviceFacts, Facts, Instance, Program, Thread};

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(program) = &facts.program else { return };
    found.extend(idle_class(program));
    found.extend(facts.devices.iter().find_map(|device| over_napi_threads(device, program)));
}

fn tids(threads: &[&Thread]) -> String {
    let tids: Vec<String> = threads.iter().map(|thread| thread.tid.to_string()).collect();
    let word = if tids.len() == 1 { "thread" } else { "threads" };
    format!("{word} {}", some(&tids))
}

fn idle_class(program: &Program) -> Option<Finding> {
    let hit: Vec<&Thread> = program.threads.iter().filter(|thread| thread.scheduling == "idle").collect();
    if hit.is_empty() {
        return None;
    }
    let what = format!("{} ({}) runs in the class SCHED_IDLE: {}.", program.name, program.pid, tids(&hit));
    let why = "A thread of this class runs only where no other one wants the CPU, so each of its packets waits for all that else runs there. A \
               busy poll of it may be taken off the CPU at any moment, with the instance in hand.";
    let advice = format!("chrt --all-tasks --other --pid 0 {}", program.pid);
    Some(Finding::new("program-in-idle-class", Severity::Warning, what, why).advice(advice))
}

/// Real-time priority, 0 for other classes.
fn priority(thread: &Thread) -> u32 {
    let class = thread.scheduling.strip_prefix("fifo ").or_else(|| thread.scheduling.strip_prefix("rr "));
    class.and_then(|priority| priority.parse().ok()).unwrap_or(0)
}

/// A real-time thread does not leave a CPU to one of less priority while it can run. Source: `sched(7)`.
fn over_napi_threads(device: &DeviceFacts, program: &Program) -> Option<Finding> {
    let is_under = |napi: &Thread, thread: &&Thread| {
        priority(thread) > priority(napi) && thread.cpus.iter().any(|cpu| napi.cpus.contains(cpu))
    };
    let over = |instance: &Instance| -> Vec<&Thread> {
        let napi = instance.thread.as_ref();
        program.threads.iter().filter(|thread| napi.is_some_and(|napi| is_under(napi, thread))).collect()
    };
    let instance = device.instances().iter().find(|instance| !over(instance).is_empty())?;
    let napi = instance.thread.as_ref()?;
    let hit = over(instance);
    let what = format!(
        "{} ({}), {}, is scheduled as {} and may run on the CPUs of the thread {} of NAPI instance {} of {}, which is {}.",
        program.name,
        program.pid,
        tids(&hit),
        hit.first()?.scheduling,
        napi.tid,
        instance.id,
        device.name(),
        napi.scheduling
    );
    let why = "While such a thread has something to do, the thread of the instance gets no CPU there: packets are not received, and what the \
               program waits for comes late or never.";
    let advice = "Give the threads of instances a higher priority than the program (chrt --fifo --pid 60 TID), or CPUs of their own \
                  (napier host tune --delivery threaded).";
    Some(Finding::new("program-over-napi-threads", Severity::Warning, what, why).of(device).advice(advice))
}
