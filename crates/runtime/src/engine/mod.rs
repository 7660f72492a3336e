//! The engine: softirq CPUs, devices, NAPI instances and the threads that run them.

mod builder;
mod carrier;
mod check;
mod control;
mod devices;
mod handle;
mod host;
mod sysctl;
mod threads;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;

use napier_core::busy::BusyParams;
use napier_core::ids::IdAllocator;
use napier_core::time::Instant;
use napier_ring::{FrameTable, Links};
use rustix::thread::CpuSet;

use crate::clock::Clock;
use crate::event::{BusyPoller, EventContext};
use crate::journal::{Journal, Recorder};
use crate::memif;
use crate::napi::Napi;
use crate::softirq::{self, Overseer, SoftirqCpu, Watch};
use crate::stack::NetNs;
use crate::sys::tsc::ticks;
use crate::workqueue::Workqueue;
pub use builder::{EngineBuilder, StartError};
#[doc(hidden)]
pub use control::{AffinityError, RssError};
use devices::Devices;
use host::{Dependants, EngineHost};

pub use crate::softirq::SoftirqStats;
pub(crate) use carrier::Carrier;
#[doc(hidden)]
pub use carrier::LinkState;
pub(crate) use check::{MTU, mtu_of};
#[doc(hidden)]
pub use devices::{AddDeviceError, AddLinkError, EndConfig};
pub(crate) use devices::{NewDevice, new_rss};
#[doc(hidden)]
pub use handle::{DeviceHandle, DeviceStats};
pub(crate) use host::Dependant;
pub use sysctl::SysctlError;
pub(crate) use sysctl::Sysctls;
use threads::Threads;
pub use threads::{ThreadRole, ThreadTime};

/// Most NAPI instances that an engine makes in its life.
pub(crate) const NAPI_MAX: usize = 4096;

/// `NR_CPUS` of the rules: ids start above it, as on a distribution kernel built for 8192 processors.
pub(crate) const NR_CPUS: u32 = 8192;

/// A running engine. Clones are handles to the same engine; the last one to go stops it.
///
/// Sockets, name spaces, devices and event contexts do not keep it running: their users keep a handle. When the
/// engine has stopped, every wait on them ends with an error, and so does every later call that would have to wait or
/// send: `ESHUTDOWN` from sockets, [`WaitError::Stopped`](crate::WaitError::Stopped) from event contexts, `false` from
/// raw ports. What a socket has received before can still be read. Its TCP connections end without a word to their peers:
/// close them first if the peers should know. All memory and descriptors go with the last handle to any of these.
///
/// ```
/// let cpu = napier_runtime::available_cpus()[0];
/// let engine = napier_runtime::Engine::builder().softirq_cpus(&[cpu]).start()?;
/// assert_eq!(engine.softirq_stats().len(), 1);
/// # Ok::<(), napier_runtime::StartError>(())
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
        self.threads.unregister();
        if let Some(before) = &self.affinity_before {
            let _ = rustix::thread::sched_setaffinity(None, before);
        }
    }
}

/// Stops the threads when the last handle goes.
struct Running {
    inner: Arc<EngineInner>,
    softirq_threads: Mutex<Vec<JoinHandle<()>>>,
    watch: Option<Watch>,
}

pub(crate) struct EngineInner {
    pub(crate) clock: Clock,
    pub(crate) frames: Arc<FrameTable>,
    pub(crate) sysctl: Sysctls,
    pub(crate) softirq: Vec<Arc<SoftirqCpu>>,
    /// Softirq CPU by processor number; `u32::MAX` = none.
    softirq_by_cpu: Vec<u32>,
    /// Links of poll lists: an instance is on one list at a time.
    pub(crate) napi_links: Links,
    /// Links of output queues: a transmit queue, under the number of its instance, is on one at a time.
    pub(crate) tx_links: Links,
    napis: Box<[OnceLock<Arc<Napi>>]>,
    napi_count: AtomicU32,
    /// Instance number + 1 by id modulo [`NAPI_MAX`]; 0 = no enabled instance.
    by_id: Box<[AtomicU32]>,
    ids: Mutex<IdAllocator>,
    pub(crate) devices: Mutex<Devices>,
    pub(crate) workqueue: Workqueue,
    pub(crate) memif: memif::Control,
    pub(crate) journal: Option<Arc<Recorder>>,
    pub(crate) threads: Threads,
    pub(crate) overseer: Overseer,
    thread_cpus: Option<CpuSet>,
    worker_cpus: Option<CpuSet>,
    cap_net_admin: AtomicBool,
    stop: AtomicBool,
    /// No device comes up and no thread is started any more; written under the devices' lock.
    closing: AtomicBool,
    host: Arc<EngineHost>,
    dependants: Dependants,
    this: Weak<Self>,
    started_ticks: u64,
    started_ns: u64,
}

impl Engine {
    /// Starts to describe an engine.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::new()
    }

    /// A new name space: addresses, sockets and neighbours of its own.
    #[must_use]
    pub fn namespace(&self) -> NetNs {
        let ns = NetNs::with_host(self.inner.host.clone(), self.inner.clock.now().ns);
        self.inner.dependants.add(ns.dependant());
        ns
    }

    /// Counters of each softirq CPU.
    #[must_use]
    pub fn softirq_stats(&self) -> Vec<SoftirqStats> {
        self.inner.softirq.iter().map(|cpu| cpu.stats()).collect()
    }

    /// A copy of what the journal holds; nothing unless [`EngineBuilder::journal`] asked for one.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.inner.journal.as_ref().map_or_else(Journal::default, |journal| journal.snapshot())
    }

    /// CPU time of each thread that the engine has started.
    #[must_use]
    pub fn thread_times(&self) -> Vec<ThreadTime> {
        self.inner.threads.times()
    }

    /// Counts the CPU time of the calling thread among the engine's until the returned guard is dropped,
    /// and pins the thread if `cpu` is given and allowed.
    /// The thread may run where it could before, afterwards.
    pub fn count_thread(&self, name: &str, cpu: Option<usize>) -> CountedThread<'_> {
        let affinity_before = cpu.and_then(|_| rustix::thread::sched_getaffinity(None).ok());
        if let Some(cpu) = cpu {
            pin_current_thread(cpu);
        }
        self.inner.threads.register(ThreadRole::Program { name: name.to_owned() });
        CountedThread { threads: &self.inner.threads, affinity_before, here_only: std::marker::PhantomData }
    }

    /// Monotonic time in ns, as the engine's deadlines count it.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.inner.clock.now().ns
    }

    /// Ticks of the accounting counter per microsecond, measured since the engine started.
    #[must_use]
    pub fn ticks_per_us(&self) -> f64 {
        self.inner.ticks_per_us()
    }

    /// Takes `CAP_NET_ADMIN` from the program or gives it back, to see what it may do without.
    pub fn set_cap_net_admin(&self, granted: bool) {
        self.inner.cap_net_admin.store(granted, Ordering::Relaxed);
    }

    /// `net.core.busy_poll`: default busy-poll time of event contexts, in us.
    pub fn set_sysctl_busy_poll(&self, usecs: u32) {
        self.inner.sysctl.busy_poll.store(usecs, Ordering::Relaxed);
    }

    /// `net.core.busy_read`: `SO_BUSY_POLL` of new sockets, in us.
    pub fn set_sysctl_busy_read(&self, usecs: u32) {
        self.inner.sysctl.busy_read.store(usecs, Ordering::Relaxed);
    }

    /// `net.core.qdisc_max_burst`: packets that may wait for a flusher, the first not counted; negative: no limit, 0: none
    /// but the first (default 1000).
    pub fn set_sysctl_qdisc_max_burst(&self, packets: i32) {
        self.inner.sysctl.qdisc_max_burst.store(packets, Ordering::Relaxed);
    }

    /// `net.core.netdev_budget`: packets per softirq run.
    pub fn set_sysctl_netdev_budget(&self, packets: i32) {
        self.inner.sysctl.set_netdev_budget(packets);
    }

    /// `net.core.netdev_budget_usecs`: time per softirq run.
    ///
    /// # Errors
    /// Below two ticks, as the kernel refuses it.
    pub fn set_sysctl_netdev_budget_usecs(&self, usecs: u64) -> Result<(), SysctlError> {
        self.inner.sysctl.set_netdev_budget_usecs(usecs)
    }
}

impl EngineInner {
    pub(crate) fn ticks_per_us(&self) -> f64 {
        let ns = self.clock.now().ns - self.started_ns;
        #[expect(clippy::cast_precision_loss, reason = "a ratio for reports")]
        let ratio = ticks().wrapping_sub(self.started_ticks) as f64 * 1000.0 / ns.max(1) as f64;
        ratio
    }

    /// Instance number `index`, which exists as long as the engine.
    #[inline]
    pub(crate) fn napi_at(&self, index: u32) -> &Arc<Napi> {
        self.napis[index as usize].get().expect("only numbers of added instances are handed around")
    }

    /// The enabled instance with this id.
    #[inline]
    pub(crate) fn napi_by_id(&self, id: u32) -> Option<&Arc<Napi>> {
        if id <= NR_CPUS {
            return None;
        }
        // Acquire: pairs with the Release of `publish_id`.
        let slot = self.by_id[id as usize % NAPI_MAX].load(Ordering::Acquire);
        let napi = self.napi_at(slot.checked_sub(1)?);
        (napi.id() == id).then_some(napi)
    }

    pub(crate) fn for_each_napi(&self, mut f: impl FnMut(&Arc<Napi>)) {
        for slot in &self.napis[..self.napi_count.load(Ordering::Acquire) as usize] {
            if let Some(napi) = slot.get() {
                f(napi);
            }
        }
    }

    pub(crate) fn next_napi_id(&self) -> u32 {
        let mut ids = self.ids.lock().expect("no panic while held");
        ids.allocate(|id| self.napi_by_id(id).is_some())
    }

    pub(crate) fn publish_id(&self, napi: &Napi) {
        self.by_id[napi.id() as usize % NAPI_MAX].store(napi.index + 1, Ordering::Release);
    }

    pub(crate) fn hide_id(&self, napi: &Napi) {
        self.by_id[napi.id() as usize % NAPI_MAX].store(0, Ordering::Release);
    }

    /// The smallest number that can be an id.
    pub(crate) fn first_napi_id(&self) -> u32 {
        NR_CPUS + 1
    }

    pub(crate) fn may_administer(&self) -> bool {
        self.cap_net_admin.load(Ordering::Relaxed)
    }

    pub(crate) fn this(&self) -> Weak<Self> {
        self.this.clone()
    }

    /// When the engine started.
    pub(crate) fn started(&self) -> Instant {
        Instant { ns: self.started_ns }
    }

    /// Whether the engine's devices are stopped for good, or are about to be.
    pub(crate) fn is_closing(&self) -> bool {
        // Acquire: pairs with the Release in `close_devices`.
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn softirq_index_of(&self, cpu: usize) -> Option<u32> {
        self.softirq_by_cpu.get(cpu).copied().filter(|index| *index != u32::MAX)
    }

    /// Puts the calling thread where workers of the pool may run.
    pub(crate) fn pin_worker(&self) {
        if let Some(cpus) = &self.worker_cpus {
            let _ = rustix::thread::sched_setaffinity(None, cpus);
        }
    }

    /// Puts the calling thread where threads of the engine run unless they are told otherwise.
    pub(crate) fn unpin_thread(&self) {
        if let Some(cpus) = &self.thread_cpus {
            // Refused where the set shrank meanwhile: the thread then runs where its parent may.
            let _ = rustix::thread::sched_setaffinity(None, cpus);
        }
    }

    /// The processors that this process may use but `cpu`, if there are others.
    pub(crate) fn cpus_without(&self, cpu: usize) -> Option<CpuSet> {
        self.thread_cpus.and_then(|all| softirq::without(&all, cpu))
    }
}

impl BusyPoller for EngineInner {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn sysctl_busy_poll(&self) -> u32 {
        self.sysctl.busy_poll.load(Ordering::Relaxed)
    }

    fn first_napi_id(&self) -> u32 {
        Self::first_napi_id(self)
    }

    fn net_admin(&self) -> bool {
        self.may_administer()
    }

    fn busy_loop(&self, napi_id: u32, params: BusyParams, ready: &mut dyn FnMut() -> bool) {
        Self::busy_loop(self, napi_id, params, ready);
    }

    fn oversee(&self) {
        Self::oversee(self, self.clock.now());
    }

    fn suspend_irqs(&self, napi_id: u32) {
        Self::suspend_irqs(self, napi_id);
    }

    fn resume_irqs(&self, napi_id: u32) {
        Self::resume_irqs(self, napi_id);
    }
}

impl EventContext {
    /// A context without members.
    #[must_use]
    pub fn new(engine: &Engine) -> Self {
        Self::with_members_max(engine, Self::MEMBERS_DEFAULT)
    }

    /// A context for at most `members_max` members instead of [`MEMBERS_DEFAULT`](Self::MEMBERS_DEFAULT).
    #[must_use]
    pub fn with_members_max(engine: &Engine, members_max: u32) -> Self {
        let context = Self::with_poller(engine.inner.clone(), members_max);
        engine.inner.dependants.add(context.dependant());
        context
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let inner = &self.inner;
        inner.close_devices();
        // Early: who waits is not kept waiting for what follows.
        inner.dependants.stop();
        inner.for_each_napi(|napi| napi.raw_parker.wake_all());
        inner.memif.stop();
        inner.stop_all_devices();
        inner.workqueue.stop();
        inner.stop.store(true, Ordering::Release);
        for cpu in &inner.softirq {
            cpu.kick();
        }
        let threads = std::mem::take(self.softirq_threads.get_mut().unwrap_or_else(PoisonError::into_inner));
        let threads = threads.into_iter().chain(self.watch.take().map(Watch::end));
        let panics: Vec<_> = threads.filter_map(|thread| thread.join().err()).collect();
        inner.host.end();
        for panic in panics {
            pass_on(panic);
        }
    }
}

/// Goes on with the panic of a thread that was joined, unless one is under way: the first is the one to see.
pub(crate) fn pass_on(panic: Box<dyn std::any::Any + Send>) {
    if !std::thread::panicking() {
        std::panic::resume_unwind(panic);
    }
}

/// Pins the calling thread to one processor; where that is refused it stays where it may run.
pub(crate) fn pin_current_thread(cpu: usize) {
    if cpu >= CpuSet::MAX_CPU {
        return;
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = rustix::thread::sched_setaffinity(None, &set);
}
