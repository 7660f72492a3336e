//! Description and start of an engine.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use napier_core::tcp::memory::MemoryLimits;
use napier_ring::FrameTable;

use super::devices::EngineDevices;
use super::host::{Dependants, EngineHost};
use super::services::Services;
use super::ticks::TickRate;
use super::{Engine, EngineInner, Running};
use crate::deliver::{Deliver, Setup, Sysctls, softirq};

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No processor for softirqs.
    #[error("the engine needs at least one softirq CPU: name one of {allowed:?}")]
    NoSoftirqCpu {
        /// Processors that this process may use.
        allowed: Vec<usize>,
    },
    /// A processor that this process may not use.
    #[error("CPU {cpu} is not available to this process: name one of {allowed:?}")]
    CpuNotAllowed {
        /// The processor asked for.
        cpu: usize,
        /// Processors that this process may use.
        allowed: Vec<usize>,
    },
    /// The same processor twice.
    #[error("CPU {cpu} is named twice: each softirq CPU has one thread")]
    CpuTwice {
        /// The processor.
        cpu: usize,
    },
    /// The system refused a descriptor or a thread.
    #[error("starting a softirq CPU failed: {0}; check the limits on open files and threads")]
    System(#[from] std::io::Error),
}

/// Describes an engine; made by [`Engine::builder`].
///
/// ```
/// use napier_runtime::engine::Engine;
///
/// let first = napier_runtime::available_cpus()[0];
/// let engine = Engine::builder().softirq_cpus(&[first]).fifo(false).sysctl_busy_poll(50).start()?;
/// assert_eq!(engine.softirq_stats()[0].cpu, first);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct EngineBuilder {
    softirq_cpus: Vec<usize>,
    fifo: bool,
    workers: usize,
    worker_cpus: Vec<usize>,
    busy_poll: u32,
    busy_read: u32,
    tcp_mem: Option<MemoryLimits>,
    cache_warming: bool,
    journal: Option<usize>,
}

impl EngineBuilder {
    pub(super) fn new() -> Self {
        Self {
            softirq_cpus: Vec::new(),
            fifo: true,
            workers: 2,
            worker_cpus: Vec::new(),
            busy_poll: 0,
            busy_read: 0,
            tcp_mem: None,
            cache_warming: true,
            journal: None,
        }
    }

    /// The processors that run softirqs, each by a thread that is pinned there. If none is named, there is one thread for
    /// each that this process may use, and the system moves them where there is room: several engines do not compete for the
    /// first processor.
    pub fn softirq_cpus(mut self, cpus: &[usize]) -> Self {
        self.softirq_cpus = cpus.to_vec();
        self
    }

    /// Whether softirq threads ask for `SCHED_FIFO` (default yes); without the privilege they do without.
    pub fn fifo(mut self, fifo: bool) -> Self {
        self.fifo = fifo;
        self
    }

    /// Workers of the pool that polls instances set to `workqueue` (default 2).
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// The processors that workers of the pool may run on (default: all that this process may use).
    pub fn worker_cpus(mut self, cpus: &[usize]) -> Self {
        self.worker_cpus = cpus.to_vec();
        self
    }

    /// `net.core.busy_poll` in us (default 0).
    pub fn sysctl_busy_poll(mut self, usecs: u32) -> Self {
        self.busy_poll = usecs;
        self
    }

    /// `net.core.busy_read` in us (default 0).
    pub fn sysctl_busy_read(mut self, usecs: u32) -> Self {
        self.busy_read = usecs;
        self
    }

    /// `net.ipv4.tcp_mem` in bytes: how much memory the buffers of all TCP connections of a name space have together (default: what
    /// Linux takes on this machine, of which `max` is 9.4 % of its memory). Each name space of the engine has as much;
    /// [`NetNs::set_tcp_mem`](crate::socket::NetNs::set_tcp_mem) is for one of them, and says what happens.
    pub fn tcp_mem(mut self, limits: MemoryLimits) -> Self {
        self.tcp_mem = Some(limits);
        self
    }

    /// Whether groups keep the receive path warm in the caches (default yes): while nothing comes they send a packet that came
    /// before on its way again now and then, so that the next one finds the path there. It ends before the socket, and is
    /// counted nowhere.
    pub fn cache_warming(mut self, cache_warming: bool) -> Self {
        self.cache_warming = cache_warming;
        self
    }

    /// As [`cache_warming`](Self::cache_warming).
    #[deprecated(note = "it is `cache_warming`")]
    pub fn dry_runs(self, dry_runs: bool) -> Self {
        self.cache_warming(dry_runs)
    }

    /// Keeps a [`journal`](crate::journal) of at most `records_max` records, about 100 bytes each (default none). The
    /// engine is slower with one.
    pub fn journal(mut self, records_max: usize) -> Self {
        self.journal = Some(records_max);
        self
    }

    /// Starts the softirq CPUs.
    ///
    /// # Errors
    /// See [`StartError`]; nothing is left running then.
    pub fn start(self) -> Result<Engine, StartError> {
        let thread_cpus = rustix::thread::sched_getaffinity(None).ok();
        let allowed = napier_sys::sched::available_cpus();
        let cpus = if self.softirq_cpus.is_empty() { allowed.clone() } else { self.softirq_cpus.clone() };
        check_cpus(&cpus, &allowed)?;
        let pinned = !self.softirq_cpus.is_empty();
        let worker_cpus = cpu_set(&self.worker_cpus, &allowed)?.or(thread_cpus);

        let deliver = Deliver::new(Setup {
            cpus: &cpus,
            pinned,
            sysctl: Sysctls::new(self.busy_poll, self.busy_read, self.tcp_mem),
            workers: self.workers,
            dry_runs: self.cache_warming,
            worker_cpus,
            thread_cpus,
            records_max: self.journal,
        });
        let deliver = deliver.map_err(std::io::Error::from)?;
        let inner = Arc::new(EngineInner {
            deliver: deliver.clone(),
            host: Arc::new(EngineHost::default()),
            dependants: Dependants::default(),
            devices: EngineDevices::new(deliver.clone(), Arc::new(FrameTable::new())),
            services: Services::default(),
            cap_net_admin: AtomicBool::new(true),
            ticks: TickRate::new(deliver.clock.now()),
        });
        inner.host.begin(&inner);
        let mut running = Running { inner: inner.clone(), softirq_threads: Mutex::new(Vec::new()), watch: None };
        let (ready, started) = std::sync::mpsc::sync_channel(cpus.len());
        for cpu in &deliver.softirq {
            let thread = softirq::start(deliver.clone(), cpu.clone(), self.fifo, ready.clone())?;
            running.softirq_threads.lock().expect("no panic while held").push(thread);
        }
        running.watch = Some(softirq::WatchdogThread::start(deliver, self.fifo)?);
        for _ in &cpus {
            started.recv().map_err(std::io::Error::other)?;
        }
        inner.deliver.softirq.iter().for_each(|cpu| cpu.placement().pin());
        Ok(Engine { inner, _running: Arc::new(running) })
    }
}

/// The set of these processors; none for an empty list.
fn cpu_set(cpus: &[usize], allowed: &[usize]) -> Result<Option<rustix::thread::CpuSet>, StartError> {
    let mut set = rustix::thread::CpuSet::new();
    for &cpu in cpus {
        if !allowed.contains(&cpu) {
            return Err(StartError::CpuNotAllowed { cpu, allowed: allowed.to_vec() });
        }
        set.set(cpu);
    }
    Ok((!cpus.is_empty()).then_some(set))
}

fn check_cpus(cpus: &[usize], allowed: &[usize]) -> Result<(), StartError> {
    if cpus.is_empty() {
        return Err(StartError::NoSoftirqCpu { allowed: allowed.to_vec() });
    }
    for (position, cpu) in cpus.iter().enumerate() {
        if !allowed.contains(cpu) {
            return Err(StartError::CpuNotAllowed { cpu: *cpu, allowed: allowed.to_vec() });
        }
        if cpus[..position].contains(cpu) {
            return Err(StartError::CpuTwice { cpu: *cpu });
        }
    }
    Ok(())
}
