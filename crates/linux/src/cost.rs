//! What a program takes of the CPUs, how long its threads wait for one, and what all of the machine takes: what the kernel does for the program in
//! softirqs and in threads of its own is in the last alone. Source: `cgroups(7)`, `Documentation/scheduler/sched-stats.rst`,
//! `proc_stat(5)`, `proc_pid_stat(5)`.

use std::collections::HashMap;
use std::fs;

use crate::process::Roots;
use crate::procfs::{Stat, schedstat};

/// Threads of a program that are looked at one by one. Of a program with more it is not known how long they wait.
const THREADS_MAX: usize = 2048;

/// ThreadTimes since a [`CpuMeter`] began to look, in ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuSpent {
    /// On a CPU, of the program.
    pub own_ns: Option<u64>,
    /// Of that, in the program itself and not in the kernel, in ticks of the kernel.
    pub user_ns: Option<u64>,
    /// In which its threads could have run, and had no CPU.
    pub waited_ns: Option<u64>,
    /// Of all CPUs of the machine, whatever they did but idle. In ticks of the kernel.
    pub machine_ns: Option<u64>,
}

/// Looks at what a program takes. Nothing that it gives ever falls: what a thread had is kept when it ends, but for what it had since the look
/// before.
#[derive(Debug)]
pub struct CpuMeter {
    roots: Roots,
    /// By thread, what it had at the last look.
    seen: HashMap<u32, ThreadTimes>,
    ran_ns: u64,
    waited_ns: u64,
    is_first: bool,
}

/// On a CPU, and waiting for one, in ns.
#[derive(Clone, Copy, Default, Debug)]
struct ThreadTimes {
    ran: u64,
    waited: u64,
}

impl CpuMeter {
    /// Of a program.
    #[must_use]
    pub fn of(roots: Roots) -> Self {
        Self { roots, seen: HashMap::new(), ran_ns: 0, waited_ns: 0, is_first: true }
    }

    /// What it has taken so far; `None` if no process of it is there.
    pub fn look(&mut self) -> Option<CpuSpent> {
        let pids: Vec<u32> = self.roots.pids().into_iter().filter(|pid| exists(*pid)).collect();
        if pids.is_empty() {
            return None;
        }
        let threads = self.threads(&pids);
        let counted = match &self.roots {
            Roots::Cgroup(group) => group.cpu_ns(),
            Roots::Process(_) | Roots::Children => None,
        };
        let ticks = ticks(&pids);
        let own_ns = counted.or(threads.map(|()| self.ran_ns)).or(ticks.map(|ticks| ticks.user + ticks.system));
        Some(CpuSpent {
            own_ns,
            user_ns: ticks.map(|ticks| ticks.user),
            waited_ns: threads.map(|()| self.waited_ns),
            machine_ns: machine_ns(),
        })
    }

    /// Takes what threads had since the last look; `None` where that is not told of all of them.
    fn threads(&mut self, pids: &[u32]) -> Option<()> {
        let mut now = HashMap::new();
        for pid in pids {
            for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                if now.len() == THREADS_MAX {
                    self.seen.clear();
                    self.is_first = true;
                    return None;
                }
                let Some(tid) = thread.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
                let Ok(text) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
                now.insert(tid, times(&text)?);
            }
        }
        for (tid, times) in &now {
            // A thread that is new since the first look had all of it meanwhile.
            let before = match self.seen.get(tid) {
                Some(before) if before.ran <= times.ran => *before,
                None if self.is_first => *times,
                Some(_) | None => ThreadTimes::default(),
            };
            self.ran_ns += times.ran - before.ran;
            self.waited_ns += times.waited.saturating_sub(before.waited);
        }
        (self.seen, self.is_first) = (now, false);
        Some(())
    }
}

fn exists(pid: u32) -> bool {
    fs::metadata(format!("/proc/{pid}/task")).is_ok()
}

/// A line of `schedstat`: on a CPU, waiting for one, turns. All three are 0 where the kernel does not count (`CONFIG_SCHED_INFO`), but
/// no thread that was ever seen has had no turn.
fn times(text: &str) -> Option<ThreadTimes> {
    let [ran, waited, turns] = schedstat(text)?;
    (turns > 0 || ran > 0 || waited == 0).then_some(ThreadTimes { ran, waited })
}

/// In ns, though it is counted in ticks.
#[derive(Clone, Copy)]
struct TickTimes {
    user: u64,
    system: u64,
}

/// Time of processes, with that of threads that have ended.
fn ticks(pids: &[u32]) -> Option<TickTimes> {
    let of = |pid: &u32| {
        let Stat { user, system, .. } = Stat::of(*pid).ok()?;
        Some(TickTimes { user: in_ns(user), system: in_ns(system) })
    };
    let sum = |all: TickTimes, one: TickTimes| TickTimes { user: all.user + one.user, system: all.system + one.system };
    pids.iter().filter_map(of).reduce(sum)
}

fn in_ns(ticks: u64) -> u64 {
    ticks * (1_000_000_000 / rustix::param::clock_ticks_per_second().max(1))
}

fn machine_ns() -> Option<u64> {
    busy_ticks(&fs::read_to_string("/proc/stat").ok()?).map(in_ns)
}

/// The first line: user, nice, system, idle, iowait, irq, softirq, steal, and guests, which are in user and nice.
fn busy_ticks(table: &str) -> Option<u64> {
    let line = table.lines().next()?.strip_prefix("cpu ")?;
    let numbers: Vec<u64> = line.split_whitespace().map_while(|number| number.parse().ok()).collect();
    let of = |at: usize| numbers.get(at).copied();
    Some(of(0)? + of(1)? + of(2)? + of(5)? + of(6)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 1000 8 16 1000 1 1\ncpu0 9 9\n"), Some(31));
        assert!(busy_ticks("cpu0 1 2 3 4 5 6 7 8").is_none() && busy_ticks("cpu 1 2 x").is_none());
        assert_eq!(times("10 20 3\n").map(|times| (times.ran, times.waited)), Some((10, 20)));
        assert!(["", "1 2", "a b c"].iter().all(|text| times(text).is_none()));
    }

    #[test]
    fn what_threads_had_is_kept_when_they_end() {
        let mut meter = CpuMeter::of(Roots::Process(std::process::id()));
        assert!(meter.look().is_some());
        let compute = || {
            let begun = std::hint::black_box((0..5_000_000_u64).fold(0, |sum, n| sum ^ std::hint::black_box(n)));
            std::hint::black_box(begun);
        };
        let mut last = CpuSpent::default();
        napier_testkit::eventually("it has taken time", || {
            std::thread::scope(|scope| _ = scope.spawn(compute));
            let now = meter.look().expect("it runs");
            assert!(now.own_ns >= last.own_ns && now.waited_ns >= last.waited_ns, "{now:?} after {last:?}");
            last = now;
            now.own_ns.is_some_and(|ns| ns > 1_000_000)
        });
        assert!(last.machine_ns.is_some());
        let own = [std::process::id()];
        napier_testkit::eventually("ticks tell it too", || {
            ticks(&own).is_some_and(|ticks| ticks.user > 0) || {
                compute();
                false
            }
        });
    }

    #[test]
    fn a_program_that_has_gone_takes_nothing() {
        let mut child = std::process::Command::new("true").spawn().expect("true is there");
        let pid = child.id();
        child.wait().expect("it ends");
        assert_eq!(CpuMeter::of(Roots::Process(pid)).look(), None);
    }
}
