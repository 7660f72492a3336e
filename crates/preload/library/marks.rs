/// Counts of the library in the process that has loaded it, by this name: whether it ever met a wait, busy loops of Linux that found
/// nothing, turns that were polled in waits without time, and in others.
pub const COUNTS: &str = "napier_modes_counts";

/// How many counts there are, of 64 bits each.
pub const COUNTS_LEN: usize = 4;

/// Parameters of the library's own epoll instance, which no mode has: microseconds, budget.
pub const OWN_PARAMS: (u32, u16) = (3, 61);

/// The second argument of `epoll_create1`, which Linux does not read, by which it makes that instance.
pub const OWN_CALL: u32 = 0x4e41_5049;
