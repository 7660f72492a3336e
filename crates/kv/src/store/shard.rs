//! The records of one shard, and which of them makes room: the hand of a clock goes round and takes the first record
//! that was not asked for since it passed last.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use indexmap::IndexMap;
use indexmap::map::MutableKeys as _;
use indexmap::map::raw_entry_v1::{RawEntryApiV1 as _, RawEntryMut};

use super::{ChangeError, Delta, How, Item, Put, PutError, VALUE_BYTES_MAX};
use crate::decimal;

/// What is counted for a record beside key and value: its struct, its place in the map, its allocation.
pub(super) const RECORD_OVERHEAD_BYTES: usize = 128;

/// A buffer that is longer than twice what it holds, and longer than this, is given back.
const SLACK_BYTES: usize = 256;

/// Places of a map that are never given back.
const PLACES_KEPT: usize = 64;

/// Steps of the hand before it takes what it points at.
const HAND_STEPS_MAX: usize = 64;

/// A key with its hash, which is computed once per request.
#[derive(Clone, Copy)]
pub(super) struct Hashed<'a> {
    pub(super) key: &'a [u8],
    pub(super) hash: u64,
}

/// Stands where a map wants a hasher: keys come with their hashes.
type NeverHashes = BuildHasherDefault<DefaultHasher>;

pub(super) struct Records {
    /// A record is its own key, for the bytes of both are in one place.
    map: IndexMap<Record, (), NeverHashes>,
    hand: usize,
    cas_next: u64,
    cas_step: u64,
    /// Memory of all records, in bytes.
    pub(super) bytes: usize,
}

pub(super) struct Record {
    flags: u32,
    /// Length of the key.
    key_bytes: u16,
    cas: u64,
    pub(super) expires_ms: u64,
    /// The key, and the value right behind it: who has compared the one has the other on its way.
    bytes: Vec<u8>,
    accessed_ms: AtomicU64,
    fetched: AtomicBool,
    /// Asked for since the hand passed.
    referenced: AtomicBool,
}

impl Record {
    #[inline]
    fn key(&self) -> &[u8] {
        &self.bytes[..usize::from(self.key_bytes)]
    }

    #[inline]
    fn value(&self) -> &[u8] {
        &self.bytes[usize::from(self.key_bytes)..]
    }

    pub(super) fn item(&self) -> Item<'_> {
        Item {
            flags: self.flags,
            cas: self.cas,
            expires_ms: self.expires_ms,
            accessed_ms: self.accessed_ms.load(Ordering::Relaxed),
            fetched: self.fetched.load(Ordering::Relaxed),
            value: self.value(),
        }
    }

    /// Relaxed: hints, each for itself. Written only if changed, so that readers share the line.
    pub(super) fn touch(&self, now_ms: u64) {
        for hint in [&self.fetched, &self.referenced] {
            if !hint.load(Ordering::Relaxed) {
                hint.store(true, Ordering::Relaxed);
            }
        }
        if self.accessed_ms.load(Ordering::Relaxed) != now_ms {
            self.accessed_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    fn cost(&self) -> usize {
        RECORD_OVERHEAD_BYTES + self.bytes.capacity()
    }

    fn fit(&mut self) {
        if self.bytes.capacity() > SLACK_BYTES && self.bytes.capacity() / 2 > self.bytes.len() {
            self.bytes.shrink_to_fit();
        }
    }
}

impl Records {
    pub(super) fn new(shard: u64, shards: u64) -> Self {
        // Shards count in steps, so that no number is used twice in the whole store, and 0 never.
        Self { map: IndexMap::default(), hand: 0, cas_next: shard + 1, cas_step: shards, bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.map.capacity()
    }

    pub(super) fn clear(&mut self) {
        // The places go as well: what was there may not come back.
        self.map = IndexMap::default();
        self.bytes = 0;
    }

    /// Where a record is, expired or not.
    #[inline]
    fn find(&self, at: Hashed<'_>) -> Option<usize> {
        self.map.raw_entry_v1().index_from_hash(at.hash, |record| record.key() == at.key)
    }

    #[inline]
    fn record(&self, index: usize) -> &Record {
        self.map.get_index(index).expect("the index is of a record").0
    }

    /// Its key is not to be changed.
    fn record_mut(&mut self, index: usize) -> &mut Record {
        self.map.get_index_mut2(index).expect("the index is of a record").0
    }

    #[inline]
    pub(super) fn live(&self, at: Hashed<'_>, now_ms: u64) -> Option<&Record> {
        self.find(at).map(|index| self.record(index)).filter(|record| record.expires_ms > now_ms)
    }

    pub(super) fn live_mut(&mut self, at: Hashed<'_>, now_ms: u64) -> Option<&mut Record> {
        self.find(at).map(|index| self.record_mut(index)).filter(|record| record.expires_ms > now_ms)
    }

    pub(super) fn put(&mut self, now_ms: u64, at: Hashed<'_>, put: &Put<'_>) -> Result<u64, PutError> {
        let index = self.find(at);
        let live = index.map(|index| self.record(index)).filter(|record| record.expires_ms > now_ms);
        let live = live.map(|record| (record.cas, record.value().len()));
        match (put.cas, live) {
            (0, _) => {}
            (_, None) => return Err(PutError::NotFound),
            (cas, Some((other, _))) if cas != other => return Err(PutError::Exists),
            _ => {}
        }
        let old_bytes = match (put.how, live) {
            (How::Add, Some(_)) | (How::Replace | How::Append | How::Prepend, None) => return Err(PutError::NotStored),
            (How::Append | How::Prepend, Some((_, bytes))) => bytes,
            (How::Set | How::Add | How::Replace, _) => 0,
        };
        let value_bytes = old_bytes + put.value.len();
        if value_bytes > VALUE_BYTES_MAX {
            return Err(PutError::TooLarge { value_bytes });
        }
        let cas = self.next_cas();
        let Some(index) = index else {
            let record = Record {
                flags: put.flags,
                key_bytes: u16::try_from(at.key.len()).expect("no protocol has so long a key"),
                cas,
                expires_ms: put.expires_ms,
                bytes: [at.key, put.value].concat(),
                accessed_ms: AtomicU64::new(now_ms),
                fetched: AtomicBool::new(false),
                referenced: AtomicBool::new(true),
            };
            self.bytes += record.cost();
            self.insert(at, record);
            return Ok(cas);
        };
        let record = self.record_mut(index);
        let key_bytes = usize::from(record.key_bytes);
        let before = record.cost();
        match put.how {
            How::Append => record.bytes.extend_from_slice(put.value),
            How::Prepend => {
                record.bytes.splice(key_bytes..key_bytes, put.value.iter().copied());
            }
            How::Set | How::Add | How::Replace => {
                record.bytes.truncate(key_bytes);
                record.bytes.extend_from_slice(put.value);
                record.flags = put.flags;
                record.expires_ms = put.expires_ms;
                record.fetched.store(false, Ordering::Relaxed);
            }
        }
        record.cas = cas;
        record.accessed_ms.store(now_ms, Ordering::Relaxed);
        record.fit();
        let after = record.cost();
        self.bytes = self.bytes + after - before;
        Ok(cas)
    }

    fn insert(&mut self, at: Hashed<'_>, record: Record) {
        match self.map.raw_entry_mut_v1().from_hash(at.hash, |record| record.key() == at.key) {
            RawEntryMut::Vacant(place) => place.insert_hashed_nocheck(at.hash, record, ()),
            RawEntryMut::Occupied(_) => unreachable!("it was not found"),
        };
    }

    pub(super) fn delete(&mut self, now_ms: u64, at: Hashed<'_>, cas: u64) -> Result<(), ChangeError> {
        let index = self.find(at).ok_or(ChangeError::NotFound)?;
        let record = self.record(index);
        if record.expires_ms <= now_ms {
            return Err(ChangeError::NotFound);
        }
        if cas != 0 && cas != record.cas {
            return Err(ChangeError::Exists);
        }
        self.remove(index);
        Ok(())
    }

    pub(super) fn arithmetic(&mut self, now_ms: u64, at: Hashed<'_>, delta: &Delta) -> Result<(u64, u64), ChangeError> {
        let Some(record) = self.live(at, now_ms) else {
            let (value, expires_ms) = delta.initial.ok_or(ChangeError::NotFound)?;
            let text = value.to_string();
            let put = Put { how: How::Set, cas: 0, flags: 0, expires_ms, value: text.as_bytes() };
            let cas = self.put(now_ms, at, &put).expect("a number is no long value");
            return Ok((value, cas));
        };
        // memcached looks at the length before it looks at the version, and at the digits after that.
        if record.value().is_empty() {
            return Err(ChangeError::NonNumeric);
        }
        if delta.cas != 0 && delta.cas != record.cas {
            return Err(ChangeError::Exists);
        }
        let old = number(record.value()).ok_or(ChangeError::NonNumeric)?;
        let new = if delta.down { old.saturating_sub(delta.by) } else { old.wrapping_add(delta.by) };
        let text = new.to_string();
        let flags = record.flags;
        // As memcached: a shorter number does not shorten the value of a decrement, but is filled up with spaces.
        let width = if delta.down { record.value().len().min(20) } else { 0 };
        let text = format!("{text:<width$}");
        let expires_ms = delta.expires_ms.unwrap_or(record.expires_ms);
        let put = Put { how: How::Set, cas: 0, flags, expires_ms, value: text.as_bytes() };
        let cas = self.put(now_ms, at, &put).expect("a number is no long value");
        Ok((new, cas))
    }

    /// Takes one record; whether there was any.
    pub(super) fn evict(&mut self) -> bool {
        if self.map.is_empty() {
            return false;
        }
        for _ in 0..HAND_STEPS_MAX {
            self.hand %= self.map.len();
            if !self.record(self.hand).referenced.swap(false, Ordering::Relaxed) {
                break;
            }
            self.hand += 1;
        }
        self.hand %= self.map.len();
        self.remove(self.hand);
        true
    }

    fn remove(&mut self, index: usize) {
        let (record, ()) = self.map.swap_remove_index(index).expect("the index is of a record");
        self.bytes -= record.cost();
        // A record's overhead counts its place, so places without one are not kept: a few large values may stand where
        // many small ones stood. A quarter: the next shrinking is as many records away as there are.
        if self.map.capacity() > PLACES_KEPT && self.map.len() < self.map.capacity() / 4 {
            self.map.shrink_to(self.map.capacity() / 2);
        }
    }

    fn next_cas(&mut self) -> u64 {
        let cas = self.cas_next;
        self.cas_next += self.cas_step;
        cas
    }
}

/// A decimal number of at most 20 digits, spaces behind it left aside.
fn number(value: &[u8]) -> Option<u64> {
    let digits = value.iter().rposition(|&byte| byte != b' ')? + 1;
    decimal::parse(&value[..digits])
}
