//! What cannot be done in real time, or not by the engine: found before anything is started.

use napier_scenario::{Action, Call, Device, Kind, Machine, Packets, Policy, Scenario, SocketKind, Sysctl};

use super::{Refused, refuse_tx};
use crate::real::{cpus, refused};

/// Ticks per second of the engine.
const HZ: u32 = 1000;
/// Packets of a poll outside busy polling.
const WEIGHT: u32 = 64;
/// Packets that a socket's queue holds in scenarios that do not care.
const SOCKET_QUEUE: u32 = 1024;
/// Longest name of a device, with room for the name of its peer.
const NAME_BYTES_MAX: usize = 13;
/// Most events that a wait is asked for.
const EVENTS_MAX: i64 = 4096;

/// Refuses what the engine does not have or real time does not allow.
pub(super) fn check(scenario: &Scenario, processors: usize) -> Result<(), Refused> {
    let machine = &scenario.machine;
    check_machine(machine)?;
    machine.devices.iter().try_for_each(check_device)?;
    check_sockets(machine)?;
    let receives = |call: &Call| matches!(call, Call::Recv { .. } | Call::EpollWait { .. });
    cpus::check(scenario, processors, receives)?;
    for step in &scenario.timeline {
        check_action(&step.action, machine)?;
    }
    check_receivers(scenario)?;
    refuse_tx::check(scenario)?;
    for kind in super::watched(scenario) {
        if !recorded(*kind) {
            return Err(refused(format!("the engine keeps no record of {}", kind.name())));
        }
    }
    Ok(())
}

const fn recorded(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::List | Kind::Drop | Kind::Sleep | Kind::Raise | Kind::Squeeze | Kind::RunEnd | Kind::Ksoftirqd
    ) && refuse_tx::recorded(kind)
}

fn check_machine(machine: &Machine) -> Result<(), Refused> {
    let why = if machine.jitter || machine.late_interrupts {
        "its times vary by a seed"
    } else if !machine.groups.is_empty() {
        "the engine has no groups of CPUs"
    } else if machine.sysctl.gro_normal_batch != Sysctl::defaults(machine.hz).gro_normal_batch {
        "the engine has no gro_normal_batch"
    } else if machine.threads.iter().any(|thread| thread.policy == Policy::Fifo) {
        "a thread wants a real-time class"
    } else {
        return check_merging(machine);
    };
    Err(refused(why))
}

fn check_merging(machine: &Machine) -> Result<(), Refused> {
    let merges = machine.devices.iter().any(|device| device.gro);
    let connected = machine.sockets.iter().any(|socket| socket.connected);
    let why = if merges && machine.hz != HZ {
        "packets are held for jiffies, and those of the engine are 1 ms"
    } else if merges && connected {
        "a connected socket has one flow"
    } else {
        return Ok(());
    };
    Err(refused(why))
}

fn check_device(device: &Device) -> Result<(), Refused> {
    refuse_tx::check_device(device)?;
    let why = if !device.persistent {
        "the engine's devices keep their settings and ids over down and up"
    } else if device.no_busy_poll {
        "each instance of the engine gets an id"
    } else if device.weight != WEIGHT {
        "the engine polls with a weight of 64"
    } else if !device.ring.is_power_of_two() || !(64..=4096).contains(&device.ring) {
        "a ring of the engine has 64 to 4096 slots, a power of two"
    } else if device.thread_policy == Policy::Fifo {
        "a NAPI thread wants a real-time class"
    } else if device.name.len() > NAME_BYTES_MAX {
        "the name of a device is too long"
    } else {
        return Ok(());
    };
    Err(refused(why))
}

fn check_sockets(machine: &Machine) -> Result<(), Refused> {
    for socket in &machine.sockets {
        if socket.kind != SocketKind::Udp {
            return Err(refused("it needs a TCP socket"));
        }
        if socket.queue != SOCKET_QUEUE {
            return Err(refused("the engine bounds a socket's queue in bytes, not in packets"));
        }
    }
    let closed = |epoll: &napier_scenario::Epoll| epoll.members.iter().any(|m| !machine.sockets[m.at()].open);
    if machine.epolls.iter().any(closed) {
        return Err(refused("an event context has a closed socket for a member"));
    }
    Ok(())
}

fn check_action(action: &Action, machine: &Machine) -> Result<(), Refused> {
    let why = match action {
        Action::Packets(Packets { rss: true, .. }) => "its packets are spread by hashes that it makes up",
        Action::Packets(Packets { loopback: true, .. }) => "the engine has no loopback",
        Action::Packets(Packets { syn: Some(_), .. }) => "it needs a TCP socket",
        Action::Packets(Packets { hash: Some(_), .. }) if machine.devices.iter().any(|device| device.gro) => {
            "the engine makes the hash of a flow itself"
        }
        Action::Packets(_) | Action::Check(_) => return Ok(()),
        Action::Interrupt { .. } => "it takes an interrupt without a reason",
        Action::Schedule { .. } => "it injects a schedule",
        Action::Arm { .. } => "it arms a timer from outside",
        Action::Stall { .. } => "it stalls a thread",
        Action::Hog { .. } => "it keeps a processor busy",
        Action::StopCpu { .. } => "it stops a processor",
        Action::CheckGroup(_) => "it looks at a group of CPUs",
        Action::FailThread { .. } => "it lets the creation of a thread fail",
        Action::Driver { .. } => "it lets a driver misbehave",
        Action::Tx { deed, .. } => refuse_tx::deed(*deed),
        Action::CheckTx(check) => match refuse_tx::look(check, machine) {
            Some(why) => why,
            None => return Ok(()),
        },
        Action::Call { call, .. } => return check_call(call, machine),
    };
    Err(refused(why))
}

fn check_call(call: &Call, machine: &Machine) -> Result<(), Refused> {
    let why = match call {
        Call::Poll { .. } => "the engine has neither poll nor select",
        Call::BusyLoop { .. } => "it makes a busy loop by itself",
        Call::Ioctl { .. } => "it makes an ioctl by its number",
        Call::SetQueues { .. } => "the engine never changes the number of a device's queues",
        Call::Activate { .. } | Call::Deactivate { .. } => "the engine takes a discipline away only with the device",
        Call::Delete { .. } => "the engine removes an instance only with its device",
        Call::SetSockOpt { optlen, .. } if *optlen != 4 => "the engine's socket options are numbers, not bytes",
        Call::EpollWait { max_events, .. } if !(0..=EVENTS_MAX).contains(max_events) => {
            "the engine takes the number of events from the room for them"
        }
        Call::Sysctl { name, .. } if name == "netdev_budget_usecs" && machine.hz != HZ => "the engine has HZ=1000",
        Call::Sysctl { name, value }
            if !matches!(name.as_str(), "netdev_budget" | "netdev_budget_usecs" | "busy_read" | "busy_poll")
                || i32::try_from(*value).is_err()
                || (*value < 0 && name != "netdev_budget") =>
        {
            return Err(refused(format!("the engine has no knob that takes {name} = {value}")));
        }
        _ => return Ok(()),
    };
    Err(refused(why))
}

/// Whether a receive blocks is a property of the engine's sockets, not of the call.
fn check_receivers(scenario: &Scenario) -> Result<(), Refused> {
    let receives = scenario.timeline.iter().filter_map(|step| match &step.action {
        Action::Call { thread, call: Call::Recv { socket, nonblock, timeout } } => {
            Some((*socket, *thread, (*nonblock, *timeout)))
        }
        _ => None,
    });
    let receives: Vec<_> = receives.collect();
    for (socket, thread, how) in &receives {
        if receives.iter().any(|(other, by, other_how)| other == socket && by != thread && other_how != how) {
            return Err(refused("two threads receive from one socket in different ways"));
        }
    }
    Ok(())
}
