//! What can go wrong when a device is added on an interface.

use napier_xsk::XskError;

use crate::port::AddDeviceError;

/// Why a device was not added on an interface.
#[derive(Debug, thiserror::Error)]
pub enum AddXdpError {
    /// The device as the engine knows it.
    #[error(transparent)]
    Device(#[from] AddDeviceError),
    /// The interface, or the sockets on it.
    #[error(transparent)]
    Interface(#[from] XskError),
    /// The engine's frame table.
    #[error("the device's frames cannot be registered: {0}")]
    Arena(#[from] napier_ring::ArenaError),
}

impl AddXdpError {
    /// Whether a capability or a part of the kernel is missing, rather than something being wrong.
    #[must_use]
    pub fn is_privilege(&self) -> bool {
        matches!(self, Self::Interface(error) if error.is_privilege())
    }
}
