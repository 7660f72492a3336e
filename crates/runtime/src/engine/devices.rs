//! Adding and removing devices.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use napier_core::control::DevSettings;
use napier_core::rss::{DEFAULT_KEY, IndirectionTable, ToeplitzTable};

use super::carrier::Carrier;
use super::check::mtu_of;
use super::{DeviceHandle, Engine, EngineInner, NAPI_MAX};
use crate::capture::Taps;
use crate::journal::Tap;
use crate::link::{self, LinkConfig, LinkError};
use crate::napi::Napi;
use crate::netdev::{Device, Rss};
use crate::port::{Ports, RxCounters, TxCounters};
use crate::stack::seams::IfAddr;
use crate::stack::{DeviceError, NetNs};
use crate::tx::{TxPath, TxShared};
use crate::xdp::Attachment;

/// One end of a link.
#[derive(Clone)]
pub struct EndConfig {
    /// Name of the device, unique in the engine, 1..=15 bytes as the kernel's.
    pub name: String,
    /// The name space that gets the device.
    pub netns: NetNs,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Addresses with their prefixes.
    pub addresses: Vec<IfAddr>,
    /// Processor that takes the interrupts of each queue; shorter lists repeat, an empty one spreads the
    /// queues over all softirq CPUs.
    pub irq_cpus: Vec<usize>,
}

/// Why a device was not added.
#[derive(Debug, thiserror::Error)]
pub enum AddDeviceError {
    /// The name is taken.
    #[error("a device named {name:?} exists already: choose another name")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The name is empty or too long, or has a NUL in it.
    #[error("device name {name:?} must have 1 to 15 bytes and no NUL")]
    BadName {
        /// The name.
        name: String,
    },
    /// A processor without softirqs.
    #[error("CPU {cpu} runs no softirqs in this engine: name one of {available:?}")]
    NoSuchSoftirqCpu {
        /// The processor asked for.
        cpu: usize,
        /// Softirq CPUs of the engine.
        available: Vec<usize>,
    },
    /// The engine has made as many instances as it can.
    #[error("an engine makes at most {NAPI_MAX} NAPI instances in its life: start a new engine")]
    TooManyInstances,
    /// An address that no device can have.
    #[error(transparent)]
    Address(#[from] DeviceError),
    /// Frames that are too small for the packets of an address family.
    #[error(
        "{addr} needs IP packets of {least} bytes, and {mtu} fit into a frame: use frames of {frame_bytes} bytes or more"
    )]
    MtuTooSmall {
        /// Bytes of the largest packet that fits.
        mtu: u32,
        /// The address.
        addr: std::net::IpAddr,
        /// Bytes of the least MTU of its family.
        least: u32,
        /// Bytes of a frame that will do.
        frame_bytes: u32,
    },
    /// The name space was made by another engine.
    #[error("the name space belongs to another engine: make one with this engine's `namespace`")]
    ForeignNamespace,
    /// The system refused a descriptor.
    #[error("watching a doorbell failed: {0}; check the limit on open files")]
    System(#[from] rustix::io::Errno),
}

/// Why a link was not added.
#[derive(Debug, thiserror::Error)]
pub enum AddLinkError {
    /// One of its devices cannot be.
    #[error(transparent)]
    Device(#[from] AddDeviceError),
    /// The shared memory could not be made.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// The devices of an engine. Guarded by one lock, which is also the control lock of their instances.
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
    /// The hold on an interface of the kernel.
    pub(crate) xdp: Option<Attachment>,
}

/// What a kind of device brings along, for [`EngineInner::add_device`].
pub(crate) struct NewDevice {
    pub(crate) config: EndConfig,
    pub(crate) ports: Ports,
    /// By which table packets that come in were spread over the queues, and by which those that go out will be.
    pub(crate) rss: Arc<Rss>,
    pub(crate) peer_rss: Arc<Rss>,
    pub(crate) carrier: Carrier,
    /// Bytes of the largest IP packet that is sent.
    pub(crate) mtu: u32,
    /// It is an end of a link.
    pub(crate) in_process: bool,
}

impl Engine {
    /// Adds a link: two devices that are each other's peer, over memif rings in shared memory.
    ///
    /// The first end is the memif client (zero copy), the second the server (copies). Both are up.
    ///
    /// # Errors
    /// See [`AddLinkError`]; nothing is added then.
    pub fn add_link(
        &self,
        config: &LinkConfig,
        a: EndConfig,
        b: EndConfig,
    ) -> Result<(DeviceHandle, DeviceHandle), AddLinkError> {
        let inner = &self.inner;
        let mut devices = inner.devices.lock().expect("no panic while held");
        if a.name == b.name {
            return Err(AddDeviceError::NameTaken { name: b.name }.into());
        }
        // Before the memory is made: what the frame table has given it does not take back.
        config.check()?;
        let mtu = mtu_of(config.frame_bytes);
        inner.check_device(&devices, &a, (config.queues, mtu))?;
        inner.check_device(&devices, &b, (config.queues, mtu))?;
        if inner.napi_room() < 2 * usize::from(config.queues) {
            return Err(AddDeviceError::TooManyInstances.into());
        }
        let (end_a, end_b) = link::create(config, &inner.frames)?;
        let (rss_a, rss_b) = (new_rss(config.queues), new_rss(config.queues));
        let mut add = |config, ports, rss, peer_rss| {
            let carrier = Carrier::always();
            inner.add_device(&mut devices, NewDevice { config, ports, rss, peer_rss, carrier, mtu, in_process: true })
        };
        let device_a = add(a, end_a, rss_a.clone(), rss_b.clone())?;
        let device_b = add(b, end_b, rss_b, rss_a);
        let device_b = device_b.inspect_err(|_| inner.take_back(&mut devices, &device_a))?;
        drop(devices);
        let handle = |device| DeviceHandle { engine: inner.clone(), device };
        Ok((handle(device_a), handle(device_b)))
    }
}

pub(crate) fn new_rss(queues: u16) -> Arc<Rss> {
    Arc::new(Rss {
        toeplitz: ToeplitzTable::new(&DEFAULT_KEY),
        indirection: ArcSwap::from_pointee(IndirectionTable::equal(queues)),
    })
}

impl Devices {
    fn add(&mut self, engine: &Arc<EngineInner>, new: NewDevice, irq_cpus: &[u32]) -> Arc<Device> {
        self.ifindex_last += 1;
        let NewDevice { config: end, ports: Ports { queues, senders }, rss, peer_rss, carrier, mtu, in_process } = new;
        let rx_counters = queues.iter().map(|queue| queue.rx.counters().clone()).collect();
        let tx_counters = queues.iter().map(|queue| queue.tx.counters().clone()).collect();
        let taps = Taps {
            rx: queues.iter().map(|queue| queue.rx.tap().clone()).collect(),
            tx: queues.iter().map(|queue| queue.tx.tap().clone()).collect(),
            busy: Arc::default(),
        };
        let (rx, tx): (Vec<_>, Vec<_>) = queues.into_iter().map(|queue| ((queue.rx, queue.irq), queue.tx)).unzip();
        let tx_shared = TxShared::new(engine.this(), engine.sysctl.qdisc_max_burst.clone(), senders);
        let tx = tx.into_iter().map(|queue| TxPath::new(tx_shared.clone(), queue)).collect();
        let device = Arc::new(Device {
            name: end.name,
            ifindex: self.ifindex_last,
            mac: end.mac,
            mtu,
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
                engine.add_napi(|index| {
                    let journal = engine.journal.as_ref().map(|to| Tap::new(to, index, device.ifindex, queue));
                    device.tx[usize::from(queue)].bind(index, *cpu);
                    Napi::new(index, (device.clone(), queue), rx, irq, *cpu, engine.started(), journal)
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
            carrier,
            xdp: None,
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
    pub(crate) fn add_device(
        self: &Arc<Self>,
        devices: &mut Devices,
        new: NewDevice,
    ) -> Result<Arc<Device>, AddDeviceError> {
        let queues = u16::try_from(new.ports.queues.len()).expect("checked when the queues were made");
        let irq_cpus = self.check_device(devices, &new.config, (queues, new.mtu))?;
        let device = devices.add(self, new, &irq_cpus);
        let up = self.follow_carrier(devices.entry(&device));
        up.inspect_err(|_| self.take_back(devices, &device))?;
        Ok(device)
    }

    /// Takes out a device that nobody has been given yet. Its ends are closed, its name is free.
    fn take_back(&self, devices: &mut Devices, device: &Arc<Device>) {
        let position = devices.entries.iter().position(|entry| Arc::ptr_eq(&entry.device, device));
        let entry = devices.entries.remove(position.expect("it was added under this lock"));
        if device.up.load(Ordering::Relaxed) {
            self.device_down(&entry);
        }
        drop(Self::detach(&entry));
        let _ = device.netns.device_del(device.ifindex);
    }

    pub(super) fn napi_room(&self) -> usize {
        NAPI_MAX - self.napi_count.load(Ordering::Relaxed) as usize
    }

    /// Adds an instance; called under the devices' lock only.
    fn add_napi(&self, make: impl FnOnce(u32) -> Napi) -> Arc<Napi> {
        let index = self.napi_count.load(Ordering::Relaxed);
        let napi = Arc::new(make(index));
        let slot = &self.napis[index as usize];
        assert!(slot.set(napi.clone()).is_ok(), "instance numbers are used once");
        // Release: pairs with the Acquire of `for_each_napi`.
        self.napi_count.store(index + 1, Ordering::Release);
        napi
    }

    pub(super) fn irq_cpus(&self, end: &EndConfig, queues: u16) -> Result<Vec<u32>, AddDeviceError> {
        let available: Vec<usize> = self.softirq.iter().map(|cpu| cpu.cpu).collect();
        let cpus = if end.irq_cpus.is_empty() { &available } else { &end.irq_cpus };
        (0..usize::from(queues))
            .map(|queue| {
                let cpu = cpus[queue % cpus.len()];
                self.softirq_index_of(cpu)
                    .ok_or_else(|| AddDeviceError::NoSuchSoftirqCpu { cpu, available: available.clone() })
            })
            .collect()
    }

    pub(crate) fn device_up(&self, entry: &DeviceEntry) -> rustix::io::Result<()> {
        for (position, napi) in entry.napis.iter().enumerate() {
            if let Err(error) = self.napi_enable(napi) {
                entry.napis[..position].iter().for_each(|napi| self.napi_disable(napi));
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
            self.napi_disable(napi);
        }
    }

    /// From here on no device comes up and no thread is started; the engine is going away.
    pub(super) fn close_devices(&self) {
        let _control = self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        // Release: pairs with the Acquire in `is_closing`.
        self.closing.store(true, Ordering::Release);
    }

    /// Stops every instance. The devices stay, for those who hold them.
    pub(super) fn stop_all_devices(&self) {
        let lock = || self.devices.lock().unwrap_or_else(PoisonError::into_inner);
        // Not under the lock: who looks after them may want to bring a device up or down.
        let attachments: Vec<_> = lock().entries.iter_mut().map(|entry| entry.xdp.take()).collect();
        let on_interface: Vec<bool> = attachments.iter().map(Option::is_some).collect();
        drop(attachments);
        let mut napis = Vec::new();
        for entry in &lock().entries {
            if entry.device.up.load(Ordering::Relaxed) {
                self.device_down(entry);
            }
            entry.device.tx.iter().for_each(|path| path.stop_owner());
            napis.extend(entry.napis.iter().cloned());
        }
        // A thread in the midst of a poll is waited for. Nobody starts one any more: the engine is closing.
        napis.iter().for_each(|napi| self.stop_runner(napi));
        for (entry, on_interface) in lock().entries.iter().zip(on_interface) {
            if on_interface {
                // Its queues are free again from here on, whoever still has a handle.
                drop(Self::detach(entry));
            }
            let _ = entry.device.netns.device_del(entry.device.ifindex);
        }
    }
}

#[cfg(test)]
#[path = "devices_tests.rs"]
mod tests;
