//! What is set for busy polling, and does not reach the program or its packets: by observation where a window was looked at.

use super::pair::other_end;
use super::program::polls;
use super::{Finding, Severity, defers, instances_of, some, time};
use crate::change::{EthtoolKey, Key, Line};
use crate::drivers;
use crate::ethtool::Group;
use crate::facts::{DeviceFacts, Epoll, Facts, Instance, Program};
use crate::observe::{Needs, Unreached, unreached};

/// With fewer packets in a window nothing is concluded.
pub(super) const PACKETS_MIN: u64 = 20;
/// What a budget of 0 stands for. Source: `include/net/busy_poll.h BUSY_POLL_BUDGET`.
const BUDGET_DEFAULT: u16 = 8;

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    found.extend(facts.devices.iter().filter_map(|device| nothing_polls(facts, device)));
    found.extend(facts.devices.iter().filter_map(|device| lro_hides_instances(facts, device)));
    found.extend(busy_poll_of_all(facts));
    let Some(program) = &facts.program else { return };
    found.extend(connections_without_instance(facts, program));
    found.extend(behind_another(facts, program));
    found.extend(suspension_not_used(facts, program));
    found.extend(epoll_of_busy_sockets(facts, program));
    found.extend(ring_not_polled(facts, program));
    found.extend(prefers_on_loopback(program));
    found.extend(small_budget(program));
}

/// Something but `base` is set on it.
fn has_mode(device: &DeviceFacts) -> bool {
    device.instances().iter().any(|instance| {
        defers(instance)
            || instance.irq_suspend_timeout_ns.unwrap_or(0) > 0
            || instance.threaded.as_deref().is_some_and(|threaded| threaded != "disabled")
    })
}

fn is_veth(device: &DeviceFacts) -> bool {
    device.driver.as_deref() == Some("veth")
}

/// Packets that came and that no instance took, while they were looked at.
pub(super) fn is_passed_by(facts: &Facts, device: &DeviceFacts) -> Option<(u64, u64)> {
    let window = facts.seen.get(device.name())?;
    let received = window.received.filter(|received| received.packets >= PACKETS_MIN)?;
    // Polls of a name that several interfaces have belong to none of them.
    let polls = window.polls.as_ref().filter(|polls| polls.instances <= device.instances().len());
    let polls = polls.filter(|polls| polls.would_show(received.packets));
    let taken = received.polled.or(polls.map(|polls| polls.work))?;
    (taken < received.packets / 2).then_some((received.packets, taken))
}

fn nothing_polls(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let (packets, taken) = is_passed_by(facts, device)?;
    // Of a machine as a whole, an interface that nothing is set on is well without.
    if !device.is_asked && !has_mode(device) && facts.program.is_none() {
        return None;
    }
    let own: Vec<&Instance> = device.instances().iter().collect();
    let who = instances_of(device, &own);
    let what =
        format!("{packets} packets came to {} while it was looked at, and {who} took {taken} of them.", device.name());
    let why = "Packets that pass by an instance are received in the softirq backlog of a CPU. Deferral, suspension, busy polling and \
               threads of the instance do not act on them, whatever is set.";
    let finding = Finding::new("nothing-polls", Severity::Serious, what, why).of(device);
    Some(match is_veth(device) {
        true => finding.advice(other_end(device)),
        false => finding.advice(
            "Look for what takes packets before the driver's instances do: an XDP program, or another interface.",
        ),
    })
}

fn connections_without_instance(facts: &Facts, program: &Program) -> Option<Finding> {
    let hit = |device: &&DeviceFacts| {
        let through = program.connections.get(device.name()).copied().unwrap_or_default();
        // Packets that pass by say the same.
        let is_said = is_passed_by(facts, device).is_some() || hides_by_lro(device);
        through.count > 0 && through.with_id == 0 && !device.instances().is_empty() && !is_said
    };
    let device = facts.devices.iter().find(hit)?;
    let count = program.connections.get(device.name())?.count;
    let connections = if count == 1 { "a connection".to_owned() } else { format!("{count} connections") };
    let what = format!(
        "{} ({}) has {connections} by {}, and none has received from a NAPI instance (SO_INCOMING_NAPI_ID is 0).",
        program.name,
        program.pid,
        device.name()
    );
    let why = "A socket and its epoll instance learn from packets which instance to poll. Without one nothing of the program polls: busy \
               polling and suspension do nothing for it.";
    let finding = Finding::new("connections-without-instance", Severity::Serious, what, why).of(device);
    Some(match is_veth(device) {
        true => finding.advice(other_end(device)),
        false => finding.advice(
            "Look whether packets are steered to other CPUs (RPS), or arrive at an interface without instances.",
        ),
    })
}

/// Whether packets come from its driver without an instance's id: see [`drivers::lro_hides_instances`].
fn hides_by_lro(device: &DeviceFacts) -> bool {
    device.lro == Some(true) && device.driver.as_deref().is_some_and(drivers::lro_hides_instances)
}

fn lro_hides_instances(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let through = facts.program.as_ref().and_then(|program| program.connections.get(device.name()));
    // With a card of the host's own behind it, its packets take another way.
    if device.instances().is_empty() || !hides_by_lro(device) || through.is_some_and(|through| through.with_id > 0) {
        return None;
    }
    let suspends = device.instances().iter().any(|instance| instance.irq_suspend_timeout_ns.unwrap_or(0) > 0);
    let uses = |program: &Program| {
        let sets = program.epolls.iter().any(|epoll| polls(facts, epoll))
            || program.sockets.iter().any(|socket| socket.prefer_busy_poll || socket.busy_poll_usecs > 0);
        sets && through.is_some_and(|through| through.count > 0)
    };
    // Without any of that it is the driver's default, which does no harm.
    let is_in_vain = suspends || facts.program.as_ref().is_some_and(uses);
    let severity = if is_in_vain { Severity::Serious } else { Severity::Note };
    let (name, driver) = (device.name(), device.driver.as_deref().unwrap_or_default());
    let what =
        format!("Large receive offload of {name} is on, and {driver} hands packets up without a NAPI instance then.");
    let why = "A socket and its epoll instance learn from packets which instance to poll. Without one (SO_INCOMING_NAPI_ID is 0) nothing of the \
               program polls: busy polling and suspension do nothing. Threads of instances and deferral act all the same.";
    let key = EthtoolKey { device: device.device.clone(), group: Group::Features, name: drivers::LRO.to_owned() };
    let finding = Finding::new("lro-hides-instances", severity, what, why).of(device);
    Some(finding.mend([Line::new(Key::Ethtool(key), "off")]).advice(
        "napier run and napier mode set switch it off by themselves for as long as a mode is in force in which the program polls; generic receive \
         offload merges packets then, at some cost of CPU for large transfers.",
    ))
}

/// Instances that the program's sockets receive from, or where that is not known those of the interfaces that its connections use.
fn instances<'a>(facts: &'a Facts, program: &Program) -> Vec<(&'a DeviceFacts, &'a Instance)> {
    let of_sockets: Vec<_> = program.sockets.iter().filter_map(|socket| facts.instance(socket.napi_id?)).collect();
    if !of_sockets.is_empty() {
        return of_sockets;
    }
    let is_used = |device: &&DeviceFacts| program.connections.contains_key(device.name()) || device.is_asked;
    let all = |device: &'a DeviceFacts| device.instances().iter().map(move |instance| (device, instance));
    facts.devices.iter().filter(is_used).flat_map(all).collect()
}

fn suspended<'a>(facts: &'a Facts, program: &Program) -> Option<(&'a DeviceFacts, &'a Instance)> {
    let suspends = |instance: &Instance| defers(instance) && instance.irq_suspend_timeout_ns.unwrap_or(0) > 0;
    instances(facts, program).into_iter().find(|(_, instance)| suspends(instance))
}

pub(super) fn prefers(epoll: &Epoll) -> bool {
    epoll.params.is_some_and(|params| params.prefer_busy_poll)
}

/// What of the program a mode of epoll does not reach.
fn misses(facts: &Facts, program: &Program) -> Vec<Unreached> {
    let is_poll_busy = facts.sysctls.busy_poll.unwrap_or(0) > 0;
    let suspends = suspended(facts, program).is_some();
    unreached(program, &program.waits, Needs { epolls: true, sockets: false, suspends, is_poll_busy })
}

/// An epoll instance that prefers, and that the program sleeps before in another call.
fn behind_another(facts: &Facts, program: &Program) -> Option<Finding> {
    let of = |miss: &Unreached| match *miss {
        Unreached::Nested { inner: fd, .. } | Unreached::Polled { epoll: fd, .. } => {
            program.epolls.iter().any(|epoll| epoll.fd == fd && polls(facts, epoll))
        }
        _ => false,
    };
    let miss = misses(facts, program).into_iter().find(of)?;
    let what = format!("{} ({}) {}.", program.name, program.pid, miss.text());
    let finding = match suspended(facts, program) {
        Some((device, instance)) => {
            let suspend = time(instance.irq_suspend_timeout_ns.unwrap_or(0));
            let why = format!(
                "Taking events from an epoll instance that prefers busy polling suspends the interrupt. Only a wait of the same epoll \
                 instance that finds nothing ends that; this program sleeps elsewhere, so a packet waits for irq-suspend-timeout, {suspend}."
            );
            Finding::new("epoll-behind-another", Severity::Serious, what, why).of(device)
        }
        None => {
            let why = "An epoll instance polls in its own wait. The call that this program sleeps in has no socket of its own, so it learns \
                       no NAPI instance and polls nothing.";
            Finding::new("epoll-behind-another", Severity::Warning, what, why)
        }
    };
    Some(finding.advice("Take a mode that needs nothing of the program (threaded, deferX), or no mode."))
}

fn suspension_not_used(facts: &Facts, program: &Program) -> Option<Finding> {
    let (device, instance) = suspended(facts, program)?;
    if program.internet.is_empty() {
        return None;
    }
    let misses = misses(facts, program);
    if misses.iter().any(Unreached::does_harm) {
        return None;
    }
    let has_socket = |epoll: &Epoll| epoll.members.iter().any(|fd| program.internet.contains(fd));
    if program.epolls.iter().any(|epoll| prefers(epoll) && has_socket(epoll)) {
        return None;
    }
    let how =
        misses.first().map_or_else(|| "has no epoll instance that prefers busy polling".to_owned(), Unreached::text);
    let suspend = time(instance.irq_suspend_timeout_ns.unwrap_or(0));
    let what = format!(
        "NAPI instance {} of {} has irq-suspend-timeout {suspend}, but {} ({}) {how}.",
        instance.id,
        device.name(),
        program.name,
        program.pid
    );
    let why = "Interrupts are suspended only by an epoll instance that prefers busy polling and finds events. For other waits what is left of \
               the mode is deferral, which makes packets later.";
    let advice = if misses.iter().any(|miss| matches!(miss, Unreached::Ring { .. })) {
        "Take a mode that acts on rings of io_uring: napibusy (napier run), or threaded."
    } else {
        "Set prefer_busy_poll of its epoll instances (napier run --mode suspendX does), or if it does not wait with epoll, take \
         another mode: threaded, or base."
    };
    Some(Finding::new("suspension-not-used", Severity::Serious, what, why).of(device).advice(advice))
}

/// Source: `fs/eventpoll.c ep_busy_loop_on`, which asks the epoll instance and not its sockets.
fn epoll_of_busy_sockets(facts: &Facts, program: &Program) -> Option<Finding> {
    let busy = |fd: &i32| {
        let socket = program.sockets.iter().find(|socket| socket.fd == *fd);
        socket.is_some_and(|socket| socket.prefer_busy_poll || socket.busy_poll_usecs > 0)
    };
    // Sockets are made with `net.core.busy_read`, which is a finding of its own.
    if facts.sysctls.busy_read.unwrap_or(0) > 0 {
        return None;
    }
    let is_hit = |epoll: &&Epoll| !polls(facts, epoll) && epoll.members.iter().any(busy);
    let hit: Vec<&Epoll> = program.epolls.iter().filter(is_hit).collect();
    let one = hit.first()?;
    let sockets = one.members.iter().filter(|fd| busy(fd)).count();
    let word = if sockets == 1 { "a socket" } else { "sockets" };
    let what = format!(
        "{} ({}) waits with epoll descriptor {} for {word} with SO_BUSY_POLL or SO_PREFER_BUSY_POLL, and that epoll instance does not poll.",
        program.name, program.pid, one.fd
    );
    let why = "These options make a receive poll that finds nothing and may block. A program that receives only what epoll has announced \
               has no such receive, so nothing polls; what is deferred for it makes packets later.";
    let advice =
        "Set the parameters of the epoll instance instead (EPIOCSPARAMS; napier run --mode suspendX or napibusy).";
    Some(Finding::new("epoll-of-busy-sockets", Severity::Serious, what, why).advice(advice))
}

fn ring_not_polled(facts: &Facts, program: &Program) -> Option<Finding> {
    let (device, instance) = instances(facts, program).into_iter().find(|(_, instance)| defers(instance))?;
    let rings = misses(facts, program).into_iter().filter_map(|miss| match miss {
        Unreached::Ring { fd, polls: false } => Some(fd.to_string()),
        _ => None,
    });
    let rings: Vec<String> = rings.collect();
    let word = match rings.len() {
        0 => return None,
        1 => "a ring of io_uring that does not poll (descriptor",
        _ => "rings of io_uring that do not poll (descriptors",
    };
    let what = format!(
        "{} ({}) waits in {word} {}), and NAPI instance {} of {} defers interrupts.",
        program.name,
        program.pid,
        some(&rings),
        instance.id,
        device.name()
    );
    let why = "Parameters of epoll instances and options of sockets do nothing in io_uring, which polls only where the ring was registered for \
               it. What is in force is deferral alone. io_uring has no suspension.";
    let advice = "Register the ring: napier run --mode napibusy --attach PID does so from outside, but for rings that take settings from one thread \
                  alone (IORING_SETUP_SINGLE_ISSUER). For these have the program do it (IORING_REGISTER_NAPI), or take a mode that needs \
                  nothing of it: threaded, or base.";
    Some(Finding::new("ring-not-polled", Severity::Warning, what, why).of(device).advice(advice))
}

fn prefers_on_loopback(program: &Program) -> Option<Finding> {
    let is_set = program.epolls.iter().any(prefers) || program.sockets.iter().any(|socket| socket.prefer_busy_poll);
    let local = program.connections.get("lo").copied().unwrap_or_default();
    if !is_set || local.count == 0 || program.connections.len() > 1 || local.with_id > 0 {
        return None;
    }
    let what = format!(
        "{} ({}) prefers busy polling, and all of its connections ({}) use loopback.",
        program.name, program.pid, local.count
    );
    let why = "Loopback has no NAPI instance: a packet is received within the call that sends it. There is nothing to poll, and no mode acts.";
    let advice = "Connect by an interface with instances, from another machine or another namespace.";
    Some(Finding::new("prefer-on-loopback", Severity::Warning, what, why).advice(advice))
}

fn small_budget(program: &Program) -> Option<Finding> {
    let is_small = |epoll: &&Epoll| {
        epoll.params.is_some_and(|params| {
            let polls = params.prefer_busy_poll || params.busy_poll_usecs > 0;
            polls && (1..BUDGET_DEFAULT).contains(&params.busy_poll_budget)
        })
    };
    let epoll = program.epolls.iter().find(is_small)?;
    let budget = epoll.params?.busy_poll_budget;
    let what =
        format!("{} ({}) polls with a budget of {budget} at epoll descriptor {}.", program.name, program.pid, epoll.fd);
    let why = "A poll takes no more packets than its budget, and then begins anew with all that surrounds it: locks, the state of the \
               instance, the flush of merged packets. With so few, packets are hardly merged, and the ring may overflow at peaks.";
    let advice = "Set busy_poll_budget to 64 (EPIOCSPARAMS; modes of napier run do), or to 0, which means 8.";
    Some(Finding::new("small-budget", Severity::Warning, what, why).advice(advice))
}

/// Source: `include/net/busy_poll.h net_busy_loop_on`, `net/core/sock.c sock_init_data_uid`.
fn busy_poll_of_all(facts: &Facts) -> Option<Finding> {
    let of = |name: &str, value: Option<u64>| Some(format!("net.core.{name} {}", value.filter(|usecs| *usecs > 0)?));
    let set: Vec<String> = [of("busy_poll", facts.sysctls.busy_poll), of("busy_read", facts.sysctls.busy_read)]
        .into_iter()
        .flatten()
        .collect();
    if set.is_empty() {
        return None;
    }
    let what = format!("Busy polling is on for all programs: {}.", set.join(", "));
    let why = "With busy_poll, each poll(), select() and epoll_wait() of every program spins for so many microseconds before it sleeps, as \
               does with busy_read each receive of a socket that is made from then on: so all programs with sockets use more processor time.";
    let advice = "Nothing is wrong if that is meant, as in the profile network-latency of tuned or napier host tune --delivery busy-read. Else: \
                  sysctl net.core.busy_poll=0 net.core.busy_read=0, and a mode for the one program.";
    Some(Finding::new("busy-poll-for-all", Severity::Note, what, why).advice(advice))
}
