//! Kernel, processors, sysctls, capabilities.

use std::fs;
use std::path::Path;

use rustix::thread::CapabilitySet;

use super::{Cpus, Facts, Governor, IdleState, Kernel, Node, Sysctls};
use crate::change::text::cpu_list;

pub(super) fn read(facts: &mut Facts) {
    let release = text("/proc/sys/kernel/osrelease").unwrap_or_default();
    facts.kernel = Kernel { version: version(&release), release };
    facts.cpus = cpus();
    let sysctl = |name: &str| number(&format!("/proc/sys/net/core/{name}"));
    facts.sysctls = Sysctls {
        busy_poll: sysctl("busy_poll"),
        busy_read: sysctl("busy_read"),
        rps_sock_flow_entries: sysctl("rps_sock_flow_entries"),
    };
    facts.missing_capabilities = missing_capabilities();
}

/// The first line of a file.
pub(super) fn text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

pub(super) fn number(path: &str) -> Option<u64> {
    text(path)?.parse().ok()
}

fn version(release: &str) -> (u32, u32) {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

const CPU: &str = "/sys/devices/system/cpu";

fn cpus() -> Cpus {
    let list = |path: &str| text(path).as_deref().and_then(cpu_list).unwrap_or_default();
    let online = list(&format!("{CPU}/online"));
    let node = |id| Node { id, cpus: list(&format!("/sys/devices/system/node/node{id}/cpulist")) };
    let governor = |name: &String| {
        let path = format!("{CPU}/cpufreq/{name}/scaling_governor");
        let available = text(&format!("{CPU}/cpufreq/{name}/scaling_available_governors")).unwrap_or_default();
        let can_perform = available.split_whitespace().any(|name| name == "performance");
        Some(Governor { governor: text(&path)?, path, can_perform })
    };
    Cpus {
        nodes: list("/sys/devices/system/node/online").into_iter().map(node).collect(),
        governors: names(&format!("{CPU}/cpufreq"), "policy").iter().filter_map(governor).collect(),
        idle_states: online.iter().flat_map(|cpu| idle_states(*cpu)).collect(),
        smt_active: number(&format!("{CPU}/smt/active")) == Some(1),
        smt_control: text(&format!("{CPU}/smt/control")),
        work_queue_masks: work_queue_masks(),
        irqbalance_pid: process_named("irqbalance"),
        online,
    }
}

fn idle_states(cpu: u32) -> Vec<IdleState> {
    let folder = format!("{CPU}/cpu{cpu}/cpuidle");
    let state = |name: &String| {
        let file = |file: &str| format!("{folder}/{name}/{file}");
        Some(IdleState {
            cpu,
            state: name.strip_prefix("state")?.parse().ok()?,
            name: text(&file("name"))?,
            exit_latency_us: u32::try_from(number(&file("latency"))?).ok()?,
            is_disabled: number(&file("disable"))? != 0,
        })
    };
    names(&folder, "state").iter().filter_map(state).collect()
}

/// What a folder has that begins so, in order.
pub(super) fn names(folder: &str, begin: &str) -> Vec<String> {
    let entries = fs::read_dir(Path::new(folder)).into_iter().flatten();
    let all = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<String> = all.filter(|name| name.starts_with(begin)).collect();
    found.sort_by_key(|name| (name.len(), name.clone()));
    found
}

/// That of all unbound work queues first, then those of single ones.
fn work_queue_masks() -> Vec<String> {
    const FOLDER: &str = "/sys/devices/virtual/workqueue";
    let own = names(FOLDER, "").into_iter().map(|name| format!("{FOLDER}/{name}/cpumask"));
    let all = std::iter::once(format!("{FOLDER}/cpumask")).chain(own);
    all.filter(|path| Path::new(path).is_file()).collect()
}

fn process_named(wanted: &str) -> Option<u32> {
    let pids = names("/proc", "").into_iter().filter_map(|name| name.parse::<u32>().ok());
    pids.into_iter().find(|pid| text(&format!("/proc/{pid}/comm")).is_some_and(|comm| comm == wanted))
}

/// What napier needs capabilities for, of those that this process does not have.
fn missing_capabilities() -> Vec<&'static str> {
    let own = rustix::thread::capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let needed = [
        (CapabilitySet::NET_ADMIN, "CAP_NET_ADMIN"),
        (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
        (CapabilitySet::SYS_NICE, "CAP_SYS_NICE"),
        (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE"),
    ];
    needed.into_iter().filter(|(capability, _)| !own.contains(*capability)).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_whatever_follows_them() {
        assert_eq!(version("6.18.44-fc-v595"), (6, 18));
        assert_eq!(version("7.3-rc1"), (7, 3));
        assert_eq!(version(""), (0, 0));
    }
}
