//! Interfaces without instances of their own, whose packets come up in the poll of another one's.

use super::{Finding, Severity, some};
use crate::facts::{DeviceFacts, Facts};

/// Kinds of interfaces that hand packets on within the poll that they came by, with the id of its instance. Source: receive handlers of
/// `drivers/net/macvlan.c`, `drivers/net/ipvlan`, `net/8021q/vlan_core.c`, `net/bridge/br_input.c`, `drivers/net/bonding`.
const KINDS: [&str; 9] = ["macvlan", "macvtap", "ipvlan", "ipvtap", "vlan", "bond", "team", "bridge", REDIRECTED];

/// One whose packets come up in the poll of another interface if a BPF program redirects them (`bpf_redirect_peer`), as Cilium's does.
const REDIRECTED: &str = "netkit";

/// What is to be said of an interface without instances whose sockets learn ids all the same; `None` if it is none of these.
pub(super) fn finding(facts: &Facts, device: &DeviceFacts) -> Option<Finding> {
    let name = device.name();
    let through = facts.program.as_ref().and_then(|program| Some((program, program.connections.get(name)?)));
    let with_id = through.filter(|(_, through)| through.with_id > 0);
    let kind = device.driver.as_deref().unwrap_or("a driver without a name");
    if with_id.is_none() && !KINDS.contains(&kind) {
        return None;
    }
    let what = match with_id {
        Some((program, through)) => {
            let foreign = |id: &u32| !facts.napi_ids.contains(id);
            let mut ids: Vec<u32> =
                program.sockets.iter().filter_map(|socket| socket.napi_id).filter(foreign).collect();
            ids.sort_unstable();
            ids.dedup();
            let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
            let whose = if ids.is_empty() {
                "another interface".to_owned()
            } else {
                format!("{}, which this namespace does not list", some(&ids))
            };
            format!(
                "{name} ({kind}) has no NAPI instance of its own, and {} of {} connections of {} ({}) by it receive from instances of {whose}.",
                through.with_id, through.count, program.name, program.pid
            )
        }
        None if kind == REDIRECTED => format!(
            "{name} ({kind}) has no NAPI instance of its own: its packets come up in the poll of the interface that a BPF program redirects them from, \
             and else in the backlog of a CPU."
        ),
        None => format!(
            "{name} ({kind}) has no NAPI instance of its own: its packets come up in the poll of the interface below it."
        ),
    };
    let why = "Sockets learn the instance of the interface below (SO_INCOMING_NAPI_ID), also where that is in another namespace, so busy polling \
               acts for them. Settings of the instance and a mode are to be applied at that interface.";
    Some(Finding::new("instances-below", Severity::Note, what, why).of(device).advice(super::pair::below(device)))
}
