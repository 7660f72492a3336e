//! Which connection a segment belongs to: a hash table that readers walk without a lock.
//!
//! 8192 lists, each immutable and copied by a writer: at 10,000 connections a list has one or two entries, which lie in one
//! cache line with it. The hash is keyed by the name space, so peers cannot choose addresses that fall into one list.
//!
//! With many connections none is in the cache when its segment comes. So an entry says where the connection's memory is,
//! and all of it is asked for at once, before the first byte is read.

use std::sync::Arc;

use napier_ring::FlowTable;
use napier_sys::prefetch::prefetch;

use crate::tables::demux::flow_hash;
use crate::tcp::conn::{Conn, Memory};
use crate::tcp::flow::Flow;

const LISTS: usize = 8192;

pub(super) struct Flows {
    table: FlowTable<Entry>,
    seed: u64,
}

#[derive(Clone)]
struct Entry {
    conn: Arc<Conn>,
    memory: Memory,
}

impl Flows {
    pub(super) fn new(seed: u64) -> Self {
        Self { table: FlowTable::new(LISTS), seed }
    }

    /// Calls `found` with the connection of a flow, if there is one.
    #[inline]
    pub(super) fn find<R>(&self, flow: &Flow, found: impl FnOnce(&Arc<Conn>) -> R) -> Option<R> {
        let is = |entry: &Entry| {
            entry.memory.fetch();
            entry.conn.flow == *flow
        };
        self.table.find(self.hash(flow), is, |entry| found(&entry.conn))
    }

    /// False if the flow has a connection already, or the table is closed.
    pub(super) fn insert(&self, conn: &Arc<Conn>) -> bool {
        let entry = Entry { memory: conn.memory(), conn: conn.clone() };
        self.table.insert(self.hash(&conn.flow), entry, |other| other.conn.flow == conn.flow)
    }

    /// All connections; those that come or go meanwhile may be among them or not.
    pub(super) fn all(&self) -> Vec<Arc<Conn>> {
        let mut all = Vec::new();
        self.table.for_all(|entry| all.push(entry.conn.clone()));
        all
    }

    /// Refuses new connections, and gives those that are there.
    pub(super) fn close(&self) -> Vec<Arc<Conn>> {
        self.table.close();
        self.all()
    }

    /// Removes a connection if it is still there.
    pub(super) fn remove(&self, conn: &Arc<Conn>) {
        self.table.remove(self.hash(&conn.flow), |other| Arc::ptr_eq(&other.conn, conn));
    }

    /// Asks for the place of a list in the table.
    #[inline]
    pub(super) fn fetch_place(&self, hash: u32) {
        prefetch(self.table.place_at(hash), 1);
    }

    /// Asks for a list, which its place names.
    #[inline]
    pub(super) fn fetch_shard(&self, hash: u32) {
        if let Some((at, bytes)) = self.table.list_at(hash) {
            prefetch(at, bytes);
        }
    }

    /// Asks for the connections of this hash, which their list names.
    #[inline]
    pub(super) fn fetch_conn(&self, hash: u32) {
        self.table.each(hash, |entry| entry.memory.fetch());
    }

    /// Asks for what the next segment of these connections will touch of their receive buffers.
    #[inline]
    pub(super) fn fetch_buffer(&self, hash: u32) {
        self.table.each(hash, |entry| entry.conn.fetch_buffer());
    }

    #[inline]
    pub(super) fn hash(&self, flow: &Flow) -> u32 {
        flow_hash(self.seed, flow.peer, flow.local)
    }
}
