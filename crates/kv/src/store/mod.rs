//! What a server keeps for clients of any kind: values up to a megabyte, deletion, expiry, unique numbers for
//! compare-and-store, and a bound on memory that old records make room under.
//!
//! Any connection may ask for any key, so the workers share one store. Keys are spread over shards, each behind a
//! read-write lock: gets of one shard run side by side, a set holds up only the gets of its own shard. A store per worker
//! would need requests routed by key, and that would measure the routing. A record is as long as it is, so a set may
//! allocate; a get does not.
//!
//! Shards, and places in them, are chosen by one hash that a client cannot foresee. The time is handed in by the caller,
//! in ms since 1970, and is the same for all that happens in one turn of a worker.

mod account;
mod shard;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub use account::{Held, NoMemory};

use account::Account;
use shard::{Hashed, RECORD_OVERHEAD_BYTES, Records};

/// Longest value, in bytes. Source: memcached's default of `-I`, which counts the item's header as well.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// An expiry time that never comes.
pub const NEVER_MS: u64 = u64::MAX;

/// Least memory of a store, in bytes.
pub const MEMORY_BYTES_MIN: usize = 8 * VALUE_BYTES_MAX;

const SHARDS: usize = 64;

/// Keys and values of one server. Shared by reference between its workers.
pub struct Store {
    shards: Box<[Shard]>,
    hasher: RandomState,
    account: Account,
    /// When all records are to be forgotten, or [`NEVER_MS`].
    flush_ms: AtomicU64,
    /// Shard that has to give up a record next.
    victim: AtomicUsize,
    evictions: AtomicU64,
}

/// On its own cache lines (two of them: neighbours are fetched in pairs), so that locks do not disturb each other.
#[repr(align(128))]
struct Shard(RwLock<Records>);

/// A record as a reader sees it, while its shard is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The client's own word.
    pub flags: u32,
    /// Number of this version of the record; never 0.
    pub cas: u64,
    /// When it is forgotten, in ms since 1970, or [`NEVER_MS`].
    pub expires_ms: u64,
    /// When it was asked for or stored before this, in ms since 1970.
    pub accessed_ms: u64,
    /// Whether it was ever asked for before this.
    pub fetched: bool,
    /// What was stored.
    pub value: &'a [u8],
}

/// What is to happen to a record that may or may not be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Store in any case.
    Set,
    /// Store only a new record.
    Add,
    /// Store only over an old record.
    Replace,
    /// Put the value behind that of an old record, which keeps flags and expiry.
    Append,
    /// Put the value before that of an old record, which keeps flags and expiry.
    Prepend,
}

/// A value to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// Under which condition, and where.
    pub how: How,
    /// If not 0, the record must be there with this number.
    pub cas: u64,
    /// The client's own word.
    pub flags: u32,
    /// When it is to be forgotten, in ms since 1970, or [`NEVER_MS`].
    pub expires_ms: u64,
    /// The bytes.
    pub value: &'a [u8],
}

/// Why a value was not stored; the store is then as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PutError {
    /// The record must be there and is not, or the other way round.
    #[error("the condition does not hold")]
    NotStored,
    /// The record has another number.
    #[error("the record was changed since")]
    Exists,
    /// A number was given and there is no such record.
    #[error("no such record")]
    NotFound,
    /// Longer than [`VALUE_BYTES_MAX`].
    #[error("a value of {value_bytes} bytes is too long; give at most {VALUE_BYTES_MAX}")]
    TooLarge {
        /// Its length in bytes.
        value_bytes: usize,
    },
}

/// Why a record was not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// There is none.
    #[error("no such record")]
    NotFound,
    /// It has another number.
    #[error("the record was changed since")]
    Exists,
    /// Its value is no decimal number of 64 bits.
    #[error("the value is not a number")]
    NonNumeric,
}

/// A number to add or subtract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delta {
    /// How much.
    pub by: u64,
    /// Subtract, and stop at 0; adding wraps at 64 bits.
    pub down: bool,
    /// If not 0, the record must have this number.
    pub cas: u64,
    /// Value and expiry of a record that is made if there is none.
    pub initial: Option<(u64, u64)>,
    /// New expiry of a record that is there.
    pub expires_ms: Option<u64>,
}

/// How full a store is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Records, also expired ones that were not asked for since.
    pub records: u64,
    /// Memory of keys and values with what goes with each, in bytes.
    pub bytes: u64,
    /// What connections hold, in bytes.
    pub held_bytes: u64,
    /// Bound on both together, in bytes.
    pub bytes_max: u64,
    /// Records that had to make room.
    pub evictions: u64,
}

impl Store {
    /// An empty store. Its records and what connections hold stay below `bytes_max` bytes (at least eight times the
    /// longest value, so that the share of the records has room for two).
    pub fn new(bytes_max: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|index| Shard(RwLock::new(Records::new(index as u64, SHARDS as u64)))).collect(),
            hasher: RandomState::new(),
            account: Account::new(bytes_max.max(MEMORY_BYTES_MIN)),
            flush_ms: AtomicU64::new(NEVER_MS),
            victim: AtomicUsize::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    /// Calls `found` with the record of `key` while its shard is read-locked; `None` if there is none.
    pub fn get<R>(&self, now_ms: u64, key: &[u8], found: impl FnOnce(&Item<'_>) -> R) -> Option<R> {
        let (shard, at) = self.place(key);
        let records = shard.0.read().expect("no holder of the lock panics");
        let record = records.live(at, now_ms)?;
        let answer = found(&record.item());
        record.touch(now_ms);
        Some(answer)
    }

    /// As [`get`](Self::get), and gives the record a new expiry time first.
    pub fn get_and_touch<R>(
        &self,
        now_ms: u64,
        key: &[u8],
        expires_ms: u64,
        found: impl FnOnce(&Item<'_>) -> R,
    ) -> Option<R> {
        let (shard, at) = self.place(key);
        let mut records = shard.0.write().expect("no holder of the lock panics");
        let record = records.live_mut(at, now_ms)?;
        record.expires_ms = expires_ms;
        let answer = found(&record.item());
        record.touch(now_ms);
        Some(answer)
    }

    /// Stores a value; returns the number of the new version.
    ///
    /// # Errors
    /// [`PutError`]; the store is then as it was.
    pub fn put(&self, now_ms: u64, key: &[u8], put: &Put<'_>) -> Result<u64, PutError> {
        if put.value.len() > VALUE_BYTES_MAX {
            return Err(PutError::TooLarge { value_bytes: put.value.len() });
        }
        let stored = self.change(key, |records, at| records.put(now_ms, at, put));
        if stored.is_ok() && self.account.is_over() {
            self.make_room();
        }
        stored
    }

    /// Forgets a record; with a `cas` other than 0 only this version of it.
    ///
    /// # Errors
    /// [`ChangeError::NotFound`], [`ChangeError::Exists`].
    pub fn delete(&self, now_ms: u64, key: &[u8], cas: u64) -> Result<(), ChangeError> {
        self.change(key, |records, at| records.delete(now_ms, at, cas))
    }

    /// Adds to or subtracts from a record that holds a decimal number; returns the new number and the new version's.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn arithmetic(&self, now_ms: u64, key: &[u8], delta: &Delta) -> Result<(u64, u64), ChangeError> {
        let changed = self.change(key, |records, at| records.arithmetic(now_ms, at, delta));
        // Of numbers that are made a store is filled as of values.
        if changed.is_ok() && self.account.is_over() {
            self.make_room();
        }
        changed
    }

    /// Forgets all records at `at_ms`; see [`tick`](Self::tick).
    pub fn flush(&self, now_ms: u64, at_ms: u64) {
        self.flush_ms.store(at_ms, Ordering::Relaxed);
        self.tick(now_ms);
    }

    /// Carries out a flush that has become due. To be called once per turn of a worker, before its requests.
    pub fn tick(&self, now_ms: u64) {
        let flush_ms = self.flush_ms.load(Ordering::Relaxed);
        if flush_ms > now_ms {
            return;
        }
        // One worker wins and does it. Relaxed: the locks of the shards order what is seen in them.
        if self.flush_ms.compare_exchange(flush_ms, NEVER_MS, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        for shard in &self.shards {
            self.change_shard(shard, Records::clear);
        }
    }

    /// How full it is.
    pub fn stats(&self) -> StoreStats {
        let records = |shard: &Shard| shard.0.read().expect("no holder of the lock panics").len() as u64;
        StoreStats {
            records: self.shards.iter().map(records).sum(),
            bytes: self.account.records.load(Ordering::Relaxed) as u64,
            held_bytes: self.account.held.load(Ordering::Relaxed) as u64,
            bytes_max: self.account.bytes_max as u64,
            evictions: self.evictions.load(Ordering::Relaxed),
        }
    }

    /// Memory for a connection; nothing is held so far.
    pub fn held(&self) -> Held<'_> {
        Held::new(self)
    }

    /// Whether connections hold much less than they did, so that memory could be given back to the operating system.
    pub fn has_slack(&self) -> bool {
        self.account.has_slack()
    }

    /// As [`has_slack`](Self::has_slack), for the one who gives it back: it is asked for anew from here on.
    pub fn take_slack(&self) -> bool {
        self.account.take_slack()
    }

    #[inline]
    fn place<'a>(&self, key: &'a [u8]) -> (&Shard, Hashed<'a>) {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        let hash = hasher.finish();
        // Bits in the middle: the shard's own map takes those at the bottom for a place and those at the top for a mark.
        (&self.shards[(hash >> 40) as usize % SHARDS], Hashed { key, hash })
    }

    /// Changes what is in the shard of a key, and accounts for it.
    fn change<R>(&self, key: &[u8], change: impl FnOnce(&mut Records, Hashed<'_>) -> R) -> R {
        let (shard, at) = self.place(key);
        self.change_shard(shard, |records| change(records, at))
    }

    fn change_shard<R>(&self, shard: &Shard, change: impl FnOnce(&mut Records) -> R) -> R {
        let mut records = shard.0.write().expect("no holder of the lock panics");
        let before = records.bytes;
        let result = change(&mut records);
        let after = records.bytes;
        drop(records);
        // Relaxed: the sum alone matters, and no other memory depends on it. All workers write there, so not in vain.
        match after.checked_sub(before) {
            Some(0) => {}
            Some(more) => {
                self.account.records.fetch_add(more, Ordering::Relaxed);
            }
            None => {
                self.account.records.fetch_sub(before - after, Ordering::Relaxed);
            }
        }
        result
    }

    /// Takes records from the shards in turn until the bound is kept. Each costs at least its overhead, which bounds
    /// the number of rounds; a shard without any is passed by at most as often as all others are asked.
    #[cold]
    fn make_room(&self) {
        let rounds_max = SHARDS * (2 + self.account.bytes_max / RECORD_OVERHEAD_BYTES);
        for _ in 0..rounds_max {
            if !self.account.is_over() || self.account.records.load(Ordering::Relaxed) == 0 {
                return;
            }
            let index = self.victim.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let evicted = self.change_shard(&self.shards[index], Records::evict);
            self.evictions.fetch_add(u64::from(evicted), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
