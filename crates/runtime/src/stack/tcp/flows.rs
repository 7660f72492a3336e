//! Which connection a segment belongs to: a hash table that readers walk without a lock.
//!
//! 8192 shards, each an immutable list that a writer copies: at 10,000 connections a list has one or two entries, which lie
//! in one cache line with it. The hash is keyed by the name space, so peers cannot choose addresses that fall into one
//! shard.
//!
//! With many connections none is in the cache when its segment comes. So an entry says where the connection's memory is,
//! and all of it is asked for at once, before the first byte is read.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;

use super::super::addr::End;
use super::super::demux::flow_hash;
use super::conn::{Conn, Memory};
use crate::sys::prefetch::prefetch;

const SHARDS: usize = 8192;
/// Entries that lie in the shard itself.
const NEAR: usize = 2;

/// Both ends of a connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) local: End,
    pub(super) peer: End,
}

pub(super) struct Flows {
    shards: Box<[ArcSwapOption<Shard>]>,
    /// Serialises writers.
    writer: Mutex<()>,
    seed: u64,
}

#[derive(Clone, Default)]
struct Shard {
    near: [Option<Entry>; NEAR],
    far: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    conn: Arc<Conn>,
    memory: Memory,
    hash: u32,
}

impl Shard {
    fn of(entries: Vec<Entry>) -> Option<Arc<Self>> {
        let mut entries = entries.into_iter();
        let near = [entries.next(), entries.next()];
        near[0].is_some().then(|| Arc::new(Self { near, far: entries.collect() }))
    }

    #[inline]
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.near.iter().flatten().chain(&self.far)
    }
}

impl Flows {
    pub(super) fn new(seed: u64) -> Self {
        let shards = (0..SHARDS).map(|_| ArcSwapOption::empty()).collect();
        Self { shards, writer: Mutex::new(()), seed }
    }

    /// Calls `found` with the connection of a flow, if there is one.
    #[inline]
    pub(super) fn find<R>(&self, flow: &Flow, found: impl FnOnce(&Arc<Conn>) -> R) -> Option<R> {
        let hash = self.hash(flow);
        let shard = self.place(hash).load();
        let same = |entry: &&Entry| {
            entry.hash == hash && {
                entry.memory.fetch();
                entry.conn.flow == *flow
            }
        };
        Some(found(&shard.as_deref()?.entries().find(same)?.conn))
    }

    /// False if the flow has a connection already.
    pub(super) fn insert(&self, conn: &Arc<Conn>) -> bool {
        let hash = self.hash(&conn.flow);
        let _one_at_a_time = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = self.place(hash);
        let shard = slot.load_full().unwrap_or_default();
        if shard.entries().any(|other| other.conn.flow == conn.flow) {
            return false;
        }
        let entry = Entry { hash, memory: conn.memory(), conn: conn.clone() };
        slot.store(Shard::of(shard.entries().cloned().chain([entry]).collect()));
        true
    }

    /// Removes a connection if it is still there.
    pub(super) fn remove(&self, conn: &Arc<Conn>) {
        let hash = self.hash(&conn.flow);
        let _one_at_a_time = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = self.place(hash);
        let Some(shard) = slot.load_full() else { return };
        slot.store(Shard::of(shard.entries().filter(|other| !Arc::ptr_eq(&other.conn, conn)).cloned().collect()));
    }

    /// Asks for the place of a shard in the table.
    #[inline]
    pub(super) fn fetch_place(&self, hash: u32) {
        prefetch(std::ptr::from_ref(self.place(hash)).addr(), 1);
    }

    /// Asks for a shard, which its place names.
    #[inline]
    pub(super) fn fetch_shard(&self, hash: u32) {
        if let Some(shard) = self.place(hash).load().as_deref() {
            prefetch(std::ptr::from_ref(shard).addr(), size_of::<Shard>());
        }
    }

    /// Asks for the connections of this hash, which their shard names.
    #[inline]
    pub(super) fn fetch_conn(&self, hash: u32) {
        self.each(hash, |entry| {
            entry.memory.fetch();
        });
    }

    /// Asks for what the next segment of these connections will touch of their receive buffers.
    #[inline]
    pub(super) fn fetch_buffer(&self, hash: u32) {
        self.each(hash, |entry| entry.conn.fetch_buffer());
    }

    #[inline]
    fn each(&self, hash: u32, act: impl FnMut(&Entry)) {
        if let Some(shard) = self.place(hash).load().as_deref() {
            shard.entries().filter(|entry| entry.hash == hash).for_each(act);
        }
    }

    #[inline]
    fn place(&self, hash: u32) -> &ArcSwapOption<Shard> {
        &self.shards[hash as usize % SHARDS]
    }

    #[inline]
    pub(super) fn hash(&self, flow: &Flow) -> u32 {
        flow_hash(self.seed, flow.peer, flow.local)
    }
}
