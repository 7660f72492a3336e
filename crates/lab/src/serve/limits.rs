//! What clients can take of a server: memory, connections, time.

use std::time::Duration;

use anyhow::ensure;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use napier_kv::store::MEMORY_BYTES_MIN;

/// Most memory that can be asked for, in MiB: 16 TiB, more than machines have.
const MEMORY_MIB_MAX: usize = 16 << 20;

/// Most connections that can be asked for.
const CONNECTIONS_MAX: usize = 1_000_000;

/// Longest time that a connection may be told to be idle, in seconds: a year.
const IDLE_S_MAX: u64 = 365 * 24 * 60 * 60;

/// Each of the two buffers of a connection in the engine, in bytes: from what a long request header needs to what a
/// path of 30 ms and 1 Gbit/s needs. They take memory as bytes come.
const BUFFER_BYTES_MIN: usize = 8 << 10;
const BUFFER_BYTES_MAX: usize = 4 << 20;

/// Descriptors of a server beside its connections: what the process has, and those of each worker.
const DESCRIPTORS: usize = 64;
const DESCRIPTORS_PER_WORKER: usize = 8;

/// Bounds on what clients can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bound on the memory of records and connections together, in bytes.
    pub memory_bytes: usize,
    /// Connections at a time.
    pub connections: usize,
    /// Connections of which nothing was asked for so long are closed; `None`: never.
    pub idle_timeout: Option<Duration>,
}

impl Limits {
    /// Limits as they are given on the command line; an idle time-out of 0 is none.
    ///
    /// # Errors
    /// A number that cannot be; the message says what it may be.
    pub fn new(memory_mib: usize, connections: usize, idle_timeout_s: u64) -> anyhow::Result<Self> {
        let least_mib = MEMORY_BYTES_MIN >> 20;
        ensure!(
            (least_mib..=MEMORY_MIB_MAX).contains(&memory_mib),
            "--memory must be {least_mib} to {MEMORY_MIB_MAX} MiB"
        );
        ensure!(idle_timeout_s <= IDLE_S_MAX, "--idle-timeout must be 0 (none) to {IDLE_S_MAX} seconds");
        let idle_timeout = (idle_timeout_s > 0).then(|| Duration::from_secs(idle_timeout_s));
        let limits = Self { memory_bytes: memory_mib << 20, connections, idle_timeout };
        limits.check()?;
        Ok(limits)
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.memory_bytes >= MEMORY_BYTES_MIN, "--memory must be at least {} MiB", MEMORY_BYTES_MIN >> 20);
        ensure!((1..=CONNECTIONS_MAX).contains(&self.connections), "--max-connections must be 1 to {CONNECTIONS_MAX}");
        Ok(())
    }

    /// Each of the two buffers of a connection in the engine, in bytes: all of them together take at most half of the
    /// memory, as long as that leaves each enough to be of use.
    pub(super) fn buffer_bytes(&self) -> usize {
        (self.memory_bytes / 4 / self.connections).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX)
    }
}

/// Raises the soft limit of descriptors, as far as the hard one lets it, so that connections of the kernel have one each.
/// Beyond it connections wait to be accepted, which is counted.
pub(super) fn raise_descriptors(connections: usize, workers: usize) {
    raise_descriptors_to(connections + DESCRIPTORS + DESCRIPTORS_PER_WORKER * workers);
}

/// The same for so many descriptors.
pub fn raise_descriptors_to(needed: usize) {
    let needed = needed as u64;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < needed) {
        let current = Some(maximum.map_or(needed, |maximum| needed.min(maximum)));
        // Up to the hard limit nobody is refused; if it is, the server works with fewer.
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        for memory_mib in [0, 1, 7, MEMORY_MIB_MAX + 1, 99_999_999_999, 17_592_186_044_416, usize::MAX] {
            let error = Limits::new(memory_mib, 1, 0).expect_err("no such memory").to_string();
            assert_eq!(error, "--memory must be 8 to 16777216 MiB", "{memory_mib}");
        }
        for connections in [0, CONNECTIONS_MAX + 1, usize::MAX] {
            assert!(Limits::new(64, connections, 0).is_err(), "{connections}");
        }
        assert!(Limits::new(64, 1, u64::MAX).is_err());
        assert_eq!(Limits::new(8, 1, 0).expect("they can be").idle_timeout, None);
        assert_eq!(Limits::new(8, 1, 3).expect("they can be").idle_timeout, Some(Duration::from_secs(3)));
        assert_eq!(Limits::new(MEMORY_MIB_MAX, CONNECTIONS_MAX, 0).expect("they can be").memory_bytes, 16 << 40);
    }

    #[test]
    fn buffers_of_all_connections_take_at_most_half_of_the_memory() {
        for (memory_mib, connections, expected) in
            [(64, 1024, 16 << 10), (64, 1, 4 << 20), (1024, 1024, 256 << 10), (64, 5000, 8 << 10)]
        {
            let limits = Limits::new(memory_mib, connections, 0).expect("they can be");
            assert_eq!(limits.buffer_bytes(), expected, "{limits:?}");
        }
    }
}
