//! The devices of an engine: adding, up and down.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use napier_core::control::DevSettings;
use napier_core::rss::{DEFAULT_KEY, IndirectionTable, ToeplitzTable};
use napier_ring::FrameTable;

use super::carrier::Carrier;
use super::table::{DeviceEntry, DeviceTable};
use crate::deliver::Deliver;
use crate::journal::Tap;
use crate::napi::Napi;
use crate::netdev::{Device, Facts, Rss};
use crate::port::{AddDeviceError, EndConfig, Made, Ports, Taps};
use crate::tx::{TxPath, TxShared};

/// A device that is added.
pub(super) struct NewDevice {
    pub(super) config: EndConfig,
    pub(super) made: Made,
    /// By which table packets that come in were spread over the queues, and by which those that go out will be.
    pub(super) rss: Arc<Rss>,
    pub(super) peer_rss: Arc<Rss>,
    /// It is an end of a link.
    pub(super) in_process: bool,
}

pub(super) fn new_rss(queues: u16) -> Arc<Rss> {
    Arc::new(Rss {
        toeplitz: ToeplitzTable::new(&DEFAULT_KEY),
        indirection: ArcSwap::from_pointee(IndirectionTable::equal(queues)),
    })
}

/// The devices of an engine, and what they are made with.
pub(crate) struct EngineDevices {
    pub(super) deliver: Arc<Deliver>,
    pub(crate) frames: Arc<FrameTable>,
    /// It comes before the control lock of instances.
    table: Mutex<DeviceTable>,
}

impl EngineDevices {
    pub(super) fn new(deliver: Arc<Deliver>, frames: Arc<FrameTable>) -> Self {
        Self { deliver, frames, table: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, DeviceTable> {
        self.table.lock().expect("no panic while held")
    }

    /// The same where the engine goes away, perhaps because of a panic.
    fn lock_anyway(&self) -> MutexGuard<'_, DeviceTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Instances that can still be made.
    pub(super) fn napi_room(&self) -> usize {
        self.deliver.napi_room()
    }

    fn make(&self, table: &mut DeviceTable, new: NewDevice, irq_cpus: &[u32]) -> Arc<Device> {
        let NewDevice { config: end, made, rss, peer_rss, in_process } = new;
        let Made { ports: Ports { queues, senders }, mtu, unusable } = made;
        let rx_counters = queues.iter().map(|queue| queue.rx.counters().clone()).collect();
        let tx_counters = queues.iter().map(|queue| queue.tx.counters().clone()).collect();
        let taps = Taps {
            rx: queues.iter().map(|queue| queue.rx.tap().clone()).collect(),
            tx: queues.iter().map(|queue| queue.tx.tap().clone()).collect(),
            busy: Arc::default(),
            counted: Mutex::default(),
        };
        let (rx, tx): (Vec<_>, Vec<_>) = queues.into_iter().map(|queue| ((queue.rx, queue.irq), queue.tx)).unzip();
        let tx_shared = TxShared::new(
            self.deliver.this(),
            self.frames.clone(),
            end.netns.send_buffers().clone(),
            self.deliver.sysctl.qdisc_max_burst.clone(),
            senders,
        );
        let tx = tx.into_iter().map(|queue| TxPath::new(tx_shared.clone(), queue)).collect();
        let device = Arc::new(Device {
            name: end.name,
            ifindex: table.next_ifindex(),
            facts: Facts::new(end.mac, mtu),
            wrong_checksums: AtomicU64::new(0),
            in_process,
            addresses: end.addresses,
            netns: end.netns,
            tx,
            tx_shared,
            tx_by_cpu: AtomicBool::new(false),
            rss,
            peer_rss,
            up: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            threaded_changes: Mutex::new(()),
            tx_down: AtomicU64::new(0),
            merges: AtomicBool::new(true),
            taps,
        });
        let napis = (0..)
            .zip(rx)
            .zip(irq_cpus)
            .map(|((queue, (rx, irq)), cpu)| {
                self.deliver.add_napi(|index| {
                    let journal = self.deliver.journal.as_ref().map(|to| Tap::new(to, index, device.ifindex, queue));
                    device.tx[usize::from(queue)].bind(index, *cpu);
                    Napi::new(index, (device.clone(), queue), rx, irq, *cpu, self.deliver.started(), journal)
                })
            })
            .collect();
        device.netns.device_add(device.clone()).expect("the number is new and the addresses were checked");
        let settings = DevSettings::default();
        let device_of = device.clone();
        table.entries.push(DeviceEntry {
            device: device_of,
            napis,
            rx_counters,
            tx_counters,
            settings,
            admin_up: true,
            carrier: Carrier::new(unusable),
            attachment: None,
        });
        device
    }

    /// Adds a device, and brings it up if it has carrier.
    ///
    /// # Errors
    /// See [`AddDeviceError`]; nothing is added then, but numbers are used up, and the frame table keeps what it was given.
    pub(super) fn add(&self, table: &mut DeviceTable, new: NewDevice) -> Result<Arc<Device>, AddDeviceError> {
        let queues = u16::try_from(new.made.ports.queues.len()).expect("checked when the queues were made");
        let irq_cpus = self.check(table, &new.config, queues, new.made.mtu)?;
        let device = self.make(table, new, &irq_cpus);
        let up = self.follow_carrier(table.entry(&device));
        up.inspect_err(|_| self.take_back(table, &device))?;
        Ok(device)
    }

    /// Takes out a device that no caller has been given yet. Its ends are closed, its name is free.
    pub(super) fn take_back(&self, table: &mut DeviceTable, device: &Arc<Device>) {
        let position = table.entries.iter().position(|entry| Arc::ptr_eq(&entry.device, device));
        let entry = table.entries.remove(position.expect("it was added under this lock"));
        if device.up.load(Ordering::Relaxed) {
            self.down(&entry);
        }
        drop(self.detach(&entry));
        let _ = device.netns.device_del(device.ifindex);
    }

    pub(super) fn irq_cpus(&self, end: &EndConfig, queues: u16) -> Result<Vec<u32>, AddDeviceError> {
        let available: Vec<usize> = self.deliver.softirq.iter().map(|cpu| cpu.cpu).collect();
        let cpus = if end.irq_cpus.is_empty() { &available } else { &end.irq_cpus };
        (0..usize::from(queues))
            .map(|queue| {
                let cpu = cpus[queue % cpus.len()];
                self.deliver
                    .softirq
                    .index_of(cpu)
                    .ok_or_else(|| AddDeviceError::NoSuchSoftirqCpu { cpu, available: available.clone() })
            })
            .collect()
    }

    pub(super) fn up(&self, entry: &DeviceEntry) -> rustix::io::Result<()> {
        for (position, napi) in entry.napis.iter().enumerate() {
            if let Err(error) = self.deliver.napi_enable(napi) {
                entry.napis[..position].iter().for_each(|napi| self.deliver.napi_disable(napi));
                return Err(error);
            }
        }
        entry.device.tx.iter().for_each(|path| path.activate());
        entry.device.up.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn down(&self, entry: &DeviceEntry) {
        entry.device.up.store(false, Ordering::Relaxed);
        entry.device.tx.iter().for_each(|path| path.deactivate());
        for napi in &entry.napis {
            self.deliver.napi_disable(napi);
        }
    }

    /// From here on no device comes up and no thread is started; the engine is going away.
    pub(super) fn close(&self) {
        // Both locks: a device that is coming up now is up when this returns.
        let _table = self.lock_anyway();
        self.deliver.close();
    }

    /// Stops every instance. The devices stay, for those who hold them.
    pub(super) fn stop_all(&self) {
        // Not under the lock: what looks after them may want to bring a device up or down.
        let attachments: Vec<_> = self.lock_anyway().entries.iter_mut().map(|entry| entry.attachment.take()).collect();
        let on_interface: Vec<bool> = attachments.iter().map(Option::is_some).collect();
        drop(attachments);
        let mut napis = Vec::new();
        for entry in self.lock_anyway().with_removed() {
            if entry.device.up.load(Ordering::Relaxed) {
                self.down(entry);
            }
            for path in &entry.device.tx {
                path.stop_owner();
            }
            napis.extend(entry.napis.iter().cloned());
        }
        // A thread in the midst of a poll is waited for. None is started any more: the engine is closing.
        napis.iter().for_each(|napi| self.deliver.stop_runner(napi));
        for (entry, on_interface) in self.lock_anyway().entries.iter().zip(on_interface) {
            if on_interface {
                // Its queues are free again from here on, though programs may still have handles.
                drop(self.detach(entry));
            }
            let _ = entry.device.netns.device_del(entry.device.ifindex);
        }
    }
}

#[cfg(all(test, feature = "xdp"))]
#[path = "devices_tests.rs"]
mod tests;
