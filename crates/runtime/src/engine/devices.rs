//! The devices of an engine: adding, up and down.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use napier_core::control::DevSettings;
use napier_core::rss::{DEFAULT_KEY, IndirectionTable, ToeplitzTable};

use super::EngineInner;
use super::carrier::Carrier;
use crate::journal::Tap;
use crate::napi::Napi;
use crate::netdev::{Device, Facts, Rss};
use crate::port::{AddDeviceError, EndConfig, Made, Ports, RxCounters, Taps, TxCounters};
use crate::tx::{TxPath, TxShared};

/// The devices of an engine. Guarded by one lock, which comes before the control lock of their instances.
#[derive(Default)]
pub(crate) struct Devices {
    pub(crate) entries: Vec<DeviceEntry>,
    ifindex_last: u32,
}

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

impl Devices {
    fn add(&mut self, engine: &Arc<EngineInner>, new: NewDevice, irq_cpus: &[u32]) -> Arc<Device> {
        self.ifindex_last += 1;
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
            engine.deliver.this(),
            engine.frames.clone(),
            end.netns.send_buffers().clone(),
            engine.deliver.sysctl.qdisc_max_burst.clone(),
            senders,
        );
        let tx = tx.into_iter().map(|queue| TxPath::new(tx_shared.clone(), queue)).collect();
        let device = Arc::new(Device {
            name: end.name,
            ifindex: self.ifindex_last,
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
            threaded_changes: Mutex::new(()),
            tx_down: AtomicU64::new(0),
            merges: AtomicBool::new(true),
            taps,
        });
        let napis = (0..)
            .zip(rx)
            .zip(irq_cpus)
            .map(|((queue, (rx, irq)), cpu)| {
                engine.deliver.add_napi(|index| {
                    let journal = engine.deliver.journal.as_ref().map(|to| Tap::new(to, index, device.ifindex, queue));
                    device.tx[usize::from(queue)].bind(index, *cpu);
                    Napi::new(index, (device.clone(), queue), rx, irq, *cpu, engine.deliver.started(), journal)
                })
            })
            .collect();
        device.netns.device_add(device.clone()).expect("the number is new and the addresses were checked");
        let settings = DevSettings::default();
        let device_of = device.clone();
        self.entries.push(DeviceEntry {
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

    pub(crate) fn entry(&self, device: &Arc<Device>) -> &DeviceEntry {
        self.entries.iter().find(|entry| Arc::ptr_eq(&entry.device, device)).expect("handles name added devices")
    }

    /// The same, to be changed.
    pub(super) fn find_mut(&mut self, device: &Arc<Device>) -> Option<&mut DeviceEntry> {
        self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.device, device))
    }

    pub(crate) fn entry_mut(&mut self, device: &Arc<Device>) -> &mut DeviceEntry {
        self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.device, device)).expect("handles name added devices")
    }
}

impl EngineInner {
    /// Adds a device, and brings it up if it has carrier.
    ///
    /// # Errors
    /// See [`AddDeviceError`]; nothing is added then, but numbers are used up, and the frame table keeps what it was given.
    pub(super) fn add_device(
        self: &Arc<Self>,
        devices: &mut Devices,
        new: NewDevice,
    ) -> Result<Arc<Device>, AddDeviceError> {
        let queues = u16::try_from(new.made.ports.queues.len()).expect("checked when the queues were made");
        let irq_cpus = self.check_device(devices, &new.config, (queues, new.made.mtu))?;
        let device = devices.add(self, new, &irq_cpus);
        let up = self.follow_carrier(devices.entry(&device));
        up.inspect_err(|_| self.take_back(devices, &device))?;
        Ok(device)
    }

    /// Takes out a device that nobody has been given yet. Its ends are closed, its name is free.
    pub(super) fn take_back(&self, devices: &mut Devices, device: &Arc<Device>) {
        let position = devices.entries.iter().position(|entry| Arc::ptr_eq(&entry.device, device));
        let entry = devices.entries.remove(position.expect("it was added under this lock"));
        if device.up.load(Ordering::Relaxed) {
            self.device_down(&entry);
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

    pub(crate) fn device_up(&self, entry: &DeviceEntry) -> rustix::io::Result<()> {
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

    pub(crate) fn device_down(&self, entry: &DeviceEntry) {
        entry.device.up.store(false, Ordering::Relaxed);
        entry.device.tx.iter().for_each(|path| path.deactivate());
        for napi in &entry.napis {
            self.deliver.napi_disable(napi);
        }
    }

    /// From here on no device comes up and no thread is started; the engine is going away.
    pub(super) fn close_devices(&self) {
        // Both locks: a device that is coming up now is up when this returns.
        let _devices = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        self.deliver.close();
    }

    /// Stops every instance. The devices stay, for those who hold them.
    pub(super) fn stop_all_devices(&self) {
        let lock = || self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        // Not under the lock: who looks after them may want to bring a device up or down.
        let attachments: Vec<_> = lock().entries.iter_mut().map(|entry| entry.attachment.take()).collect();
        let on_interface: Vec<bool> = attachments.iter().map(Option::is_some).collect();
        drop(attachments);
        let mut napis = Vec::new();
        for entry in &lock().entries {
            if entry.device.up.load(Ordering::Relaxed) {
                self.device_down(entry);
            }
            for path in &entry.device.tx {
                path.stop_owner();
            }
            napis.extend(entry.napis.iter().cloned());
        }
        // A thread in the midst of a poll is waited for. Nobody starts one any more: the engine is closing.
        napis.iter().for_each(|napi| self.deliver.stop_runner(napi));
        for (entry, on_interface) in lock().entries.iter().zip(on_interface) {
            if on_interface {
                // Its queues are free again from here on, whoever still has a handle.
                drop(self.detach(entry));
            }
            let _ = entry.device.netns.device_del(entry.device.ifindex);
        }
    }
}

#[cfg(test)]
#[path = "devices_tests.rs"]
mod tests;
