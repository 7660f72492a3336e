//! Kernel, processors, sysctls, capabilities.

use super::source::Source;
use super::{Cpus, Facts, Governor, IdleState, Kernel, Losses, Node, Sysctls};
use crate::root::Root;

pub(super) fn read(source: &Source<'_>, facts: &mut Facts) {
    let root = &source.root;
    let release = root.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    facts.kernel = Kernel { version: version(&release), release };
    facts.cpus = cpus(root, &mut facts.unseen);
    let sysctl = |name: &str| root.number(&format!("/proc/sys/net/core/{name}"));
    facts.sysctls = Sysctls {
        busy_poll: sysctl("busy_poll"),
        busy_read: sysctl("busy_read"),
        rps_sock_flow_entries: sysctl("rps_sock_flow_entries"),
        netdev_budget: sysctl("netdev_budget"),
        netdev_budget_usecs: sysctl("netdev_budget_usecs"),
    };
    facts.losses = Losses::read(source);
    facts.missing_capabilities = source.kernel.missing_capabilities();
}

/// A file of this machine.
pub(super) fn text(path: &str) -> Option<String> {
    Root::MACHINE.text(path)
}

/// What a folder of this machine has that begins so, in order.
pub(super) fn names(folder: &str, begin: &str) -> Vec<String> {
    Root::MACHINE.names(folder, begin)
}

fn version(release: &str) -> (u32, u32) {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

const CPU: &str = "/sys/devices/system/cpu";

fn cpus(root: &Root, unseen: &mut Vec<String>) -> Cpus {
    let list = |path: &str| root.cpus(path).unwrap_or_default();
    let online = list(&format!("{CPU}/online"));
    let node = |id| Node { id, cpus: list(&format!("/sys/devices/system/node/node{id}/cpulist")) };
    let mut isolated = list(&format!("{CPU}/isolated"));
    isolated.extend(list("/sys/fs/cgroup/cpuset.cpus.isolated"));
    isolated.sort_unstable();
    isolated.dedup();
    let irqbalance_pid = process_named(root, "irqbalance");
    let asked = latency_asked(root);
    let states: Vec<IdleState> = online.iter().flat_map(|cpu| idle_states(root, *cpu, asked.flatten())).collect();
    if asked.is_none() && !states.is_empty() {
        unseen.push("/dev/cpu_dma_latency, by which idle states may be forbidden: needs root".to_owned());
    }
    Cpus {
        nodes: list("/sys/devices/system/node/online").into_iter().map(node).collect(),
        governors: root
            .names(&format!("{CPU}/cpufreq"), "policy")
            .iter()
            .filter_map(|name| governor(root, name))
            .collect(),
        idle_states: states,
        smt_active: root.number(&format!("{CPU}/smt/active")) == Some(1),
        smt_control: root.text(&format!("{CPU}/smt/control")),
        work_queue_masks: work_queue_masks(root),
        isolated,
        irqbalance_banned: irqbalance_pid.map(|pid| banned(root, pid)).unwrap_or_default(),
        irqbalance_pid,
        online,
    }
}

fn governor(root: &Root, name: &str) -> Option<Governor> {
    let folder = format!("{CPU}/cpufreq/{name}");
    let path = format!("{folder}/scaling_governor");
    let available = root.text(&format!("{folder}/scaling_available_governors")).unwrap_or_default();
    let can_perform = available.split_whitespace().any(|name| name == "performance");
    let khz = |file: &str| root.number(&format!("{folder}/{file}"));
    Some(Governor {
        governor: root.text(&path)?,
        path,
        can_perform,
        preference: root.text(&format!("{folder}/energy_performance_preference")),
        khz: khz("scaling_min_freq").zip(khz("scaling_max_freq")),
    })
}

/// The longest exit that the whole machine is allowed: by reading, the file shows what all who hold it open ask for together
/// (`kernel/power/qos.c cpu_latency_qos_read`). `None`: it cannot be read; `Some(None)`: no program asks.
fn latency_asked(root: &Root) -> Option<Option<u32>> {
    /// `include/linux/pm_qos.h PM_QOS_CPU_LATENCY_DEFAULT_VALUE`.
    const NOBODY_US: i32 = 2_000_000_000;
    let us = i32::from_ne_bytes(root.four_bytes("/dev/cpu_dma_latency")?);
    Some((us < NOBODY_US).then(|| us.max(0).cast_unsigned()))
}

/// Source: `drivers/cpuidle/governor.c cpuidle_governor_latency_req`: the smaller one of both limits holds.
fn idle_states(root: &Root, cpu: u32, asked: Option<u32>) -> Vec<IdleState> {
    // `drivers/base/power/sysfs.c pm_qos_resume_latency_us_show`: 0 is no limit, and `n/a` is none tolerated.
    let own = match root.text(&format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us")).as_deref() {
        Some("n/a") => Some(0),
        Some(us) => us.parse().ok().filter(|us| *us > 0),
        None => None,
    };
    let limit_us = [asked, own].into_iter().flatten().min();
    let folder = format!("{CPU}/cpu{cpu}/cpuidle");
    let state = |name: &String| {
        let file = |file: &str| format!("{folder}/{name}/{file}");
        Some(IdleState {
            cpu,
            state: name.strip_prefix("state")?.parse().ok()?,
            name: root.text(&file("name"))?,
            exit_latency_us: u32::try_from(root.number(&file("latency"))?).ok()?,
            is_disabled: root.number(&file("disable"))? != 0,
            limit_us,
        })
    };
    root.names(&folder, "state").iter().filter_map(state).collect()
}

/// Interrupts that an irqbalance leaves alone: `--banirq=N`, `-i N`.
fn banned(root: &Root, pid: u32) -> Vec<u32> {
    let line = root.table(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&str> = line.split('\0').collect();
    let of = |at: usize| match words[at] {
        "-i" | "--banirq" => words.get(at + 1)?.parse().ok(),
        word => word.strip_prefix("--banirq=").or(word.strip_prefix("-i"))?.parse().ok(),
    };
    (0..words.len()).filter_map(of).collect()
}

/// That of all unbound work queues first, then those of single ones.
fn work_queue_masks(root: &Root) -> Vec<String> {
    const FOLDER: &str = "/sys/devices/virtual/workqueue";
    let own = root.names(FOLDER, "").into_iter().map(|name| format!("{FOLDER}/{name}/cpumask"));
    let all = std::iter::once(format!("{FOLDER}/cpumask")).chain(own);
    all.filter(|path| root.is_file(path)).collect()
}

fn process_named(root: &Root, wanted: &str) -> Option<u32> {
    let pids = root.names("/proc", "").into_iter().filter_map(|name| name.parse::<u32>().ok());
    pids.into_iter().find(|pid| root.text(&format!("/proc/{pid}/comm")).is_some_and(|comm| comm == wanted))
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
