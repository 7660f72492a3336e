//! The kernel under test: its own stack on one end of a veth pair, in the mode of a row.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use napier_kv::serve::kernel::{KernelNet, KernelStop};

use napier_linux::{LinuxError, VethEnd};
use napier_runtime::control::{NapiInfo, NapiSet};
use rustix::thread::{CpuSet, Pid};

use super::cpus::CpuLayout;
use crate::modes::{Mode, ModeParams, ServerStyle};

/// The server's end of a veth pair, with the kernel's stack on it.
#[derive(Clone, Debug)]
pub(crate) struct KernelEnd {
    end: VethEnd,
}

impl KernelEnd {
    /// Prepares the end: with receive offload a veth delivers through a NAPI instance, which the modes are about.
    pub(crate) fn new(end: &VethEnd) -> Result<Self, LinuxError> {
        end.set_feature(c"rx-gro", true)?;
        Ok(Self { end: end.clone() })
    }

    pub(crate) fn end(&self) -> &VethEnd {
        &self.end
    }

    /// Applies a mode to every NAPI instance of the end; threads of instances go to the CPU of their worker.
    pub(crate) fn configure(&self, mode: &ModeParams, cpus: &CpuLayout) -> anyhow::Result<()> {
        let Some(threaded) = mode.threaded.number() else {
            anyhow::bail!("the kernel has no pool of workers: it is an extension of the engine")
        };
        let napis = self.end.napis()?;
        ensure!(!napis.is_empty(), "{} has no NAPI instance: the veth of this kernel has no GRO", self.end.name());
        let settings = mode.napi_set(0);
        self.end.set_napi(&NapiSet { id: None, irq_suspend_timeout: None, ..settings })?;
        // By itself, for a kernel before 6.13 knows no suspension, and needs none to be switched off.
        let suspended = |napi: &NapiInfo| napi.irq_suspend_timeout.is_some_and(|span| !span.is_zero());
        if mode.irq_suspend_timeout_ns != 0 || napis.iter().any(suspended) {
            let suspend = NapiSet { irq_suspend_timeout: settings.irq_suspend_timeout, ..NapiSet::default() };
            self.end.set_napi(&suspend).context("IRQ suspension (Linux 6.13)")?;
        }
        if threaded != 0 {
            self.pin_threads(cpus)?;
        }
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

    /// Why this kernel cannot run a mode; `None` if it can. The mode is applied to find out.
    pub(crate) fn why_not(&self, mode: Mode, cpus: &CpuLayout) -> Option<String> {
        let params = mode.params();
        let tried = self.configure(&params, cpus).and_then(|()| match params.server {
            ServerStyle::EventContext { params: Some(params), .. } => {
                let stop = KernelStop::new()?;
                KernelNet::new(&stop, Some(params)).map(drop).context("busy-poll parameters of epoll (Linux 6.9)")
            }
            ServerStyle::EventContext { params: None, .. } | ServerStyle::BlockingReceive { .. } => Ok(()),
        });
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
