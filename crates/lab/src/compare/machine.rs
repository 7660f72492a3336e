//! What else happened on the machine: pauses that an empty loop sees, and CPU time that went to others.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::thread::CpuSet;
use rustix::time::ClockId;

use super::cores::times_of;

/// How long an empty loop runs on each CPU before a block of runs.
const WATCH: Duration = Duration::from_millis(100);

/// Shorter gaps are the loop itself.
const GAP_NS_MIN: u64 = 1000;

/// Gaps that are kept of one CPU; a machine with more is hopeless anyhow.
const GAPS_MAX: usize = 1 << 16;

/// What sampling may add to the time that others had of one CPU: two ticks of 10 ms, about three standard deviations of a slice.
const SAMPLING: Duration = Duration::from_millis(20);

/// Gaps in an empty loop.
#[derive(Clone, Debug, Default)]
pub(super) struct Pauses {
    gaps_ns: Vec<u64>,
    watched_ns: u64,
}

impl Pauses {
    /// Lets an empty loop run on each of these CPUs, on all at a time, at normal priority.
    pub(super) fn watch(cpus: &[usize]) -> Self {
        let mut all = Self::default();
        std::thread::scope(|scope| {
            let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || Self::watch_one(cpu))).collect();
            for thread in threads {
                let one = thread.join().expect("an empty loop does not panic");
                all.gaps_ns.extend(one.gaps_ns);
                all.watched_ns += one.watched_ns;
            }
        });
        all
    }

    fn watch_one(cpu: usize) -> Self {
        let mut set = CpuSet::new();
        set.set(cpu);
        // Where it may not be pinned it runs somewhere, and still sees what the machine does.
        let _ = rustix::thread::sched_setaffinity(None, &set);
        let mut gaps_ns = Vec::with_capacity(GAPS_MAX);
        let begun = Instant::now();
        let mut last = begun;
        while last - begun < WATCH {
            let now = Instant::now();
            let gap_ns = u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX);
            if gap_ns >= GAP_NS_MIN && gaps_ns.len() < GAPS_MAX {
                gaps_ns.push(gap_ns);
            }
            last = now;
        }
        Self { gaps_ns, watched_ns: u64::try_from((last - begun).as_nanos()).unwrap_or(u64::MAX) }
    }

    /// How long a request that comes at any moment waits for the loop to go on, in µs: the least time that no more than
    /// this share of moments exceeds.
    #[expect(clippy::cast_precision_loss, reason = "figures for a report")]
    pub(super) fn wait_us(&self, exceeding: f64) -> f64 {
        let longer = |wait_ns: f64| {
            let left: f64 = self.gaps_ns.iter().map(|&gap_ns| (gap_ns as f64 - wait_ns).max(0.0)).sum();
            left / self.watched_ns.max(1) as f64
        };
        let (mut low, mut high) = (0.0, self.longest_us() * 1e3);
        if longer(low) <= exceeding {
            return 0.0;
        }
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if longer(middle) > exceeding { low = middle } else { high = middle }
        }
        high / 1e3
    }

    /// The longest gap, in µs.
    #[expect(clippy::cast_precision_loss, reason = "figures for a report")]
    pub(super) fn longest_us(&self) -> f64 {
        self.gaps_ns.iter().copied().max().unwrap_or(0) as f64 / 1e3
    }
}

/// CPU time of some CPUs, of this process, and of the generator's waiting, since boot; or between two such readings, or of
/// several runs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outside {
    /// All there was: time by CPUs.
    pub(super) whole: Duration,
    busy: Duration,
    stolen: Duration,
    process: Duration,
    /// What the reading thread has waited for a CPU.
    waited: Duration,
}

impl Outside {
    /// As it is now; the waiting is that of the calling thread. `beside` is CPU time that is no other's, though not of this process.
    pub(crate) fn read(cpus: &[usize], beside: Duration) -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        let process = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
        let mut read = Self {
            process: Duration::try_from(process).context("the CPU clock of this process")? + beside,
            waited: waited().unwrap_or_default(),
            ..Self::default()
        };
        for &cpu in cpus {
            let times = times_of(&stat, cpu).context("/proc/stat has not the CPUs that are used")?;
            read.busy += times.busy();
            read.stolen += times.stolen;
        }
        Ok(read)
    }

    /// What happened since `earlier`, `elapsed` ago, on so many CPUs.
    pub(crate) fn since(&self, earlier: &Self, elapsed: Duration, cpus: usize) -> Self {
        Self {
            whole: elapsed * u32::try_from(cpus).expect("CPUs are few"),
            busy: self.busy.saturating_sub(earlier.busy),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            process: self.process.saturating_sub(earlier.process),
            waited: self.waited.saturating_sub(earlier.waited),
        }
    }

    /// Both together.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            whole: self.whole + other.whole,
            busy: self.busy + other.busy,
            stolen: self.stolen + other.stolen,
            process: self.process + other.process,
            waited: self.waited + other.waited,
        }
    }

    /// CPU time of other programs and of the kernel outside of this process.
    pub(super) fn others(&self) -> Duration {
        self.busy.saturating_sub(self.process)
    }

    /// What is certain of that: the kernel samples who has a CPU, and in a slice it does so some twenty times.
    pub(crate) fn others_for_sure(&self, cpus: usize) -> Duration {
        self.others().saturating_sub(SAMPLING * u32::try_from(cpus).expect("CPUs are few"))
    }

    /// CPU time that the host gave to other guests.
    pub(crate) fn stolen(&self) -> Duration {
        self.stolen
    }

    /// What the generator waited for its CPU.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    fn pct(&self, part: Duration) -> f64 {
        100.0 * part.as_secs_f64() / self.whole.as_secs_f64().max(1e-9)
    }

    /// CPU time of other programs and of the kernel outside of this process, in % of the CPUs.
    pub(super) fn others_pct(&self) -> f64 {
        self.pct(self.others())
    }

    /// CPU time that the host gave to other guests, in % of the CPUs.
    pub(super) fn stolen_pct(&self) -> f64 {
        self.pct(self.stolen)
    }

    /// What the generator waited for its CPU, in ms per second of one run.
    pub(super) fn waited_ms_per_s(&self, cpus: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "CPUs are few")]
        let seconds = self.whole.as_secs_f64() / cpus.max(1) as f64;
        self.waited.as_secs_f64() * 1e3 / seconds.max(1e-9)
    }
}

/// What the calling thread has waited for a CPU while it could run (`proc_pid_schedstat(5)`).
fn waited() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(stat.split_whitespace().nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_at_any_moment_follows_from_the_gaps() {
        // 10 gaps of 100 us in 100 ms: a hundredth of the time is in one, and half of each is left on average.
        let pauses = Pauses { gaps_ns: vec![100_000; 10], watched_ns: 100_000_000 };
        assert!((pauses.wait_us(0.001) - 90.0).abs() < 0.1, "{}", pauses.wait_us(0.001));
        assert!((pauses.wait_us(0.005) - 50.0).abs() < 0.1);
        assert_eq!((pauses.wait_us(0.02), pauses.longest_us()), (0.0, 100.0));
        assert_eq!(Pauses::default().wait_us(0.001), 0.0);
    }

    #[test]
    fn an_empty_loop_runs_on_each_cpu() {
        let cpus = napier_runtime::available_cpus();
        let pauses = Pauses::watch(&cpus[..1]);
        assert!(pauses.watched_ns >= 100_000_000 && pauses.wait_us(0.001) <= pauses.longest_us(), "{pauses:?}");
    }

    #[test]
    fn what_is_busy_and_not_ours_is_of_others() {
        let second = Duration::from_secs(1);
        let later =
            Outside { busy: second * 3, process: second, stolen: second / 2, waited: second, ..Outside::default() };
        let between = later.since(&Outside { busy: second, ..Outside::default() }, second * 2, 2);
        assert_eq!((between.others_pct(), between.stolen_pct()), (25.0, 12.5));
        assert_eq!(between.and(between).others_pct(), 25.0);
        assert_eq!(between.waited_ms_per_s(2), 500.0);
        let ours = Outside { process: second * 9, ..later };
        assert_eq!(ours.since(&Outside::default(), second, 1).others_pct(), 0.0, "ticks are coarse");
    }

    #[test]
    fn this_machine_says_so() {
        let read = Outside::read(&napier_runtime::available_cpus()[..1], Duration::ZERO).unwrap();
        assert!(read.busy > Duration::ZERO, "{read:?}");
    }
}
