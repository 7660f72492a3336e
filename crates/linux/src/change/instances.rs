//! The NAPI instances of an interface as the list of changes counts them.

use napier_core::control::{NapiInfo, QueryError};

use crate::error::KernelError;
use crate::setting::{DeviceRef, KeyError};
use crate::{device, netdev};

/// The instances of an interface, the oldest first.
pub(super) fn instances(device: &DeviceRef) -> Result<Vec<NapiInfo>, KeyError> {
    let mut infos = netdev::napi_dump(Some(device.ifindex)).map_err(|error| match error {
        KernelError::Refused(QueryError::NoSuchDevice { .. }) => KeyError::Gone(format!("{} is gone", device.name)),
        error => KeyError::of(error),
    })?;
    infos.sort_unstable_by_key(|info| info.id);
    Ok(infos)
}

/// Whether it is there, and down (`IFF_UP` of `netdevice(7)`).
pub(super) fn is_down(device: &DeviceRef) -> bool {
    let flags = device.name_now().ok().and_then(|name| device::read_file(&name, "flags").ok());
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    flags.is_some_and(|flags| flags & 1 == 0)
}
