//! What everybody in a name space reads: devices, routes, neighbours, ports. Knows no protocol.
//!
//! Writers (bind, connect, close, a device or neighbour that comes or goes) take one lock, copy what they change and swap the
//! snapshot. A sender loads it only when its cached path is out of date; the receive path has the devices beside its sockets
//! ([`published`]), and loads both once per poll.
//!
//! # Files
//! `writer` is the lock, `registry` has the ports and `bind` what a socket is bound by, `demux` finds a socket by addresses, `path`
//! decides where a packet goes and `path_mtu` how long it may be, `neighbour` says to which Ethernet address; `learn` changes what is
//! known of neighbours, `ask` asks for them, `ageing` forgets them. `reassembly` has packets of which fragments have come, and `answer`
//! tells others what was wrong with theirs. `protocol` is what is known of protocols.

pub(crate) mod ageing;
pub(crate) mod answer;
pub(crate) mod ask;
pub(crate) mod bind;
pub(crate) mod demux;
mod learn;
pub(crate) mod neighbour;
pub(crate) mod path;
pub(crate) mod path_mtu;
pub(crate) mod protocol;
pub(crate) mod published;
pub(crate) mod reassembly;
pub(crate) mod registry;
pub(crate) mod reuse;
pub(crate) mod writer;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use napier_ring::FrameTable;

use crate::counters::Counters;
use crate::device::Egress;
use crate::host::Host;
use crate::wire::addr::{Addr, End};
use ageing::Ageing;
use answer::ErrorAnswers;
use neighbour::Neighbours;
use path::Gateway;
use path_mtu::PathMtus;
use protocol::Protocol;
use reassembly::Reassembly;
use writer::{Writers, Writing};

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// The tables of one name space.
pub(crate) struct Tables {
    pub(crate) number: u64,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) frames: Arc<FrameTable>,
    pub(crate) snapshot: ArcSwap<Snapshot>,
    /// Counts changes of devices and neighbours. Read before the snapshot, written after it: a path that was made from
    /// an old snapshot carries an old number.
    pub(crate) generation: AtomicU64,
    /// Shared with the sockets, which may outlive their handles by a poll.
    pub(crate) counters: Arc<Counters>,
    /// Where entries of the socket tables stand; nothing that a peer can guess.
    pub(crate) seed: u64,
    /// The engine has stopped; written under the writers' lock.
    stopped: AtomicBool,
    /// Those that have begun; changed under the writers' lock.
    protocols: ArcSwap<Vec<Weak<dyn Protocol>>>,
    writers: Writers,
    /// The thread that makes neighbours old.
    pub(crate) ageing: Ageing,
    /// Packets of which some fragments have come.
    pub(crate) reassembly: Reassembly,
    /// Errors about what others have sent.
    answers: ErrorAnswers,
    /// What the next packet that is cut is known by.
    idents: AtomicU32,
}

/// All that decides where packets go, at one moment.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) devices: Devices,
    pub(crate) neighbours: Neighbours,
    /// At most one for each family.
    pub(crate) gateways: Arc<[Gateway]>,
    /// What routers have said of the ways to destinations.
    pub(crate) path_mtus: PathMtus,
}

/// The devices of a name space.
#[derive(Clone)]
pub(crate) struct Devices {
    interfaces: Arc<[Arc<Interface>]>,
    /// Addresses of all interfaces: a packet to any of them is ours, whichever device it came in by (the "weak host
    /// model", as `net/ipv4/route.c` by default).
    locals: Arc<[Addr]>,
}

/// A device in a name space.
pub(crate) struct Interface {
    pub(crate) ifindex: u32,
    pub(crate) mac: [u8; 6],
    pub(crate) mtu: usize,
    pub(crate) addresses: Vec<(Addr, u8)>,
    pub(crate) egress: Arc<dyn Egress>,
}

impl Interface {
    /// The same, with what its device says now.
    pub(crate) fn renewed(&self) -> Self {
        let Self { ifindex, addresses, egress, .. } = self;
        let (mac, mtu) = (egress.mac(), egress.mtu() as usize);
        Self { ifindex: *ifindex, mac, mtu, addresses: addresses.clone(), egress: egress.clone() }
    }
}

/// Where the frames of a poll come in.
#[derive(Copy, Clone)]
pub(crate) struct Ingress<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) devices: &'a Devices,
    /// The device, and the instance that is polled.
    pub(crate) interface: &'a Interface,
    pub(crate) napi_id: u32,
}

impl Tables {
    /// Tables without a device.
    pub(crate) fn new(host: Arc<dyn Host>, frames: Arc<FrameTable>, seed: u64) -> Arc<Self> {
        let snapshot = Snapshot {
            devices: Devices::new(Arc::new([])),
            neighbours: Neighbours::default(),
            gateways: Arc::new([]),
            path_mtus: PathMtus::default(),
        };
        let tables = Arc::new(Self {
            // Relaxed: a number of its own is all that is asked for.
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            frames,
            host,
            snapshot: ArcSwap::from_pointee(snapshot),
            generation: AtomicU64::new(0),
            counters: Arc::new(Counters::new()),
            seed,
            stopped: AtomicBool::new(false),
            protocols: ArcSwap::default(),
            writers: Writers::new(),
            ageing: Ageing::new(),
            reassembly: Reassembly::new(),
            answers: ErrorAnswers::new(),
            idents: AtomicU32::new((seed >> 32) as u32 ^ seed as u32),
        });
        let dependant: Weak<Self> = Arc::downgrade(&tables);
        tables.host.add_dependant(dependant);
        tables
    }

    /// Neighbours grow old from now on. For programs, and without the writers' lock.
    pub(crate) fn start_ageing(self: &Arc<Self>) {
        self.ageing.start(self);
    }

    /// What a packet to `dst` that is cut is known by: another for each of 65536 in a row to a destination, and nothing that one
    /// destination can tell of another (RFC 7739).
    pub(crate) fn ident(&self, dst: Addr) -> u32 {
        // Relaxed: only uniqueness counts.
        let number = self.idents.fetch_add(1, Ordering::Relaxed);
        let end = End { addr: dst, port: 0 };
        number.wrapping_add(demux::flow_hash(self.seed, end, end))
    }

    /// Swaps in a changed snapshot. The guard proves that no other writer copies the same one.
    pub(crate) fn edit(&self, _writer: &Writing<'_>, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = Snapshot::clone(&self.snapshot.load());
        change(&mut snapshot);
        self.snapshot.store(Arc::new(snapshot));
    }

    /// As `edit`, for changes that make cached paths stale.
    pub(crate) fn edit_routes(&self, writer: &Writing<'_>, change: impl FnOnce(&mut Snapshot)) {
        self.edit(writer, change);
        // Release: pairs with the Acquire load in `udp::send` — who sees this number sees the snapshot above.
        self.generation.fetch_add(1, Ordering::Release);
    }
}

impl Snapshot {
    pub(crate) fn interface(&self, ifindex: u32) -> Option<&Arc<Interface>> {
        self.devices.interface(ifindex)
    }

    #[inline]
    pub(crate) fn is_local(&self, addr: Addr) -> bool {
        self.devices.is_local(addr)
    }
}

impl Devices {
    pub(crate) fn new(interfaces: Arc<[Arc<Interface>]>) -> Self {
        let locals = interfaces.iter().flat_map(|i| i.addresses.iter().map(|(addr, _)| *addr)).collect();
        Self { interfaces, locals }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Interface>> {
        self.interfaces.iter()
    }

    #[inline]
    pub(crate) fn interface(&self, ifindex: u32) -> Option<&Arc<Interface>> {
        self.interfaces.iter().find(|i| i.ifindex == ifindex)
    }

    pub(crate) fn locals(&self) -> &[Addr] {
        &self.locals
    }

    #[inline]
    #[expect(clippy::manual_contains, reason = "it is a call of its own for each packet")]
    pub(crate) fn is_local(&self, addr: Addr) -> bool {
        self.locals.iter().any(|local| *local == addr)
    }
}
