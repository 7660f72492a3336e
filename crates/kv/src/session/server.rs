//! What the workers of one server share, and what each counts for itself.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::service::{Service, ServiceStream};
use crate::store::{Held, NoMemory, Store, StoreStats};

/// Records and counters of one server.
pub struct Server {
    /// The records.
    pub store: Store,
    workers: Box<[WorkerStats]>,
    started_ms: u64,
    connections_max: usize,
    connections_now: AtomicUsize,
}

/// A place among the connections of a server, with the memory that goes with it. Both are free when it is dropped.
pub struct Seat<'a> {
    server: &'a Server,
    /// Memory that the connection holds.
    pub held: Held<'a>,
}

/// Why there is no place for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeatError {
    /// There are as many as there may be.
    #[error("there are as many connections as there may be")]
    Taken,
    /// Connections hold all memory that they may.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        // Relaxed, here and below: a number that orders nothing.
        self.server.connections_now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counters of one worker, on cache lines of their own, and what a request takes it.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct WorkerStats {
    counters: Counters<AtomicU64>,
    service: Option<ServiceStream>,
}

/// Names the counters once: a struct of them, and its values in a row.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What is counted; all counts since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct Counters<T> {
            $($(#[$doc])* pub $name: T,)*
        }

        impl<T> Counters<T> {
            const COUNT: usize = [$(stringify!($name)),*].len();

            fn each(&self) -> [&T; Counters::<()>::COUNT] {
                let Self { $($name),* } = self;
                [$($name),*]
            }

            fn from_each(each: [T; Counters::<()>::COUNT]) -> Self {
                let [$($name),*] = each;
                Self { $($name),* }
            }
        }
    };
}

counters! {
    /// Requests, whatever was answered.
    requests,
    /// Keys that were looked up.
    gets,
    /// Keys that were found.
    get_hits,
    /// Requests to store a value or to change a number.
    sets,
    /// New expiry times.
    touches,
    /// Keys to be deleted.
    deletes,
    /// Requests to forget everything.
    flushes,
    /// Requests that were answered with an error of the protocol.
    refused,
    /// Connections that were taken.
    connections,
    /// Connections that are gone.
    connections_closed,
    /// Datagrams that came.
    datagrams,
    /// Bytes that came, without headers of the network.
    bytes_read,
    /// Bytes that were sent, without headers of the network.
    bytes_written,
    /// Waits that ended with something to do.
    waits_with_events,
    /// What those waits reported.
    events,
    /// Connections that were closed at once because there were as many as there may be.
    connections_refused,
    /// Connections that were closed at once because connections held all the memory that they may, or the place to wait
    /// had none to watch them.
    connections_refused_memory,
    /// Connections that were closed because nothing was asked of them for longer than they may be idle.
    connections_idle,
    /// Connections that were closed because there was no memory for an answer that the client did not take.
    connections_out_of_memory,
    /// Requests that were refused because there was no memory to collect them in; they are among `refused` as well.
    requests_out_of_memory,
    /// Times that taking connections was put off because the system had no descriptor or memory for one.
    accepts_paused,
}

/// A reading of [`Counters`].
pub type Totals = Counters<u64>;

impl WorkerStats {
    /// Adds to one counter: `stats.add(|c| &c.gets, 1)`. Only the worker whose counters they are does this.
    pub fn add(&self, which: fn(&Counters<AtomicU64>) -> &AtomicU64, by: u64) {
        let counter = which(&self.counters);
        // Relaxed: a count, read at any time; one writer, so no atomic addition is needed.
        counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    /// Requests so far.
    #[inline]
    pub(super) fn requests(&self) -> u64 {
        self.counters.requests.load(Ordering::Relaxed)
    }

    /// Works for each request that was counted since there were `before`, if the server is to take time for them.
    #[inline]
    pub(super) fn work_since(&self, before: u64) {
        if let Some(service) = &self.service {
            (before..self.requests()).for_each(|_| service.work());
        }
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
            connections_max: usize::MAX,
            connections_now: AtomicUsize::new(0),
        }
    }

    /// The same with a limit of connections.
    #[must_use]
    pub fn with_connections_max(self, connections_max: usize) -> Self {
        Self { connections_max, ..self }
    }

    /// The same, and each request takes its worker this time beside, drawn from the seed.
    #[must_use]
    pub fn with_service(mut self, service: &Service, seed: u64) -> Self {
        crate::service::calibrate();
        for (index, worker) in self.workers.iter_mut().enumerate() {
            worker.service = Some(ServiceStream::new(service, seed, &format!("kv/service/{index}")));
        }
        self
    }

    /// Draws the times of requests from their beginning again. To be called while no worker serves.
    pub fn restart_service(&self) {
        self.workers.iter().filter_map(|worker| worker.service.as_ref()).for_each(ServiceStream::restart);
    }

    /// A place for a connection that holds so many bytes from its start.
    ///
    /// # Errors
    /// [`SeatError`].
    pub fn seat(&self, bytes: usize) -> Result<Seat<'_>, SeatError> {
        let before = self.connections_now.fetch_add(1, Ordering::Relaxed);
        let mut seat = Seat { server: self, held: self.store.held() };
        if before >= self.connections_max {
            return Err(SeatError::Taken);
        }
        seat.held.set(bytes)?;
        Ok(seat)
    }

    /// Connections there may be at a time.
    pub fn connections_max(&self) -> usize {
        self.connections_max
    }

    /// Connections there are.
    pub fn connections_now(&self) -> usize {
        self.connections_now.load(Ordering::Relaxed)
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
        let mut sum = [0; Counters::<()>::COUNT];
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
