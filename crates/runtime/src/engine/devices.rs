//! Adding and removing devices, and what a handle to one can do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use napier_core::control::DevSettings;
use napier_core::rss::{DEFAULT_KEY, IndirectionTable, ToeplitzTable};

use super::carrier::Carrier;
use super::{Engine, EngineInner, NAPI_MAX};
use crate::capture::Taps;
use crate::device::{Device, Rss};
use crate::journal::Tap;
use crate::link::{self, LinkConfig, LinkError};
use crate::napi::{Napi, NapiStats};
use crate::port::{FrameAccount, Ports, RxCounters, TxCounters};
use crate::stack::NetNs;
use crate::stack::seams::IfAddr;
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
    /// The name is empty or too long.
    #[error("device name {name:?} must have 1 to 15 bytes")]
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
    rx_counters: Vec<Arc<RxCounters>>,
    tx_counters: Vec<Arc<TxCounters>>,
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
}

/// Bytes of the largest IP packet of a device, unless it has to be less.
pub(crate) const MTU: u32 = 1500;

/// Counters of a device since it was added. Whatever is lost on it is counted here.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct DeviceStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes of them, Ethernet headers included.
    pub rx_bytes: u64,
    /// Packets lost because sockets held all frames.
    pub rx_no_frame: u64,
    /// Packets lost because the peer described them wrongly.
    pub rx_bad_descriptors: u64,
    /// Times that the peer's ring index was impossible; nothing was read then.
    pub rx_index_errors: u64,
    /// Packets put into rings.
    pub tx_packets: u64,
    /// Bytes of them.
    pub tx_bytes: u64,
    /// Times that a full ring refused a packet; a blocking sender tries again, so not each is a loss.
    pub tx_ring_full: u64,
    /// Packets refused because no frame was free.
    pub tx_no_frame: u64,
    /// Packets dropped because they exceed the buffers of a peer in another process.
    pub tx_too_long: u64,
    /// Packets refused because the device was down.
    pub tx_down: u64,
    /// Packets that queueing disciplines dropped, those that were taken away since included, or their defer lists refused.
    pub tx_qdisc_drops: u64,
    /// Of these, packets whose sender was told; sockets count them as SndbufErrors.
    pub tx_qdisc_drops_told: u64,
    /// Buffers of the peer that could not be used.
    pub tx_bad_descriptors: u64,
    /// Times that the peer's ring index was impossible.
    pub tx_index_errors: u64,
    /// Publications that rang the peer's doorbell or started its coalescing timer.
    pub tx_kicks: u64,
    /// Interrupts raised for this device.
    pub interrupts: u64,
    /// Publications by the peer that raised none: masked, latched or coalesced.
    pub interrupts_suppressed: u64,
}

/// A device of an engine.
#[derive(Clone)]
pub struct DeviceHandle {
    pub(crate) engine: Arc<EngineInner>,
    pub(crate) device: Arc<Device>,
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
        inner.check_device(&devices, &a, config.queues)?;
        inner.check_device(&devices, &b, config.queues)?;
        if inner.napi_room() < 2 * usize::from(config.queues) {
            return Err(AddDeviceError::TooManyInstances.into());
        }
        let (end_a, end_b) = link::create(config, &inner.frames)?;
        let (rss_a, rss_b) = (new_rss(config.queues), new_rss(config.queues));
        let mut add = |config, ports, rss, peer_rss| {
            inner.add_device(
                &mut devices,
                NewDevice { config, ports, rss, peer_rss, carrier: Carrier::always(), mtu: MTU },
            )
        };
        let device_a = add(a, end_a, rss_a.clone(), rss_b.clone())?;
        let device_b = add(b, end_b, rss_b, rss_a)?;
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
    fn check_name(&self, name: &str) -> Result<(), AddDeviceError> {
        let name = name.to_owned();
        if name.is_empty() || name.len() > 15 {
            return Err(AddDeviceError::BadName { name });
        }
        if self.entries.iter().any(|entry| entry.device.name == name) {
            return Err(AddDeviceError::NameTaken { name });
        }
        Ok(())
    }

    fn add(&mut self, engine: &Arc<EngineInner>, new: NewDevice, irq_cpus: &[u32]) -> Arc<Device> {
        self.ifindex_last += 1;
        let NewDevice { config: end, ports: Ports { queues, senders }, rss, peer_rss, carrier, mtu } = new;
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
            addresses: end.addresses,
            netns: end.netns,
            tx,
            tx_shared,
            tx_by_cpu: AtomicBool::new(false),
            rss,
            peer_rss,
            up: AtomicBool::new(false),
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
        device.netns.device_add(device.clone()).expect("interface numbers are unique in an engine");
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

    /// The entry of a device that may have been removed.
    pub(super) fn find_mut(&mut self, device: &Arc<Device>) -> Option<&mut DeviceEntry> {
        self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.device, device))
    }

    pub(crate) fn entry_mut(&mut self, device: &Arc<Device>) -> &mut DeviceEntry {
        self.entries.iter_mut().find(|entry| Arc::ptr_eq(&entry.device, device)).expect("handles name added devices")
    }
}

impl EngineInner {
    /// Whether a device with this configuration can be added; nothing is changed.
    ///
    /// # Errors
    /// See [`AddDeviceError`].
    pub(crate) fn check_device(
        &self,
        devices: &Devices,
        config: &EndConfig,
        queues: u16,
    ) -> Result<Vec<u32>, AddDeviceError> {
        devices.check_name(&config.name)?;
        if self.napi_room() < usize::from(queues) {
            return Err(AddDeviceError::TooManyInstances);
        }
        self.irq_cpus(config, queues)
    }

    /// Adds a device, and brings it up if it has carrier.
    ///
    /// # Errors
    /// See [`AddDeviceError`]; nothing is added then, unless a doorbell could not be watched.
    pub(crate) fn add_device(
        self: &Arc<Self>,
        devices: &mut Devices,
        new: NewDevice,
    ) -> Result<Arc<Device>, AddDeviceError> {
        let queues = u16::try_from(new.ports.queues.len()).expect("checked by whoever made the queues");
        let irq_cpus = self.check_device(devices, &new.config, queues)?;
        let device = devices.add(self, new, &irq_cpus);
        self.follow_carrier(devices.entry(&device))?;
        Ok(device)
    }

    fn napi_room(&self) -> usize {
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

    fn irq_cpus(&self, end: &EndConfig, queues: u16) -> Result<Vec<u32>, AddDeviceError> {
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

    /// Stops every instance; the engine is going away.
    pub(super) fn remove_all_devices(&self) {
        let mut entries = std::mem::take(&mut self.devices.lock().expect("no panic while held").entries);
        for entry in &mut entries {
            // First: whoever looks after it may want to bring it up or down.
            let on_interface = entry.xdp.take().is_some();
            if entry.device.up.load(Ordering::Relaxed) {
                self.device_down(entry);
            }
            entry.device.tx.iter().for_each(|path| path.stop_owner());
            for napi in &entry.napis {
                self.stop_runner(napi);
            }
            if on_interface {
                // Its queues are free again from here on, whoever still has a handle.
                drop(Self::detach(entry));
            }
            let _ = entry.device.netns.device_del(entry.device.ifindex);
        }
    }
}

impl DeviceHandle {
    /// Name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// Number of the interface.
    #[must_use]
    pub fn ifindex(&self) -> u32 {
        self.device.ifindex
    }

    /// The name space that the device is in.
    #[must_use]
    pub fn netns(&self) -> &NetNs {
        &self.device.netns
    }

    /// Ethernet address.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.device.mac
    }

    /// Receive queues, each with a NAPI instance.
    #[must_use]
    pub fn queues(&self) -> u16 {
        u16::try_from(self.device.tx.len()).expect("a link has at most 64 queues")
    }

    /// NAPI id of a queue, 0 if the queue does not exist.
    #[must_use]
    pub fn napi_id(&self, queue: u16) -> u32 {
        self.napi(queue).map_or(0, |napi| napi.id())
    }

    pub(crate) fn napi(&self, queue: u16) -> Option<Arc<Napi>> {
        let devices = self.engine.devices.lock().expect("no panic while held");
        devices.entry(&self.device).napis.get(usize::from(queue)).cloned()
    }

    /// Processor that takes the interrupts of a queue.
    #[must_use]
    pub fn irq_cpu(&self, queue: u16) -> Option<usize> {
        self.napi(queue).map(|napi| self.engine.softirq[napi.irq_cpu() as usize].cpu)
    }

    /// The queue that receives datagrams with these ends, by receive-side scaling.
    #[must_use]
    pub fn rx_queue_of(&self, src: SocketAddr, dst: SocketAddr) -> u16 {
        self.device.rss.indirection.load().queue(self.device.rss.hash(&src, &dst))
    }

    /// Counters of a queue's instance.
    #[must_use]
    pub fn napi_stats(&self, queue: u16) -> NapiStats {
        self.napi(queue).map_or_else(NapiStats::default, |napi| napi.stats())
    }

    /// Whether packets of a flow are merged where a socket takes merged ones (`ethtool -K gro`, default yes), from the next
    /// poll of each instance on. What is held then goes up at the next flush.
    pub fn set_gro(&self, on: bool) {
        self.device.merges.store(on, Ordering::Relaxed);
    }

    /// Whether packets of a flow are merged.
    #[must_use]
    pub fn gro(&self) -> bool {
        self.device.merges.load(Ordering::Relaxed)
    }

    /// Counters of the device, over all queues (`ip -s -s link`).
    #[must_use]
    pub fn stats(&self) -> DeviceStats {
        let devices = self.engine.devices.lock().expect("no panic while held");
        let entry = devices.entry(&self.device);
        let rx = |of: fn(&RxCounters) -> u64| entry.rx_counters.iter().map(|counters| of(counters)).sum();
        let tx = |of: fn(&TxCounters) -> u64| entry.tx_counters.iter().map(|counters| of(counters)).sum();
        let (drops, told): (Vec<u64>, Vec<u64>) = self.device.tx.iter().map(|path| path.drops()).unzip();
        DeviceStats {
            rx_packets: rx(|c| c.packets.get()),
            rx_bytes: rx(|c| c.bytes.get()),
            rx_no_frame: rx(|c| c.no_frame_drops.get()),
            rx_bad_descriptors: rx(|c| c.bad_descriptors.get()),
            rx_index_errors: rx(|c| c.index_errors.get()),
            tx_packets: tx(|c| c.packets.get()),
            tx_bytes: tx(|c| c.bytes.get()),
            tx_ring_full: tx(|c| c.tx_full_drops.get()),
            tx_no_frame: tx(|c| c.no_frame_drops.get()),
            tx_too_long: tx(|c| c.too_long_drops.get()),
            tx_down: self.device.tx_down.load(Ordering::Relaxed),
            tx_qdisc_drops: drops.iter().sum(),
            tx_qdisc_drops_told: told.iter().sum(),
            tx_bad_descriptors: tx(|c| c.bad_descriptors.get()),
            tx_index_errors: tx(|c| c.index_errors.get()),
            tx_kicks: tx(|c| c.kicks.get()),
            interrupts: entry.napis.iter().map(|napi| napi.irq.interrupts()).sum(),
            interrupts_suppressed: entry.napis.iter().map(|napi| napi.irq.suppressed()).sum(),
        }
    }

    /// Frames of the device that are in nobody's pool and in no ring: in sockets, in somebody's hands, or
    /// lost. 0 at rest. Stops each instance for a moment.
    #[must_use]
    pub fn frames_out(&self) -> i64 {
        let queues = 0..self.queues();
        let received = queues.clone().filter_map(|queue| self.napi(queue));
        let received = received.map(|napi| self.engine.with_stopped(&napi, |owned| owned.rx.account()));
        let received = received.sum::<FrameAccount>();
        // Nobody sends meanwhile: a frame on its way would be counted twice or not at all.
        let senders = self.hold_senders();
        let mut wires: Vec<_> = queues.map(|queue| self.device.claim_tx(usize::from(queue))).collect();
        let sent = wires.iter_mut().map(|wire| {
            wire.queue.reclaim();
            wire.queue.account()
        });
        let sent = sent.sum::<FrameAccount>();
        let pools = senders.into_iter().map(|mut sender| FrameAccount::pooled(&mut sender.pool));
        (received + sent + pools.sum()).out()
    }

    /// Takes the device down (`ip link set down`): its instances are disabled and nothing is sent.
    pub fn set_down(&self) {
        let mut devices = self.engine.devices.lock().expect("no panic while held");
        let entry = devices.entry_mut(&self.device);
        entry.admin_up = false;
        self.engine.follow_carrier(entry).expect("nothing is watched on the way down");
    }

    /// Brings the device up again, now or as soon as there is carrier.
    ///
    /// # Errors
    /// The system refused to watch a doorbell.
    pub fn set_up(&self) -> std::io::Result<()> {
        let mut devices = self.engine.devices.lock().expect("no panic while held");
        let entry = devices.entry_mut(&self.device);
        entry.admin_up = true;
        Ok(self.engine.follow_carrier(entry)?)
    }
}
