//! What was looked at and is good: so that "nothing is wrong" says something.

use super::Finding;
use super::reached::PACKETS_MIN;
use crate::facts::{DeviceFacts, Facts};
use crate::observe::Received;

/// What is looked at, in a word or two; the findings that it would be; and whether there was anything to look at.
type Look = (&'static str, &'static [&'static str], fn(&Facts) -> bool);

fn any(facts: &Facts, has: impl Fn(&DeviceFacts) -> bool) -> bool {
    facts.devices.iter().any(has)
}

fn has_irqs(facts: &Facts) -> bool {
    any(facts, |device| device.queue_irqs().any(|irq| irq.only_cpu().is_some()))
}

fn has_instances(facts: &Facts) -> bool {
    any(facts, |device| !device.instances().is_empty())
}

const LOOKS: &[Look] = &[
    ("instances", &["no-instance", "driver-without-ids", "interface-down"], has_instances),
    ("AF_XDP", &["xsk-copies"], |facts| any(facts, |device| !device.xsk_queues.is_empty())),
    ("queues and their ids", &["queues-without-ids", "queues-and-workers"], |facts| {
        any(facts, |device| !device.rx_queues.is_empty())
    }),
    ("CPUs of interrupts", &["queues-on-one-cpu"], has_irqs),
    ("NAPI threads", &["one-cpu", "threaded-lost"], |facts| {
        any(facts, |device| device.instances().iter().any(|instance| instance.thread.is_some()))
    }),
    ("NUMA nodes", &["numa-apart"], |facts| {
        facts.cpus.nodes.len() > 1 && any(facts, |device| device.numa_node.is_some())
    }),
    ("deferral", &["flush-without-defer", "defer-without-timeout", "timeout-too-long"], |facts| {
        any(facts, |device| device.files.gro_flush_timeout.is_some())
    }),
    ("settings of instances", &["settings-not-kept"], |facts| {
        any(facts, |device| device.instances().iter().any(|instance| instance.gro_flush_timeout_ns.is_some()))
    }),
    ("suspension", &["suspension-without-deferral", "flush-above-suspend"], |facts| {
        any(facts, |device| device.instances().iter().any(|instance| instance.irq_suspend_timeout_ns.is_some()))
    }),
    ("coalescing", &["coalescing-hides-deferral"], |facts| any(facts, |device| !device.coalesce.is_empty())),
    ("RPS", &["rps-in-the-way"], |facts| {
        any(facts, |device| device.rx_queues.iter().any(|queue| queue.rps_cpus.is_some()))
    }),
    (
        "packets and who polls",
        &["nothing-polls", "program-does-not-poll", "threads-do-not-poll", "ksoftirqd-polls"],
        |facts| {
            let is_enough = |received: Received| received.packets >= PACKETS_MIN;
            facts.seen.values().any(|window| window.received.is_some_and(is_enough))
        },
    ),
    ("connections", &["connections-without-instance", "lro-hides-instances"], |facts| {
        facts.program.as_ref().is_some_and(|program| program.connections.values().any(|through| through.count > 0))
    }),
    ("classes of threads", &["program-over-napi-threads", "program-in-idle-class"], |facts| {
        facts.program.as_ref().is_some_and(|program| !program.threads.is_empty())
    }),
    ("lost packets", &["packets-lost"], |facts| !facts.losses.backlog.is_empty()),
    ("softirq budget", &["softirq-budget"], |facts| facts.sysctls.netdev_budget.is_some()),
    ("isolated CPUs", &["isolated-cpus"], |facts| !facts.cpus.isolated.is_empty()),
    ("idle states", &["deep-idle"], |facts| !facts.cpus.idle_states.is_empty()),
    ("frequency", &["governor"], |facts| !facts.cpus.governors.is_empty()),
    ("SMT", &["smt-active"], |facts| facts.cpus.smt_control.is_some()),
    ("kernel version", &["kernel-too-old"], |facts| facts.kernel.version != (0, 0)),
    ("capabilities", &["capabilities-missing"], |facts| facts.kernel.version != (0, 0)),
    (
        "busy polling of the program",
        &[
            "prefer-without-deferral",
            "epoll-mixes-instances",
            "busy-poll-with-suspension",
            "suspension-not-used",
            "epoll-of-busy-sockets",
            "epoll-behind-another",
            "ring-not-polled",
            "prefer-on-loopback",
            "small-budget",
        ],
        |facts| facts.program.as_ref().is_some_and(|program| !program.epolls.is_empty() || !program.sockets.is_empty()),
    ),
];

/// What was looked at, and none of what was found is about: in a word or two each.
#[must_use]
pub fn looked_at(facts: &Facts, found: &[Finding]) -> Vec<&'static str> {
    let is_good = |(_, ids, applies): &&Look| applies(facts) && !found.iter().any(|finding| ids.contains(&finding.id));
    LOOKS.iter().filter(is_good).map(|(words, ..)| *words).collect()
}

/// What there was nothing of to look at, and none of what was found is about: in a word or two each.
#[must_use]
pub fn not_asked(facts: &Facts, found: &[Finding]) -> Vec<&'static str> {
    let is_not = |(_, ids, applies): &&Look| !applies(facts) && !found.iter().any(|finding| ids.contains(&finding.id));
    LOOKS.iter().filter(is_not).map(|(words, ..)| *words).collect()
}
