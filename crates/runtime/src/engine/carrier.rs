//! Carrier: whether there is a peer at the other end of a device, and who it is.
//!
//! A device is up while the user wants it up and there is carrier. A link in one process always has carrier; a device
//! whose peer is another process or the kernel loses it when the peer goes, and its instances are disabled until there
//! is a peer again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::DeviceHandle;
use super::EngineInner;
use super::devices::DeviceEntry;
use crate::napi::Napi;
use crate::netdev::Device;
use crate::port::{RxEnd, TxEnd};
use crate::tx::TxPath;

/// How long [`DeviceHandle::wait_link`] goes without a look.
const LOOK: Duration = Duration::from_millis(1);

/// What a device knows of its peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkState {
    /// Whether there is a peer.
    pub carrier: bool,
    /// What the peer calls itself, if it says so. Its own words: not to be trusted.
    pub peer: Option<String>,
    /// Why there is no peer now, or why the one before went.
    pub reason: Option<String>,
    /// Times that a peer went away.
    pub losses: u64,
    /// Whether there will be none again, because the interface that the device is on was removed.
    pub gone: bool,
}

/// Carrier as the engine keeps it.
pub(crate) struct Carrier(LinkState);

impl Carrier {
    /// A peer that is there, or is not yet for a reason.
    pub(crate) fn new(unusable: Option<String>) -> Self {
        Self(LinkState { carrier: unusable.is_none(), reason: unusable, ..LinkState::default() })
    }

    pub(super) fn losses(&self) -> u64 {
        self.0.losses
    }
}

impl EngineInner {
    /// Sets whether a device that keeps its ends has its peer: `unusable` says why not, `gone` that it never will. No effect on a removed device.
    pub(crate) fn set_carrier(
        &self,
        device: &Arc<Device>,
        unusable: Option<String>,
        gone: bool,
    ) -> rustix::io::Result<()> {
        let mut devices = self.devices.lock().expect("no panic while held");
        let Some(entry) = devices.find_mut(device) else { return Ok(()) };
        let state = &mut entry.carrier.0;
        let (had, has) = (state.carrier, unusable.is_none());
        state.carrier = has;
        state.losses += u64::from(had && !has);
        state.reason = unusable;
        state.gone = gone;
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
        let mut devices = self.devices.lock().expect("no panic while held");
        let entry = devices.entry_mut(device);
        assert!(!entry.carrier.0.carrier, "a device has one peer at a time");
        for ((napi, path), (rx, tx)) in entry.napis.iter().zip(&device.tx).zip(ends) {
            self.deliver.with_stopped(napi, |owned| {
                owned.collect_raw();
                owned.rx.attach(rx)
            });
            path.attach(tx);
        }
        entry.carrier.0 =
            LinkState { carrier: true, peer: Some(peer), losses: entry.carrier.0.losses, ..LinkState::default() };
        self.follow_carrier(entry)
    }

    /// The peer is gone. Returns the ends that led to it, with the frames that they hold; none if there was no peer.
    pub(crate) fn carrier_off(&self, device: &Arc<Device>, reason: String) -> Vec<(RxEnd, TxEnd)> {
        let mut devices = self.devices.lock().expect("no panic while held");
        let entry = devices.entry_mut(device);
        let had = std::mem::replace(&mut entry.carrier.0.carrier, false);
        entry.carrier.0.reason = Some(reason);
        if !had {
            return Vec::new();
        }
        entry.carrier.0.losses += 1;
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
        match (is_up, entry.admin_up && entry.carrier.0.carrier) {
            (false, true) if self.deliver.is_closing() => Err(rustix::io::Errno::SHUTDOWN),
            (false, true) => self.device_up(entry),
            (true, false) => {
                self.device_down(entry);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl DeviceHandle {
    /// Whether the device has a peer, and who it is.
    #[must_use]
    pub fn link_state(&self) -> LinkState {
        let devices = self.engine.devices.lock().expect("no panic while held");
        devices.entry(&self.device).carrier.0.clone()
    }

    /// Waits until the device has a peer; false if it has none after `at_most`.
    #[must_use]
    pub fn wait_link(&self, at_most: Duration) -> bool {
        let until = Instant::now() + at_most;
        loop {
            if self.link_state().carrier {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }
}
