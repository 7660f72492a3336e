//! Use of CPUs as the kernel accounts for it (`/proc/stat`), sampled at its tick.

use std::time::Duration;

use anyhow::Context as _;
use rustix::time::ClockId;

use crate::stats::CoreUse;

/// CPU time since boot, of one CPU or of several together.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct CoreTimes {
    /// Of the client's CPU and the server's: anything but idle, waiting for a disk, or taken by the host.
    busy: Duration,
    /// Of this process, wherever it ran.
    process: Duration,
    /// Of the client's CPU: softirqs.
    client_softirq: Duration,
}

impl CoreTimes {
    /// Times of the client's CPU and the server's.
    pub(crate) fn read(client: usize, servers: &[usize]) -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        let times = Self::of(&stat, client, servers).context("/proc/stat has not the CPUs of client and server")?;
        let process = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
        Ok(Self { process: Duration::try_from(process).context("the CPU clock of this process")?, ..times })
    }

    fn of(stat: &str, client: usize, servers: &[usize]) -> Option<Self> {
        let mut cpus = [&[client], servers].concat();
        cpus.sort_unstable();
        cpus.dedup();
        let client_softirq = times_of(stat, client)?.softirq;
        let busy = cpus.into_iter().map(|cpu| Some(times_of(stat, cpu)?.busy)).sum::<Option<Duration>>()?;
        Some(Self { busy, process: Duration::ZERO, client_softirq })
    }

    /// What happened since `earlier`, `elapsed` ago.
    pub(crate) fn since(&self, earlier: &Self, elapsed: Duration) -> CoreUse {
        let pct = |now: Duration, then: Duration| {
            100.0 * now.saturating_sub(then).as_secs_f64() / elapsed.as_secs_f64().max(1e-9)
        };
        CoreUse {
            busy_pct: pct(self.busy, earlier.busy),
            process_pct: pct(self.process, earlier.process),
            client_softirq_pct: pct(self.client_softirq, earlier.client_softirq),
        }
    }
}

/// Times of one CPU.
pub(super) struct CpuTimes {
    /// Anything but idle, waiting for a disk, or taken by the host.
    pub(super) busy: Duration,
    pub(super) softirq: Duration,
    /// Taken by the host.
    pub(super) stolen: Duration,
}

/// Times of one CPU since boot (`proc_stat(5)`).
pub(super) fn times_of(stat: &str, cpu: usize) -> Option<CpuTimes> {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = fields[..] else { return None };
    let time = |ticks: u64| Duration::from_nanos(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second());
    let busy = time(user + nice + system + irq + softirq);
    Some(CpuTimes { busy, softirq: time(softirq), stolen: time(stolen) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 1 5 1000 3 2 4 70 0 0\ncpu1 100 0 50 0 0 0 20 0 0 0\nintr 5\n";

    #[test]
    fn idle_and_stolen_time_is_not_busy() {
        let second = Duration::from_secs(1) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap();
        let times = CoreTimes::of(STAT, 0, &[1]).unwrap();
        assert_eq!(times, CoreTimes { busy: second * (22 + 170), process: Duration::ZERO, client_softirq: second * 4 });
        let shared = CoreTimes::of(STAT, 1, &[1]).unwrap();
        assert_eq!(shared.busy, second * 170, "a CPU that both use counts once");
        assert_eq!(CoreTimes::of(STAT, 2, &[1]), None);
        assert_eq!(CoreTimes::of("cpu0 1 x", 0, &[]), None);
    }

    #[test]
    fn shares_are_of_one_cpu() {
        let second = Duration::from_secs(1);
        let now = CoreTimes { busy: second * 3, process: second, client_softirq: second };
        let share = now.since(&CoreTimes { busy: second, process: second / 2, client_softirq: second }, second);
        assert_eq!(share, CoreUse { busy_pct: 200.0, process_pct: 50.0, client_softirq_pct: 0.0 });
    }

    #[test]
    fn this_machine_has_such_times() {
        let cpus = napier_runtime::available_cpus();
        let read = || CoreTimes::read(cpus[0], &cpus[1..]).unwrap();
        let before = read();
        while read().process < before.process + Duration::from_millis(50) {}
        // The ticks of /proc/stat are as long as 10 ms, and each CPU has its own.
        assert!(read().busy > before.busy, "this process was busy on one of them");
    }
}
