//! What a sender is told, and why a packet was dropped. Source: `include/linux/netdevice.h NET_XMIT_*`,
//! `include/net/dropreason-core.h` (Linux 7.3).

use crate::control::Errno;

/// What a sender is told.
#[must_use]
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum XmitCode {
    /// 0: sent, queued, or handed to a flusher.
    Success,
    /// 1: dropped.
    Drop,
    /// 2: queued, and something else of the sender's was dropped for it; protocols take it for success.
    Congested,
    /// A negative error number.
    Error(Errno),
}

impl XmitCode {
    /// The number that the kernel returns.
    #[inline]
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Success => 0,
            Self::Drop => 1,
            Self::Congested => 2,
            Self::Error(errno) => -errno.number(),
        }
    }

    /// What a protocol makes of it: `None` is success. A drop is `ENOBUFS`, which UDP reports only to a socket that has
    /// asked for errors, and otherwise counts as `SndbufErrors`. Source: `include/linux/netdevice.h net_xmit_errno`.
    #[inline]
    #[must_use]
    pub const fn errno(self) -> Option<Errno> {
        match self {
            Self::Success | Self::Congested => None,
            Self::Drop => Some(Errno::ENOBUFS),
            Self::Error(errno) => Some(errno),
        }
    }
}

macro_rules! drop_reasons {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal),* $(,)?) => {
        /// Why a packet was dropped on its way to the driver.
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum DropReason { $($(#[doc = $doc])* $name),* }

        impl DropReason {
            /// All of them.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$name),*];

            /// The name under which it is counted.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }
        }
    };
}

drop_reasons! {
    /// The queueing discipline dropped it and gave no reason.
    Generic = "qdisc_generic",
    /// The discipline was full.
    Overlimit = "qdisc_overlimit",
    /// The flow's share of the discipline was full.
    FlowLimit = "qdisc_flow_limit",
    /// The departure time lies too far in the future.
    Horizon = "qdisc_horizon",
    /// Too many packets waited for the flusher; not one of the discipline's own drops.
    Burst = "qdisc_burst",
    /// The discipline is being taken away from the device, or was.
    Deactivated = "qdisc_deactivated",
    /// The device is down.
    DeviceDown = "device_down",
    /// The device transmits to itself.
    DeadLoop = "dead_loop",
    /// The device has no discipline in which the packet could wait, and its queue is stopped or the driver is full.
    QueueStopped = "queue_stopped",
}

/// A packet that was dropped, and why.
#[must_use = "a drop is counted, and its memory given back"]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DroppedPacket<P> {
    /// The packet.
    pub packet: P,
    /// Why.
    pub reason: DropReason,
}

/// Dropped packets by reason; each only grows.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct TxDrops {
    pkts: [u64; DropReason::ALL.len()],
}

impl TxDrops {
    /// Nothing dropped.
    pub const NONE: Self = Self { pkts: [0; DropReason::ALL.len()] };

    /// Counts one packet.
    #[inline]
    pub const fn count(&mut self, reason: DropReason) {
        self.pkts[reason as usize] += 1;
    }

    /// Packets dropped for `reason`.
    #[inline]
    #[must_use]
    pub const fn get(&self, reason: DropReason) -> u64 {
        self.pkts[reason as usize]
    }

    /// Packets dropped for any reason.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.pkts.iter().sum()
    }

    /// Every reason with its packets.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> {
        DropReason::ALL.into_iter().map(|reason| (reason, self.get(reason)))
    }
}

#[cfg(test)]
#[path = "codes_tests.rs"]
mod tests;
