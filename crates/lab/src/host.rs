//! What the figures depend on: the machine, its processors, what was granted.

use std::collections::BTreeMap;

use crate::applied::Applied;
use crate::cpus::CpuLayout;
use crate::report::Host;

/// Processors that this process may use.
pub(crate) fn available_cpus() -> Vec<usize> {
    napier_runtime::available_cpus()
}

/// Describes the machine and who runs where on it.
///
/// `engine`: it is under test, so it matters how its softirq threads run.
pub(crate) fn describe(
    layout: &CpuLayout,
    engine: bool,
    fifo: bool,
    mut in_force: Applied,
    available: &[usize],
) -> Host {
    let class = if fifo {
        "SCHED_FIFO 50"
    } else {
        "SCHED_OTHER (SCHED_FIFO was not granted: interrupts wait for the scheduler, run with CAP_SYS_NICE)"
    };
    let mut notes = BTreeMap::from([
        ("CPUs".to_owned(), layout.to_string()),
        ("cycles".to_owned(), "reference cycles of the time-stamp counter".to_owned()),
    ]);
    if engine {
        notes.insert("softirq threads".to_owned(), class.to_owned());
        in_force.insert("softirq threads".to_owned(), class.to_owned());
    }
    Host { cpu_model: cpu_model(), cpus: available.len(), kernel: kernel(), notes, in_force }
}

/// The machine and the commit, for reports of single experiments.
#[must_use]
pub fn host_and_commit() -> (Host, String) {
    let host = Host { cpu_model: cpu_model(), cpus: available_cpus().len(), kernel: kernel(), ..Host::default() };
    (host, commit().to_owned())
}

fn cpu_model() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

fn kernel() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").map_or_else(|_| "unknown".to_owned(), |s| s.trim().to_owned())
}

/// Commit of the source that this binary was built from; `unknown` outside of a repository.
pub const fn commit() -> &'static str {
    match option_env!("NAPIER_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    }
}
