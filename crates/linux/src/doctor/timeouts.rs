//! Time-outs of deferral and suspension that packets wait for.

use super::deferral::{suspends, those};
use super::program::{ids, polls};
use super::{FLUSH_NS, Finding, SUSPEND_NS, Severity, defers, file, instances_of, napi, time};
use crate::change::{Line, NapiAttribute};
use crate::facts::{DeviceFacts, Facts, Instance};

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    for device in &facts.devices {
        // A mode in force knows its times, and takes them back.
        if !device.is_held {
            found.extend(flush_too_long(facts, device));
            found.extend(suspend_too_long(device));
        }
        found.extend(flush_above_suspend(device));
    }
}

/// A request and its answer take less.
const FLUSH_LONG_NS: u64 = 1_000_000;
/// Clients begin to send again, and people notice.
const FLUSH_HARM_NS: u64 = 20_000_000;
const SUSPEND_LONG_NS: u64 = 1_000_000_000;

/// The program polls this instance by itself, so the time-out is for its pauses only.
fn is_polled(facts: &Facts, instance: &Instance) -> bool {
    facts.program.as_ref().is_some_and(|program| {
        let by_epoll = program.epolls.iter().filter(|epoll| polls(facts, epoll));
        let by_socket = program.sockets.iter().filter(|socket| socket.busy_poll_usecs > 0 || socket.prefer_busy_poll);
        by_epoll.flat_map(|epoll| ids(facts, program, epoll)).any(|id| id == instance.id)
            || by_socket.filter_map(|socket| socket.napi_id).any(|id| id == instance.id)
    })
}

fn flush_too_long(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let is_hit = |instance: &Instance| {
        defers(instance)
            && instance.gro_flush_timeout_ns >= Some(FLUSH_LONG_NS)
            && instance.threaded.as_deref() != Some("busy-poll")
            && !is_polled(facts, instance)
    };
    let hit = those(device, is_hit);
    let files = &device.files;
    let by_file = files.gro_flush_timeout >= Some(FLUSH_LONG_NS) && files.napi_defer_hard_irqs > Some(0);
    let unshown = device.instances().iter().all(|instance| instance.defer_hard_irqs.is_none());
    let (flush, who) = match hit.first() {
        Some(first) => (first.gro_flush_timeout_ns?, instances_of(device, &hit)),
        None if by_file && unshown => (files.gro_flush_timeout?, device.name().to_owned()),
        None => return None,
    };
    let severity = if flush >= FLUSH_HARM_NS { Severity::Serious } else { Severity::Warning };
    let what = format!("Interrupts are deferred for {} (gro-flush-timeout): {who}.", time(flush));
    let why = "While they are deferred, nothing but the timer or a program that busy polls looks for packets. Without such a program \
               each packet may wait for the whole time. It is what a busy-polling program that was killed leaves behind.";
    let lines: Vec<Line> = if hit.is_empty() || by_file && hit.len() == device.instances().len() {
        vec![file(device, "gro_flush_timeout", FLUSH_NS)]
    } else {
        hit.iter().map(|instance| napi(device, instance, NapiAttribute::GroFlushTimeout, FLUSH_NS)).collect()
    };
    let advice = "If a program busy polls there, ask with --pid: then it is looked at as well.";
    let finding = Finding::new("timeout-too-long", severity, what, why).of(device).mend(lines);
    Some(if facts.program.is_none() { finding.advice(advice) } else { finding })
}

fn suspend_too_long(device: &DeviceFacts) -> Option<Finding> {
    let hit = those(device, |instance| instance.irq_suspend_timeout_ns >= Some(SUSPEND_LONG_NS));
    let suspend = time(hit.first()?.irq_suspend_timeout_ns?);
    let what = format!("Interrupts may stay suspended for {suspend}: {}.", instances_of(device, &hit));
    let why = "The time-out is what brings packets in if a program takes events and then does not ask again: it waits for a lock, a disk or \
               a debugger. All connections of the queue wait that long then.";
    let lines = hit.iter().map(|instance| napi(device, instance, NapiAttribute::IrqSuspendTimeout, SUSPEND_NS));
    Some(Finding::new("timeout-too-long", Severity::Warning, what, why).of(device).mend(lines))
}

/// Source: `net/core/dev.c napi_suspend_irqs`, `napi_resume_irqs`: a timer that is shorter than the deferral's ends it before the program
/// is late.
fn flush_above_suspend(device: &DeviceFacts) -> Option<Finding> {
    let above = |instance: &Instance| {
        suspends(instance) && defers(instance) && instance.gro_flush_timeout_ns > instance.irq_suspend_timeout_ns
    };
    let hit = those(device, above);
    let first = hit.first()?;
    let (flush, suspend) = (first.gro_flush_timeout_ns?, first.irq_suspend_timeout_ns?);
    let what = format!(
        "gro-flush-timeout ({}) is longer than irq-suspend-timeout ({}): {}.",
        time(flush),
        time(suspend),
        instances_of(device, &hit)
    );
    let why = "Suspension is for the time that a program works, deferral for the short pause before the interrupt is live again. This \
               way round a packet waits longest when the program is idle, and suspension ends first.";
    let lines = hit.iter().map(|instance| napi(device, instance, NapiAttribute::GroFlushTimeout, FLUSH_NS));
    Some(Finding::new("flush-above-suspend", Severity::Warning, what, why).of(device).mend(lines))
}
