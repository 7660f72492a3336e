//! Who polled while it was looked at, and whether that is what is set: by observation alone.

use super::reached::{PACKETS_MIN, is_passed_by, prefers};
use super::{Finding, Severity, defers};
use crate::facts::{DeviceFacts, Facts, Instance, Program};
use crate::observe::{Polls, Shares, is_enough};

/// What says already why nothing of the program, or no thread, polls.
const SAID: [&str; 7] = [
    "nothing-polls",
    "epoll-behind-another",
    "connections-without-instance",
    "suspension-not-used",
    "epoll-of-busy-sockets",
    "ring-not-polled",
    "threaded-lost",
];
/// Times that the program went to sleep, for each packet, that show that packets are its own.
const PACKETS_PER_SLEEP: u64 = 10;
/// Of a hundred polls, those of ksoftirqd that are too many.
const KSOFTIRQD_PCT: u64 = 50;

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    for device in &facts.devices {
        let Some((packets, seen)) = seen(facts, device) else { continue };
        if !found.iter().any(|finding| SAID.contains(&finding.id)) {
            found.extend(facts.program.as_ref().and_then(|program| program_does_not(device, program, packets, seen)));
            found.extend(threads_do_not(device, packets, seen));
        }
        found.extend(ksoftirqd_does(device, packets, seen));
    }
}

/// Packets that came, and polls that are this interface's: others of its name may be in other namespaces.
fn seen<'a>(facts: &'a Facts, device: &DeviceFacts) -> Option<(u64, &'a Polls)> {
    let window = facts.seen.get(device.name())?;
    let packets = window.received?.packets;
    let polls = window.polls.as_ref().filter(|polls| polls.instances <= device.instances().len())?;
    (packets >= PACKETS_MIN && polls.total() > 0 && is_passed_by(facts, device).is_none()).then_some((packets, polls))
}

/// Who polled, in words.
fn who(device: &DeviceFacts, program: Option<&Program>, polls: &Polls) -> String {
    let tids = program.iter().flat_map(|program| &program.threads).map(|thread| thread.tid).collect();
    let napi = device.instances().iter().filter_map(|instance| Some(instance.thread.as_ref()?.tid)).collect();
    let (own, napi_threads) = (polls.by(&tids), polls.by(&napi));
    let shares = Shares {
        program: own,
        softirq: polls.softirq,
        ksoftirqd: polls.ksoftirqd,
        interrupted: polls.interrupted.clone(),
        napi_threads,
        others: (polls.total() - polls.softirq).saturating_sub(own + napi_threads),
    };
    shares.text(program.map_or("the program", |program| program.name.as_str()))
}

fn program_does_not(device: &DeviceFacts, program: &Program, packets: u64, seen: &Polls) -> Option<Finding> {
    let is_own = program.connections.get(device.name()).is_some_and(|through| through.with_id > 0);
    let shall = program.epolls.iter().any(prefers);
    let is_deferred = device.instances().iter().all(defers) && !device.instances().is_empty();
    let tids = program.threads.iter().map(|thread| thread.tid).collect();
    let is_busy = program.sleeps.is_some_and(|sleeps| sleeps * PACKETS_PER_SLEEP >= packets);
    if !(is_own && shall && is_deferred && is_busy) || is_enough(seen.by(&tids), seen.total(), packets) {
        return None;
    }
    let (name, who) = (&program.name, who(device, Some(program), seen));
    let what = format!(
        "{name} ({}) prefers busy polling and interrupts of {} are deferred for it, but it does not poll: {packets} packets came while it was \
         looked at; polls: {who}.",
        program.pid,
        device.name()
    );
    let why = "Deferral makes packets wait for the program's own poll. Where it does not poll they wait for the timer of deferral instead, \
               which is later than an interrupt would have been.";
    let advice =
        "napier run says which of its waits a mode does not reach; threaded, or base, needs nothing of the program.";
    Some(Finding::new("program-does-not-poll", Severity::Serious, what, why).of(device).advice(advice))
}

fn threads_do_not(device: &DeviceFacts, packets: u64, seen: &Polls) -> Option<Finding> {
    let is_threaded = |instance: &Instance| instance.threaded.as_deref().is_some_and(|threaded| threaded != "disabled");
    let tids = device.instances().iter().filter_map(|instance| Some(instance.thread.as_ref()?.tid)).collect();
    if !device.instances().iter().all(is_threaded) || is_enough(seen.by(&tids), seen.total(), packets) {
        return None;
    }
    // A program that busy polls leaves its thread nothing to do.
    if seen.total() - seen.softirq > 0 {
        return None;
    }
    let what = format!(
        "The instances of {} are threaded, and their threads do not poll: {packets} packets came while it was looked at; polls: {}.",
        device.name(),
        who(device, None, seen)
    );
    let why = "The mode is about threads that can be placed and given a class. What polls in softirq polls wherever the interrupt comes.";
    let advice =
        "Set threaded anew (napier run --mode threaded, or napi-set): a driver that was reset may have lost it.";
    Some(Finding::new("threads-do-not-poll", Severity::Serious, what, why).of(device).advice(advice))
}

fn ksoftirqd_does(device: &DeviceFacts, packets: u64, seen: &Polls) -> Option<Finding> {
    if seen.ksoftirqd * 100 < seen.total() * KSOFTIRQD_PCT {
        return None;
    }
    let what = format!(
        "Polls of {} are left to ksoftirqd: {packets} packets came while it was looked at; polls: {}.",
        device.name(),
        who(device, None, seen)
    );
    let why = "A softirq that goes on for too long, or that a thread raised, is left to a thread of the CPU (ksoftirqd/N), which takes its \
               turn among all threads there: packets wait behind programs.";
    let advice = "Keep other programs off the CPUs of the interrupts, or take a mode in which the program or a thread of the instance polls \
                  (suspend20, threaded).";
    Some(Finding::new("ksoftirqd-polls", Severity::Warning, what, why).of(device).advice(advice))
}
