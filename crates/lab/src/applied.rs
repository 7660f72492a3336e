//! What is in force on a device of the engine, for footers, summaries and their JSON.

use std::collections::BTreeMap;

use anyhow::ensure;
pub use napier_runtime::device::Coalesce;
use napier_runtime::device::{DeviceHandle, XdpInfo, XdpMode};

/// What is in force, by name.
pub type Applied = BTreeMap<String, String>;

/// Name of the coalescing among what is in force.
pub const COALESCING: &str = "interrupt coalescing";
/// Name of the way to an interface of the kernel.
pub const XDP: &str = "AF_XDP";

/// What is in force on a device.
#[must_use]
pub fn of(device: &DeviceHandle) -> Applied {
    let coalesce = device.coalesce(0).unwrap_or_default();
    let mut all = Applied::from([(COALESCING.to_owned(), coalescing(coalesce))]);
    if let Some(info) = device.xdp_info() {
        all.insert(XDP.to_owned(), xdp(&info));
    }
    all
}

/// Sets interrupt coalescing on all queues of a device.
///
/// # Errors
/// Frames are to be counted, and the peer does not tell of them.
pub fn coalesce(device: &DeviceHandle, coalesce: Coalesce) -> anyhow::Result<()> {
    ensure!(
        (0..device.queues()).all(|queue| device.set_coalesce(queue, coalesce)),
        "--coalesce {}: frames are counted on a link only; give RX_USECS alone, adaptive or off",
        coalesce
    );
    Ok(())
}

/// Coalescing, in the words of `ethtool -c`.
#[must_use]
pub fn coalescing(coalesce: Coalesce) -> String {
    if coalesce.use_adaptive_rx() {
        let us = napier_core::moderation::ADAPTIVE_HOLD.ns / 1000;
        return format!("{coalesce}: at once, or held back for at most {us} us while interrupts come closer than that");
    }
    coalesce.to_string()
}

/// How the kernel hands packets to the device: zero-copy, copy or generic.
#[must_use]
pub fn xdp(info: &XdpInfo) -> String {
    let way = match (info.mode, info.zero_copy) {
        (XdpMode::Generic, _) => "generic (in the kernel's stack, with a copy)",
        (_, true) => "zero-copy (the driver uses the device's memory)",
        (_, false) => "copy (in the driver, with a copy)",
    };
    format!("{way} on {}", info.interface)
}
