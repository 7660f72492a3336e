//! Where the packets of a flow go, and how long they may be there.

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::neighbour::Nud;
use napier_core::tcp::seq::Seq;
use napier_core::time::{Deadline, Instant};
use napier_sys::clock::Clock;

use crate::device::PacketClass;
use crate::tables::neighbour::Key;
use crate::tables::path::{self, Destination};
use crate::tables::path_mtu::PathMtu;
use crate::tables::{Interface, Tables};
use crate::tcp::outlet::frame::Heads;
use crate::wire::TCP_LEN;
use crate::wire::addr::End;

/// MTU while no device leads to the peer. Source: RFC 8200 section 5, the least that IPv6 has.
const MTU_UNKNOWN: usize = 1280;

/// Where the packets of a flow go. In the order of use: what a packet needs lies before `local`.
#[repr(C)]
pub(in crate::tcp) struct Route {
    /// Generation of the name space that the rest belongs to.
    made_at: u64,
    pub(super) interface: Option<Arc<Interface>>,
    pub(in crate::tcp) class: PacketClass,
    /// None: has to be asked for.
    pub(super) mac: Option<[u8; 6]>,
    /// It is not sure that the neighbour is still there.
    doubted: bool,
    /// Bytes of the longest packet that the way takes.
    mtu: usize,
    /// Bytes of it behind the IP header and the first 20 of TCP's.
    segment: u32,
    /// When longer ones are tried again.
    until: Deadline,
    pub(super) heads: Heads,
    local: End,
    target: Destination,
    /// The peer, or the gateway to it.
    pub(super) next_hop: Option<Key>,
    /// What the connection has found out by itself of the way.
    found: Option<PathMtu>,
    /// Of a doubted neighbour: the first byte that went to it for the first time since.
    proof: Option<Seq>,
}

impl Route {
    /// How much of it a packet touches, from its beginning.
    pub(super) const USED_BYTES: usize = offset_of!(Self, local);

    pub(in crate::tcp) fn new(tables: &Tables, local: End, target: Destination) -> Self {
        let class = PacketClass { comes_again: true, ..PacketClass::of_flow(0) };
        let (interface, next_hop, mac, found, proof) = (None, None, None, None, None);
        let (mtu, until) = (MTU_UNKNOWN, Deadline::NEVER);
        let heads = Heads::new([0; 6], [0; 6], local, target.dst);
        let mut route = Self {
            local,
            target,
            made_at: 0,
            interface,
            next_hop,
            mac,
            doubted: false,
            class,
            mtu,
            segment: 0,
            until,
            heads,
            found,
            proof,
        };
        route.resolve(tables);
        route
    }

    #[inline]
    pub(in crate::tcp) fn refresh(&mut self, tables: &Tables) {
        // Acquire: pairs with the Release in `edit_routes`.
        if self.made_at != tables.generation.load(Ordering::Acquire) {
            self.resolve(tables);
        }
    }

    /// As [`refresh`](Self::refresh), also where the way may take longer packets by now.
    #[inline]
    pub(in crate::tcp) fn refresh_at(&mut self, tables: &Tables, now: Instant) {
        if self.until.is_due(now) {
            self.resolve(tables);
        }
        self.refresh(tables);
    }

    /// The way takes no longer packets than this.
    pub(in crate::tcp) fn lower(&mut self, tables: &Tables, path: PathMtu) {
        self.found = Some(path);
        self.resolve(tables);
    }

    #[cold]
    fn resolve(&mut self, tables: &Tables) {
        self.look_up(tables);
        let from = self.interface.as_ref().map_or([0; 6], |interface| interface.mac);
        self.heads = Heads::new(from, self.mac.unwrap_or([0; 6]), self.local, self.target.dst);
        let segment = self.mtu.saturating_sub(self.heads.ip_len() + TCP_LEN);
        self.segment = u32::try_from(segment).unwrap_or(u32::MAX);
    }

    fn look_up(&mut self, tables: &Tables) {
        self.made_at = tables.generation.load(Ordering::Acquire);
        let snapshot = tables.snapshot.load();
        (self.interface, self.next_hop, self.mac) = (None, None, None);
        (self.mtu, self.until) = (MTU_UNKNOWN, Deadline::NEVER);
        let Ok(way) = path::route(&snapshot, self.target) else { return };
        let (interface, dst) = (way.interface, self.target.dst);
        let neighbour = snapshot.neighbours.get(way.next_hop);
        self.next_hop = Some(way.next_hop);
        self.mac = neighbour.map(|n| n.mac);
        self.doubted = neighbour.is_some_and(|n| !matches!(n.nud, Nud::Permanent | Nud::Reachable { .. }));
        self.proof = None;
        (self.mtu, self.until) = snapshot.path_mtu(dst.addr, interface.mtu);
        self.found = self.found.filter(|found| found.until > Clock.now());
        if let Some(PathMtu { bytes, until }) = self.found
            && (bytes as usize) < self.mtu
        {
            (self.mtu, self.until) = (bytes as usize, Deadline::at(until));
        }
        self.class.flow_hash = interface.egress.rss_hash(&self.local.socket_addr(0), &dst.socket_addr(0));
        self.class.queue = interface.egress.pick_queue();
        self.interface = Some(interface.clone());
        if neighbour.is_some_and(|n| n.nud == Nud::Stale) {
            tables.used(way.next_hop);
        }
    }

    #[inline]
    pub(in crate::tcp) fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// Data leave for the first time, with this number.
    #[inline]
    pub(super) fn leaves(&mut self, seq: Seq) {
        if self.doubted && self.proof.is_none() {
            self.proof = Some(seq);
        }
    }

    /// The peer has acknowledged all before `una`. An acknowledgement of what went to another address before says nothing of this one.
    #[cold]
    pub(in crate::tcp) fn confirm(&mut self, tables: &Tables, una: Seq) {
        if let (Some(proof), Some(key), Some(mac)) = (self.proof, self.next_hop, self.mac)
            && una.is_after(proof)
        {
            self.doubted = false;
            tables.confirmed(key, mac);
        }
    }

    /// Our end and the peer's.
    pub(in crate::tcp) fn ends(&self) -> (End, End) {
        (self.local, self.target.dst)
    }

    pub(in crate::tcp) fn scope(&self) -> u32 {
        self.target.scope
    }

    /// Whether both ends are on a link within this process.
    pub(in crate::tcp) fn is_in_process(&self) -> bool {
        self.interface.as_ref().is_some_and(|interface| interface.egress.is_in_process())
    }

    pub(in crate::tcp) fn mtu(&self) -> usize {
        self.mtu
    }

    /// Bytes of the longest packet behind the IP header and the first 20 of TCP's.
    #[inline]
    pub(in crate::tcp) fn segment(&self) -> u32 {
        self.segment
    }
}
