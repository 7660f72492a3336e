//! What cannot be done on a live kernel, or not by a pair of veth interfaces: found before anything is made.

use napier_core::control::ThreadedSetting;
use napier_scenario::{Action, Call, Device, Machine, Packets, Policy, Release, Scenario, SocketKind, Sysctl, Target};

use super::{Refused, knobs};
use crate::real::{cpus, refused};

/// Packets of a poll outside busy polling, `NAPI_POLL_WEIGHT`.
const WEIGHT: u32 = 64;
/// Packets that a queue of veth holds, `VETH_RING_SIZE`.
const RING: u32 = 256;
/// Packets that a socket's queue holds in scenarios that do not care.
const SOCKET_QUEUE: u32 = 1024;
/// Most events that a wait is asked for.
const EVENTS_MAX: i64 = 4096;
/// Most devices of a scenario: one byte of their addresses.
const DEVICES_MAX: usize = 256;

/// Refuses what a kernel does not let one do.
pub(super) fn check(scenario: &Scenario, processors: usize) -> Result<(), Refused> {
    let machine = &scenario.machine;
    check_release(scenario)?;
    check_machine(machine)?;
    machine.devices.iter().try_for_each(check_device)?;
    for socket in &machine.sockets {
        if socket.kind != SocketKind::Udp {
            return Err(refused("it needs a TCP socket, which this executor does not make"));
        }
        if socket.queue != SOCKET_QUEUE {
            return Err(refused("the kernel bounds a socket's queue in bytes, not in packets"));
        }
    }
    for step in &scenario.timeline {
        check_action(&step.action, machine)?;
    }
    cpus::check(scenario, processors, |call| {
        matches!(call, Call::Recv { .. } | Call::EpollWait { .. } | Call::Poll { .. })
    })
}

fn check_release(scenario: &Scenario) -> Result<(), Refused> {
    let Some(since) = scenario.kernel.since else { return Ok(()) };
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    match Release::parse(&text) {
        Some(release) if release >= since => Ok(()),
        _ => Err(refused(format!("it is so since Linux {since}, and this is {}", text.trim()))),
    }
}

fn check_machine(machine: &Machine) -> Result<(), Refused> {
    let kept = Sysctl { busy_read: 0, busy_poll: 0, ..machine.sysctl };
    let why = if machine.jitter || machine.late_interrupts {
        "its times vary by a seed"
    } else if !machine.groups.is_empty() {
        "no kernel has groups of CPUs that poll"
    } else if kept != Sysctl::defaults(machine.hz) {
        "it sets a knob of the whole machine that changes what other programs get"
    } else if machine.threads.iter().any(|thread| thread.policy == Policy::Fifo) {
        "a thread wants a real-time class"
    } else if machine.devices.len() > DEVICES_MAX {
        "it has more than 256 devices"
    } else {
        return Ok(());
    };
    Err(refused(why))
}

fn check_device(device: &Device) -> Result<(), Refused> {
    let why = if device.transmit.is_some() {
        "what a veth does with a packet that it sends is no driver's ring"
    } else if device.no_busy_poll {
        "each instance of veth gets an id"
    } else if device.weight != WEIGHT {
        "a live kernel polls with the weight of the driver, 64"
    } else if device.ring != RING {
        "a queue of veth holds 256 packets"
    } else if device.gro {
        "the kernel holds datagrams for merging only if its forwarding is told to"
    } else if device.rx_usecs != 0 || device.rx_frames != 0 {
        "veth has no interrupt to coalesce"
    } else if device.thread_policy == Policy::Fifo {
        "a NAPI thread wants a real-time class"
    } else if device.threaded == ThreadedSetting::Workqueue {
        "the kernel has no pool of workers: it is an extension of the engine"
    } else if !device.up {
        "its device begins down, and so without instances"
    } else {
        return Ok(());
    };
    Err(refused(why))
}

fn check_action(action: &Action, machine: &Machine) -> Result<(), Refused> {
    let why = match action {
        Action::Packets(Packets { rss: true, .. }) => "its packets are spread by hashes that it makes up",
        Action::Packets(Packets { syn: Some(_), .. }) => "it needs a TCP socket, which this executor does not make",
        Action::Packets(Packets { loopback: true, to: Target::Socket(socket), .. })
            if machine.sockets[socket.at()].connected =>
        {
            "a connected socket takes nothing from another source, as loopback is"
        }
        Action::Packets(_) | Action::Check(_) => return Ok(()),
        Action::Interrupt { .. } => "veth has no interrupt that could be taken without a packet",
        Action::Schedule { .. } => "it injects a schedule",
        Action::Arm { .. } => "it arms a timer from outside",
        Action::Stall { .. } => "it stalls a thread",
        Action::Hog { .. } => "it keeps a processor busy",
        Action::StopCpu { .. } => "it stops a processor",
        Action::CheckGroup(_) => "it looks at a group of CPUs",
        Action::FailThread { .. } => "it lets the creation of a thread fail",
        Action::Driver { .. } => "it lets a driver misbehave",
        Action::Tx { .. } | Action::CheckTx(_) => "it does something to a transmit queue from outside",
        Action::Call { call, .. } => return check_call(call, machine),
    };
    Err(refused(why))
}

fn check_call(call: &Call, machine: &Machine) -> Result<(), Refused> {
    let why = match call {
        Call::BusyLoop { .. } => "it makes a busy loop by itself, as only the kernel can",
        Call::SetQueues { .. } => "this executor does not change the number of queues",
        Call::Activate { .. } | Call::Deactivate { .. } => "no program takes a discipline away",
        Call::Delete { .. } => "no program deletes an instance",
        Call::Send(_) => "what a veth does with a packet that it sends is no driver's ring",
        Call::EpollWait { max_events, .. } if !(0..=EVENTS_MAX).contains(max_events) => {
            "it gives a wait a number of events that there is no room for"
        }
        Call::Ioctl { number, .. } if (number >> 8) & 0xff != 0x8a && *number != 0x5421 => {
            "what the ioctl does with its argument is not known"
        }
        Call::NapiDump { device: None, ifindex: None } if machine.devices.len() > 1 => {
            "each device is in a namespace of its own, and a dump shows one namespace"
        }
        Call::Sysctl { name, .. } if !knobs::TURNED.contains(&name.as_str()) => {
            "it sets a knob of the whole machine that changes what other programs get"
        }
        _ => return Ok(()),
    };
    Err(refused(why))
}
