//! What an experiment of the transmit path tells beside its rate: who used the processors, and who waited for whom.

use std::fmt;
use std::time::Duration;

use napier_sys::usage::ThreadUsage;
use serde::Serialize;

/// CPU time of the threads of one run.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Of all that send, in the program.
    pub senders_user: Duration,
    /// Of all that send, in the kernel.
    pub senders_system: Duration,
    /// Of threads that only transmit what others hand to them.
    pub transmitters: Duration,
    /// Of those that take the packets at the other end.
    pub receivers: Duration,
}

impl CpuTimes {
    /// Adds the time of a sender.
    pub fn add_sender(&mut self, usage: ThreadUsage) {
        self.senders_user += usage.user;
        self.senders_system += usage.system;
    }

    /// Adds the time of a thread that only transmits.
    pub fn add_transmitter(&mut self, usage: ThreadUsage) {
        self.transmitters += usage.user + usage.system;
    }

    /// Adds the time of a receiver.
    pub fn add_receiver(&mut self, usage: ThreadUsage) {
        self.receivers += usage.user + usage.system;
    }

    /// What sending alone took: without the other end.
    #[must_use]
    pub fn sending(&self) -> Duration {
        self.senders_user + self.senders_system + self.transmitters
    }

    /// Shares of `cpus` processors over `wall`.
    ///
    /// # Panics
    /// If there is no processor or no time.
    #[must_use]
    pub fn shares(&self, wall: Duration, cpus: usize) -> CpuUse {
        assert!(wall > Duration::ZERO && cpus > 0, "a share of nothing");
        let pct = |time: Duration| 100.0 * time.as_secs_f64() / (wall.as_secs_f64() * cpus as f64);
        let [user, system, transmitters, receivers] =
            [self.senders_user, self.senders_system, self.transmitters, self.receivers].map(pct);
        CpuUse {
            senders_user_pct: user,
            senders_system_pct: system,
            transmitters_pct: transmitters,
            receivers_pct: receivers,
            rest_pct: (100.0 - user - system - transmitters - receivers).max(0.0),
        }
    }

    /// Reference cycles of sending per packet: CPU time in ticks of the time-stamp counter, which runs at a constant
    /// rate. `None` without a packet.
    #[must_use]
    pub fn cycles_per_packet(&self, packets: u64, ticks_per_us: f64) -> Option<f64> {
        (packets > 0).then(|| self.sending().as_secs_f64() * 1e6 * ticks_per_us / packets as f64)
    }
}

/// CPU time in percent of all processors that the process may use: 100 = all of them, all the time.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize)]
pub struct CpuUse {
    /// Senders, in the program.
    pub senders_user_pct: f64,
    /// Senders, in the kernel: giving up the processor, sleeping and waking. How it is split from the above is sampled
    /// by the kernel at its tick.
    pub senders_system_pct: f64,
    /// Threads that only transmit; 0 where senders do it.
    pub transmitters_pct: f64,
    /// The other end.
    pub receivers_pct: f64,
    /// Idle, or taken by other programs.
    pub rest_pct: f64,
}

impl CpuUse {
    /// Median of each share on its own; they need not add up to 100 exactly.
    ///
    /// # Panics
    /// If there is no run.
    #[must_use]
    pub fn median(runs: &[Self]) -> Self {
        let of = |share: fn(&Self) -> f64| crate::stats::median(&mut runs.iter().map(share).collect::<Vec<_>>());
        Self {
            senders_user_pct: of(|run| run.senders_user_pct),
            senders_system_pct: of(|run| run.senders_system_pct),
            transmitters_pct: of(|run| run.transmitters_pct),
            receivers_pct: of(|run| run.receivers_pct),
            rest_pct: of(|run| run.rest_pct),
        }
    }
}

/// In the manner of vmstat.
impl fmt::Display for CpuUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "senders us {:.0} sy {:.0}, transmitters {:.0}, receivers {:.0}, rest {:.0}",
            self.senders_user_pct, self.senders_system_pct, self.transmitters_pct, self.receivers_pct, self.rest_pct
        )
    }
}

/// Time that threads waited for a lock that another one held, as `perf lock contention` tells it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LockWaits {
    /// Times that the lock was not free.
    pub contended: u64,
    /// Time waited, all together, in ns.
    pub total_ns: u64,
    /// The longest wait, in ns; absent where none was noted.
    pub max_ns: Option<u64>,
}

impl LockWaits {
    /// Adds one wait.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.contended += 1;
        self.total_ns += ns;
        self.max_ns = self.max_ns.max(Some(ns));
    }

    /// Adds what another thread or another run counted.
    pub fn merge(&mut self, other: &Self) {
        self.contended += other.contended;
        self.total_ns += other.total_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The mean wait, in ns; 0 if there was none.
    #[must_use]
    pub fn mean_ns(&self) -> u64 {
        self.total_ns.checked_div(self.contended).unwrap_or(0)
    }
}

/// `contended`, total, mean and longest wait.
impl fmt::Display for LockWaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} times, {} in all, {} on average", self.contended, time(self.total_ns), time(self.mean_ns()))?;
        self.max_ns.map_or(Ok(()), |max_ns| write!(f, ", {} at most", time(max_ns)))
    }
}

/// A time in the unit that suits its size, with two decimals.
#[must_use]
pub fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        small if small < 1e3 => format!("{ns:.0} ns"),
        micros if micros < 1e6 => format!("{:.2} us", ns / 1e3),
        millis if millis < 1e9 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.2} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn times() -> CpuTimes {
        let mut times = CpuTimes::default();
        times.add_sender(ThreadUsage { user: 200 * MS, system: 100 * MS });
        times.add_sender(ThreadUsage { user: 100 * MS, system: Duration::ZERO });
        times.add_transmitter(ThreadUsage { user: 30 * MS, system: 70 * MS });
        times.add_receiver(ThreadUsage { user: 450 * MS, system: 50 * MS });
        times
    }

    #[test]
    fn shares_are_of_all_processors() {
        let shares = times().shares(1000 * MS, 2);
        assert_eq!((shares.senders_user_pct, shares.senders_system_pct), (15.0, 5.0));
        assert_eq!((shares.transmitters_pct, shares.receivers_pct, shares.rest_pct), (5.0, 25.0, 50.0));
        assert_eq!(shares.to_string(), "senders us 15 sy 5, transmitters 5, receivers 25, rest 50");
        // Threads are read a moment after the run's end: no share below nothing.
        assert_eq!(times().shares(400 * MS, 2).rest_pct, 0.0);
    }

    #[test]
    fn medians_are_taken_share_by_share() {
        let run = |user, rest| CpuUse { senders_user_pct: user, rest_pct: rest, ..CpuUse::default() };
        assert_eq!(CpuUse::median(&[run(10.0, 3.0), run(30.0, 1.0), run(20.0, 2.0)]), run(20.0, 2.0));
    }

    #[test]
    fn cycles_are_those_of_sending() {
        assert_eq!(times().sending(), 500 * MS);
        assert_eq!(times().cycles_per_packet(1_000_000, 2000.0), Some(1000.0));
        assert_eq!(times().cycles_per_packet(0, 2000.0), None);
    }

    #[test]
    fn waits_add_up() {
        let mut waits = LockWaits::default();
        assert_eq!(waits.mean_ns(), 0);
        waits.add(500);
        waits.merge(&LockWaits { contended: 3, total_ns: 7_500, max_ns: Some(2_500_000) });
        assert_eq!(waits, LockWaits { contended: 4, total_ns: 8_000, max_ns: Some(2_500_000) });
        assert_eq!(waits.to_string(), "4 times, 8.00 us in all, 2.00 us on average, 2.50 ms at most");
        assert_eq!(time(3_210_000_000), "3.21 s");
    }
}
