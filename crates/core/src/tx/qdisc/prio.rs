//! Which band a priority goes to. Source: `net/sched/sch_generic.c sch_default_prio2band` (Linux 7.3).

/// Bands of `pfifo_fast`.
pub const BANDS: usize = 3;

/// The band of each priority: interactive and control traffic in 0, bulk and filler in 2.
const PRIORITY_BAND: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/// The band of a priority; only its low four bits count.
#[inline]
#[must_use]
pub const fn priority_band(priority: u32) -> usize {
    PRIORITY_BAND[(priority & 15) as usize] as usize
}
