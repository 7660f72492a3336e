//! Removing devices while the engine runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::EngineInner;
use crate::netdev::Device;

/// Why a device was not removed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RemoveDeviceError {
    /// It is none of this engine's devices.
    #[error("{name} is no device of this engine (ENODEV): it was removed before, or belongs to another engine")]
    NoSuchDevice {
        /// Name of the device.
        name: String,
    },
}

impl EngineInner {
    /// Takes down what devices are made of, which the table of devices knows no more.
    pub(super) fn remove(&self, going: &[Arc<Device>]) {
        going.iter().for_each(|device| self.quiesce(device));
        // Both ends of a link are still by then.
        going.iter().for_each(|device| self.dismantle(device));
    }

    /// No thread works for the device after this, and none is started.
    fn quiesce(&self, device: &Arc<Device>) {
        let Self { devices, deliver, .. } = self;
        // Release: pairs with the Acquire of those that look before they sleep or start a thread.
        device.removed.store(true, Ordering::Release);
        // Not under the lock: what looks after the device may want to bring it up or down.
        let attachment = devices.lock().entry_mut(device).attachment.take();
        drop(attachment);
        let napis = {
            let mut table = devices.lock();
            let entry = table.entry_mut(device);
            entry.admin_up = false;
            entry.carrier.set(Some("the device was removed".to_owned()), true);
            entry.napis.clone()
        };
        napis.iter().for_each(|napi| deliver.groups.leave(deliver, napi));
        if device.up.load(Ordering::Relaxed) {
            devices.down(devices.lock().entry(device));
        }
        for path in &device.tx {
            path.stop_owner();
        }
        // A change of threads is over then, or finds no device.
        let _one_at_a_time = device.threaded_changes.lock().expect("no panic while held");
        napis.iter().for_each(|napi| deliver.stop_runner(napi));
    }

    /// Gives up what leads to the peer, and the device's place in its name space.
    fn dismantle(&self, device: &Arc<Device>) {
        let devices = &self.devices;
        let ends = devices.detach(devices.lock().entry(device));
        drop(ends);
        // While there is still a way by it: connections are told by the way that they go.
        device.netns.tcp_drop(device.ifindex);
        let _ = device.netns.device_del(device.ifindex);
        let table = devices.lock();
        table.entry(device).napis.iter().for_each(|napi| napi.raw_parker.wake_all());
    }
}
