//! The name space: devices, neighbours, sockets, counters, and the one immutable snapshot that the packet path reads.
//!
//! Writers (bind, connect, close, a device or neighbour that comes or goes) take one lock, copy what they change and
//! swap the snapshot. The receive path loads it once per poll, a sender only when its cached path is out of date.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use napier_ring::FrameTable;
use napier_sys::clock::Clock;
use thiserror::Error;

use super::addr::Addr;
use super::ageing::Ageing;
use super::counters::{Counter, Counters, StackCounters};
use super::demux::Demux;
use super::gateway::Gateway;
use super::neighbour::{Key, Neighbour, Neighbours};
use super::path_mtu::PathMtus;
use super::queue::UdpInner;
use super::seams::{Egress, Host, IfAddr};
use super::sndbuf::SendBuffers;
use super::tcp::{ListenerInner, Tcp};
use super::writer::{Writers, Writing};

/// A network name space: the devices, neighbours and sockets that see each other. Clones are the same name space.
///
/// ```no_run
/// use napier_runtime::socket::{NetNs, UdpSocket};
///
/// fn serve(ns: &NetNs) -> std::io::Result<()> {
///     let socket = UdpSocket::bind(ns, "0.0.0.0:7".parse().expect("an address"))?;
///     let mut buffer = [0; 2048];
///     loop {
///         let (len, from) = socket.recv_from(&mut buffer)?;
///         socket.send_to(&buffer[..len], from)?;
///     }
/// }
/// ```
#[derive(Clone)]
pub struct NetNs(pub(super) Arc<Inner>);

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

pub(super) struct Inner {
    pub(super) number: u64,
    pub(super) host: Arc<dyn Host>,
    pub(super) frames: Arc<FrameTable>,
    pub(super) send_buffers: Arc<SendBuffers>,
    pub(super) snapshot: ArcSwap<Snapshot>,
    /// Counts changes of devices and neighbours. Read before the snapshot, written after it: a path that was made from
    /// an old snapshot carries an old number.
    pub(super) generation: AtomicU64,
    /// Shared with the sockets, which may outlive their handles by a poll.
    pub(super) counters: Arc<Counters>,
    /// Connections; made with the first TCP socket.
    pub(super) tcp: OnceLock<Tcp>,
    /// The engine has stopped; written under the writers' lock.
    pub(super) stopped: AtomicBool,
    pub(super) writers: Writers,
    /// The thread that makes neighbours old.
    pub(super) ageing: Ageing,
}

/// All that the packet path reads, at one moment.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) demux: Demux<UdpInner>,
    /// TCP sockets that listen.
    pub(super) listeners: Demux<ListenerInner>,
    pub(super) interfaces: Arc<[Arc<Interface>]>,
    /// Addresses of all interfaces: a packet to any of them is ours, whichever device it came in by (the "weak host
    /// model", as `net/ipv4/route.c` by default).
    pub(super) locals: Arc<[Addr]>,
    pub(super) neighbours: Neighbours,
    /// At most one for each family.
    pub(super) gateways: Arc<[Gateway]>,
    /// What routers have said of the ways to destinations.
    pub(super) path_mtus: PathMtus,
}

/// A device in a name space.
pub(super) struct Interface {
    pub(super) ifindex: u32,
    pub(super) mac: [u8; 6],
    pub(super) mtu: usize,
    pub(super) addresses: Vec<(Addr, u8)>,
    pub(super) egress: Arc<dyn Egress>,
}

impl Interface {
    /// The same, with what its device says now.
    fn renewed(&self) -> Self {
        let Self { ifindex, addresses, egress, .. } = self;
        let (mac, mtu) = (egress.mac(), egress.mtu() as usize);
        Self { ifindex: *ifindex, mac, mtu, addresses: addresses.clone(), egress: egress.clone() }
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

fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

impl NetNs {
    /// An empty name space. `seed` decides where entries of the socket tables stand and which member of a hashed
    /// SO_REUSEPORT group gets which flow; a value that no peer can guess keeps peers from aiming at one shard.
    #[doc(hidden)]
    pub fn with_host(host: Arc<dyn Host>, frames: Arc<FrameTable>, seed: u64) -> Self {
        let snapshot = Snapshot {
            demux: Demux::new(seed),
            listeners: Demux::new(seed),
            interfaces: Arc::new([]),
            locals: Arc::new([]),
            neighbours: Neighbours::default(),
            gateways: Arc::new([]),
            path_mtus: PathMtus::default(),
        };
        // Relaxed: a number of its own is all that is asked for.
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let inner = Arc::new(Inner {
            number,
            frames,
            send_buffers: SendBuffers::new(),
            host,
            snapshot: ArcSwap::from_pointee(snapshot),
            generation: AtomicU64::new(0),
            counters: Arc::new(Counters::new()),
            tcp: OnceLock::new(),
            stopped: AtomicBool::new(false),
            writers: Writers::new(),
            ageing: Ageing::new(),
        });
        let dependant: Weak<Inner> = Arc::downgrade(&inner);
        inner.host.add_dependant(dependant);
        Self(inner)
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
        Arc::ptr_eq(&self.0.frames, frames)
    }

    /// The send buffers of its sockets.
    #[doc(hidden)]
    pub fn send_buffers(&self) -> &Arc<SendBuffers> {
        &self.0.send_buffers
    }

    /// Looks at every transmit queue of every device for packets that have been read: who waits for credit is told.
    #[doc(hidden)]
    pub fn look_for_credit(&self) {
        self.0.snapshot.load().interfaces.iter().for_each(|interface| interface.egress.look_for_credit());
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
        let writer = self.0.lock();
        if self.0.snapshot.load().interface(ifindex).is_some() {
            return Err(DeviceError::Exists { ifindex });
        }
        self.0.edit_routes(&writer, |s| {
            s.set_interfaces(s.interfaces.iter().cloned().chain([interface]).collect());
        });
        drop(writer);
        self.0.ageing.start(&self.0);
        Ok(())
    }

    /// A device has another Ethernet address, or takes packets of another length.
    #[doc(hidden)]
    pub fn device_changed(&self, ifindex: u32) {
        let writer = self.0.lock();
        self.0.edit_routes(&writer, |s| {
            let renewed = s.interfaces.iter().map(|interface| match interface.ifindex == ifindex {
                true => Arc::new(interface.renewed()),
                false => interface.clone(),
            });
            s.interfaces = renewed.collect();
        });
    }

    /// Removes a device and its neighbours. Sockets stay; what they send by its prefixes gets ENETUNREACH.
    ///
    /// # Errors
    /// If there is no such device.
    #[doc(hidden)]
    pub fn device_del(&self, ifindex: u32) -> Result<(), DeviceError> {
        let mut writer = self.0.lock();
        if self.0.snapshot.load().interface(ifindex).is_none() {
            return Err(DeviceError::NotFound { ifindex });
        }
        self.0.counters.add(Counter::NeighUnresolvedDiscards, writer.pending.forget(ifindex));
        self.0.edit_routes(&writer, |s| {
            s.set_interfaces(s.interfaces.iter().filter(|i| i.ifindex != ifindex).cloned().collect());
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
        let mut writer = self.0.lock();
        if self.0.snapshot.load().interface(ifindex).is_none() {
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
        let writer = self.0.lock();
        if self.0.snapshot.load().neighbours.get(key).is_none() {
            return Err(NeighbourError::NotFound { ifindex, addr });
        }
        self.0.edit_routes(&writer, |s| s.neighbours = s.neighbours.without(|k| k == key));
        Ok(())
    }

    /// The Ethernet address of a neighbour, if it is known.
    #[must_use]
    pub fn neighbour(&self, ifindex: u32, addr: IpAddr) -> Option<[u8; 6]> {
        let key = Key { ifindex, addr: Addr::from_ip(addr) };
        self.0.snapshot.load().neighbours.get(key).map(|n| n.mac)
    }

    /// The number that figures know it by: 1 is the first name space that the process made.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// A reading of all counters.
    #[must_use]
    pub fn counters(&self) -> StackCounters {
        self.0.counters.snapshot()
    }
}

impl std::fmt::Debug for NetNs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let snapshot = self.0.snapshot.load();
        f.debug_struct("NetNs").field("locals", &snapshot.locals).finish_non_exhaustive()
    }
}

/// Neither a group address nor all zeros.
pub(super) fn is_station(mac: [u8; 6]) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

impl Inner {
    /// Swaps in a changed snapshot. The guard proves that no other writer copies the same one.
    pub(super) fn edit(&self, _writer: &Writing<'_>, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = Snapshot::clone(&self.snapshot.load());
        change(&mut snapshot);
        self.snapshot.store(Arc::new(snapshot));
    }

    /// As `edit`, for changes that make cached paths stale.
    pub(super) fn edit_routes(&self, writer: &Writing<'_>, change: impl FnOnce(&mut Snapshot)) {
        self.edit(writer, change);
        // Release: pairs with the Acquire load in `send` — who sees this number sees the snapshot above.
        self.generation.fetch_add(1, Ordering::Release);
    }
}

impl Snapshot {
    pub(super) fn interface(&self, ifindex: u32) -> Option<&Arc<Interface>> {
        self.interfaces.iter().find(|i| i.ifindex == ifindex)
    }

    #[inline]
    pub(super) fn is_local(&self, addr: Addr) -> bool {
        self.locals.contains(&addr)
    }

    fn set_interfaces(&mut self, interfaces: Arc<[Arc<Interface>]>) {
        self.locals = interfaces.iter().flat_map(|i| i.addresses.iter().map(|(addr, _)| *addr)).collect();
        self.interfaces = interfaces;
    }
}
