//! What polls an instance, and when: its owners, and what they share.
//!
//! The context that set `SCHED` owns an instance until it releases it or hands it on. How one gets an owner is in `schedule`, what an
//! owner does in `complete`, and `owner` is the interface between the two; the owners are
//!
//! | file | owner |
//! |---|---|
//! | `softirq` | a CPU, after an interrupt, a timer or a resume |
//! | `kthread` | the instance's thread |
//! | `workqueue` | a worker of the pool |
//! | `busy` | a program's thread that busy polls |
//! | `group` | the threads of a group of CPUs |
//! | `lifecycle` | the control path, while it disables and enables |
//!
//! The control lock of the instances is [`Deliver::control`]; it comes after the lock of the engine's devices and after
//! `Device::threaded_changes`. Its holder may wait for an owner; no owner takes it.

mod busy;
mod complete;
pub(crate) mod group;
mod kthread;
mod lifecycle;
mod owner;
mod schedule;
pub(crate) mod softirq;
mod sysctl;
mod threaded;
mod workqueue;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use napier_core::ids::IdAllocator;
use napier_core::time::Instant;
use napier_ring::Links;
use rustix::thread::CpuSet;

use crate::bounds::{NAPI_MAX, NR_CPUS};
use crate::journal::Recorder;
use crate::napi::Napi;
use crate::threads::Threads;
use group::GroupTable;
#[cfg(test)]
pub(crate) use kthread::fail as kthread_fail;
use napier_sys::clock::Clock;
use softirq::{SoftirqCpus, Watchdog};
pub use sysctl::SysctlError;
pub(crate) use sysctl::Sysctls;
use workqueue::Workqueue;

/// The instances of an engine and what polls them.
pub(crate) struct Deliver {
    pub(crate) clock: Clock,
    pub(crate) sysctl: Sysctls,
    pub(crate) softirq: SoftirqCpus,
    /// Links of poll lists: an instance is on one list at a time.
    napi_links: Links,
    /// Links of output queues: a transmit queue, under the number of its instance, is on one at a time.
    tx_links: Links,
    napis: Box<[OnceLock<Arc<Napi>>]>,
    napi_count: AtomicU32,
    /// Instance number + 1 by id modulo [`NAPI_MAX`]; 0 = no enabled instance.
    by_id: Box<[AtomicU32]>,
    ids: Mutex<IdAllocator>,
    control: Mutex<()>,
    pub(crate) workqueue: Workqueue,
    pub(crate) groups: GroupTable,
    pub(crate) journal: Option<Arc<Recorder>>,
    pub(crate) threads: Threads,
    pub(crate) watchdog: Watchdog,
    thread_cpus: Option<CpuSet>,
    worker_cpus: Option<CpuSet>,
    stop: AtomicBool,
    /// No device comes up and no thread is started any more; written under the control lock.
    closing: AtomicBool,
    this: Weak<Self>,
    started: Instant,
}

/// What the owners of an engine's instances are made of.
pub(crate) struct Setup<'a> {
    pub(crate) cpus: &'a [usize],
    /// Softirq threads stay on their processors.
    pub(crate) pinned: bool,
    pub(crate) sysctl: Sysctls,
    pub(crate) workers: usize,
    /// Members of groups have dry runs.
    pub(crate) dry_runs: bool,
    pub(crate) worker_cpus: Option<CpuSet>,
    pub(crate) thread_cpus: Option<CpuSet>,
    /// Records of the journal, at most; none if there is none.
    pub(crate) records_max: Option<usize>,
}

impl Deliver {
    /// No instance yet, and no thread: those of the softirq CPUs come with [`softirq::start`].
    ///
    /// # Errors
    /// A softirq CPU gets no descriptors.
    pub(crate) fn new(setup: Setup<'_>) -> rustix::io::Result<Arc<Self>> {
        let Setup { cpus, pinned, sysctl, workers, dry_runs, worker_cpus, thread_cpus, records_max } = setup;
        let softirq = SoftirqCpus::new(cpus, pinned)?;
        let clock = Clock;
        Ok(Arc::new_cyclic(|this| Self {
            clock,
            sysctl,
            softirq,
            napi_links: Links::new(u32::try_from(NAPI_MAX).expect("a small constant")),
            tx_links: Links::new(u32::try_from(NAPI_MAX).expect("a small constant")),
            napis: (0..NAPI_MAX).map(|_| OnceLock::new()).collect(),
            napi_count: AtomicU32::new(0),
            by_id: (0..NAPI_MAX).map(|_| AtomicU32::new(0)).collect(),
            ids: Mutex::new(IdAllocator::new(NR_CPUS)),
            control: Mutex::new(()),
            workqueue: Workqueue::new(workers),
            groups: GroupTable::new(dry_runs),
            journal: records_max.map(|max| Arc::new(Recorder::new(clock, cpus, max))),
            threads: Threads::default(),
            watchdog: Watchdog::new(cpus.len()),
            thread_cpus,
            worker_cpus,
            stop: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            this: this.clone(),
            started: clock.now(),
        }))
    }

    /// The control lock: its holder enables and disables instances and changes what polls them.
    fn control(&self) -> MutexGuard<'_, ()> {
        // Destructors take it as well, which must not panic over the panic of another thread.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Instances that can still be added.
    pub(crate) fn napi_room(&self) -> usize {
        NAPI_MAX - self.napi_count.load(Ordering::Relaxed) as usize
    }

    /// Adds an instance; called under the devices' lock only.
    pub(crate) fn add_napi(&self, make: impl FnOnce(u32) -> Napi) -> Arc<Napi> {
        let index = self.napi_count.load(Ordering::Relaxed);
        let napi = Arc::new(make(index));
        let slot = &self.napis[index as usize];
        assert!(slot.set(napi.clone()).is_ok(), "instance numbers are used once");
        // Release: pairs with the Acquire of `for_each_napi`.
        self.napi_count.store(index + 1, Ordering::Release);
        napi
    }

    fn next_napi_id(&self) -> u32 {
        let mut ids = self.ids.lock().expect("no panic while held");
        ids.allocate(|id| self.napi_by_id(id).is_some())
    }

    fn publish_id(&self, napi: &Napi) {
        self.by_id[napi.id() as usize % NAPI_MAX].store(napi.index + 1, Ordering::Release);
    }

    fn hide_id(&self, napi: &Napi) {
        self.by_id[napi.id() as usize % NAPI_MAX].store(0, Ordering::Release);
    }

    pub(crate) fn this(&self) -> Weak<Self> {
        self.this.clone()
    }

    /// When the engine started.
    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    /// From here on no instance comes up and no thread is started; the engine is going away.
    pub(crate) fn close(&self) {
        let _control = self.control();
        // Release: pairs with the Acquire in `is_closing`.
        self.closing.store(true, Ordering::Release);
    }

    /// Whether the engine's devices are stopped for good, or are about to be.
    pub(crate) fn is_closing(&self) -> bool {
        // Acquire: pairs with the Release in `close`.
        self.closing.load(Ordering::Acquire)
    }

    /// Ends the workers; the threads of the softirq CPUs are to end.
    pub(crate) fn stop(&self) {
        self.workqueue.stop();
        self.groups.end();
        self.stop.store(true, Ordering::Release);
        self.softirq.iter().for_each(|cpu| {
            cpu.kick();
            cpu.placement().unpin();
        });
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Puts the calling thread where workers of the pool may run.
    fn pin_worker(&self) {
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
    fn cpus_without(&self, cpu: usize) -> Option<CpuSet> {
        self.thread_cpus.and_then(|all| softirq::without(&all, cpu))
    }
}
