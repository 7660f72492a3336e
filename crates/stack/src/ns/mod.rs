//! The name space: its tables, and the protocols that stand on them.

mod gateway;
mod sockets;

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use napier_ring::FrameTable;
use napier_sys::clock::Clock;
use thiserror::Error;

pub use gateway::GatewayError;
pub use sockets::no_address;

use crate::counters::{Counter, StackCounters};
use crate::device::{Egress, IfAddr};
use crate::host::Host;
use crate::pass::View;
use crate::tables::neighbour::{Key, Neighbour};
use crate::tables::writer::Writing;
use crate::tables::{Devices, Interface, Snapshot, Tables};
use crate::tcp::Tcp;
use crate::udp::{SendBuffers, Udp};
use crate::wire::addr::{Addr, is_station};

/// A network name space: the devices, neighbours and sockets that see each other. Clones are the same name space.
///
/// ```no_run
/// use napier_runtime::socket::{NetNs, UdpSocket};
///
/// fn serve(ns: &NetNs) -> std::io::Result<()> {
///     let socket = UdpSocket::bind(ns, "0.0.0.0:7")?;
///     let mut buffer = [0; 2048];
///     loop {
///         let (len, from) = socket.recv_from(&mut buffer)?;
///         socket.send_to(&buffer[..len], from)?;
///     }
/// }
/// ```
#[derive(Clone)]
pub struct NetNs(pub(crate) Arc<Inner>);

/// What a name space owns.
pub(crate) struct Inner {
    pub(crate) tables: Arc<Tables>,
    pub(crate) udp: Arc<Udp>,
    /// Made with the first TCP socket.
    pub(crate) tcp: OnceLock<Arc<Tcp>>,
}

impl Inner {
    /// TCP, which begins with the first call.
    ///
    /// # Errors
    /// EAGAIN if no thread can be started, ESHUTDOWN if the engine has stopped.
    fn tcp(&self) -> io::Result<&Arc<Tcp>> {
        let writer = self.tables.lock();
        self.tables.check_running()?;
        if self.tcp.get().is_none() {
            let tcp = Tcp::start(self.tables.clone(), &writer)?;
            assert!(self.tcp.set(tcp).is_ok(), "made once, under the writers' lock");
        }
        drop(writer);
        Ok(self.tcp.get().expect("just made"))
    }

    /// Swaps in other devices, for senders and for the receive path.
    fn edit_devices(&self, writer: &Writing<'_>, change: impl FnOnce(&mut Snapshot)) {
        self.tables.edit_routes(writer, change);
        self.udp.published.set_devices(writer, self.tables.snapshot.load().devices.clone());
    }
}

/// Why a device did not join or leave a name space.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The interface number is taken.
    #[error("interface {ifindex} is in this name space already: remove it first or give the device another number")]
    Exists {
        /// The number.
        ifindex: u32,
    },
    /// There is no such device.
    #[error("no interface {ifindex} in this name space")]
    NotFound {
        /// The number.
        ifindex: u32,
    },
    /// An address that cannot be a device's own.
    #[error("{addr}/{prefix_len} cannot be an interface address: use a unicast address and a prefix that fits it")]
    BadAddress {
        /// The address.
        addr: IpAddr,
        /// Its prefix length.
        prefix_len: u8,
    },
    /// The address of the prefix itself, or of all its stations.
    #[error(
        "{addr}/{prefix_len} stands for its whole prefix, as the first address of one or the broadcast address: \
         use one in between"
    )]
    NotAStation {
        /// The address.
        addr: IpAddr,
        /// Its prefix length.
        prefix_len: u8,
    },
}

/// Why a neighbour was not added or removed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NeighbourError {
    /// There is no such device.
    #[error("no interface {ifindex} in this name space")]
    NoDevice {
        /// The number.
        ifindex: u32,
    },
    /// There is no such neighbour.
    #[error("no neighbour {addr} on interface {ifindex}")]
    NotFound {
        /// The number of the interface.
        ifindex: u32,
        /// The address.
        addr: IpAddr,
    },
    /// Not the address of one station.
    #[error("{addr} at {} is not the address of one station: use unicast addresses", mac_text(*mac))]
    NotUnicast {
        /// The IP address.
        addr: IpAddr,
        /// The Ethernet address.
        mac: [u8; 6],
    },
}

impl From<DeviceError> for io::Error {
    fn from(error: DeviceError) -> Self {
        let kind = match &error {
            DeviceError::Exists { .. } => io::ErrorKind::AlreadyExists,
            DeviceError::NotFound { .. } => io::ErrorKind::NotFound,
            DeviceError::BadAddress { .. } | DeviceError::NotAStation { .. } => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl From<NeighbourError> for io::Error {
    fn from(error: NeighbourError) -> Self {
        let kind = match &error {
            NeighbourError::NoDevice { .. } | NeighbourError::NotFound { .. } => io::ErrorKind::NotFound,
            NeighbourError::NotUnicast { .. } => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

impl NetNs {
    /// An empty name space. `seed` decides where entries of the socket tables stand and which member of a hashed
    /// SO_REUSEPORT group gets which flow; a value that no peer can guess keeps peers from aiming at one shard.
    #[doc(hidden)]
    pub fn with_host(host: Arc<dyn Host>, frames: Arc<FrameTable>, seed: u64) -> Self {
        let tables = Tables::new(host, frames, seed);
        Self(Arc::new(Inner { udp: Udp::new(tables.clone()), tables, tcp: OnceLock::new() }))
    }

    /// What one poll works on. Keep it for one poll only: while it lives, closed sockets keep their memory.
    #[doc(hidden)]
    #[inline]
    pub fn view(&self) -> View<'_> {
        let Inner { tables, udp, tcp } = &*self.0;
        View::new(tables, udp, tcp)
    }

    /// A frame was lost because handling it panicked.
    #[doc(hidden)]
    #[cold]
    pub fn note_fault(&self) {
        self.0.tables.counters.count(Counter::RxFaults);
    }

    /// Takes a frame that is another's, as that of the kernel is which shares the interface, for what can be learnt of it:
    /// where neighbours are, and what routers and hosts say of our packets. Nothing is answered or counted.
    #[doc(hidden)]
    #[cold]
    pub fn hear(&self, ifindex: u32, frame: &[u8]) {
        self.view().hear(ifindex, frame);
    }

    /// Whether a device can have this address.
    ///
    /// # Errors
    /// It is not the address of one station in its prefix.
    #[doc(hidden)]
    pub fn check_address(own: IfAddr) -> Result<(), DeviceError> {
        let IfAddr { addr: ip, prefix_len } = own;
        let addr = Addr::from_ip(ip);
        let bits = if ip.is_ipv4() { 32 } else { 128 };
        let mapped = ip.is_ipv6() && addr.is_v4();
        if prefix_len > bits || addr.is_group() || addr.is_any() || mapped {
            return Err(DeviceError::BadAddress { addr: ip, prefix_len });
        }
        // Two addresses, or one, are all for stations (RFC 3021, RFC 6164).
        let has_network = prefix_len < bits - 1;
        if has_network && (addr.is_network(prefix_len) || addr.subnet_broadcast(prefix_len) == Some(addr)) {
            return Err(DeviceError::NotAStation { addr: ip, prefix_len });
        }
        Ok(())
    }

    /// Whether the name space is of the engine with this table.
    #[doc(hidden)]
    pub fn has_frames_of(&self, frames: &Arc<FrameTable>) -> bool {
        Arc::ptr_eq(&self.0.tables.frames, frames)
    }

    /// The send buffers of its sockets.
    #[doc(hidden)]
    pub fn send_buffers(&self) -> &Arc<SendBuffers> {
        &self.0.udp.send_buffers
    }

    /// Looks at every transmit queue of every device for packets that have been read: who waits for credit is told.
    #[doc(hidden)]
    pub fn look_for_credit(&self) {
        self.0.tables.snapshot.load().devices.iter().for_each(|interface| interface.egress.look_for_credit());
    }

    /// Adds a device with the addresses that it has now.
    ///
    /// # Errors
    /// A number that is taken, or an address that is not unicast.
    #[doc(hidden)]
    pub fn device_add(&self, egress: Arc<dyn Egress>) -> Result<(), DeviceError> {
        let mut addresses = Vec::new();
        for own in egress.addresses() {
            Self::check_address(own)?;
            addresses.push((Addr::from_ip(own.addr), own.prefix_len));
        }
        let ifindex = egress.ifindex();
        let mtu = egress.mtu() as usize;
        let interface = Arc::new(Interface { ifindex, mac: egress.mac(), mtu, addresses, egress });
        let writer = self.0.tables.lock();
        if self.0.tables.snapshot.load().interface(ifindex).is_some() {
            return Err(DeviceError::Exists { ifindex });
        }
        self.0.edit_devices(&writer, |s| {
            s.devices = Devices::new(s.devices.iter().cloned().chain([interface]).collect());
        });
        drop(writer);
        self.0.tables.start_ageing();
        Ok(())
    }

    /// A device has another Ethernet address, or takes packets of another length.
    #[doc(hidden)]
    pub fn device_changed(&self, ifindex: u32) {
        let writer = self.0.tables.lock();
        self.0.edit_devices(&writer, |s| {
            let renewed = s.devices.iter().map(|interface| match interface.ifindex == ifindex {
                true => Arc::new(interface.renewed()),
                false => interface.clone(),
            });
            s.devices = Devices::new(renewed.collect());
        });
    }

    /// Removes a device and its neighbours. Sockets stay; what they send by its prefixes gets ENETUNREACH.
    ///
    /// # Errors
    /// If there is no such device.
    #[doc(hidden)]
    pub fn device_del(&self, ifindex: u32) -> Result<(), DeviceError> {
        let mut writer = self.0.tables.lock();
        if self.0.tables.snapshot.load().interface(ifindex).is_none() {
            return Err(DeviceError::NotFound { ifindex });
        }
        self.0.tables.counters.add(Counter::NeighUnresolvedDiscards, writer.pending.forget(ifindex));
        self.0.edit_devices(&writer, |s| {
            s.devices = Devices::new(s.devices.iter().filter(|i| i.ifindex != ifindex).cloned().collect());
            s.neighbours = s.neighbours.without(|key| key.ifindex == ifindex);
            s.gateways = s.gateways.iter().filter(|route| route.ifindex != ifindex).copied().collect();
        });
        Ok(())
    }

    /// Adds a permanent neighbour, as `ip neigh replace <addr> lladdr <mac> dev <ifindex> nud permanent`. Nothing that
    /// is learnt later changes it.
    ///
    /// # Errors
    /// No such device, or not the addresses of one station.
    pub fn neighbour_add(&self, ifindex: u32, addr: IpAddr, mac: [u8; 6]) -> Result<(), NeighbourError> {
        let key = Key { ifindex, addr: Addr::from_ip(addr) };
        if key.addr.is_group() || key.addr.is_any() || !is_station(mac) {
            return Err(NeighbourError::NotUnicast { addr, mac });
        }
        let mut writer = self.0.tables.lock();
        if self.0.tables.snapshot.load().interface(ifindex).is_none() {
            return Err(NeighbourError::NoDevice { ifindex });
        }
        let since = Clock.now();
        writer.settle(key, Neighbour::permanent(mac, since), 0);
        Ok(())
    }

    /// Forgets a neighbour, permanent or learnt.
    ///
    /// # Errors
    /// If it is not known.
    pub fn neighbour_del(&self, ifindex: u32, addr: IpAddr) -> Result<(), NeighbourError> {
        let key = Key { ifindex, addr: Addr::from_ip(addr) };
        let writer = self.0.tables.lock();
        if self.0.tables.snapshot.load().neighbours.get(key).is_none() {
            return Err(NeighbourError::NotFound { ifindex, addr });
        }
        self.0.tables.edit_routes(&writer, |s| s.neighbours = s.neighbours.without(|k| k == key));
        Ok(())
    }

    /// The Ethernet address of a neighbour, if it is known.
    #[must_use]
    pub fn neighbour(&self, ifindex: u32, addr: IpAddr) -> Option<[u8; 6]> {
        let key = Key { ifindex, addr: Addr::from_ip(addr) };
        self.0.tables.snapshot.load().neighbours.get(key).map(|n| n.mac)
    }

    /// The number that figures know it by: 1 is the first name space that the process made.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.tables.number
    }

    /// A reading of all counters.
    #[must_use]
    pub fn counters(&self) -> StackCounters {
        self.0.tables.counters.snapshot()
    }
}

#[cfg(test)]
impl NetNs {
    pub(crate) fn tables(&self) -> &Tables {
        &self.0.tables
    }

    pub(crate) fn tcp(&self) -> Option<&Tcp> {
        self.0.tcp.get().map(|tcp| &**tcp)
    }
}

impl std::fmt::Debug for NetNs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let snapshot = self.0.tables.snapshot.load();
        f.debug_struct("NetNs").field("locals", &snapshot.devices.locals()).finish_non_exhaustive()
    }
}
