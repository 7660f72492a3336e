//! The server's table: fixed memory, shared by all workers.
//!
//! Any flow may ask for any key and the flows are spread over the workers by hash, so the workers need one table, not
//! one each. It is cut into shards, each behind a `std::sync::RwLock`: gets of one shard run side by side, a set holds
//! up only the gets of its own shard, and an uncontended lock is one atomic operation to take and one to release. With
//! 3 % sets over 256 shards two workers meet at a writer about once in ten thousand requests, and readers share a
//! cache line only when they ask the same shard. A sequence lock would save the reader's two atomics but needs
//! unchecked shared reads of the value; a table per worker would need requests routed by key instead of by flow, and
//! that would measure the routing.
//!
//! All memory is taken at the start: a record has a fixed place of [`STRIDE_BYTES`], a set overwrites it in place.
//! Nothing is ever removed, so a probe ends at the first empty slot, and at least half the slots stay empty.

use std::sync::RwLock;

use super::value::hash_key;
use super::{KEY_BYTES_MAX, value_bytes_max};

/// Memory of one record: the longest key and the longest value side by side, in bytes.
pub const STRIDE_BYTES: usize = KEY_BYTES_MAX + value_bytes_max(1);

const SHARDS: usize = 256;
const EMPTY: u32 = u32::MAX;

/// Keys and values of one server. Shared by reference between its workers.
pub struct Table {
    shards: Box<[Shard]>,
}

/// Why a value was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// With this key the reply would not fit one datagram.
    #[error("a value of {value_bytes} bytes is too long; {value_bytes_max} bytes fit with this key")]
    TooLarge {
        /// Length of the value in bytes.
        value_bytes: usize,
        /// Longest value with this key, in bytes.
        value_bytes_max: usize,
    },
    /// The key is empty or longer than [`KEY_BYTES_MAX`].
    #[error("a key of {key_bytes} bytes is not legal; give 1 to 250 bytes")]
    BadKey {
        /// Length of the key in bytes.
        key_bytes: usize,
    },
    /// No place is left for a new key; keys that are in the table can still be set.
    #[error("the table is full; make it for more records")]
    Full,
}

impl Table {
    /// A table with room for at least `records` keys that hash evenly; the memory is taken now.
    pub fn new(records: usize) -> Self {
        // Eight deviations above the mean of a shard: with evenly hashed keys no shard ever fills up.
        let mean = records as f64 / SHARDS as f64;
        let per_shard = (mean + 8.0 * mean.sqrt()).ceil() as usize + 8;
        Self { shards: (0..SHARDS).map(|_| Shard(RwLock::new(Records::new(per_shard)))).collect() }
    }

    /// Calls `found` with flags and value of `key` while the shard is read-locked; `None` if the key is not there.
    pub fn get<R>(&self, key: &[u8], found: impl FnOnce(u32, &[u8]) -> R) -> Option<R> {
        let hash = hash_key(key);
        let records = self.shard(hash).0.read().expect("no holder of the lock panics");
        match records.find(key, hash) {
            Place::Record(index) => {
                let (head, bytes) = records.record(index);
                let (key_bytes, value_bytes) = (usize::from(head.key_bytes), usize::from(head.value_bytes));
                Some(found(head.flags, &bytes[key_bytes..key_bytes + value_bytes]))
            }
            Place::Slot(_) => None,
        }
    }

    /// Keeps `value` and `flags` under `key`; what was there is overwritten in place.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be kept; the table is then as it was.
    pub fn set(&self, key: &[u8], flags: u32, value: &[u8]) -> Result<(), StoreError> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(StoreError::BadKey { key_bytes: key.len() });
        }
        if value.len() > value_bytes_max(key.len()) {
            return Err(StoreError::TooLarge { value_bytes: value.len(), value_bytes_max: value_bytes_max(key.len()) });
        }
        let hash = hash_key(key);
        let mut records = self.shard(hash).0.write().expect("no holder of the lock panics");
        let index = match records.find(key, hash) {
            Place::Record(index) => index,
            Place::Slot(slot) => records.add(slot, hash)?,
        };
        records.write(index, key, flags, value);
        Ok(())
    }

    /// Number of keys in the table.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.read().expect("no holder of the lock panics").used).sum()
    }

    /// Whether the table has no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shard(&self, hash: u64) -> &Shard {
        // The top bits choose the shard, the low ones the slot in it, those between are compared: none is used twice.
        &self.shards[(hash >> 56) as usize]
    }
}

/// On its own cache lines (two of them: neighbours are fetched in pairs), so that locks do not disturb each other.
#[repr(align(128))]
struct Shard(RwLock<Records>);

struct Records {
    slots: Box<[Slot]>,
    heads: Box<[Head]>,
    /// Record n has its key and its value from `n * STRIDE_BYTES`.
    bytes: Box<[u8]>,
    used: usize,
}

#[derive(Clone, Copy)]
struct Slot {
    tag: u32,
    /// Index of the record, or EMPTY.
    record: u32,
}

#[derive(Clone, Copy, Default)]
struct Head {
    flags: u32,
    key_bytes: u16,
    value_bytes: u16,
}

enum Place {
    Record(usize),
    /// The key is not there; this slot would be its own.
    Slot(usize),
}

impl Records {
    fn new(records: usize) -> Self {
        let slots = (records * 2).next_power_of_two();
        Self {
            slots: vec![Slot { tag: 0, record: EMPTY }; slots].into(),
            heads: vec![Head::default(); records].into(),
            bytes: vec![0; records * STRIDE_BYTES].into(),
            used: 0,
        }
    }

    fn find(&self, key: &[u8], hash: u64) -> Place {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.record == EMPTY {
                return Place::Slot(at);
            }
            let index = slot.record as usize;
            if slot.tag == tag(hash) {
                let (head, bytes) = self.record(index);
                if bytes[..usize::from(head.key_bytes)] == *key {
                    return Place::Record(index);
                }
            }
            // Ends: at least half of the slots are empty (`add` keeps to the number of records).
            at = (at + 1) & mask;
        }
    }

    fn record(&self, index: usize) -> (Head, &[u8]) {
        (self.heads[index], &self.bytes[index * STRIDE_BYTES..(index + 1) * STRIDE_BYTES])
    }

    fn add(&mut self, slot: usize, hash: u64) -> Result<usize, StoreError> {
        if self.used == self.heads.len() {
            return Err(StoreError::Full);
        }
        let index = self.used;
        self.used += 1;
        self.slots[slot] = Slot { tag: tag(hash), record: index as u32 };
        Ok(index)
    }

    fn write(&mut self, index: usize, key: &[u8], flags: u32, value: &[u8]) {
        self.heads[index] = Head { flags, key_bytes: key.len() as u16, value_bytes: value.len() as u16 };
        let bytes = &mut self.bytes[index * STRIDE_BYTES..(index + 1) * STRIDE_BYTES];
        bytes[..key.len()].copy_from_slice(key);
        bytes[key.len()..key.len() + value.len()].copy_from_slice(value);
    }
}

fn tag(hash: u64) -> u32 {
    (hash >> 24) as u32
}

#[cfg(test)]
mod tests;
