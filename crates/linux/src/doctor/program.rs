//! A program against the instances that it receives from.

use super::{Finding, SUSPEND_NS, Severity, deferral_lines, defers, instances_of, some, time};
use crate::facts::{DeviceFacts, Epoll, Facts, Instance, Program};

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    let Some(program) = &facts.program else { return };
    found.extend(prefer_without_deferral(facts, program));
    found.extend(mixed(facts, program));
    found.extend(busy_poll_with_suspension(facts, program));
}

/// Ids of the instances that the members of an epoll instance receive from, each once. A socket keeps the id of an instance that
/// has gone until it receives again.
pub(super) fn ids(facts: &Facts, program: &Program, epoll: &Epoll) -> Vec<u32> {
    let of = |fd: &i32| program.sockets.iter().find(|socket| socket.fd == *fd)?.napi_id;
    let mut ids: Vec<u32> = epoll.members.iter().filter_map(of).filter(|id| facts.napi_ids.contains(id)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The epoll instance looks for packets by itself. Source: `fs/eventpoll.c ep_busy_loop_on`.
pub(super) fn polls(facts: &Facts, epoll: &Epoll) -> bool {
    let own = epoll.params.is_some_and(|params| params.busy_poll_usecs > 0 || params.prefer_busy_poll);
    own || facts.sysctls.busy_poll.unwrap_or(0) > 0
}

/// Source: `net/core/dev.c busy_poll_stop`: the timer that keeps the interrupt masked needs both values.
fn prefer_without_deferral(facts: &Facts, program: &Program) -> Option<Finding> {
    let sockets = program.sockets.iter().filter(|socket| socket.prefer_busy_poll).filter_map(|socket| socket.napi_id);
    let prefers = |epoll: &&Epoll| epoll.params.is_some_and(|params| params.prefer_busy_poll);
    let by_epoll = program.epolls.iter().filter(prefers).flat_map(|epoll| ids(facts, program, epoll));
    let mut preferred: Vec<u32> = sockets.chain(by_epoll).collect();
    preferred.sort_unstable();
    preferred.dedup();
    let found: Vec<(&DeviceFacts, &Instance)> = preferred.into_iter().filter_map(|id| facts.instance(id)).collect();
    let hit: Vec<_> = found
        .into_iter()
        // What suspends without deferral is a finding of its own.
        .filter(|(_, instance)| !defers(instance) && instance.irq_suspend_timeout_ns.unwrap_or(0) == 0)
        .collect();
    let (device, _) = hit.first()?;
    let own: Vec<&Instance> = hit.iter().map(|(_, instance)| *instance).collect();
    let what = format!(
        "{} ({}) prefers busy polling, but interrupts are not deferred at {}.",
        program.name,
        program.pid,
        instances_of(device, &own)
    );
    let why = "A busy poll that ends unmasks the interrupt again unless defer-hard-irqs and gro-flush-timeout are both set. The \
               preference has no effect then: interrupts and softirqs come between the program's own polls.";
    let lines = hit.iter().flat_map(|(device, instance)| deferral_lines(device, instance));
    Some(Finding::new("prefer-without-deferral", Severity::Serious, what, why).of(device).mend(lines))
}

/// Source: `fs/eventpoll.c ep_set_busy_poll_napi_id`: the last event's instance is the one.
fn mixed(facts: &Facts, program: &Program) -> Option<Finding> {
    let is_hit = |epoll: &&Epoll| polls(facts, epoll) && ids(facts, program, epoll).len() > 1;
    let hit: Vec<&Epoll> = program.epolls.iter().filter(is_hit).collect();
    let one = hit.first()?;
    let names: Vec<String> = ids(facts, program, one).iter().map(u32::to_string).collect();
    let others = match hit.len() {
        1 => String::new(),
        more => format!(" ({} such epoll instances)", more),
    };
    let (name, pid, fd) = (&program.name, program.pid, one.fd);
    let what = format!(
        "{name} ({pid}) waits with epoll descriptor {fd} for sockets of NAPI instances {}{others}.",
        some(&names)
    );
    let why = "An epoll instance polls one NAPI instance: that of the last socket that became ready. The others wait for their \
               interrupts or timers, and a suspended one waits for irq-suspend-timeout.";
    let advice = "Give each worker the connections of one queue: a listener of its own with SO_REUSEPORT, steered to the queue \
                  (napier run --steer does it from outside), or one queue for all (ethtool -L).";
    Some(Finding::new("epoll-mixes-instances", Severity::Serious, what, why).advice(advice))
}

fn busy_poll_with_suspension(facts: &Facts, program: &Program) -> Option<Finding> {
    let spins =
        |epoll: &Epoll| epoll.params.is_some_and(|params| params.prefer_busy_poll && params.busy_poll_usecs > 0);
    let suspended = |epoll: &Epoll| {
        ids(facts, program, epoll)
            .into_iter()
            .filter_map(|id| facts.instance(id))
            .find(|(_, instance)| instance.irq_suspend_timeout_ns.unwrap_or(0) > 0)
    };
    let epoll = program.epolls.iter().find(|epoll| spins(epoll) && suspended(epoll).is_some())?;
    let (device, instance) = suspended(epoll)?;
    let usecs = epoll.params?.busy_poll_usecs;
    let what = format!(
        "{} ({}) spins for {usecs} µs at epoll descriptor {} before it sleeps, and NAPI instance {} of {} suspends interrupts \
         for {}.",
        program.name,
        program.pid,
        epoll.fd,
        instance.id,
        device.name(),
        time(instance.irq_suspend_timeout_ns.unwrap_or(SUSPEND_NS))
    );
    let why = "Suspension saves the processor time that spinning uses up: a program that finds no event gives the instance back \
               to its timer and sleeps. With both, it spins first, so the processor is busy and the suspension comes to little.";
    let advice = "Set busy_poll_usecs of the program's epoll instances to 0 (EPIOCSPARAMS; modes suspendX of napier run), or \
                  irq-suspend-timeout to 0 (mode napibusy).";
    Some(Finding::new("busy-poll-with-suspension", Severity::Warning, what, why).of(device).advice(advice))
}
