//! Devices as peers come and go.
//!
//! A device is up while the user wants it up and there is carrier. A link in one process always has carrier; a device
//! whose peer is another process or the kernel loses it when the peer goes, and its instances are disabled until there
//! is a peer again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::devices::EngineDevices;
use super::table::DeviceEntry;
use crate::napi::Napi;
use crate::netdev::Device;
use crate::port::{RxEnd, TxEnd};
use crate::tx::TxPath;

impl EngineDevices {
    /// Sets whether a device that keeps its ends has its peer: `unusable` says why not, `gone` that it never will. No effect on a removed device.
    pub(crate) fn set_carrier(
        &self,
        device: &Arc<Device>,
        unusable: Option<String>,
        gone: bool,
    ) -> rustix::io::Result<()> {
        let mut devices = self.lock();
        let Some(entry) = devices.find_mut(device) else { return Ok(()) };
        entry.carrier.set(unusable, gone);
        self.follow_carrier(entry)
    }

    /// There is a peer, and these are the ends of the queues that lead to it, in their order. Queues beyond them stay
    /// without an end. Frames that the old ends hold must have gone home already.
    pub(crate) fn carrier_on(
        &self,
        device: &Arc<Device>,
        peer: String,
        ends: Vec<(RxEnd, TxEnd)>,
    ) -> rustix::io::Result<()> {
        let mut devices = self.lock();
        let entry = devices.entry_mut(device);
        entry.carrier.begin(peer);
        for ((napi, path), (rx, tx)) in entry.napis.iter().zip(&device.tx).zip(ends) {
            self.deliver.with_stopped(napi, |owned| {
                owned.collect_raw();
                owned.rx.attach(rx)
            });
            path.attach(tx);
        }
        self.follow_carrier(entry)
    }

    /// The peer is gone. Returns the ends that led to it, with the frames that they hold; none if there was no peer.
    pub(crate) fn carrier_off(&self, device: &Arc<Device>, reason: String) -> Vec<(RxEnd, TxEnd)> {
        let mut devices = self.lock();
        let entry = devices.entry_mut(device);
        if !entry.carrier.end(reason) {
            return Vec::new();
        }
        self.follow_carrier(entry).expect("nothing is watched on the way down");
        self.detach(entry)
    }

    /// Takes the ends of a device that is down, with the frames that they hold.
    pub(super) fn detach(&self, entry: &DeviceEntry) -> Vec<(RxEnd, TxEnd)> {
        let detach = |(napi, path): (&Arc<Napi>, &Arc<TxPath>)| {
            let rx = self.deliver.with_stopped(napi, |owned| owned.rx.attach(RxEnd::Detached));
            (rx, path.attach(TxEnd::Detached))
        };
        entry.napis.iter().zip(&entry.device.tx).map(detach).collect()
    }

    /// Brings a device up or down, as the user wants it and carrier allows it.
    pub(super) fn follow_carrier(&self, entry: &DeviceEntry) -> rustix::io::Result<()> {
        let is_up = entry.device.up.load(Ordering::Relaxed);
        match (is_up, entry.admin_up && entry.carrier.is_on()) {
            (false, true) if self.deliver.is_closing() => Err(rustix::io::Errno::SHUTDOWN),
            (false, true) => self.up(entry),
            (true, false) => {
                self.down(entry);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
