//! The NAPI instances of an interface as the list of changes counts them.

use napier_core::control::{NapiInfo, QueryError};

use crate::error::KernelError;
use crate::netdev;
use crate::setting::{DeviceRef, KeyError};

/// The instances of an interface, the oldest first.
pub(super) fn instances(device: &DeviceRef) -> Result<Vec<NapiInfo>, KeyError> {
    let mut infos = netdev::napi_dump(Some(device.ifindex)).map_err(|error| match error {
        KernelError::Refused(QueryError::NoSuchDevice { .. }) => KeyError::Gone(format!("{} is gone", device.name)),
        error => KeyError::of(error),
    })?;
    infos.sort_unstable_by_key(|info| info.id);
    Ok(infos)
}

/// Whether it is there, and down.
pub(super) fn is_down(device: &DeviceRef) -> bool {
    device.is_up().is_ok_and(|is_up| !is_up)
}
