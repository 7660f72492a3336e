//! dev-get and qstats-get: what is shown of a device and of its queues. Source: `Documentation/netlink/specs/netdev.yaml`,
//! `include/uapi/linux/netdev.h` (Linux 7.3).

use super::QueueKind;

/// Bits of `xdp-features`, from the lowest.
pub const XDP_FEATURES: [&str; 7] =
    ["basic", "redirect", "ndo-xmit", "xsk-zerocopy", "hw-offload", "rx-sg", "ndo-xmit-sg"];
/// Bits of `xdp-rx-metadata-features`, from the lowest.
pub const XDP_RX_METADATA_FEATURES: [&str; 3] = ["timestamp", "hash", "vlan-tag"];
/// Bits of `xsk-features`, from the lowest.
pub const XSK_FEATURES: [&str; 3] = ["tx-timestamp", "tx-checksum", "tx-launch-time-fifo"];

/// One device as dev-get shows it. `None` is what the answer does not have.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct DevInfo {
    /// `ifindex`.
    pub ifindex: u32,
    /// `xdp-features`: bits of [`XDP_FEATURES`].
    pub xdp_features: Option<u64>,
    /// `xdp-zc-max-segs`: most fragments of a frame with zero copy, if the driver has zero copy.
    pub xdp_zc_max_segs: Option<u32>,
    /// `xdp-rx-metadata-features`: bits of [`XDP_RX_METADATA_FEATURES`]; since Linux 6.6.
    pub xdp_rx_metadata_features: Option<u64>,
    /// `xsk-features`: bits of [`XSK_FEATURES`]; since Linux 6.8.
    pub xsk_features: Option<u64>,
}

/// Counters of qstats-get, in the order of their numbers, of which the first is [`QSTATS_FIRST`].
pub const QSTATS: [&str; 27] = [
    "rx-packets",
    "rx-bytes",
    "tx-packets",
    "tx-bytes",
    "rx-alloc-fail",
    "rx-hw-drops",
    "rx-hw-drop-overruns",
    "rx-csum-complete",
    "rx-csum-unnecessary",
    "rx-csum-none",
    "rx-csum-bad",
    "rx-hw-gro-packets",
    "rx-hw-gro-bytes",
    "rx-hw-gro-wire-packets",
    "rx-hw-gro-wire-bytes",
    "rx-hw-drop-ratelimits",
    "tx-hw-drops",
    "tx-hw-drop-errors",
    "tx-csum-none",
    "tx-needs-csum",
    "tx-hw-gso-packets",
    "tx-hw-gso-bytes",
    "tx-hw-gso-wire-packets",
    "tx-hw-gso-wire-bytes",
    "tx-hw-drop-ratelimits",
    "tx-stop",
    "tx-wake",
];

/// Number of the first counter. Source: `include/uapi/linux/netdev.h NETDEV_A_QSTATS_RX_PACKETS`.
pub const QSTATS_FIRST: u16 = 8;

/// Counters of a device, or of one of its queues.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct QStats {
    /// `ifindex`.
    pub ifindex: u32,
    /// `queue-type` and `queue-id`; `None` for the device as a whole.
    pub queue: Option<(QueueKind, u32)>,
    /// By the places of [`QSTATS`]; `None` is what is not counted.
    pub counters: [Option<u64>; QSTATS.len()],
}

impl QStats {
    /// Nothing is counted yet.
    #[must_use]
    pub const fn new(ifindex: u32, queue: Option<(QueueKind, u32)>) -> Self {
        Self { ifindex, queue, counters: [None; QSTATS.len()] }
    }

    /// Sets a counter.
    ///
    /// # Panics
    /// [`QSTATS`] has no such name.
    pub fn set(&mut self, name: &str, value: u64) {
        let place = QSTATS.iter().position(|counter| *counter == name).expect("a counter of qstats-get");
        self.counters[place] = Some(value);
    }

    /// A counter by its name; `None` where it is not counted.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        QSTATS.iter().position(|counter| *counter == name).and_then(|place| self.counters[place])
    }

    /// What is counted, in the kernel's order.
    pub fn counted(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        QSTATS.into_iter().zip(self.counters).filter_map(|(name, value)| Some((name, value?)))
    }
}

#[cfg(test)]
#[path = "show_tests.rs"]
mod tests;
