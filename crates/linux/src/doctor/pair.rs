//! What is to be done at the other end of a pair of veth interfaces, and at the interface below one that has no instances.

use crate::facts::{DeviceFacts, LeadsTo};

/// What makes packets of a veth pass by its instances, and where that is switched off. Source: `drivers/net/veth.c
/// veth_skb_is_eligible_for_gro`.
pub(super) fn other_end(device: &DeviceFacts) -> String {
    match &device.leads_to {
        Some(LeadsTo { name: Some(name), segments: Some(false), .. }) => format!(
            "The other end, {name}, sends without segmentation offload, so it is not that: look for what takes packets before the instances do, \
             such as an XDP program."
        ),
        Some(LeadsTo { name: Some(name), is_here, .. }) => {
            let there = if *is_here { "" } else { ", in its namespace" };
            format!(
                "The other end, {name}, sends with segmentation offload, as it does by default: ethtool -K {name} tso off{there}. napier run does \
                 that by itself for as long as a mode is in force."
            )
        }
        Some(LeadsTo { name: None, ifindex, .. }) => format!(
            "The other end of the pair sends with segmentation offload, as it does by default. It cannot be set from here: it is interface number \
             {ifindex} of another namespace, the host's as a rule. There `ip link` shows `{ifindex}: NAME`, and it is ethtool -K NAME tso off."
        ),
        None => "The other end of the pair sends with segmentation offload, as it does by default: switch that off there, in its \
                 namespace (ethtool -K PEER tso off)."
            .to_owned(),
    }
}

/// What is set on this side of an interface without instances, and what at the interface below it, with what is to be typed there.
pub(super) fn below(device: &DeviceFacts) -> String {
    let (place, name) = match &device.leads_to {
        Some(LeadsTo { name: Some(name), is_here: true, .. }) => {
            return format!(
                "Apply the mode at {name}, the interface below it: napier run --dev {name} --mode suspend20 -- PROGRAM."
            );
        }
        Some(LeadsTo { name: Some(name), .. }) => (format!("{name}, in another namespace"), name.as_str()),
        Some(LeadsTo { name: None, ifindex, .. }) => (
            format!(
                "interface number {ifindex} of another namespace, the host's as a rule (`ip link` there shows `{ifindex}: NAME`)"
            ),
            "NAME",
        ),
        None => ("the interface below it (ip -d link show names it)".to_owned(), "NAME"),
    };
    format!(
        "In this namespace only a program's own descriptors can be set. Instances are set at {place}. There one command does both: napier run --dev \
         {name} --mode suspend20 --attach PID, with the number that the process has there, or --container or --pod."
    )
}
