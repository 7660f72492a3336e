//! Numbers that several parts of the engine must agree on.

use napier_stack::device::MTU;

/// Most NAPI instances that an engine makes in its life.
pub(crate) const NAPI_MAX: usize = 4096;

/// `NR_CPUS` of the rules: ids start above it, as on a distribution kernel built for 8192 processors.
pub(crate) const NR_CPUS: u32 = 8192;

/// Ticks per second of the rules that count in jiffies. The engine behaves as a kernel with HZ=1000.
pub(crate) const HZ: u32 = 1000;

/// Most slots of a ring.
pub(crate) const RING_SIZE_MAX: u32 = 4096;

/// Bytes of an Ethernet header.
pub(crate) const ETH_BYTES: u32 = 14;

/// Bytes of the largest IP packet that fits into frames of this size.
pub(crate) fn mtu_of(frame_bytes: u32) -> u32 {
    frame_bytes.saturating_sub(ETH_BYTES).min(MTU)
}
