//! What is read at the beginning and at the end of a measured time, and what lies between.

use std::time::Duration;

use anyhow::{bail, ensure};
use napier_kv::load::plan::{Measured, nanos};
use napier_runtime::device::NapiStats;
use napier_verdict::Beside;

use super::cores::CoreTimes;
use super::ends::{Ends, Tested};
use super::kernel::counters::Counted;
use super::kernel::on::Arrived;
use super::machine::Outside;
use super::place::Testbed;
use super::workload::Workload;
use crate::applied::Applied;
use crate::cpus::CpuLayout;
use crate::stats::CoreUse;

/// What one run measured.
#[derive(Clone, Debug)]
pub(crate) struct CaseResult {
    pub(crate) measured: Measured,
    pub(crate) seconds: f64,
    pub(crate) cpu_total: Duration,
    /// `None` where polls in vain are not counted.
    pub(crate) cpu_spin: Option<Duration>,
    /// One for each run that it is made of; empty where they are not read.
    pub(crate) cores: Vec<CoreUse>,
    pub(crate) ticks_per_us: f64,
    pub(crate) napi: Option<NapiStats>,
    /// What the kernel's instances did; `None` in rows of the engine, and where nothing can be traced.
    pub(crate) counted: Option<Counted>,
    /// Receive softirqs; `None` where `cores` is.
    pub(crate) softirqs: Option<u64>,
    /// Context switches of the server's threads.
    pub(crate) switches: u64,
    pub(crate) waits_with_events: u64,
    pub(crate) events: u64,
    pub(crate) fifo: bool,
    /// What the end under test was given; empty if that is the kernel.
    pub(crate) in_force: Applied,
    /// What an interface of this machine received; `None` elsewhere.
    pub(crate) arrived: Option<Arrived>,
    /// Of the server's softirq threads; `None` where the kernel delivers.
    pub(crate) run_delay: Option<Duration>,
    /// What others took meanwhile.
    pub(crate) outside: Outside,
    /// The same as it is judged: of one run.
    pub(crate) beside: Beside,
}

/// Counters at one moment.
#[derive(Clone, Default)]
pub(super) struct Snapshot {
    at_ns: u64,
    cpu: Duration,
    cores: Option<CoreTimes>,
    napi: Option<NapiStats>,
    arrived: Option<Arrived>,
    switches: u64,
    waits_with_events: u64,
    events: u64,
    run_delay: Option<Duration>,
    outside: Outside,
}

impl CaseResult {
    /// Adds a run of the same row, as if both were one.
    pub(super) fn add(&mut self, more: Self) {
        let sum = |a: Option<Duration>, b: Option<Duration>| a.zip(b).map(|(a, b)| a + b);
        self.measured.add(&more.measured);
        self.seconds += more.seconds;
        self.cpu_total += more.cpu_total;
        self.cpu_spin = sum(self.cpu_spin, more.cpu_spin);
        self.cores.extend(more.cores);
        self.ticks_per_us = more.ticks_per_us;
        self.napi = self.napi.zip(more.napi).map(|(mut napi, more)| {
            napi += more;
            napi
        });
        self.counted = self.counted.or(more.counted);
        self.softirqs = self.softirqs.zip(more.softirqs).map(|(a, b)| a + b);
        self.switches += more.switches;
        self.waits_with_events += more.waits_with_events;
        self.events += more.events;
        self.fifo &= more.fifo;
        self.in_force.extend(more.in_force);
        self.arrived = self.arrived.zip(more.arrived).map(|(a, b)| a.and(b));
        self.run_delay = sum(self.run_delay, more.run_delay);
        self.outside = self.outside.and(more.outside);
    }
}

/// Reads what there is to read of a run.
pub(super) struct Meter<'a> {
    pub(super) workload: &'a Workload,
    pub(super) cpus: &'a CpuLayout,
    pub(super) ends: &'a Ends,
}

impl Meter<'_> {
    pub(super) fn snapshot(&self) -> anyhow::Result<Snapshot> {
        let program_cpu = self.ends.program_cpu();
        let cores = match &*self.workload.place {
            Testbed::Link | Testbed::Memif => None,
            Testbed::Veth(_) | Testbed::On(_) => {
                Some(CoreTimes::read(self.cpus.of_client(), &self.cpus.of_server(), program_cpu)?)
            }
        };
        let counted = self.workload.server.totals();
        Ok(Snapshot {
            at_ns: self.ends.engine.now_ns(),
            cpu: self.ends.server_cpu()?,
            cores,
            napi: self.ends.napi_stats(),
            arrived: self.ends.arrived()?,
            switches: self.ends.switches(),
            waits_with_events: counted.waits_with_events,
            events: counted.events,
            run_delay: self.run_delay(),
            outside: Outside::read(&self.workload.watched(self.cpus), program_cpu)?,
        })
    }

    /// What the softirq threads on the server's CPUs have waited for them.
    fn run_delay(&self) -> Option<Duration> {
        match &self.ends.tested {
            Tested::Kernel(_) => None,
            Tested::Engine { .. } => {
                let all = self.ends.engine.softirq_stats().into_iter();
                let of_server = all.filter(|cpu| self.cpus.workers.contains(&cpu.cpu));
                Some(Duration::from_nanos(of_server.map(|cpu| cpu.run_delay_ns).sum()))
            }
        }
    }

    /// What a measured time with these two edges says, if all that came back is right: all records are there, and none is too long.
    pub(super) fn result(
        &self,
        measured: Measured,
        edges: Vec<anyhow::Result<Snapshot>>,
    ) -> anyhow::Result<CaseResult> {
        let edges = edges.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        let [begin, end] = &edges[..] else { bail!("it ended before measuring began") };
        let wrong = measured.wrong + measured.missing + measured.refused;
        ensure!(wrong == 0, "{wrong} replies were wrong: the stack or the server is broken");
        Ok(self.between(measured, begin, end))
    }

    fn between(&self, measured: Measured, begin: &Snapshot, end: &Snapshot) -> CaseResult {
        let engine = &self.ends.engine;
        let paused_ns = measured.paused_ns;
        let ticks_per_us = engine.ticks_per_us();
        let napi = end.napi.zip(begin.napi).map(|(end, begin)| end - begin);
        let cpu_total = end.cpu.saturating_sub(begin.cpu);
        let elapsed = Duration::from_nanos(end.at_ns - begin.at_ns);
        #[expect(clippy::cast_precision_loss, reason = "figures for a report")]
        let spin = napi.map(|napi| Duration::from_secs_f64(napi.spin_ticks as f64 / ticks_per_us / 1e6));
        let outside = end.outside.since(&begin.outside, elapsed, self.workload.watched(self.cpus).len());
        let run_delay = end.run_delay.zip(begin.run_delay).map(|(end, begin)| end.saturating_sub(begin));
        CaseResult {
            measured,
            seconds: elapsed.as_secs_f64(),
            cpu_total,
            // Ticks go on while a polling thread is preempted, so they may exceed its CPU time.
            cpu_spin: spin.map(|spin| spin.min(cpu_total)),
            cores: end.cores.zip(begin.cores).map(|(end, begin)| end.since(&begin, elapsed)).into_iter().collect(),
            ticks_per_us,
            napi,
            counted: None,
            arrived: end.arrived.zip(begin.arrived).map(|(end, begin)| end.since(begin)),
            softirqs: end.cores.zip(begin.cores).map(|(end, begin)| end.softirqs_since(&begin)),
            switches: end.switches.saturating_sub(begin.switches),
            waits_with_events: end.waits_with_events - begin.waits_with_events,
            events: end.events - begin.events,
            in_force: self.ends.in_force(),
            fifo: engine.softirq_stats().iter().all(|cpu| cpu.fifo),
            beside: self.beside(&outside, paused_ns),
            outside,
            run_delay,
        }
    }

    /// What the machine did beside one run, as it is judged whether the run counts.
    fn beside(&self, outside: &Outside, paused_ns: u64) -> Beside {
        let cpus = self.workload.watched(self.cpus).len();
        let has_client = self.workload.has_client_here();
        Beside {
            others_ns: Some(nanos(outside.others_for_sure(cpus))),
            stolen_ns: Some(nanos(outside.stolen())),
            client_waited_ns: has_client.then(|| nanos(outside.waited())),
            pause_ns: has_client.then_some(paused_ns),
        }
    }
}
