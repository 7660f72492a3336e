//! Interfaces that no mode can reach.

use super::kept::not_before;
use super::{Finding, Severity, some};
use crate::change::{EthtoolKey, Key, Line};
use crate::drivers;
use crate::ethtool::Group;
use crate::facts::{DeviceFacts, Facts};
use crate::netdev::absent::{AboutInterface, is_virtual, why};

pub(super) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    let any = facts.devices.iter().any(|device| !device.instances().is_empty());
    for device in &facts.devices {
        if !device.is_up {
            found.push(down(device));
            continue;
        }
        // A host has many interfaces without instances beside the one that matters.
        if device.is_asked || !any {
            found.extend(no_instance(facts, device));
        }
        found.extend(queues_without_ids(facts, device));
        found.extend(xsk_copies(facts, device));
    }
}

fn down(device: &DeviceFacts) -> Finding {
    let what = format!("{} is down.", device.name());
    let why = "A device that is down shows no NAPI instances, and nothing can be set on them.";
    Finding::new("interface-down", Severity::Warning, what, why)
        .of(device)
        .advice(format!("ip link set {} up", device.name()))
}

fn no_instance(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    if !device.instances.as_ref()?.is_empty() {
        return None;
    }
    let name = device.name();
    if device.driver.as_deref() == Some("veth") && device.gro == Some(false) && !device.has_xdp {
        let what = format!("{name} is a veth with generic receive offload off, so it has no NAPI instance.");
        let why = "A veth makes instances only for GRO or an XDP program. Without one, packets are received in the sender's \
                   system call, and no mode can be applied.";
        let key = EthtoolKey { device: device.device.clone(), group: Group::Features, name: "rx-gro".to_owned() };
        let is_off = device.leads_to.as_ref().is_some_and(|other| other.segments == Some(false));
        let finding = Finding::new("no-instance", Severity::Serious, what, why).of(device);
        let finding = finding.mend([Line::new(Key::Ethtool(key), "on")]);
        return Some(if is_off { finding } else { finding.advice(super::pair::other_end(device)) });
    }
    if let Some(below) = super::stacked::finding(facts, device) {
        return Some(below);
    }
    let driver = device.driver.as_deref().unwrap_or("its driver");
    if is_virtual(driver) {
        let known = AboutInterface {
            name: name.to_owned(),
            kind: device.driver.clone(),
            is_up: Some(true),
            ..AboutInterface::default()
        };
        let what = format!("{}.", why(&known));
        let why = "A mode is set on NAPI instances, and sockets learn theirs from packets: neither is there.";
        // One among many is nothing; of the one that was asked about it is the answer.
        let severity = if device.is_asked { Severity::Warning } else { Severity::Note };
        return Some(Finding::new("driver-without-ids", severity, what, why).of(device));
    }
    let what = format!("{name} ({driver}) is up and has no NAPI instance with an id.");
    let why = "Instances without an id are not listed, sockets cannot learn them (SO_INCOMING_NAPI_ID is 0), and so neither \
               busy polling nor suspension nor settings of instances can be had there.";
    let advice = "The settings of the whole interface in /sys/class/net still work, as far as its driver uses NAPI. Use the \
                  interface below it, if it is stacked on one.";
    Some(Finding::new("driver-without-ids", Severity::Serious, what, why).of(device).advice(advice))
}

/// Source: `netif_queue_set_napi` in each driver, see [`drivers`].
fn queues_without_ids(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let any = device.rx_queues.iter().any(|queue| queue.napi_id.is_some());
    if any || device.instances().is_empty() || device.rx_queues.is_empty() {
        return None;
    }
    let driver = device.driver.as_deref().unwrap_or("the driver");
    let version = facts.kernel.version;
    let later = drivers::of(driver).map(|known| known.queues).filter(|fact| fact.on(version) == Some(false));
    let since = later.as_ref().map(|fact| not_before(fact, version)).unwrap_or_default();
    let what =
        format!("{driver} does not say which NAPI instance serves which receive queue of {}{since}.", device.name());
    let why = "An AF_XDP socket learns its instance from its queue, so it cannot busy poll there, and a queue cannot be given to \
               a worker by its instance. UDP and TCP sockets are not concerned: they learn it from packets.";
    Some(Finding::new("queues-without-ids", Severity::Note, what, why).of(device))
}

/// What the kernel says counts; without that, what is known of its driver.
fn xsk_copies(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let queues: Vec<String> = device.xsk_queues.iter().map(u32::to_string).collect();
    let driver = device.driver.as_deref().unwrap_or("the driver");
    let version = facts.kernel.version;
    let known = drivers::of(driver).map(|known| known.zero_copy);
    let has = device.xsk_zero_copy.or_else(|| known?.on(version));
    if queues.is_empty() || has != Some(false) {
        return None;
    }
    let since = known.filter(|fact| fact.on(version) == Some(false)).map(|fact| not_before(&fact, version));
    let since = since.unwrap_or_default();
    let (word, verb) = if queues.len() == 1 { ("queue", "has") } else { ("queues", "have") };
    let what = format!(
        "Receive {word} {} of {} {verb} AF_XDP sockets, and {driver} has no zero copy{since}.",
        some(&queues),
        device.name()
    );
    let why = "The kernel copies each packet between the driver's memory and that of the socket, and a packet that is sent takes the way of \
               other programs' packets.";
    Some(Finding::new("xsk-copies", Severity::Note, what, why).of(device))
}
