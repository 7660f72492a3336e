//! Adding devices, of each kind, and removing them.

use std::sync::{Arc, Weak};

use napier_core::rss::IndirectionTable;

use super::check::least_mtu;
use super::devices::{NewDevice, new_rss};
use super::remove::RemoveDeviceError;
use super::{DeviceHandle, Engine, EngineInner};
use crate::bounds::mtu_of;
use crate::netdev::Device;
use crate::port::link::{self, LinkConfig, LinkError};
#[cfg(feature = "memif")]
use crate::port::memif::{AddMemifError, Control, MemifConfig};
#[cfg(feature = "xdp")]
use crate::port::xsk::{AddXdpError, Attachment, NewXdp, XdpConfig, XdpInfo, XdpStats};
use crate::port::{AddDeviceError, AddedDevice, EndConfig, Made, PortKind, RxEnd, TxEnd};

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
        let devices = &self.inner.devices;
        let mut table = devices.lock();
        if a.name == b.name {
            return Err(AddDeviceError::NameTaken { name: b.name }.into());
        }
        // Before the memory is made: what the frame table has given it does not take back.
        config.check()?;
        let mtu = mtu_of(config.frame_bytes);
        devices.check(&table, &a, config.queues, mtu)?;
        devices.check(&table, &b, config.queues, mtu)?;
        if devices.napi_room() < 2 * usize::from(config.queues) {
            return Err(AddDeviceError::TooManyInstances.into());
        }
        let (end_a, end_b) = link::create(config, &devices.frames)?;
        let (rss_a, rss_b) = (new_rss(config.queues), new_rss(config.queues));
        let mut add = |config, ports, rss, peer_rss| {
            let made = Made { ports, mtu, unusable: None };
            devices.add(&mut table, NewDevice { config, made, rss, peer_rss, in_process: true })
        };
        let device_a = add(a, end_a, rss_a.clone(), rss_b.clone())?;
        let device_b = add(b, end_b, rss_b, rss_a);
        let device_b = device_b.inspect_err(|_| devices.take_back(&mut table, &device_a))?;
        drop(table);
        let handle = |device| DeviceHandle { engine: self.inner.clone(), device };
        Ok((handle(device_a), handle(device_b)))
    }

    /// Adds a memif device whose peer is another process. It has no carrier until the peer is there:
    /// [`DeviceHandle::wait_link`] waits for it and [`DeviceHandle::link_state`] tells why it is not.
    ///
    /// ```
    /// # use napier_runtime::doc_end;
    /// # use napier_runtime::device::{EndConfig, MemifConfig, MemifRole};
    /// # use napier_runtime::engine::Engine;
    /// # use std::time::Duration;
    /// let socket = format!("@napier-doc-{}", std::process::id());
    /// # let cpu = napier_runtime::available_cpus()[0];
    /// # let start = || Engine::builder().softirq_cpus(&[cpu]).start();
    /// # let (one, other) = (start()?, start()?); // as if in two processes
    /// # let end = |engine: &Engine, name| doc_end(engine, name, if name == "server" { 1 } else { 2 });
    /// let server = one.add_memif(MemifConfig::new(MemifRole::Server, &socket), end(&one, "server"))?;
    /// let client = other.add_memif(MemifConfig::new(MemifRole::Client, &socket), end(&other, "client"))?;
    /// assert!(server.wait_link(Duration::from_secs(10)) && client.wait_link(Duration::from_secs(10)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// See [`AddMemifError`]; nothing is added then.
    #[cfg(feature = "memif")]
    pub fn add_memif(&self, config: MemifConfig, end: EndConfig) -> Result<DeviceHandle, AddMemifError> {
        let control = self.inner.services.get::<Control>();
        self.inner.add(control.reserve(&*self.inner.deliver, config)?, end)
    }

    /// Adds a device on a network interface of the kernel. It is up if the interface is.
    ///
    /// `end.mac` of all zeroes stands for the interface's own address, also if that changes.
    ///
    /// The device checks what it receives. A sender on the same machine, as at the other end of a veth pair, leaves checksums out
    /// unless its interface computes them (`ethtool -K PEER tx off`): such packets are dropped, and counted in
    /// [`XdpStats::rx_wrong_checksums`] and [`DeviceStats::rx_wrong_checksums`](crate::device::DeviceStats::rx_wrong_checksums).
    ///
    /// Unless `config` says otherwise the device takes all receive queues of the interface. What comes in by others goes to the
    /// kernel, which has not the device's addresses: its senders get no answer.
    ///
    /// # Errors
    /// See [`AddXdpError`]; nothing is changed on the interface then, nor here.
    ///
    /// ```no_run
    /// # use napier_runtime::device::{EndConfig, XdpConfig};
    /// # use napier_runtime::engine::Engine;
    /// let engine = Engine::builder().start()?;
    /// let end = EndConfig::new("xdp0", engine.namespace(), &["192.0.2.10/24".parse()?]);
    /// let device = engine.add_xdp(&XdpConfig::on("eth0"), end)?;
    /// println!("{:?}", device.xdp_info());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "xdp")]
    pub fn add_xdp(&self, config: &XdpConfig, end: EndConfig) -> Result<DeviceHandle, AddXdpError> {
        self.inner.add(NewXdp::check(config)?, end)
    }

    /// Removes a device (`ip link del`), of a link both ends; the engine and its other devices go on.
    ///
    /// TCP connections over it end with `ENETRESET`, raw ports of it wait no longer, and what sockets send by its prefixes gets `ENETUNREACH`. Packets that
    /// have been received can still be read: their frames come home then. A memif peer is told, and the interface and its queues are free for
    /// other programs. Its name can be given again. Handles that are left show its last figures, an id of 0 for each queue and
    /// [`LinkState::gone`](crate::device::LinkState::gone).
    ///
    /// Its instances and its memory are used up: an engine makes 4096 instances and 255 arenas of frames in its life. A queue of a link takes two arenas,
    /// another device one, and one more where it has a queueing discipline.
    ///
    /// ```
    /// # use napier_runtime::doc_link;
    /// let (engine, device, peer) = doc_link()?;
    /// engine.remove_device(&device)?;
    /// assert!(engine.dev_dump().is_empty() && peer.link_state().gone);
    /// assert!(engine.remove_device(&peer).is_err()); // it went along
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// See [`RemoveDeviceError`].
    pub fn remove_device(&self, device: &DeviceHandle) -> Result<(), RemoveDeviceError> {
        let going = self.inner.devices.lock().take_out(&device.device);
        if going.is_empty() {
            return Err(RemoveDeviceError::NoSuchDevice { name: device.name().to_owned() });
        }
        self.inner.remove(&going);
        Ok(())
    }
}

impl DeviceHandle {
    /// What is in force on the interface; `None` if the device is not an interface of the kernel.
    #[cfg(feature = "xdp")]
    #[must_use]
    pub fn xdp_info(&self) -> Option<XdpInfo> {
        self.with_attachment(Attachment::info)
    }

    /// What the kernel counts of the device's sockets; `None` if the device is not an interface of the kernel.
    #[cfg(feature = "xdp")]
    #[must_use]
    pub fn xdp_stats(&self) -> Option<XdpStats> {
        self.with_attachment(Attachment::stats)
    }

    /// Shows what looks after the device's peer, if it is of this type.
    fn with_attachment<A: 'static, R>(&self, look: impl FnOnce(&A) -> R) -> Option<R> {
        let devices = self.engine.devices.lock();
        devices.entry(&self.device).attachment.as_ref()?.downcast_ref().map(look)
    }
}

impl EngineInner {
    /// Adds a device of any kind with one end here.
    fn add<K: PortKind>(self: &Arc<Self>, mut kind: K, mut end: EndConfig) -> Result<DeviceHandle, K::Error> {
        let mut table = self.devices.lock();
        let (queues, mtu) = kind.shape();
        self.devices.check(&table, &end, queues, mtu)?;
        let made = kind.make(&mut end, &self.devices.frames)?;
        let new = NewDevice { config: end, made, rss: new_rss(queues), peer_rss: new_rss(queues), in_process: false };
        let device = self.devices.add(&mut table, new)?;
        let added = Added { engine: Arc::downgrade(self), device: device.clone() };
        table.entry_mut(&device).attachment = kind.added(Arc::new(added));
        drop(table);
        Ok(DeviceHandle { engine: self.clone(), device })
    }
}

/// A device, as its peer's keeper sees it.
struct Added {
    engine: Weak<EngineInner>,
    device: Arc<Device>,
}

impl AddedDevice for Added {
    fn name(&self) -> &str {
        &self.device.name
    }

    fn queues(&self) -> usize {
        self.device.tx.len()
    }

    fn is_up(&self) -> bool {
        self.device.up.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn carrier_on(&self, peer: String, ends: Vec<(RxEnd, TxEnd)>, tx_queues: u16) -> rustix::io::Result<()> {
        self.device.peer_rss.indirection.store(Arc::new(IndirectionTable::equal(tx_queues)));
        self.engine.upgrade().map_or(Ok(()), |engine| engine.devices.carrier_on(&self.device, peer, ends))
    }

    fn carrier_off(&self, reason: String) -> Vec<(RxEnd, TxEnd)> {
        self.engine.upgrade().map_or_else(Vec::new, |engine| engine.devices.carrier_off(&self.device, reason))
    }

    fn set_carrier(&self, unusable: Option<String>, gone: bool) -> rustix::io::Result<()> {
        self.engine.upgrade().map_or(Ok(()), |engine| engine.devices.set_carrier(&self.device, unusable, gone))
    }

    fn set_facts(&self, mac: Option<[u8; 6]>, mtu: u32) -> bool {
        if self.device.addresses.iter().any(|address| mtu < least_mtu(address.addr)) {
            return false;
        }
        if self.device.set_facts(mac, mtu) {
            self.device.netns.device_changed(self.device.ifindex);
        }
        true
    }

    fn hear(&self, frame: &[u8]) {
        self.device.netns.hear(self.device.ifindex, frame);
    }

    fn wrong_checksums(&self) -> u64 {
        self.device.wrong_checksums.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn drop_connections(&self) {
        self.device.netns.tcp_drop(self.device.ifindex);
    }

    fn interrupt(&self, queue: usize) {
        if let Some(engine) = self.engine.upgrade() {
            let deliver = &engine.deliver;
            deliver.interrupt_by_thread(deliver.napi_at(self.device.tx[queue].napi_index()));
        }
    }

    fn kick_again(&self, queue: usize) -> bool {
        self.device.tx[queue].try_claim_wire().is_none_or(|mut wire| wire.queue.kick_again())
    }
}
