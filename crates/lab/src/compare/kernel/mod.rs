//! The kernel under test: its own stack on one end of a veth pair, in the mode of a row.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use napier_core::control::plan::{Change, Place, Plan, apply, put_back};
use napier_kv::serve::kernel::{KernelNet, KernelStop};
use napier_linux::{KernelSink, LinuxError, VethEnd};
use rustix::thread::{CpuSet, Pid};

use super::cpus::CpuLayout;
use crate::modes::Mode;

/// The server's end of a veth pair, with the kernel's stack on it. What a mode changed is put back when this goes.
#[derive(Debug)]
pub(crate) struct KernelEnd {
    end: VethEnd,
    changes: Vec<Change<Place>>,
}

impl Drop for KernelEnd {
    fn drop(&mut self) {
        // An end that is gone has nothing to put back.
        let _ = self.put_back();
    }
}

impl KernelEnd {
    /// Prepares the end: with receive offload a veth delivers through a NAPI instance, which the modes are about.
    pub(crate) fn new(end: &VethEnd) -> Result<Self, LinuxError> {
        end.set_feature(c"rx-gro", true)?;
        Ok(Self { end: end.clone(), changes: Vec::new() })
    }

    pub(crate) fn end(&self) -> &VethEnd {
        &self.end
    }

    fn sink(&self) -> KernelSink<'_> {
        KernelSink::Interface { name: self.end.name(), ifindex: self.end.ifindex() }
    }

    /// Puts a plan into force on the end and every NAPI instance of it, in place of one that is; threads of instances go to
    /// the CPU of their worker.
    pub(crate) fn put_in_force(&mut self, plan: &Plan, cpus: &CpuLayout) -> anyhow::Result<()> {
        self.put_back()?;
        let name = self.end.name();
        ensure!(!self.end.napis()?.is_empty(), "{name} has no NAPI instance: the veth of this kernel has no GRO");
        self.changes = self.end.netns().run(|| -> anyhow::Result<_> {
            let mut sink = self.sink();
            let plan = sink.fit(plan)?;
            Ok(apply(&mut sink, &plan)?)
        })??;
        self.pin_threads(cpus)
    }

    /// Puts back what was there before the plan.
    fn put_back(&mut self) -> anyhow::Result<()> {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return Ok(());
        }
        let left = self.end.netns().run(|| put_back(&mut self.sink(), &changes))?.err();
        let left: Vec<String> = left.iter().flatten().map(ToString::to_string).collect();
        ensure!(left.is_empty(), "not put back: {}", left.join("; "));
        Ok(())
    }

    fn pin_threads(&self, cpus: &CpuLayout) -> anyhow::Result<()> {
        for (queue, pid) in self.threads()?.into_iter().enumerate() {
            let cpu = cpus.poller(queue).unwrap_or(cpus.workers[0]);
            let mut set = CpuSet::new();
            set.set(cpu);
            rustix::thread::sched_setaffinity(Some(pid), &set)
                .with_context(|| format!("pinning the thread of queue {queue} to CPU {cpu}"))?;
        }
        Ok(())
    }

    /// Threads that poll the instances, one each, if they are threaded.
    fn threads(&self) -> anyhow::Result<Vec<Pid>> {
        let pids = self.end.napis()?.into_iter().filter_map(|napi| napi.pid);
        Ok(pids.filter_map(|pid| Pid::from_raw(pid.cast_signed())).collect())
    }

    /// CPU time of those threads, to a hundredth of a second.
    pub(crate) fn thread_cpu(&self) -> anyhow::Result<Duration> {
        let times = self.threads()?.into_iter().map(|pid| {
            let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
            cpu_of_stat(&std::fs::read_to_string(&path).with_context(|| path.clone())?).with_context(|| path)
        });
        times.sum()
    }

    /// Why this kernel cannot run a mode; `None` if it can. The mode is put into force to find out, and taken back.
    pub(crate) fn why_not(&mut self, mode: Mode, cpus: &CpuLayout) -> Option<String> {
        let plan = mode.plan();
        let tried = self.put_in_force(&plan, cpus).and_then(|()| {
            let stop = KernelStop::new()?;
            KernelNet::new(&stop, &plan).map(drop).context("an event context of the kernel")
        });
        let tried = tried.and_then(|()| self.put_back());
        tried.err().map(|error| format!("the kernel refuses: {error:#}"))
    }
}

/// User and system time of a process (`proc_pid_stat(5)`); what is in brackets may hold anything.
fn cpu_of_stat(stat: &str) -> anyhow::Result<Duration> {
    let (_, rest) = stat.rsplit_once(')').context("no name in brackets")?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut ticks = || fields.next().context("a field is missing")?.parse::<u64>().context("a field is no number");
    let (user, system) = (ticks()?, ticks()?);
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_nanos((user + system) * 1_000_000_000 / per_second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_process_is_read_whatever_it_is_called() {
        let stat = "7 (napi/x) y) (-3) S 2 0 0 0 -1 2097216 0 0 0 0 150 50 0 0 20 0 1 0 5 0 0";
        let second = rustix::param::clock_ticks_per_second();
        assert_eq!(cpu_of_stat(stat).unwrap(), Duration::from_nanos(200 * 1_000_000_000 / second));
        assert!(cpu_of_stat("7 (x) S 2").is_err() && cpu_of_stat("").is_err());
    }
}
