//! A device of the engine that is held for others, until an interrupt.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use napier_control::ControlSocket;

use super::device::{DeviceConfig, OneDevice};
use super::run::DeviceWatch;
use crate::modes::Mode;

/// How often the device is looked after.
const LOOK: Duration = Duration::from_millis(100);

/// Starts a device, applies a mode to it whenever a peer has come, and keeps what `begin` makes of it until `interrupted`.
///
/// # Errors
/// The device cannot be started, the mode not be applied, or the interface has gone; what `begin` says.
pub fn hold<T>(
    config: &DeviceConfig,
    mode: Option<Mode>,
    interrupted: &AtomicBool,
    begin: impl FnOnce(&OneDevice) -> anyhow::Result<T>,
) -> anyhow::Result<()> {
    let one = OneDevice::start(config)?;
    one.left_to_kernel().iter().for_each(|left| eprintln!("napier: {left}"));
    // It is for looking and setting; the engine does without.
    let _control = ControlSocket::open(&one.engine)
        .inspect_err(|why| eprintln!("napier: {why}; the engine goes on without a control socket"))
        .ok();
    let mut watch = DeviceWatch::new(mode);
    watch.at(&one)?;
    let held = begin(&one)?;
    while !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        watch.at(&one)?;
    }
    drop(held);
    Ok(())
}
