//! What an engine has, shown in the kernel's vocabulary: queues, devices, counters. And a handle that keeps nothing running, for
//! what answers such questions.

use std::sync::{Arc, Weak};

use napier_core::control::{DevInfo, QStats, QueryError, QueueInfo, QueueKind, check_dump_filter};

use super::table::DeviceEntry;
use super::{Engine, Running};

/// A handle that does not keep the engine running.
#[derive(Clone)]
pub struct WeakEngine {
    running: Weak<Running>,
}

impl WeakEngine {
    /// The engine, unless it has stopped. It runs on while the handle is held.
    #[must_use]
    pub fn upgrade(&self) -> Option<Engine> {
        let running = self.running.upgrade()?;
        Some(Engine { inner: running.inner.clone(), _running: running })
    }
}

impl Engine {
    /// A handle that does not keep the engine running.
    #[must_use]
    pub fn downgrade(&self) -> WeakEngine {
        WeakEngine { running: Arc::downgrade(&self._running) }
    }

    /// The numbers of the devices that have this name; each is in a name space of its own.
    #[must_use]
    pub fn ifindices(&self, name: &str) -> Vec<u32> {
        let devices = self.inner.devices.lock();
        let named = devices.entries.iter().filter(|entry| entry.device.name == name);
        named.map(|entry| entry.device.ifindex).collect()
    }

    /// queue-get without an id: the queues of all devices that are up, of one if `ifindex` is given; of each device
    /// those that receive first.
    ///
    /// # Errors
    /// ERANGE for index 0, ENODEV for an unknown one.
    pub fn queue_dump(&self, ifindex: Option<u64>) -> Result<Vec<QueueInfo>, QueryError> {
        self.of_devices(ifindex, |entry| {
            let DeviceEntry { device, napis, .. } = entry;
            let up = device.up.load(std::sync::atomic::Ordering::Relaxed);
            let info = |kind| {
                // The instance of a queue serves both directions, so both show it.
                let numbered = (0..).zip(napis).filter(move |_| up);
                numbered.map(move |(id, napi)| QueueInfo {
                    id,
                    ifindex: device.ifindex,
                    kind,
                    napi_id: Some(napi.id()),
                })
            };
            info(QueueKind::Rx).chain(info(QueueKind::Tx)).collect()
        })
    }

    /// dev-get of one device.
    ///
    /// # Errors
    /// EINVAL without an index, ERANGE for 0, ENODEV for an unknown one.
    pub fn dev_get(&self, ifindex: Option<u64>) -> Result<DevInfo, QueryError> {
        let wanted = ifindex.ok_or(QueryError::Missing("ifindex"))?;
        let found = self.of_devices(Some(wanted), |entry| vec![dev_info(entry)])?;
        found.first().copied().ok_or(QueryError::NoSuchDevice { ifindex: wanted })
    }

    /// dev-get without an index: all devices, by their numbers.
    #[must_use]
    pub fn dev_dump(&self) -> Vec<DevInfo> {
        self.of_devices(None, |entry| vec![dev_info(entry)]).unwrap_or_default()
    }

    /// qstats-get: counters of all devices, of one if `ifindex` is given; for each queue, or for a device as a whole. What the
    /// vocabulary has no word for is in [`DeviceStats`](crate::device::DeviceStats).
    ///
    /// # Errors
    /// ERANGE for index 0, ENODEV for an unknown one.
    pub fn qstats_dump(&self, ifindex: Option<u64>, by_queue: bool) -> Result<Vec<QStats>, QueryError> {
        self.of_devices(ifindex, |entry| if by_queue { by_queues(entry) } else { vec![whole(entry)] })
    }

    fn of_devices<T>(&self, ifindex: Option<u64>, show: impl Fn(&DeviceEntry) -> Vec<T>) -> Result<Vec<T>, QueryError> {
        let filter = check_dump_filter(ifindex)?;
        let devices = self.inner.devices.lock();
        let entries = devices.entries.iter().filter(|entry| filter.is_none_or(|wanted| entry.device.ifindex == wanted));
        let shown: Vec<Vec<T>> = entries.map(show).collect();
        match filter {
            Some(wanted) if shown.is_empty() => Err(QueryError::NoSuchDevice { ifindex: wanted.into() }),
            _ => Ok(shown.into_iter().flatten().collect()),
        }
    }
}

/// No device of an engine runs XDP programs.
fn dev_info(entry: &DeviceEntry) -> DevInfo {
    DevInfo {
        ifindex: entry.device.ifindex,
        xdp_features: Some(0),
        xdp_zc_max_segs: None,
        xdp_rx_metadata_features: Some(0),
        xsk_features: Some(0),
    }
}

fn by_queues(entry: &DeviceEntry) -> Vec<QStats> {
    let ifindex = entry.device.ifindex;
    let received = (0..).zip(&entry.rx_counters).map(|(id, counters)| {
        let mut stats = QStats::new(ifindex, Some((QueueKind::Rx, id)));
        stats.set("rx-packets", counters.packets.get());
        stats.set("rx-bytes", counters.bytes.get());
        stats.set("rx-alloc-fail", counters.no_frame_drops.get());
        stats.set("rx-hw-drops", counters.bad_descriptors.get() + counters.too_long.get());
        stats
    });
    let sent = (0..).zip(&entry.tx_counters).map(|(id, counters)| {
        let mut stats = QStats::new(ifindex, Some((QueueKind::Tx, id)));
        stats.set("tx-packets", counters.packets.get());
        stats.set("tx-bytes", counters.bytes.get());
        stats.set("tx-hw-drop-errors", counters.too_long_drops.get());
        stats
    });
    received.chain(sent).collect()
}

fn whole(entry: &DeviceEntry) -> QStats {
    let mut whole = QStats::new(entry.device.ifindex, None);
    for (name, value) in by_queues(entry).iter().flat_map(QStats::counted) {
        whole.set(name, whole.get(name).unwrap_or(0) + value);
    }
    whole
}
