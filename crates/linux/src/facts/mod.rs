//! What a machine has and how it is set, read once: what [`crate::doctor`] judges. Nothing is changed by reading it.
//!
//! What may not be read, or is not there, is `None` or empty, and what was not permitted is named in [`Facts::unseen`]: most
//! of it is open to every user. Devices are those of the namespace of the calling thread.

mod device;
mod losses;
mod machine;
mod picture;
mod program;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::change::DeviceRef;
use crate::observe::{self, Observer, WindowCounts};
use crate::root::Root;

pub use crate::irqs::{Irq, Role};
pub use crate::observe::parts::{Epoll, EpollParams, Program, Ring, Socket, Thread, Through};
pub use crate::wiring::LeadsTo;
pub use losses::{Losses, Lost, Watched};
pub use picture::{Picture, PictureContents, PictureError};
pub use program::{namespace_of, program};
use source::{Here, Source};

/// The former name, for one version.
#[deprecated(note = "it is `DeviceFacts`")]
pub type Device = DeviceFacts;

/// What is asked about.
#[derive(Clone, Default, Debug)]
pub struct Scope {
    /// One interface; without it all that are up, but for loopback.
    pub device: Option<String>,
    /// A program.
    pub pid: Option<u32>,
    /// How many threads of it serve, where that cannot be seen.
    pub workers: Option<u32>,
    /// How long to look at what happens there; not at all by default.
    pub window: Duration,
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// There is no such interface.
    #[error("there is no interface `{name}` in this namespace; it has {there}")]
    NoDevice {
        /// As asked.
        name: String,
        /// What there is.
        there: String,
    },
    /// There is no such process.
    #[error("there is no process {pid}")]
    NoProgram {
        /// As asked.
        pid: u32,
    },
    /// The kernel's list of interfaces cannot be read.
    #[error("the list of interfaces cannot be read: {0}")]
    List(std::io::Error),
}

/// A picture of a machine.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct Facts {
    /// Its kernel.
    pub kernel: Kernel,
    /// Its processors.
    pub cpus: Cpus,
    /// Settings of the whole kernel.
    pub sysctls: Sysctls,
    /// Capabilities of who asks that napier needs for something and that are missing.
    pub missing_capabilities: Vec<&'static str>,
    /// Interfaces.
    pub devices: Vec<DeviceFacts>,
    /// Ids of all NAPI instances of the namespace: a socket may keep one that has gone.
    pub napi_ids: Vec<u32>,
    /// The program that was asked about.
    pub program: Option<Program>,
    /// How many of its threads serve, as told.
    pub workers: Option<u32>,
    /// What happened at interfaces with instances while they were looked at, by name; none if that was not asked for.
    pub seen: BTreeMap<String, WindowCounts>,
    /// Packets that were lost, and polls that were cut short, since the machine started.
    pub losses: Losses,
    /// The same in the time in which it was looked at what happens.
    pub watched: Option<Watched>,
    /// What could not be read, and why.
    pub unseen: Vec<String>,
}

/// A kernel.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Kernel {
    /// `uname -r`.
    pub release: String,
    /// Major and minor version.
    pub version: (u32, u32),
}

/// Processors.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Cpus {
    /// Those that are online.
    pub online: Vec<u32>,
    /// Which CPUs each NUMA node has.
    pub nodes: Vec<Node>,
    /// Frequency policies.
    pub governors: Vec<Governor>,
    /// Idle states of all CPUs.
    pub idle_states: Vec<IdleState>,
    /// Two threads share a core: `/sys/devices/system/cpu/smt/active`.
    pub smt_active: bool,
    /// `/sys/devices/system/cpu/smt/control`.
    pub smt_control: Option<String>,
    /// Files with the CPUs of work queues.
    pub work_queue_masks: Vec<String>,
    /// Those that the scheduler moves nothing to: `isolcpus`, and partitions of cpuset.
    pub isolated: Vec<u32>,
    /// A process that moves interrupts by its own rules.
    pub irqbalance_pid: Option<u32>,
    /// Interrupts that it was told to leave alone.
    pub irqbalance_banned: Vec<u32>,
}

/// A NUMA node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[expect(missing_docs, reason = "as they are called")]
pub struct Node {
    pub id: u32,
    pub cpus: Vec<u32>,
}

/// A frequency policy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Governor {
    /// Its file.
    pub path: String,
    /// What it says.
    pub governor: String,
    /// `performance` is among those that can be had.
    pub can_perform: bool,
    /// `energy_performance_preference`: with `intel_pstate` and `amd_pstate` it decides, not the governor.
    pub preference: Option<String>,
    /// The lowest and the highest frequency that it may take, kHz.
    pub khz: Option<(u64, u64)>,
}

/// An idle state of one CPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[expect(missing_docs, reason = "as they are called")]
pub struct IdleState {
    pub cpu: u32,
    pub state: u32,
    pub name: String,
    pub exit_latency_us: u32,
    pub is_disabled: bool,
    /// The longest exit that its CPU is allowed by who asked for short ones: `/dev/cpu_dma_latency`,
    /// `power/pm_qos_resume_latency_us`; `None` where it was not set, or it cannot be read.
    pub limit_us: Option<u32>,
}

/// Settings of the whole kernel; `None` where a namespace or a kernel does not show them.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
#[expect(missing_docs, reason = "they are the kernel's names")]
pub struct Sysctls {
    pub busy_poll: Option<u64>,
    pub busy_read: Option<u64>,
    pub rps_sock_flow_entries: Option<u64>,
    pub netdev_budget: Option<u64>,
    pub netdev_budget_usecs: Option<u64>,
}

/// An interface.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DeviceFacts {
    /// Which.
    pub device: DeviceRef,
    /// The user named it.
    pub is_asked: bool,
    /// A running napier has applied a mode to it, and puts it back at its end.
    pub is_held: bool,
    /// It is up.
    pub is_up: bool,
    /// Driver, or the kind of a virtual interface.
    pub driver: Option<String>,
    /// Node that it is attached to.
    pub numa_node: Option<u32>,
    /// An XDP program is attached.
    pub has_xdp: bool,
    /// Receive queues that AF_XDP sockets have.
    pub xsk_queues: Vec<u32>,
    /// Its driver hands packets to AF_XDP sockets without a copy; `None` where no socket is there, or the kernel does not say.
    pub xsk_zero_copy: Option<bool>,
    /// Receive queues.
    pub rx_queues: Vec<RxQueue>,
    /// NAPI instances, the oldest first; `None` where the kernel does not list them.
    pub instances: Option<Vec<Instance>>,
    /// The interface's own settings, in `sysfs`.
    pub files: DeviceFiles,
    /// Its interrupts.
    pub irqs: Vec<Irq>,
    /// `ethtool -l`, by name.
    pub channels: BTreeMap<String, String>,
    /// `ethtool -g`.
    pub rings: BTreeMap<String, String>,
    /// `ethtool -c`.
    pub coalesce: BTreeMap<String, String>,
    /// `ethtool -k`: generic receive offload, where there is such a switch.
    pub gro: Option<bool>,
    /// The same of large receive offload.
    pub lro: Option<bool>,
    /// The interface below it, or the other end of its pair; of one among many it is not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leads_to: Option<LeadsTo>,
}

/// What `sysfs` says for all instances of an interface.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
#[expect(missing_docs, reason = "they are the kernel's names")]
pub struct DeviceFiles {
    pub gro_flush_timeout: Option<u64>,
    pub napi_defer_hard_irqs: Option<u64>,
    pub threaded: Option<u64>,
}

/// A receive queue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RxQueue {
    /// Its number.
    pub index: u32,
    /// Packets are given to these CPUs; `None` where that cannot be read, as with the next.
    pub rps_cpus: Option<Vec<u32>>,
    /// Flows that are followed to their programs.
    pub rps_flow_cnt: Option<u32>,
    /// The instance that queue-get names.
    pub napi_id: Option<u32>,
}

/// A NAPI instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Instance {
    /// `id`.
    pub id: u32,
    /// Its place among the interface's.
    pub place: u32,
    /// `irq`.
    pub irq: Option<u32>,
    /// Its thread.
    pub thread: Option<Thread>,
    /// `defer-hard-irqs`; `None` where the kernel does not show it, as with the next three.
    pub defer_hard_irqs: Option<u32>,
    /// `gro-flush-timeout`, ns.
    pub gro_flush_timeout_ns: Option<u64>,
    /// `irq-suspend-timeout`, ns.
    pub irq_suspend_timeout_ns: Option<u64>,
    /// `threaded`, by the kernel's names.
    pub threaded: Option<String>,
}

impl Facts {
    /// Reads them.
    ///
    /// # Errors
    /// What is asked about is not there.
    pub fn read(scope: &Scope) -> Result<Self, FactsError> {
        Self::read_from(&Source { root: Root::MACHINE, kernel: &Here }, scope)
    }

    /// Of this machine, or of the files and answers of another one. Programs are this machine's.
    fn read_from(source: &Source<'_>, scope: &Scope) -> Result<Self, FactsError> {
        let mut facts = Self { workers: scope.workers, ..Self::default() };
        machine::read(source, &mut facts);
        device::read(source, &mut facts, scope.device.as_deref())?;
        if !scope.window.is_zero() {
            facts.watch(source, scope);
        }
        // After the window: what its connections have learned by then is seen.
        if let Some(pid) = scope.pid {
            let Program { waits, sleeps, .. } = facts.program.take().unwrap_or_default();
            facts.program = Some(Program { waits, sleeps, ..program::read(pid, &mut facts.unseen)? });
        }
        facts.unseen.dedup();
        Ok(facts)
    }

    /// Looks at what happens, at all interfaces at once.
    fn watch(&mut self, source: &Source<'_>, scope: &Scope) {
        let before = Losses::read(source);
        let connections =
            scope.pid.and_then(|pid| program::read(pid, &mut Vec::new()).ok()).map(|found| found.connections);
        let is_used = |name: &str| connections.as_ref().is_some_and(|found| found.contains_key(name));
        let with_instances = self.devices.iter().filter(|device| !device.instances().is_empty());
        let mut observers: Vec<(String, Observer)> = with_instances
            .map(|device| {
                // Polls of one interface, and of those that a program uses, are worth a tracer; of a host with many only packets are counted.
                let which = device.device.clone();
                let mut observer = if device.is_asked || is_used(device.name()) {
                    Observer::new(which)
                } else {
                    Observer::of_packets(which)
                };
                observer.open();
                (device.name().to_owned(), observer)
            })
            .collect();
        let sleeps_before = scope.pid.and_then(program::sleeps);
        let waits = observe::watch_waits(scope.pid, scope.window, &mut || {
            observers.iter_mut().for_each(|(_, observer)| observer.look());
        });
        self.seen = observers.into_iter().map(|(name, mut observer)| (name, observer.close())).collect();
        let sleeps_after = scope.pid.and_then(program::sleeps);
        let sleeps = sleeps_after.zip(sleeps_before).map(|(after, before)| after.saturating_sub(before));
        self.program = scope.pid.map(|pid| Program { pid, waits, sleeps, ..Program::default() });
        let losses = Losses::read(source).since(&before);
        self.watched = Some(Watched { ms: u64::try_from(scope.window.as_millis()).unwrap_or(u64::MAX), losses });
    }

    /// The instance with this id, and its interface.
    #[must_use]
    pub fn instance(&self, id: u32) -> Option<(&DeviceFacts, &Instance)> {
        let of = |device| DeviceFacts::instances(device).iter().map(move |instance| (device, instance));
        self.devices.iter().flat_map(of).find(|(_, instance)| instance.id == id)
    }
}

impl DeviceFacts {
    /// Its instances, as far as the kernel lists them.
    #[must_use]
    pub fn instances(&self) -> &[Instance] {
        self.instances.as_deref().unwrap_or_default()
    }

    /// Its interrupts by which packets come or have gone.
    pub fn queue_irqs(&self) -> impl Iterator<Item = &Irq> {
        self.irqs.iter().filter(|irq| irq.role != Role::Control)
    }

    /// The receive queue that an instance serves: as queue-get says, or by the name of its interrupt.
    #[must_use]
    pub fn queue_of(&self, instance: &Instance) -> Option<u32> {
        let told = self.rx_queues.iter().find(|queue| queue.napi_id == Some(instance.id)).map(|queue| queue.index);
        told.or_else(|| {
            let irq = self.irqs.iter().find(|irq| instance.irq == Some(irq.number))?;
            irq.queue.filter(|_| irq.receives())
        })
    }

    /// Its name when it was found.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.name
    }
}
