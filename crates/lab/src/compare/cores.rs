//! Use of CPUs as the kernel accounts for it (`/proc/stat`), sampled at its tick.

use std::time::Duration;

use anyhow::Context as _;
use rustix::time::ClockId;

use crate::stats::{CoreUse, SideUse};

/// CPU time since boot, of the CPUs of client and server.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct CoreTimes {
    /// Of the client's CPU and the server's, each once: anything but idle, waiting for a disk, or taken by the host.
    busy: Duration,
    /// Of this process and the program that serves, wherever they ran.
    process: Duration,
    /// `None`: the client has none of this machine's CPUs.
    client: Option<CpuTimes>,
    /// Of all CPUs of the server together.
    server: CpuTimes,
    /// Receive softirqs of all these CPUs.
    receive_softirqs: u64,
}

impl CoreTimes {
    /// Times of the client's CPU and the server's; `beside` is the CPU time of what serves outside of this process.
    pub(crate) fn read(client: Option<usize>, servers: &[usize], beside: Duration) -> anyhow::Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        let times = Self::of(&stat, client, servers).context("/proc/stat has not the CPUs of client and server")?;
        let process = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
        let process = Duration::try_from(process).context("the CPU clock of this process")? + beside;
        let softirqs = std::fs::read_to_string("/proc/softirqs").context("reading /proc/softirqs")?;
        let receive_softirqs = net_rx_of(&softirqs, &both(client, servers)).context("/proc/softirqs has no NET_RX")?;
        Ok(Self { process, receive_softirqs, ..times })
    }

    fn of(stat: &str, client: Option<usize>, servers: &[usize]) -> Option<Self> {
        let sum =
            |cpus: &[usize]| cpus.iter().try_fold(CpuTimes::default(), |sum, cpu| Some(sum.and(times_of(stat, *cpu)?)));
        let busy = sum(&both(client, servers))?.busy();
        let client = match client {
            Some(cpu) => Some(sum(&[cpu])?),
            None => None,
        };
        Some(Self { busy, client, server: sum(servers)?, ..Self::default() })
    }

    /// What happened since `earlier`, `elapsed` ago.
    pub(crate) fn since(&self, earlier: &Self, elapsed: Duration) -> CoreUse {
        let pct = |now: Duration, then: Duration| {
            100.0 * now.saturating_sub(then).as_secs_f64() / elapsed.as_secs_f64().max(1e-9)
        };
        let side = |now: &CpuTimes, then: &CpuTimes| SideUse {
            user_pct: pct(now.user, then.user),
            system_pct: pct(now.system, then.system),
            irq_pct: pct(now.irq, then.irq),
            softirq_pct: pct(now.softirq, then.softirq),
        };
        let client = self.client.as_ref().zip(earlier.client.as_ref());
        CoreUse {
            busy_pct: pct(self.busy, earlier.busy),
            process_pct: pct(self.process, earlier.process),
            client_softirq_pct: client.map(|(now, then)| pct(now.softirq, then.softirq)),
            client: client.map(|(now, then)| side(now, then)),
            server: side(&self.server, &earlier.server),
        }
    }

    /// Receive softirqs since `earlier`.
    pub(crate) fn softirqs_since(&self, earlier: &Self) -> u64 {
        self.receive_softirqs.saturating_sub(earlier.receive_softirqs)
    }
}

/// The CPUs of both sides, each once.
fn both(client: Option<usize>, servers: &[usize]) -> Vec<usize> {
    let mut cpus: Vec<usize> = client.into_iter().chain(servers.iter().copied()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Times of a CPU, or of several together.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct CpuTimes {
    /// Programs.
    user: Duration,
    /// The kernel for programs, and its threads.
    system: Duration,
    irq: Duration,
    softirq: Duration,
    /// Taken by the host.
    pub(super) stolen: Duration,
}

impl CpuTimes {
    /// Anything but idle, waiting for a disk, or taken by the host.
    pub(super) fn busy(&self) -> Duration {
        self.user + self.system + self.irq + self.softirq
    }

    fn and(self, other: Self) -> Self {
        Self {
            user: self.user + other.user,
            system: self.system + other.system,
            irq: self.irq + other.irq,
            softirq: self.softirq + other.softirq,
            stolen: self.stolen + other.stolen,
        }
    }
}

/// Times of one CPU since boot (`proc_stat(5)`).
pub(super) fn times_of(stat: &str, cpu: usize) -> Option<CpuTimes> {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    let fields: Vec<u64> = line.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = fields[..] else { return None };
    let time = |ticks: u64| Duration::from_nanos(ticks * 1_000_000_000 / rustix::param::clock_ticks_per_second());
    Some(CpuTimes {
        user: time(user + nice),
        system: time(system),
        irq: time(irq),
        softirq: time(softirq),
        stolen: time(stolen),
    })
}

/// Receive softirqs of some CPUs since boot (`proc_softirqs(5)`): the first line names the CPUs that are there.
fn net_rx_of(softirqs: &str, cpus: &[usize]) -> Option<u64> {
    let mut lines = softirqs.lines();
    let heads: Vec<&str> = lines.next()?.split_whitespace().collect();
    let counts: Vec<&str> = lines.find_map(|line| line.trim().strip_prefix("NET_RX:"))?.split_whitespace().collect();
    let count = |cpu: &usize| {
        let at = heads.iter().position(|head| *head == format!("CPU{cpu}"))?;
        counts.get(at)?.parse::<u64>().ok()
    };
    cpus.iter().map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 1 5 1000 3 2 4 70 0 0\ncpu1 100 0 50 0 0 0 20 0 0 0\nintr 5\n";

    #[test]
    fn idle_and_stolen_time_is_not_busy() {
        let second = Duration::from_secs(1) / u32::try_from(rustix::param::clock_ticks_per_second()).unwrap();
        let times = CoreTimes::of(STAT, Some(0), &[1]).unwrap();
        assert_eq!((times.busy, times.client.unwrap().softirq), (second * (22 + 170), second * 4));
        assert_eq!((times.client.unwrap().user, times.server.user), (second * 11, second * 100));
        let shared = CoreTimes::of(STAT, Some(1), &[1]).unwrap();
        assert_eq!(shared.busy, second * 170, "a CPU that both use counts once");
        assert_eq!(CoreTimes::of(STAT, Some(2), &[1]), None);
        assert_eq!(CoreTimes::of("cpu0 1 x", Some(0), &[]), None);
    }

    #[test]
    fn shares_are_of_one_cpu() {
        let second = Duration::from_secs(1);
        let softirq = |time| Some(CpuTimes { softirq: time, ..CpuTimes::default() });
        let now = CoreTimes {
            busy: second * 3,
            process: second,
            client: softirq(second),
            receive_softirqs: 9,
            ..CoreTimes::default()
        };
        let then = CoreTimes { busy: second, process: second / 2, receive_softirqs: 2, ..now };
        let share = now.since(&then, second);
        assert_eq!((share.busy_pct, share.process_pct, share.client_softirq_pct), (200.0, 50.0, Some(0.0)));
        assert_eq!(now.softirqs_since(&then), 7);
        let then = CoreTimes { client: softirq(second / 2), ..then };
        assert_eq!(now.since(&then, second).client, Some(SideUse { softirq_pct: 50.0, ..SideUse::default() }));
        assert_eq!(CoreTimes::of(STAT, None, &[1]).unwrap().since(&CoreTimes::default(), second).client, None);
    }

    #[test]
    fn receive_softirqs_are_those_of_the_cpus() {
        let text = "          CPU0   CPU2\n  HI:  1  2\n NET_TX: 5 6\n NET_RX:  10   300\n";
        assert_eq!(net_rx_of(text, &[0, 2]), Some(310));
        assert_eq!((net_rx_of(text, &[1]), net_rx_of("CPU0\n", &[0])), (None, None));
    }

    #[test]
    fn this_machine_has_such_times() {
        let cpus = napier_runtime::available_cpus();
        let read = || CoreTimes::read(Some(cpus[0]), &cpus[1..], Duration::ZERO).unwrap();
        let before = read();
        while read().process < before.process + Duration::from_millis(50) {}
        // The ticks of /proc/stat are as long as 10 ms, and each CPU has its own.
        assert!(read().busy > before.busy, "this process was busy on one of them");
    }
}
