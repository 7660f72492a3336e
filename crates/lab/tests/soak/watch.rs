//! What the system did to the two programs: their threads, sampled, and watchdogs that say when a CPU was not to be had.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use napier_runtime::RealTime;
use napier_sys::sched::pin_current_thread;

use crate::now_ns;

/// Between two samples.
const SAMPLE: Duration = Duration::from_millis(20);
/// How long a watchdog sleeps.
const WATCHDOG: Duration = Duration::from_millis(5);
/// A watchdog that comes later than this notes it.
const LATE_NS: u64 = 10_000_000;
/// Above the engine's softirq threads and whatever this test puts beside them.
const PRIORITY: i32 = 60;

/// A thread at one moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadAt {
    pub(crate) at_ns: u64,
    /// As in `proc_pid_stat(5)`: R, S, D, T, ...
    pub(crate) state: char,
    /// CPU time, and time that it was runnable and did not run: `schedstat`. The system books a wait when it is over: one
    /// that goes on is in here from sample to sample.
    pub(crate) run_ns: u64,
    pub(crate) wait_ns: u64,
}

/// Adds to the booked waits of a thread what it waits at the moment.
#[derive(Default)]
struct Waiting {
    before: Option<ThreadAt>,
    pending_ns: u64,
}

impl Waiting {
    fn complete(&mut self, booked: ThreadAt) -> ThreadAt {
        let stands = self.before.filter(|before| {
            (before.run_ns, before.wait_ns, before.state, booked.state) == (booked.run_ns, booked.wait_ns, 'R', 'R')
        });
        self.pending_ns = stands.map_or(0, |before| self.pending_ns + booked.at_ns - before.at_ns);
        self.before = Some(booked);
        ThreadAt { wait_ns: booked.wait_ns + self.pending_ns, ..booked }
    }
}

/// A span of time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl Span {
    /// What it has in common with another one, in ns.
    pub(crate) fn overlap_ns(self, other: Self) -> u64 {
        self.to_ns.min(other.to_ns).saturating_sub(self.from_ns.max(other.from_ns))
    }

    pub(crate) fn ns(self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// All that was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    /// Samples of each thread, by `program/thread-id name`, in order.
    pub(crate) threads: BTreeMap<String, Vec<ThreadAt>>,
    /// When a watchdog came late, with its CPU.
    pub(crate) late: Vec<(usize, Span)>,
    /// Real-time scheduling is granted, so the engine's softirq threads have it.
    pub(crate) real_time: bool,
}

/// Threads that watch, until they are asked what they saw.
pub(crate) struct Watch {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Watched>>,
    threads: Vec<JoinHandle<()>>,
}

impl Watch {
    /// Begins, with the names and ids of the programs.
    pub(crate) fn begin(programs: &[(&'static str, u32)], cpus: &[usize]) -> Self {
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Watched::default())));
        let programs = programs.to_vec();
        let sampler = start("sampler", &stop, &seen, move |stop, seen| sample(&programs, stop, seen));
        let watchdogs =
            cpus.iter().map(|&cpu| start("watchdog", &stop, &seen, move |stop, seen| watch_cpu(cpu, stop, seen)));
        let threads = [sampler].into_iter().chain(watchdogs).collect();
        Self { stop, seen, threads }
    }

    /// What was seen, to a moment after this call.
    pub(crate) fn end(self) -> Watched {
        std::thread::sleep(3 * SAMPLE);
        self.stop.store(true, Ordering::Release);
        for thread in self.threads {
            thread.join().expect("it does not panic");
        }
        std::mem::take(&mut *self.seen.lock().expect("no panic while held"))
    }
}

fn start(
    name: &str,
    stop: &Arc<AtomicBool>,
    seen: &Arc<Mutex<Watched>>,
    body: impl FnOnce(&AtomicBool, &Mutex<Watched>) + Send + 'static,
) -> JoinHandle<()> {
    let (stop, seen) = (stop.clone(), seen.clone());
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Without the privilege it says less: it is starved with the others then.
        let real_time = RealTime::begin(PRIORITY);
        seen.lock().expect("no panic while held").real_time = real_time.is_ok();
        body(&stop, &seen);
    });
    thread.expect("a thread starts")
}

fn sample(programs: &[(&'static str, u32)], stop: &AtomicBool, seen: &Mutex<Watched>) {
    let ksoftirqd = ksoftirqd();
    let mut waiting = BTreeMap::<String, Waiting>::new();
    while !stop.load(Ordering::Acquire) {
        let threads = programs.iter().flat_map(|&(program, pid)| {
            let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
            threads.filter_map(Result::ok).map(move |thread| (program, thread.path()))
        });
        for (program, thread) in threads.chain(ksoftirqd.iter().map(|thread| ("system", thread.clone()))) {
            let id = thread.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // A thread may end at any time.
            let Some((name, now)) = thread_at(&thread) else { continue };
            let name = format!("{program}/{id} {name}");
            let now = waiting.entry(name.clone()).or_default().complete(now);
            seen.lock().expect("no panic while held").threads.entry(name).or_default().push(now);
        }
        std::thread::sleep(SAMPLE);
    }
}

/// The system's own softirq threads, through which packets of its sockets pass.
fn ksoftirqd() -> Vec<PathBuf> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let is_one = |folder: &PathBuf| {
        std::fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.starts_with("ksoftirqd/"))
    };
    processes.filter(is_one).collect()
}

fn thread_at(folder: &Path) -> Option<(String, ThreadAt)> {
    let at_ns = now_ns();
    let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
    let (head, rest) = stat.rsplit_once(')')?;
    let name = head.split_once('(')?.1.to_owned();
    let state = rest.trim_start().chars().next()?;
    let schedstat = std::fs::read_to_string(folder.join("schedstat")).ok()?;
    let mut numbers = schedstat.split_whitespace().map_while(|number| number.parse().ok());
    Some((name, ThreadAt { at_ns, state, run_ns: numbers.next()?, wait_ns: numbers.next()? }))
}

fn watch_cpu(cpu: usize, stop: &AtomicBool, seen: &Mutex<Watched>) {
    pin_current_thread(cpu);
    while !stop.load(Ordering::Acquire) {
        let due_ns = now_ns() + u64::try_from(WATCHDOG.as_nanos()).expect("short");
        std::thread::sleep(WATCHDOG);
        let came_ns = now_ns();
        if came_ns > due_ns + LATE_NS {
            let late = Span { from_ns: due_ns, to_ns: came_ns };
            seen.lock().expect("no panic while held").late.push((cpu, late));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_goes_on_is_counted() {
        let at = |at_ns, state, run_ns, wait_ns| ThreadAt { at_ns, state, run_ns, wait_ns };
        let mut waiting = Waiting::default();
        let samples = [
            at(0, 'R', 5, 7),
            at(20, 'R', 5, 7),
            at(40, 'R', 5, 7),
            at(60, 'R', 6, 52), // it came to its turn at 45
            at(80, 'S', 6, 52),
            at(100, 'R', 6, 52),
            at(120, 'R', 6, 52),
        ];
        let waits: Vec<_> = samples.map(|sample| waiting.complete(sample).wait_ns).into();
        assert_eq!(waits, [7, 27, 47, 52, 52, 52, 72]);
    }
}
