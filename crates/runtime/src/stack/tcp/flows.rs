//! Which connection a segment belongs to: a hash table that readers walk without a lock.
//!
//! 4096 shards, each an immutable list that a writer copies: at 10,000 connections a list has two or three entries. The
//! hash is keyed by the name space, so peers cannot choose addresses that fall into one shard.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;

use super::super::addr::End;
use super::super::demux::flow_hash;
use super::conn::Conn;

const SHARDS: usize = 4096;

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

type Shard = Vec<(u32, Arc<Conn>)>;

impl Flows {
    pub(super) fn new(seed: u64) -> Self {
        let shards = (0..SHARDS).map(|_| ArcSwapOption::empty()).collect();
        Self { shards, writer: Mutex::new(()), seed }
    }

    /// Calls `found` with the connection of a flow, if there is one.
    #[inline]
    pub(super) fn find<R>(&self, flow: &Flow, found: impl FnOnce(&Arc<Conn>) -> R) -> Option<R> {
        let hash = self.hash(flow);
        let shard = self.shards[hash as usize % SHARDS].load();
        let (_, conn) = shard.as_deref()?.iter().find(|(h, conn)| *h == hash && conn.flow == *flow)?;
        Some(found(conn))
    }

    /// False if the flow has a connection already.
    pub(super) fn insert(&self, conn: &Arc<Conn>) -> bool {
        let hash = self.hash(&conn.flow);
        let _one_at_a_time = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &self.shards[hash as usize % SHARDS];
        let mut shard = slot.load().as_deref().cloned().unwrap_or_default();
        if shard.iter().any(|(_, other)| other.flow == conn.flow) {
            return false;
        }
        shard.push((hash, conn.clone()));
        slot.store(Some(Arc::new(shard)));
        true
    }

    /// Removes a connection if it is still there.
    pub(super) fn remove(&self, conn: &Arc<Conn>) {
        let hash = self.hash(&conn.flow);
        let _one_at_a_time = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = &self.shards[hash as usize % SHARDS];
        let Some(shard) = slot.load_full() else { return };
        let rest: Shard = shard.iter().filter(|(_, other)| !Arc::ptr_eq(other, conn)).cloned().collect();
        slot.store((!rest.is_empty()).then(|| Arc::new(rest)));
    }

    #[inline]
    fn hash(&self, flow: &Flow) -> u32 {
        flow_hash(self.seed, flow.peer, flow.local)
    }
}
