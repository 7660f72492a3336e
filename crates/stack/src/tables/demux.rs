//! Which socket a datagram belongs to.
//!
//! Order of search, as `net/ipv4/udp.c __udp4_lib_lookup` scores: the socket connected to exactly these two ends, then a
//! socket bound to the destination address, then one bound to a wildcard, by the table of [`napier_core::family`]. Sockets that share a place
//! (SO_REUSEPORT) form one entry and the packet chooses among its members.
//!
//! Both tables are immutable and cut in 256 shards. A reader follows two pointers and takes no lock; a writer copies
//! one shard and the list of 256 pointers. A key has a hash; a shard is a small open-addressed array, so entries of one
//! hash stand in one run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::tables::reuse::ReusePort;
use crate::wire::addr::{Addr, End};

const SHARDS: usize = 256;

/// What can stand in the tables.
pub(crate) trait Demuxed {
    /// The recorded NAPI id.
    fn recorded_napi(&self) -> &AtomicU32;
}

/// The socket tables of one moment.
pub(crate) struct Demux<S> {
    connected: Table<S>,
    bound: Table<S>,
    seed: u64,
}

impl<S> Clone for Demux<S> {
    fn clone(&self) -> Self {
        Self { connected: self.connected.clone(), bound: self.bound.clone(), seed: self.seed }
    }
}

/// Where a socket stands: its own end, and the peer's if it is connected.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tuple {
    pub(crate) local: End,
    pub(crate) peer: Option<End>,
}

impl<S: Demuxed> Demux<S> {
    /// `seed` keeps a peer from choosing addresses that fall into one run.
    pub(crate) fn new(seed: u64) -> Self {
        Self { connected: Table::new(), bound: Table::new(), seed }
    }

    /// The socket for a datagram that instance `napi_id` received.
    #[inline]
    pub(crate) fn find(&self, src: End, dst: End, napi_id: u32) -> Option<&Arc<S>> {
        if self.connected.len != 0 {
            let hash = flow_hash(self.seed, src, dst);
            let ports = ports(src.port, dst.port);
            let same = |e: &&Entry<S>| e.ports == ports && e.local == dst.addr && e.peer == src.addr;
            if let Some(entry) = self.connected.run(hash).find(same) {
                return Some(entry.select(self.seed, src, dst, napi_id));
            }
        }
        let ports = ports(0, dst.port);
        let any = dst.addr.any();
        let mut wildcard = None;
        for entry in self.bound.run(port_hash(self.seed, dst.port)).filter(|e| e.ports == ports) {
            if entry.local == dst.addr {
                return Some(entry.select(self.seed, src, dst, napi_id));
            }
            if entry.local == any {
                wildcard = Some(entry);
            }
        }
        let entry = wildcard.or_else(|| self.other_wildcard(dst))?;
        Some(entry.select(self.seed, src, dst, napi_id))
    }

    #[cold]
    fn other_wildcard(&self, dst: End) -> Option<&Entry<S>> {
        let (ports, any) = (ports(0, dst.port), dst.addr.other_any());
        self.bound.run(port_hash(self.seed, dst.port)).find(|e| e.ports == ports && e.local == any)
    }

    /// Puts a socket at a place; it joins those already there, which must have the same `reuse`.
    pub(crate) fn insert(&mut self, tuple: Tuple, socket: &Arc<S>, reuse: ReusePort) {
        let (table, hash) = self.table(tuple);
        table.edit(hash, |entries| match entries.iter_mut().find(|e| e.is_at(tuple)) {
            Some(entry) => {
                let members = entry.members().iter().chain([socket]).cloned().collect();
                entry.set_members(members, reuse == ReusePort::ByNapi);
            }
            None => entries.push(Entry::new(hash, tuple, socket.clone())),
        });
    }

    /// # Panics
    /// If the socket is not there: places are kept by the registry, so that is our own mistake.
    pub(crate) fn remove(&mut self, tuple: Tuple, socket: &Arc<S>) {
        let (table, hash) = self.table(tuple);
        table.edit(hash, |entries| {
            let at = entries.iter().position(|e| e.is_at(tuple)).expect("a registered place has an entry");
            let entry = &mut entries[at];
            let members: Vec<_> = entry.members().iter().filter(|m| !Arc::ptr_eq(m, socket)).cloned().collect();
            assert!(members.len() + 1 == entry.members().len(), "a socket stands at its place exactly once");
            if members.is_empty() {
                entries.swap_remove(at);
            } else {
                let by_napi = entry.group.as_ref().is_some_and(|group| group.by_napi);
                entry.set_members(members, by_napi);
            }
        });
    }

    /// Calls `act` with each socket.
    pub(crate) fn each(&self, mut act: impl FnMut(&Arc<S>)) {
        for table in [&self.connected, &self.bound] {
            table.shards.iter().flat_map(|shard| shard.iter().flatten()).flat_map(Entry::members).for_each(&mut act);
        }
    }

    fn table(&mut self, tuple: Tuple) -> (&mut Table<S>, u32) {
        match tuple.peer {
            Some(peer) => (&mut self.connected, flow_hash(self.seed, peer, tuple.local)),
            None => (&mut self.bound, port_hash(self.seed, tuple.local.port)),
        }
    }
}

/// One place and who is there, in one cache line.
#[repr(align(64))]
struct Entry<S> {
    local: Addr,
    /// `::` in the table of bound sockets.
    peer: Addr,
    /// The only socket, or the first.
    socket: Arc<S>,
    /// All of them, if there are several.
    group: Option<Arc<SocketGroup<S>>>,
    ports: u32,
    hash: u32,
}

const _: () = assert!(size_of::<Option<Entry<()>>>() == 64);

impl<S> Clone for Entry<S> {
    fn clone(&self) -> Self {
        Self { socket: self.socket.clone(), group: self.group.clone(), ..*self }
    }
}

struct SocketGroup<S> {
    by_napi: bool,
    members: Vec<Arc<S>>,
}

fn key(tuple: Tuple) -> (Addr, Addr, u32) {
    let peer = tuple.peer.unwrap_or(End { addr: Addr::ANY_V6, port: 0 });
    (tuple.local.addr, peer.addr, ports(peer.port, tuple.local.port))
}

#[inline]
fn ports(peer: u16, local: u16) -> u32 {
    u32::from(peer) << 16 | u32::from(local)
}

impl<S: Demuxed> Entry<S> {
    fn new(hash: u32, tuple: Tuple, socket: Arc<S>) -> Self {
        let (local, peer, ports) = key(tuple);
        Self { local, peer, socket, group: None, ports, hash }
    }

    fn is_at(&self, tuple: Tuple) -> bool {
        (self.local, self.peer, self.ports) == key(tuple)
    }

    fn members(&self) -> &[Arc<S>] {
        match &self.group {
            Some(group) => &group.members,
            None => std::slice::from_ref(&self.socket),
        }
    }

    fn set_members(&mut self, members: Vec<Arc<S>>, by_napi: bool) {
        self.socket = members[0].clone();
        // A group of one keeps its rule: others may join again.
        self.group = Some(Arc::new(SocketGroup { by_napi, members }));
    }

    #[inline]
    fn select(&self, seed: u64, src: End, dst: End, napi_id: u32) -> &Arc<S> {
        match &self.group {
            None => &self.socket,
            Some(group) => group.select(seed, src, dst, napi_id),
        }
    }
}

impl<S: Demuxed> SocketGroup<S> {
    /// By NAPI: the member that already serves this instance; else the first that serves none yet, which is claimed by
    /// one compare-and-swap so that two instances never share a member while another is free; else as by hash.
    #[inline(never)]
    fn select(&self, seed: u64, src: End, dst: End, napi_id: u32) -> &Arc<S> {
        let members = &self.members;
        if self.by_napi {
            // Relaxed: the id is a hint that orders nothing else.
            if let Some(member) = members.iter().find(|m| m.recorded_napi().load(Ordering::Relaxed) == napi_id) {
                return member;
            }
            let claim = |m: &&Arc<S>| {
                // Relaxed: as above; the exchange alone decides between two claimants.
                m.recorded_napi().compare_exchange(0, napi_id, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            };
            if let Some(member) = members.iter().find(claim) {
                return member;
            }
        }
        // Scaled, not modulo: `net/core/sock_reuseport.c reciprocal_scale`.
        let hash = u64::from(flow_hash(seed, src, dst));
        let index = (hash * members.len() as u64) >> 32;
        &members[usize::try_from(index).expect("less than the number of members")]
    }
}

/// 256 shards, each an array with a power of two of slots, at most half full.
struct Table<S> {
    shards: Shards<S>,
    len: usize,
}

type Shards<S> = Arc<[Arc<[Option<Entry<S>>]>]>;

impl<S> Clone for Table<S> {
    fn clone(&self) -> Self {
        Self { shards: self.shards.clone(), len: self.len }
    }
}

impl<S> Table<S> {
    fn new() -> Self {
        let empty: Arc<[Option<Entry<S>>]> = Arc::new([None]);
        Self { shards: std::iter::repeat_n(empty, SHARDS).collect(), len: 0 }
    }

    /// The entries with this hash.
    #[inline]
    fn run(&self, hash: u32) -> impl Iterator<Item = &Entry<S>> {
        let shard = &*self.shards[hash as usize % SHARDS];
        let mut at = slot_of(hash);
        std::iter::from_fn(move || {
            // At least half of the slots are empty, so this ends.
            let entry = shard[at & (shard.len() - 1)].as_ref()?;
            at = at.wrapping_add(1);
            Some(entry)
        })
        .filter(move |entry| entry.hash == hash)
    }

    fn edit(&mut self, hash: u32, change: impl FnOnce(&mut Vec<Entry<S>>)) {
        let index = hash as usize % SHARDS;
        let mut entries: Vec<Entry<S>> = self.shards[index].iter().flatten().cloned().collect();
        self.len -= entries.len();
        change(&mut entries);
        self.len += entries.len();
        let mut slots = vec![None; (entries.len() * 2).next_power_of_two()];
        for entry in entries {
            let mut at = slot_of(entry.hash);
            while slots[at & (slots.len() - 1)].is_some() {
                at = at.wrapping_add(1);
            }
            let mask = slots.len() - 1;
            slots[at & mask] = Some(entry);
        }
        let mut shards = self.shards.to_vec();
        shards[index] = slots.into();
        self.shards = shards.into();
    }
}

#[inline]
fn slot_of(hash: u32) -> usize {
    hash as usize / SHARDS
}

/// Mixes two words by one multiplication, high half folded on the low half.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the fold takes both halves")]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd1b5_4a32_d192_ed03);
    (product >> 64) as u64 ^ product as u64
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a 32-bit hash")]
fn port_hash(seed: u64, port: u16) -> u32 {
    (mix(seed, u64::from(port)) >> 16) as u32
}

/// Of a flow as the receiver sees it.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "a 32-bit hash")]
pub(crate) fn flow_hash(seed: u64, src: End, dst: End) -> u32 {
    let ports = u64::from(src.port) << 16 | u64::from(dst.port);
    let (src_high, src_low) = src.addr.words();
    let (dst_high, dst_low) = dst.addr.words();
    let hash = if src.addr.is_v4() {
        mix(seed ^ ports, (src_low << 32) | (dst_low & 0xffff_ffff))
    } else {
        mix(mix(mix(seed ^ ports, src_high), src_low ^ dst_high), dst_low)
    };
    (hash >> 16) as u32
}

#[cfg(test)]
mod tests;
