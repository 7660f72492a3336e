//! What a live kernel counts and how it is set, as figures with names ([`napier_core::metric`]): instances, queues and interfaces of
//! the calling thread's namespace, CPUs of the machine, and what [`crate::doctor`] finds.
//!
//! Nothing is changed, and nothing is traced unless polls are asked for ([`Kernel::count_polls`]): what the kernel counts anyhow is
//! read, and polls of single instances only a tracepoint shows. A source that cannot be read takes its figures
//! with it and is 0 in `napier_kernel_source_readable`; a walk itself cannot fail.
//!
//! | module | holds | source |
//! |---|---|---|
//! | `device` | interfaces, instances, their threads and interrupts | `netdev` netlink, `rtnetlink(7)`, `/proc/PID/schedstat` |
//! | `queue` | queues | queue-get and qstats-get of `netdev` netlink |
//! | `cpu` | CPUs | `/proc/softirqs`, `/proc/net/softnet_stat`, `/proc/interrupts`, `/proc/stat` |
//! | `polls` | polls, by who made them | the tracepoint `napi:napi_poll` |
//! | [`mode`] | the settings of an instance by one name | |

mod cpu;
mod device;
pub mod mode;
mod polls;
mod queue;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use napier_core::metric::{Kind, Metric, Sink, Unit};

use crate::doctor::{Severity, diagnose};
use crate::facts::{Facts, Scope};
use crate::netdev::{Netdev, places};
use crate::{link, netdev};

/// How long findings are shown before the machine is looked at again: that takes milliseconds, and they change rarely.
pub const FINDINGS_FRESH: Duration = Duration::from_secs(30);

const fn counter(name: &'static str, unit: Unit, help: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { name, kind: Kind::Counter, unit, help, labels }
}

const fn gauge(name: &'static str, unit: Unit, help: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { name, kind: Kind::Gauge, unit, help, labels }
}

static SOURCE: Metric = gauge(
    "napier_kernel_source_readable",
    Unit::Truth,
    "Whether a source of figures could be read; without it those that it has are missing",
    &["source"],
);
static SYSCTL: Metric = gauge(
    "napier_kernel_sysctl",
    Unit::Count,
    "Settings of all interfaces that matter to latency, in the sysctl's own unit; negative ones are left out",
    &["name"],
);
static FINDINGS: Metric = gauge(
    "napier_kernel_doctor_findings",
    Unit::Count,
    "What napier doctor finds, by finding (docs/doctor); looked for at most every 30 seconds",
    &["id", "severity", "device"],
);

/// All metrics of a kernel, in the order of a walk.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    let own = [&SOURCE, &SYSCTL, &FINDINGS];
    device::all().chain([&polls::POLLS]).chain(queue::all()).chain(cpu::ALL).chain(own)
}

/// CPUs on which threads of instances poll for ever now: what must not be late keeps off them.
#[must_use]
pub fn polling_cpus() -> Vec<usize> {
    let instances = Netdev::open().and_then(|mut netdev| netdev.napi_dump(None)).unwrap_or_default();
    let mut cpus: Vec<usize> = instances.iter().filter_map(device::polling_cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// What is walked over.
#[derive(Debug, Default)]
pub struct Kernel {
    /// Interfaces; none: all but loopback.
    devices: BTreeSet<String>,
    findings: Mutex<Findings>,
    polls: Mutex<polls::CountedPolls>,
}

/// Severity name, id and interface of a finding, and how many there are.
type Counts = BTreeMap<(&'static str, &'static str, String), u64>;

#[derive(Debug, Default)]
struct Findings {
    /// When they were looked for; `None`: not yet.
    at: Option<Duration>,
    /// `None`: the machine could not be looked at.
    counts: Option<Counts>,
}

impl Kernel {
    /// With these interfaces of the calling thread's namespace, or with all of them but loopback.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn new(devices: &[String]) -> io::Result<Self> {
        for device in devices {
            netdev::ifindex(device).map_err(|_| {
                let text = format!("no interface is called {device} in this network namespace: ip link shows them");
                io::Error::new(io::ErrorKind::NotFound, text)
            })?;
        }
        Ok(Self { devices: devices.iter().cloned().collect(), findings: Mutex::default(), polls: Mutex::default() })
    }

    /// Counts polls by who made them from now on, of the interfaces that there are now. It needs root.
    ///
    /// # Errors
    /// [`TraceError`](crate::tracefs::TraceError).
    pub fn count_polls(&self) -> Result<(), crate::tracefs::TraceError> {
        let all = link::counters().unwrap_or_default().into_iter().map(|(_, name, ..)| name);
        let counted = polls::CountedPolls::begin(all.filter(|name| self.is_wanted(name)))?;
        *self.polls.lock().unwrap_or_else(PoisonError::into_inner) = counted;
        Ok(())
    }

    /// Takes what was recorded of polls: to be called more often than figures are asked for, so that all of the time has its part.
    pub fn look_at_polls(&self) {
        self.polls.lock().unwrap_or_else(PoisonError::into_inner).look();
    }

    fn is_wanted(&self, name: &str) -> bool {
        if self.devices.is_empty() { name != "lo" } else { self.devices.contains(name) }
    }

    /// Hands all figures to a sink. `now` is a time since any moment, the same in all walks.
    pub fn walk(&self, now: Duration, sink: &mut dyn Sink) {
        let mut sources = Sources::default();
        let links = sources.read("rtnetlink", link::counters()).unwrap_or_default();
        let links: Vec<device::Link> = links.into_iter().filter(|(_, name, ..)| self.is_wanted(name)).collect();
        let names: BTreeMap<u32, &str> = links.iter().map(|(ifindex, name, ..)| (*ifindex, name.as_str())).collect();
        device::links(&links, sink);
        let kinds = link::all().unwrap_or_default().into_iter().filter_map(|(ifindex, _, kind)| Some((ifindex, kind?)));
        device::polled(&links, &kinds.collect(), sink);
        let mut instances = Vec::new();
        if let Some(mut netdev) = sources.read("netdev", Netdev::open::<napier_core::control::QueryError>()) {
            instances = sources.read("napi-get", netdev.napi_dump(None)).unwrap_or_default();
            device::instances(&instances, &names, sink);
            queue::queues(&sources.read("queue-get", netdev.queue_dump(None)).unwrap_or_default(), &names, sink);
            queue::counters(
                &sources.read("qstats-get", netdev.qstats_dump(None, true)).unwrap_or_default(),
                &names,
                sink,
            );
        }
        self.look_at_polls();
        self.polls.lock().unwrap_or_else(PoisonError::into_inner).walk(&instances, &names, sink);
        if let Some(table) = sources.file("/proc/interrupts") {
            device::interrupts(&table, &names, &instances, sink);
            cpu::timer_interrupts(&table, sink);
        }
        cpu::walk(&mut sources, sink);
        for (name, value) in places::sysctls() {
            if let Some(value) = value.and_then(|value| value.parse().ok()) {
                sink.sample(&SYSCTL, &[name], value);
            }
        }
        let mut findings = self.findings.lock().unwrap_or_else(PoisonError::into_inner);
        if findings.at.is_none_or(|at| now >= at + FINDINGS_FRESH) {
            *findings = Findings { at: Some(now), counts: self.look() };
        }
        sources.0.push(("doctor", findings.counts.is_some()));
        for ((severity, id, device), count) in findings.counts.iter().flatten() {
            sink.sample(&FINDINGS, &[id, severity, device], *count);
        }
        for (source, is_readable) in sources.0 {
            sink.sample(&SOURCE, &[source], u64::from(is_readable));
        }
    }

    /// What is wrong; of several interfaces each finding of the machine as a whole once.
    fn look(&self) -> Option<Counts> {
        let scopes: Vec<Option<String>> = match self.devices.is_empty() {
            true => vec![None],
            false => self.devices.iter().cloned().map(Some).collect(),
        };
        let mut counts = None;
        for device in scopes {
            // An interface that went meanwhile.
            let Ok(facts) = Facts::read(&Scope { device, ..Scope::default() }) else { continue };
            let all: &mut Counts = counts.get_or_insert_default();
            let mut own = Counts::new();
            for found in diagnose(&facts) {
                let (severity, devices) = (Severity::name(found.severity), found.devices().collect::<Vec<_>>());
                for device in if devices.is_empty() { vec![""] } else { devices } {
                    *own.entry((severity, found.id, device.to_owned())).or_default() += 1;
                }
            }
            all.extend(own);
        }
        counts
    }
}

/// What could be read.
#[derive(Default)]
struct Sources(Vec<(&'static str, bool)>);

impl Sources {
    fn read<T, E>(&mut self, source: &'static str, found: Result<T, E>) -> Option<T> {
        self.0.push((source, found.is_ok()));
        found.ok()
    }

    fn file(&mut self, path: &'static str) -> Option<String> {
        self.read(path, std::fs::read_to_string(path))
    }
}
