//! Whether a device can be added, before anything is made for it.

use super::devices::EngineDevices;
use super::table::DeviceTable;
use crate::bounds::ETH_BYTES;
use crate::port::{AddDeviceError, EndConfig};
use napier_stack::NetNs;

/// The least that IPv6 works with. Source: RFC 8200 section 5.
const MTU_MIN_V6: u32 = 1280;

/// The least that IPv4 works with. Source: RFC 791 section 3.2.
const MTU_MIN_V4: u32 = 68;

/// The least MTU that packets of this address need.
pub(super) fn least_mtu(addr: std::net::IpAddr) -> u32 {
    if addr.is_ipv4() { MTU_MIN_V4 } else { MTU_MIN_V6 }
}

impl EngineDevices {
    /// Whether a device with this configuration can be added; nothing is changed. `mtu`: of the device.
    ///
    /// # Errors
    /// See [`AddDeviceError`].
    pub(super) fn check(
        &self,
        table: &DeviceTable,
        config: &EndConfig,
        queues: u16,
        mtu: u32,
    ) -> Result<Vec<u32>, AddDeviceError> {
        table.check_name(&config.name)?;
        if self.napi_room() < usize::from(queues) {
            return Err(AddDeviceError::TooManyInstances);
        }
        if !config.netns.has_frames_of(&self.frames) {
            return Err(AddDeviceError::ForeignNamespace);
        }
        for address in &config.addresses {
            NetNs::check_address(*address)?;
            let least = least_mtu(address.addr);
            if mtu < least {
                let frame_bytes = (least + ETH_BYTES).next_multiple_of(64);
                return Err(AddDeviceError::MtuTooSmall { mtu, addr: address.addr, least, frame_bytes });
            }
        }
        self.irq_cpus(config, queues)
    }
}
