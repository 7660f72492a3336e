//! How much memory the buffers of all connections have together, and what becomes of one that wants more.
//!
//! | all have, with what is asked for | state after it | a buffer gets what it asks for |
//! |---|---|---|
//! | up to `low` | calm | yes |
//! | up to `pressure` | as before | if it is calm, or the buffer stays within its share |
//! | up to `max` | pressed | if the buffer stays within its share |
//! | more | pressed | no |
//!
//! A share is what each would have if all buffers that have any divided `max`, and at least [`LEAST`]. What a connection cannot go on without
//! is *forced*, and given in any case: a segment for a program that has read everything, and [`LEAST`] for one with nothing on its way. So no
//! connection waits for another, and what is beyond `max` is bounded by how many there are.
//!
//! Source: `net/core/sock.c __sk_mem_raise_allocated`, `__sk_mem_reduce_allocated`, `sk_forced_mem_schedule`; ip-sysctl, `tcp_mem`. There the unit is
//! a page, a share is of sockets, and senders have no forced part but wait up to 200 ms at a time (`sk_stream_wait_memory`).

/// What a buffer has in any case. Source: `net/ipv4/tcp.c tcp_init`: the first of `tcp_rmem` and of `tcp_wmem`.
pub const LEAST: u64 = 4096;

/// The kernel counts in pages.
const PAGE: u64 = 4096;
/// Source: `net/ipv4/tcp.c tcp_init_mem`.
const LIMIT_PAGES_MIN: u64 = 128;

/// Whether memory is short.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pressure {
    /// It is not.
    #[default]
    Calm,
    /// It is: windows and buffers grow no further (`tcp_under_memory_pressure`).
    Pressed,
}

/// What becomes of a wish for memory.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The buffer has it.
    Given,
    /// It does without.
    Refused,
}

/// A buffer wants to be larger.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MemoryAsk {
    /// Bytes that all have, with those that are asked for.
    pub all: u64,
    /// Buffers that have any, this one too.
    pub holders: u64,
    /// Bytes that this one would have.
    pub own: u64,
    /// The connection cannot go on without.
    pub forced: bool,
}

/// Three thresholds for the memory of all buffers, in bytes (`net.ipv4.tcp_mem`, which is in pages).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    low: u64,
    pressure: u64,
    max: u64,
}

/// Thresholds that are none.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimitsError;

impl core::fmt::Display for MemoryLimitsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(
            "thresholds of memory must not fall: give the low one first, then that of pressure, then the most (EINVAL)",
        )
    }
}

impl core::error::Error for MemoryLimitsError {}

impl MemoryLimits {
    /// Up to `low` bytes nothing is short; beyond `pressure` it is, until it is `low` again; beyond `max` nothing is given.
    ///
    /// # Errors
    /// If one is smaller than the one before it.
    pub const fn new(low: u64, pressure: u64, max: u64) -> Result<Self, MemoryLimitsError> {
        if low <= pressure && pressure <= max { Ok(Self { low, pressure, max }) } else { Err(MemoryLimitsError) }
    }

    /// What Linux takes on a machine with so many bytes of memory: 4.7, 6.2 and 9.4 % of it. Source: `net/ipv4/tcp.c tcp_init_mem`.
    ///
    /// ```
    /// # use napier_core::tcp::memory::MemoryLimits;
    /// assert_eq!(MemoryLimits::of_machine(16 << 30).max(), 3 << 29);
    /// ```
    #[must_use]
    pub const fn of_machine(bytes: u64) -> Self {
        let share = bytes / PAGE / 16;
        let pages = if share > LIMIT_PAGES_MIN { share } else { LIMIT_PAGES_MIN };
        let low = pages / 4 * 3;
        Self { low: low * PAGE, pressure: pages * PAGE, max: low * 2 * PAGE }
    }

    /// Up to this nothing is short.
    #[must_use]
    pub const fn low(&self) -> u64 {
        self.low
    }

    /// Beyond this memory is short.
    #[must_use]
    pub const fn pressure(&self) -> u64 {
        self.pressure
    }

    /// Beyond this nothing is given.
    #[must_use]
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// A buffer asks: the state after it, and what it gets. What is refused is [given back](Self::given_back).
    #[must_use]
    pub const fn ask(&self, now: Pressure, ask: &MemoryAsk) -> (Pressure, Grant) {
        let after = match now {
            _ if ask.all > self.pressure => Pressure::Pressed,
            _ if ask.all <= self.low => Pressure::Calm,
            Pressure::Calm => Pressure::Calm,
            Pressure::Pressed => Pressure::Pressed,
        };
        let granted = match after {
            _ if ask.forced => true,
            _ if ask.all > self.max => false,
            Pressure::Calm => true,
            Pressure::Pressed => ask.own <= LEAST || ask.own.saturating_mul(ask.holders) <= self.max,
        };
        (after, if granted { Grant::Given } else { Grant::Refused })
    }

    /// The state when a buffer has given memory back and all have `all` bytes.
    #[must_use]
    pub const fn given_back(&self, now: Pressure, all: u64) -> Pressure {
        if all < self.low || all == 0 { Pressure::Calm } else { now }
    }
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
