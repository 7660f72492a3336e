//! The engine: softirq CPUs, devices, NAPI instances and the threads that run them.

mod add;
mod attach;
mod builder;
mod carrier;
mod check;
mod control;
mod devices;
mod group;
mod handle;
mod host;
pub(crate) mod metrics;
mod remove;
mod services;
mod show;
mod sink;
mod table;
mod ticks;
mod transmit;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::thread::CpuSet;

use crate::deliver::Deliver;
use crate::deliver::softirq::WatchdogThread;
use crate::journal::Journal;
pub use crate::threads::{ThreadRole, ThreadTime};
use crate::threads::{Threads, pass_on};
use crate::tx::PerThread;
#[doc(hidden)]
pub use add::AddLinkError;
pub use builder::{EngineBuilder, StartError};
pub use control::SetModeError;
#[doc(hidden)]
pub use control::{AffinityError, RssError};
use devices::EngineDevices;
use host::{Dependants, EngineHost};
use napier_stack::NetNs;
use napier_sys::sched::pin_current_thread;
use services::Services;
use ticks::TickRate;

pub use crate::deliver::SysctlError;
pub use crate::deliver::softirq::SoftirqStats;
#[doc(hidden)]
pub use carrier::LinkState;
#[doc(hidden)]
pub use group::{
    Doing, GroupChangeError, GroupClass, GroupInfo, GroupMemberInfo, GroupOfNapi, GroupSettings, Policy, PollerInfo,
};
#[doc(hidden)]
pub use handle::{DeviceHandle, DeviceStats};
#[doc(hidden)]
pub use remove::RemoveDeviceError;
pub use show::WeakEngine;
pub use sink::{BusySocket, EngineSink, EngineWriteError};

/// A running engine. Clones are handles to the same engine; the last one to go stops it.
///
/// Sockets, name spaces, devices and event contexts do not keep it running: their users keep a handle. When the
/// engine has stopped, every wait on them ends with an error, and so does every later call that would have to wait or
/// send: `ESHUTDOWN` from sockets, [`WaitError::Stopped`](crate::event::WaitError::Stopped) from event contexts, `false` from
/// raw ports. What a socket has received before can still be read. Its TCP connections end without a word to their peers:
/// close them first if the peers should know. All memory and descriptors go with the last handle to any of these.
///
/// ```
/// let cpu = napier_runtime::available_cpus()[0];
/// let engine = napier_runtime::engine::Engine::builder().softirq_cpus(&[cpu]).start()?;
/// assert_eq!(engine.softirq_stats().len(), 1);
/// # Ok::<(), napier_runtime::engine::StartError>(())
/// ```
#[derive(Clone)]
pub struct Engine {
    pub(crate) inner: Arc<EngineInner>,
    _running: Arc<Running>,
}

/// The calling thread is counted in [`Engine::thread_times`] while this lives.
#[must_use]
pub struct CountedThread<'a> {
    threads: &'a Threads,
    affinity_before: Option<CpuSet>,
    /// Ends on the thread where it began.
    here_only: std::marker::PhantomData<*const ()>,
}

impl Drop for CountedThread<'_> {
    fn drop(&mut self) {
        PerThread::end_duty(self.threads);
        if let Some(before) = &self.affinity_before {
            let _ = rustix::thread::sched_setaffinity(None, before);
        }
    }
}

/// Stops the threads when the last handle goes.
struct Running {
    inner: Arc<EngineInner>,
    softirq_threads: Mutex<Vec<JoinHandle<()>>>,
    watch: Option<WatchdogThread>,
}

pub(crate) struct EngineInner {
    pub(crate) deliver: Arc<Deliver>,
    pub(crate) devices: EngineDevices,
    services: Services,
    cap_net_admin: AtomicBool,
    host: Arc<EngineHost>,
    dependants: Dependants,
    pub(crate) ticks: TickRate,
}

impl Engine {
    /// Starts to describe an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::new()
    }

    /// A new name space: addresses, sockets and neighbours of its own.
    #[must_use]
    pub fn namespace(&self) -> NetNs {
        let inner = &self.inner;
        NetNs::with_host(inner.host.clone(), inner.devices.frames.clone(), inner.deliver.clock.now().ns)
    }

    /// Counters of each softirq CPU.
    #[must_use]
    pub fn softirq_stats(&self) -> Vec<SoftirqStats> {
        self.inner.deliver.softirq.iter().map(|cpu| cpu.stats()).collect()
    }

    /// A copy of what the journal holds; nothing unless [`EngineBuilder::journal`] asked for one.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.inner.deliver.journal.as_ref().map_or_else(Journal::default, |journal| journal.snapshot())
    }

    /// CPU time of each thread that the engine has started.
    #[must_use]
    pub fn thread_times(&self) -> Vec<ThreadTime> {
        self.inner.deliver.threads.times()
    }

    /// Counts the CPU time of the calling thread among the engine's until the returned guard is dropped,
    /// and pins the thread if `cpu` is given and allowed.
    /// The thread may run where it could before, afterwards.
    pub fn count_thread(&self, name: &str, cpu: Option<usize>) -> CountedThread<'_> {
        let affinity_before = cpu.and_then(|_| rustix::thread::sched_getaffinity(None).ok());
        if let Some(cpu) = cpu {
            pin_current_thread(cpu);
        }
        PerThread::begin_duty(&self.inner.deliver.threads, ThreadRole::Program { name: name.to_owned() });
        CountedThread { threads: &self.inner.deliver.threads, affinity_before, here_only: std::marker::PhantomData }
    }

    /// Monotonic time in ns, as the engine's deadlines count it.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.inner.deliver.clock.now().ns
    }

    /// Ticks of the accounting counter per microsecond, measured since the engine started.
    #[must_use]
    pub fn ticks_per_us(&self) -> f64 {
        self.inner.ticks.per_us()
    }

    /// Takes `CAP_NET_ADMIN` from the program or gives it back, to see what it may do without.
    pub fn set_cap_net_admin(&self, granted: bool) {
        self.inner.cap_net_admin.store(granted, Ordering::Relaxed);
    }

    /// `net.core.busy_poll`: default busy-poll time of event contexts, in us.
    pub fn set_sysctl_busy_poll(&self, usecs: u32) {
        self.inner.deliver.sysctl.busy_poll.store(usecs, Ordering::Relaxed);
    }

    /// `net.core.busy_read`: `SO_BUSY_POLL` of new sockets, in us.
    pub fn set_sysctl_busy_read(&self, usecs: u32) {
        self.inner.deliver.sysctl.busy_read.store(usecs, Ordering::Relaxed);
    }

    /// `net.core.qdisc_max_burst`: packets that may wait for a flusher, the first not counted; negative: no limit, 0: none
    /// but the first (default 1000).
    pub fn set_sysctl_qdisc_max_burst(&self, packets: i32) {
        self.inner.deliver.sysctl.qdisc_max_burst.store(packets, Ordering::Relaxed);
    }

    /// `net.core.netdev_budget`: packets per softirq run.
    pub fn set_sysctl_netdev_budget(&self, packets: i32) {
        self.inner.deliver.sysctl.set_netdev_budget(packets);
    }

    /// `net.core.netdev_budget_usecs`: time per softirq run.
    ///
    /// # Errors
    /// Below two ticks, as the kernel refuses it.
    pub fn set_sysctl_netdev_budget_usecs(&self, usecs: u64) -> Result<(), SysctlError> {
        self.inner.deliver.sysctl.set_netdev_budget_usecs(usecs)
    }
}

impl EngineInner {
    pub(crate) fn cap_net_admin(&self) -> bool {
        self.cap_net_admin.load(Ordering::Relaxed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let inner = &self.inner;
        inner.devices.close();
        // Early: who waits is not kept waiting for what follows.
        inner.dependants.stop();
        inner.deliver.for_each_napi(|napi| napi.raw_parker.wake_all());
        inner.services.stop();
        inner.devices.stop_all();
        inner.deliver.stop();
        let threads = std::mem::take(self.softirq_threads.get_mut().unwrap_or_else(PoisonError::into_inner));
        let threads = threads.into_iter().chain(self.watch.take().map(WatchdogThread::end));
        let panics: Vec<_> = threads.filter_map(|thread| thread.join().err()).collect();
        inner.host.end();
        for panic in panics {
            pass_on(panic);
        }
    }
}
