//! Queues: which instance has each, and what drivers count of them (qstats-get).

use std::collections::BTreeMap;

use napier_core::control::{QSTATS, QStats, QueueKind};
use napier_core::metric::{Metric, Sink, Unit};

use super::{counter, gauge};
use crate::netdev::KernelQueue;

const QUEUE: &[&str] = &["device", "queue"];

static INSTANCE: Metric = gauge(
    "napier_kernel_queue_napi",
    Unit::Truth,
    "1 for the instance that polls a queue; queues that the driver names no instance of are left out",
    &["device", "queue", "type", "napi_id"],
);

/// By the places of [`QSTATS`]. Source: `Documentation/netlink/specs/netdev.yaml`, `qstats`.
static COUNTERS: [Metric; QSTATS.len()] = [
    counter("napier_kernel_queue_rx_packets", Unit::Count, "Packets received at a queue (rx-packets)", QUEUE),
    counter("napier_kernel_queue_rx", Unit::Bytes, "Bytes received at a queue (rx-bytes)", QUEUE),
    counter("napier_kernel_queue_tx_packets", Unit::Count, "Packets sent at a queue (tx-packets)", QUEUE),
    counter("napier_kernel_queue_tx", Unit::Bytes, "Bytes sent at a queue (tx-bytes)", QUEUE),
    counter(
        "napier_kernel_queue_rx_alloc_fail",
        Unit::Count,
        "Times that a queue had no memory for a packet (rx-alloc-fail)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_rx_hw_drops",
        Unit::Count,
        "Packets that the hardware of a queue dropped, for whatever reason (rx-hw-drops)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_rx_hw_drop_overruns",
        Unit::Count,
        "Packets that the hardware of a queue dropped for want of room (rx-hw-drop-overruns)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_rx_csum_complete",
        Unit::Count,
        "Packets whose checksum the hardware computed (rx-csum-complete)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_rx_csum_unnecessary",
        Unit::Count,
        "Packets whose checksum the hardware found right (rx-csum-unnecessary)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_rx_csum_none",
        Unit::Count,
        "Packets whose checksum was left to the kernel (rx-csum-none)",
        QUEUE,
    ),
    counter("napier_kernel_queue_rx_csum_bad", Unit::Count, "Packets whose checksum was wrong (rx-csum-bad)", QUEUE),
    counter(
        "napier_kernel_queue_rx_hw_gro_packets",
        Unit::Count,
        "Packets that the hardware made out of several (rx-hw-gro-packets)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_rx_hw_gro",
        Unit::Bytes,
        "Bytes of packets that the hardware made out of several (rx-hw-gro-bytes)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_rx_hw_gro_wire_packets",
        Unit::Count,
        "Packets that the hardware joined to others (rx-hw-gro-wire-packets)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_rx_hw_gro_wire",
        Unit::Bytes,
        "Bytes of packets that the hardware joined to others (rx-hw-gro-wire-bytes)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_rx_hw_drop_ratelimits",
        Unit::Count,
        "Packets received that a limit on their rate dropped (rx-hw-drop-ratelimits)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_tx_hw_drops",
        Unit::Count,
        "Packets that the hardware of a queue dropped on their way out (tx-hw-drops)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_tx_hw_drop_errors",
        Unit::Count,
        "Packets dropped on their way out because they were invalid (tx-hw-drop-errors)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_tx_csum_none",
        Unit::Count,
        "Packets sent that needed no checksum of the hardware (tx-csum-none)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_tx_needs_csum",
        Unit::Count,
        "Packets sent whose checksum the hardware computes (tx-needs-csum)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_tx_hw_gso_packets",
        Unit::Count,
        "Packets that the hardware cut into several (tx-hw-gso-packets)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_tx_hw_gso",
        Unit::Bytes,
        "Bytes of packets that the hardware cut into several (tx-hw-gso-bytes)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_tx_hw_gso_wire_packets",
        Unit::Count,
        "Packets that the hardware cut out of others (tx-hw-gso-wire-packets)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_tx_hw_gso_wire",
        Unit::Bytes,
        "Bytes of packets that the hardware cut out of others (tx-hw-gso-wire-bytes)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_tx_hw_drop_ratelimits",
        Unit::Count,
        "Packets to be sent that a limit on their rate dropped (tx-hw-drop-ratelimits)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_tx_stop",
        Unit::Count,
        "Times that a transmit queue was stopped because its ring was full (tx-stop)",
        QUEUE,
    ),
    counter(
        "napier_kernel_queue_tx_wake",
        Unit::Count,
        "Times that a transmit queue went on after it was stopped (tx-wake)",
        QUEUE,
    ),
];

pub(super) fn all() -> impl Iterator<Item = &'static Metric> {
    std::iter::once(&INSTANCE).chain(&COUNTERS)
}

pub(super) fn queues(queues: &[KernelQueue], names: &BTreeMap<u32, &str>, sink: &mut dyn Sink) {
    for KernelQueue { info, .. } in queues {
        let (Some(device), Some(napi_id)) = (names.get(&info.ifindex), info.napi_id) else { continue };
        let kind = match info.kind {
            QueueKind::Rx => "rx",
            QueueKind::Tx => "tx",
        };
        sink.sample(&INSTANCE, &[device, &info.id.to_string(), kind, &napi_id.to_string()], 1);
    }
}

pub(super) fn counters(stats: &[QStats], names: &BTreeMap<u32, &str>, sink: &mut dyn Sink) {
    for stats in stats {
        // Only queues: what a device counts as a whole is their sum, and what queues counted that are gone.
        let (Some(device), Some((_, queue))) = (names.get(&stats.ifindex), stats.queue) else { continue };
        let queue = queue.to_string();
        for (metric, count) in COUNTERS.iter().zip(stats.counters) {
            count.into_iter().for_each(|count| sink.sample(metric, &[device, &queue], count));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_has_the_name_of_its_place() {
        for (name, metric) in QSTATS.into_iter().zip(&COUNTERS) {
            let unit = if metric.unit == Unit::Bytes { "_bytes" } else { "" };
            assert_eq!(format!("{}{unit}", metric.name), format!("napier_kernel_queue_{}", name.replace('-', "_")));
            assert!(metric.help.ends_with(&format!(" ({name})")), "{}", metric.help);
        }
    }
}
