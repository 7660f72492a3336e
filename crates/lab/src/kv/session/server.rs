//! What the workers of one server share, and what each counts for itself.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::kv::store::{Store, StoreStats};

/// Records and counters of one server.
pub struct Server {
    /// The records.
    pub store: Store,
    workers: Box<[WorkerStats]>,
    started_ms: u64,
}

/// Counters of one worker, on cache lines of their own.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct WorkerStats {
    counters: Counters<AtomicU64>,
}

/// What is counted; all counts since the start, except `connections_now`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[expect(missing_docs, reason = "each name says what it counts")]
pub struct Counters<T> {
    pub requests: T,
    pub gets: T,
    pub get_hits: T,
    pub sets: T,
    pub touches: T,
    pub deletes: T,
    pub flushes: T,
    pub refused: T,
    pub connections: T,
    pub connections_closed: T,
    pub datagrams: T,
    pub bytes_read: T,
    pub bytes_written: T,
    pub waits_with_events: T,
    pub events: T,
}

/// A reading of [`Counters`].
pub type Totals = Counters<u64>;

impl<T> Counters<T> {
    fn each(&self) -> [&T; 15] {
        let Self {
            requests,
            gets,
            get_hits,
            sets,
            touches,
            deletes,
            flushes,
            refused,
            connections,
            connections_closed,
            datagrams,
            bytes_read,
            bytes_written,
            waits_with_events,
            events,
        } = self;
        [
            requests,
            gets,
            get_hits,
            sets,
            touches,
            deletes,
            flushes,
            refused,
            connections,
            connections_closed,
            datagrams,
            bytes_read,
            bytes_written,
            waits_with_events,
            events,
        ]
    }

    fn from_each(each: [T; 15]) -> Self {
        let [
            requests,
            gets,
            get_hits,
            sets,
            touches,
            deletes,
            flushes,
            refused,
            connections,
            connections_closed,
            datagrams,
            bytes_read,
            bytes_written,
            waits_with_events,
            events,
        ] = each;
        Self {
            requests,
            gets,
            get_hits,
            sets,
            touches,
            deletes,
            flushes,
            refused,
            connections,
            connections_closed,
            datagrams,
            bytes_read,
            bytes_written,
            waits_with_events,
            events,
        }
    }
}

impl WorkerStats {
    /// Adds to one counter: `stats.add(|c| &c.gets, 1)`. Only the worker whose counters they are does this.
    pub fn add(&self, which: fn(&Counters<AtomicU64>) -> &AtomicU64, by: u64) {
        let counter = which(&self.counters);
        // Relaxed: a count, read at any time; one writer, so no atomic addition is needed.
        counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    fn totals(&self) -> Totals {
        Counters::from_each(self.counters.each().map(|counter| counter.load(Ordering::Relaxed)))
    }
}

impl Server {
    /// A server with an empty store of `bytes_max` bytes.
    pub fn new(bytes_max: usize, workers: usize, now_ms: u64) -> Self {
        Self {
            store: Store::new(bytes_max),
            workers: (0..workers).map(|_| WorkerStats::default()).collect(),
            started_ms: now_ms,
        }
    }

    /// Counters of one worker.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn worker(&self, index: usize) -> &WorkerStats {
        &self.workers[index]
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Counters of all workers together.
    pub fn totals(&self) -> Totals {
        let mut sum = [0; 15];
        for worker in &self.workers {
            let totals = worker.totals();
            for (sum, count) in sum.iter_mut().zip(totals.each()) {
                *sum += count;
            }
        }
        Counters::from_each(sum)
    }

    /// How full the store is.
    pub fn store_stats(&self) -> StoreStats {
        self.store.stats()
    }

    /// When it started, in ms since 1970.
    pub fn started_ms(&self) -> u64 {
        self.started_ms
    }
}
