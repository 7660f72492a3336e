//! What an engine knows of each of its devices.

use std::any::Any;
use std::sync::Arc;

use napier_core::control::DevSettings;

use super::carrier::Carrier;
use crate::napi::Napi;
use crate::netdev::Device;
use crate::port::{AddDeviceError, RxCounters, TxCounters};

/// The devices of an engine, in the order in which they came.
#[derive(Default)]
pub(crate) struct DeviceTable {
    pub(crate) entries: Vec<DeviceEntry>,
    /// Those that were removed, for handles that are left: instances and frames are made for an engine's life, so there are few.
    removed: Vec<DeviceEntry>,
    ifindex_last: u32,
}

/// One device.
pub(crate) struct DeviceEntry {
    pub(crate) device: Arc<Device>,
    pub(crate) napis: Vec<Arc<Napi>>,
    pub(super) rx_counters: Vec<Arc<RxCounters>>,
    pub(super) tx_counters: Vec<Arc<TxCounters>>,
    pub(crate) settings: DevSettings,
    /// As the user wants it; the device is up if there is carrier as well.
    pub(super) admin_up: bool,
    pub(super) carrier: Carrier,
    /// What looks after the device's peer, if the kind has something for each device.
    pub(super) attachment: Option<Box<dyn Any + Send>>,
}

impl DeviceTable {
    /// A number that no device has had.
    pub(super) fn next_ifindex(&mut self) -> u32 {
        self.ifindex_last += 1;
        self.ifindex_last
    }

    /// The device with this number.
    pub(super) fn of_ifindex(&self, ifindex: u32) -> Option<&DeviceEntry> {
        self.entries.iter().find(|entry| entry.device.ifindex == ifindex)
    }

    /// Whether a device can have this name.
    ///
    /// # Errors
    /// It cannot be a name, or another device has it.
    pub(super) fn check_name(&self, name: &str) -> Result<(), AddDeviceError> {
        let name = name.to_owned();
        if name.is_empty() || name.len() > 15 || name.contains('\0') {
            return Err(AddDeviceError::BadName { name });
        }
        if self.entries.iter().any(|entry| entry.device.name == name) {
            return Err(AddDeviceError::NameTaken { name });
        }
        Ok(())
    }

    /// The entry of a device, also of one that was removed.
    pub(crate) fn entry(&self, device: &Arc<Device>) -> &DeviceEntry {
        let found = self.with_removed().find(|entry| Arc::ptr_eq(&entry.device, device));
        found.expect("handles name added devices")
    }

    /// All that there are or were.
    pub(super) fn with_removed(&self) -> impl Iterator<Item = &DeviceEntry> {
        self.entries.iter().chain(&self.removed)
    }

    /// Takes a device out, and the other end of a link with it, as a pair of veth interfaces goes together. Their names are free, and nothing but
    /// handles knows them from here on. No device: it was removed before, or is another engine's.
    pub(super) fn take_out(&mut self, device: &Arc<Device>) -> Vec<Arc<Device>> {
        if !self.entries.iter().any(|entry| Arc::ptr_eq(&entry.device, device)) {
            return Vec::new();
        }
        let goes = |entry: &mut DeviceEntry| {
            let other = &entry.device;
            Arc::ptr_eq(other, device) || (other.in_process && Arc::ptr_eq(&other.rss, &device.peer_rss))
        };
        let out: Vec<_> = self.entries.extract_if(.., goes).collect();
        let devices = out.iter().map(|entry| entry.device.clone()).collect();
        self.removed.extend(out);
        devices
    }

    /// The entry of a device that was not removed, to be changed.
    pub(super) fn find_mut(&mut self, device: &Arc<Device>) -> Option<&mut DeviceEntry> {
        self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.device, device))
    }

    /// As [`entry`](Self::entry), to be changed.
    pub(crate) fn entry_mut(&mut self, device: &Arc<Device>) -> &mut DeviceEntry {
        let mut all = self.entries.iter_mut().chain(&mut self.removed);
        all.find(|entry| Arc::ptr_eq(&entry.device, device)).expect("handles name added devices")
    }
}
