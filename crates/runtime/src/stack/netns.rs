//! The name space: devices, neighbours, sockets, counters, and the one immutable snapshot that the packet path reads.
//!
//! Writers (bind, connect, close, a device or neighbour that comes or goes) take one lock, copy what they change and
//! swap the snapshot. The receive path loads it once per poll, a sender only when its cached path is out of date.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use napier_ring::FrameTable;
use thiserror::Error;

use super::addr::Addr;
use super::counters::{Counter, Counters, StackCounters};
use super::demux::Demux;
use super::neighbour::{Held, Key, LEARNT_MAX, Neighbour, Neighbours, Pending};
use super::queue::UdpInner;
use super::registry::Registry;
use super::seams::{Egress, Host};
use super::tcp::{ListenerInner, Tcp};
use crate::tx::PacketClass;

/// A network name space: the devices, neighbours and sockets that see each other. Clones are the same name space.
///
/// ```no_run
/// use napier_runtime::{NetNs, UdpSocket};
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

pub(super) struct Inner {
    pub(super) host: Arc<dyn Host>,
    pub(super) frames: Arc<FrameTable>,
    pub(super) snapshot: ArcSwap<Snapshot>,
    /// Counts changes of devices and neighbours. Read before the snapshot, written after it: a path that was made from
    /// an old snapshot carries an old number.
    pub(super) generation: AtomicU64,
    /// Shared with the sockets, which may outlive their handles by a poll.
    pub(super) counters: Arc<Counters>,
    /// Connections; made with the first TCP socket.
    pub(super) tcp: OnceLock<Tcp>,
    writer: Mutex<Writer>,
}

/// What only writers need.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) registry: Registry,
    /// Ports of TCP sockets.
    pub(super) tcp_registry: Registry,
    pub(super) pending: Pending,
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
}

/// A device in a name space.
pub(super) struct Interface {
    pub(super) ifindex: u32,
    pub(super) mac: [u8; 6],
    pub(super) mtu: usize,
    pub(super) addresses: Vec<(Addr, u8)>,
    pub(super) egress: Arc<dyn Egress>,
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
    pub(crate) fn with_host(host: Arc<dyn Host>, seed: u64) -> Self {
        let snapshot = Snapshot {
            demux: Demux::new(seed),
            listeners: Demux::new(seed),
            interfaces: Arc::new([]),
            locals: Arc::new([]),
            neighbours: Neighbours::default(),
        };
        Self(Arc::new(Inner {
            frames: host.frames().clone(),
            host,
            snapshot: ArcSwap::from_pointee(snapshot),
            generation: AtomicU64::new(0),
            counters: Arc::new(Counters::new()),
            tcp: OnceLock::new(),
            writer: Mutex::new(Writer::default()),
        }))
    }

    /// Adds a device with the addresses that it has now.
    ///
    /// # Errors
    /// A number that is taken, or an address that is not unicast.
    pub(crate) fn device_add(&self, egress: Arc<dyn Egress>) -> Result<(), DeviceError> {
        let mut addresses = Vec::new();
        for own in egress.addresses() {
            let addr = Addr::from_ip(own.addr);
            let bits_max = if own.addr.is_ipv4() { 32 } else { 128 };
            let mapped = own.addr.is_ipv6() && addr.is_v4();
            if own.prefix_len > bits_max || addr.is_group() || addr.is_any() || mapped {
                return Err(DeviceError::BadAddress { addr: own.addr, prefix_len: own.prefix_len });
            }
            addresses.push((addr, own.prefix_len));
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
        Ok(())
    }

    /// Removes a device and its neighbours. Sockets stay; what they send by its prefixes gets ENETUNREACH.
    ///
    /// # Errors
    /// If there is no such device.
    pub(crate) fn device_del(&self, ifindex: u32) -> Result<(), DeviceError> {
        let mut writer = self.0.lock();
        if self.0.snapshot.load().interface(ifindex).is_none() {
            return Err(DeviceError::NotFound { ifindex });
        }
        writer.pending.forget(ifindex);
        self.0.edit_routes(&writer, |s| {
            s.set_interfaces(s.interfaces.iter().filter(|i| i.ifindex != ifindex).cloned().collect());
            s.neighbours = s.neighbours.without(|key| key.ifindex == ifindex);
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
        self.0.edit_routes(&writer, |s| {
            s.neighbours = s.neighbours.with(key, Neighbour { mac, permanent: true });
        });
        let held = writer.pending.release(key);
        drop(writer);
        self.0.send_held(key, mac, held);
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
    /// The writers' lock. Poison is ignored: a writer changes the registry and the snapshot in a fixed order and our own
    /// asserts are the only panics in between.
    pub(super) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Swaps in a changed snapshot. The guard proves that no other writer copies the same one.
    pub(super) fn edit(&self, _writer: &MutexGuard<'_, Writer>, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = Snapshot::clone(&self.snapshot.load());
        change(&mut snapshot);
        self.snapshot.store(Arc::new(snapshot));
    }

    /// As `edit`, for changes that make cached paths stale.
    pub(super) fn edit_routes(&self, writer: &MutexGuard<'_, Writer>, change: impl FnOnce(&mut Snapshot)) {
        self.edit(writer, change);
        // Release: pairs with the Acquire load in `send` — who sees this number sees the snapshot above.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// A neighbour has said where it is. `asked_us`: it wants something from us, so it is worth remembering even if we
    /// never asked for it.
    pub(super) fn learn(&self, view: &Snapshot, key: Key, mac: [u8; 6], asked_us: bool) {
        let known = view.neighbours.get(key);
        let settled = known.is_some_and(|n| n.permanent || n.mac == mac);
        if settled || !is_station(mac) || key.addr.is_group() || key.addr.is_any() || view.is_local(key.addr) {
            return;
        }
        let mut writer = self.lock();
        if known.is_none() && !asked_us && !writer.pending.is_asked(key) {
            return;
        }
        let now = self.snapshot.load();
        let full = now.neighbours.len() >= LEARNT_MAX && now.neighbours.get(key).is_none();
        let gone = now.interface(key.ifindex).is_none();
        let permanent = now.neighbours.get(key).is_some_and(|n| n.permanent);
        drop(now);
        if full {
            return self.counters.count(Counter::NeighTableFulls);
        }
        if gone || permanent {
            return;
        }
        self.edit_routes(&writer, |s| {
            s.neighbours = s.neighbours.with(key, Neighbour { mac, permanent: false });
        });
        let held = writer.pending.release(key);
        drop(writer);
        self.send_held(key, mac, held);
    }

    /// Sends what waited for a neighbour.
    pub(super) fn send_held(&self, key: Key, mac: [u8; 6], held: Option<Held>) {
        let Some(Held { frame, flow_hash }) = held else { return };
        let snapshot = self.snapshot.load();
        let Some(interface) = snapshot.interface(key.ifindex) else { return };
        let sent = interface.egress.transmit(&PacketClass::of_flow(flow_hash), frame.len(), &mut |slot| {
            slot[..frame.len()].copy_from_slice(&frame);
            slot[..6].copy_from_slice(&mac);
            frame.len()
        });
        if sent.is_err() {
            self.counters.count(Counter::NeighUnresolvedDiscards);
        }
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
