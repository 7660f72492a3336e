//! Where the settings of delivery live beside netlink: files of the interface, sysctls, the CPUs of interrupts and of NAPI
//! threads, and how such a thread is scheduled. Read only.
//!
//! Source: `net/core/net-sysfs.c`, `net/core/sysctl_net_core.c`, `kernel/irq/proc.c`, `proc(5)`.

use std::fs::read_to_string;
use std::io;

use napier_core::control::NapiInfo;

use super::{NapiGetError, Netdev, Told, ifindex};
use crate::device;
use crate::error::{KernelError, errno_of};
use crate::irqs::{self, IrqOwner, IrqTable, Role};
use crate::procfs::{Stat, cpus_allowed};
use crate::root::Root;
use napier_core::control::Errno;

/// Files below `/sys/class/net/IF`.
pub const FILES: [&str; 3] = ["threaded", "gro_flush_timeout", "napi_defer_hard_irqs"];

/// Settings of all interfaces, by their names with dots.
pub const SYSCTLS: [&str; 12] = [
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.dev_weight",
    "net.core.dev_weight_rx_bias",
    "net.core.dev_weight_tx_bias",
    "net.core.netdev_max_backlog",
    "net.core.gro_normal_batch",
    "net.core.rps_sock_flow_entries",
    "kernel.timer_migration",
    "kernel.sched_rt_runtime_us",
];

/// Names and what was read; `None` where this kernel or this namespace does not show it, or does not let this user read it.
pub type Values = Vec<(&'static str, Option<String>)>;

/// An interrupt, and the CPUs that may take it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Irq {
    /// Its number.
    pub number: u32,
    /// `smp_affinity_list`: where it may go.
    pub affinity: Option<String>,
    /// `effective_affinity_list`: where it goes.
    pub effective: Option<String>,
}

/// An interrupt of the interface's device, by the name that its driver gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedIrq {
    /// Its name, such as `virtio2-input.0`, `mlx5_comp3@pci:0000:81:00.0` or `eth0 (queue 3)`.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// The interrupt.
    pub irq: Irq,
}

/// The thread of an instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NapiThread {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// CPUs that it may run on, as a list.
    pub cpus: Option<String>,
    /// The scheduler's class: `SCHED_OTHER`, `SCHED_FIFO` and so on.
    pub class: &'static str,
    /// Priority within a real-time class, 1 to 99; 0 otherwise.
    pub priority: u32,
    /// Niceness, -20 to 19.
    pub nice: i32,
}

/// An instance, its interrupt and its thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// As napi-get shows it.
    pub napi: NapiInfo,
    /// If it has one that the kernel tells.
    pub irq: Option<Irq>,
    /// If it has one, and it has not ended meanwhile.
    pub thread: Option<NapiThread>,
}

/// All places of one interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// Name of the interface.
    pub device: String,
    /// Its number.
    pub ifindex: u32,
    /// [`FILES`].
    pub files: Values,
    /// Interrupts of its device ([`crate::irqs`]): drivers that tell no interrupt for an instance have them too.
    pub interrupts: Vec<NamedIrq>,
    /// Its instances, the latest first.
    pub instances: Vec<Instance>,
}

/// Places of an interface of the namespace of the calling thread.
///
/// # Errors
/// As [`super::napi_dump`]; `ENODEV` where the namespace has no such interface.
pub fn of(interface: &str) -> Result<Places, Told<napier_core::control::QueryError>> {
    let other = |error: io::Error| -> NapiGetError { error.into() };
    let plain = |error| Told { error, hint: None, said: None };
    let ifindex = ifindex(interface).map_err(|_| {
        let text = format!("no interface is called {interface} in this network namespace: ip link shows them");
        plain(other(io::Error::new(io::ErrorKind::NotFound, text)))
    })?;
    let mut files = Values::new();
    for file in FILES {
        let value = match device::read_file(interface, file) {
            Ok(value) => Some(value),
            // Not of this kernel, or not for this user.
            Err(KernelError::NotHere { .. } | KernelError::Refused(_)) => None,
            Err(KernelError::Other(error)) if errno_of(&error) == Some(Errno::EINVAL) => None,
            Err(KernelError::Other(error)) => return Err(plain(other(error))),
        };
        files.push((file, value));
    }
    let napis = Netdev::open()?.napi_dump(Some(ifindex.into()))?;
    let instance = |napi: NapiInfo| Instance { napi, irq: napi.irq.map(irq), thread: napi.pid.and_then(thread) };
    let told: Vec<u32> = napis.iter().filter_map(|napi| napi.irq).collect();
    let instances = napis.into_iter().map(instance).collect();
    let interrupts = interrupts(interface, ifindex, &told);
    Ok(Places { device: interface.to_owned(), ifindex, files, interrupts, instances })
}

/// Interrupts of an interface.
fn interrupts(interface: &str, ifindex: u32, told: &[u32]) -> Vec<NamedIrq> {
    let found = irqs::of(&Root::MACHINE, &IrqOwner { interface, ifindex, told }).into_iter();
    found.map(|found| NamedIrq { name: found.name, role: found.role, irq: irq(found.number) }).collect()
}

/// Their numbers and names in a text of `/proc/interrupts`; `told` are those that its instances name.
pub(crate) fn interrupts_of<'a>(
    table: &IrqTable<'a>,
    interface: &str,
    ifindex: u32,
    told: &[u32],
) -> Vec<(u32, &'a str)> {
    let found = irqs::find(&Root::MACHINE, table, &IrqOwner { interface, ifindex, told });
    found.into_iter().map(|found| (found.number, found.name)).collect()
}

/// [`SYSCTLS`] as the calling thread's namespace shows them: `busy_poll` and `busy_read` are shown in the first one only, though
/// they hold in all.
#[must_use]
pub fn sysctls() -> Values {
    SYSCTLS.into_iter().map(|name| (name, line(&format!("/proc/sys/{}", name.replace('.', "/"))))).collect()
}

fn line(path: &str) -> Option<String> {
    read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn irq(number: u32) -> Irq {
    let list = |name: &str| line(&format!("/proc/irq/{number}/{name}"));
    Irq { number, affinity: list("smp_affinity_list"), effective: list("effective_affinity_list") }
}

fn thread(pid: u32) -> Option<NapiThread> {
    let cpus = cpus_allowed(pid).ok()?;
    let Stat { name, priority, nice, policy, .. } = Stat::of(pid).ok()?;
    Some(NapiThread { pid, name, cpus, class: class_name(policy), priority, nice })
}

/// Source: `include/uapi/linux/sched.h`.
const fn class_name(policy: u32) -> &'static str {
    match policy {
        0 => "SCHED_OTHER",
        1 => "SCHED_FIFO",
        2 => "SCHED_RR",
        3 => "SCHED_BATCH",
        5 => "SCHED_IDLE",
        6 => "SCHED_DEADLINE",
        7 => "SCHED_EXT",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_whose_name_has_brackets_is_read() {
        let scheduling = |stat: &str| {
            let Stat { name, policy, priority, nice, .. } = Stat::parse(stat)?;
            Some((name, (class_name(policy), priority, nice)))
        };
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let stat = format!("77 (napi/eth(0)-8 x) S {}", numbers.join(" "));
        assert_eq!(scheduling(&stat), Some(("napi/eth(0)-8 x".to_owned(), ("unknown", 40, 19))));
        let stat = stat.replace(" 40 41 ", " 50 1 ").replace(" 19 20 ", " -5 20 ");
        assert_eq!(scheduling(&stat).map(|(_, how)| how), Some(("SCHED_FIFO", 50, -5)));
        assert_eq!(scheduling("77 (x) S 1"), None);
        assert_eq!(scheduling(""), None);
    }
}
