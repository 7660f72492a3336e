//! Control in process, in the kernel's vocabulary: napi-get, napi-set, queue-get, device settings,
//! interrupt coalescing and receive-side scaling.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use napier_core::control::mode::Mode;
use napier_core::control::plan::{self, NotApplied, Place};
use napier_core::control::{
    CheckedQueueGet, DevSet, DevSetError, DevSetting, DeviceQueues, Errno, NapiChange, NapiGet, NapiInfo, NapiSet,
    NapiSetError, QueryError, QueueGet, QueueInfo, ThreadedSetting, check_dump_filter, device_threaded_in_force,
    sort_dump,
};
use napier_core::moderation::Coalesce;
use napier_core::rss::{INDIRECTION_ENTRIES, IndirectionTable};
use rustix::thread::{CpuSet, Pid};

use super::table::DeviceEntry;
use super::{DeviceHandle, Engine, EngineSink, EngineWriteError};
use crate::deliver::Deliver;
use crate::napi::Napi;

/// A table that does not fit the device.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an indirection table entry names a queue that is not there (EINVAL): {device} has queues 0..{queues}")]
pub struct RssError {
    device: String,
    queues: u16,
}

/// A processor that runs no softirqs, or a thread that is not there.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AffinityError {
    /// No enabled instance has this id.
    #[error("no enabled NAPI instance has id {id} (ENOENT): napi-get shows them")]
    NoSuchNapi {
        /// The id.
        id: u32,
    },
    /// The engine has no softirq CPU there.
    #[error("CPU {cpu} runs no softirqs in this engine (EINVAL): name one of its softirq CPUs")]
    NoSuchSoftirqCpu {
        /// The processor.
        cpu: usize,
    },
    /// The system refused.
    #[error("the system refused CPU {cpu}: {errno}")]
    Refused {
        /// The processor.
        cpu: usize,
        /// What it said.
        errno: rustix::io::Errno,
    },
}

/// Why a mode was not set.
#[derive(Debug, thiserror::Error)]
pub enum SetModeError {
    /// A group of CPUs is no setting of a device.
    #[error(
        "`group` is no setting of a device: make a group with Engine::group_new, and give it the device's instances with Engine::group_attach"
    )]
    Group,
    /// A setting was refused; those before it are as they were.
    #[error(transparent)]
    Refused(#[from] NotApplied<Place, EngineWriteError>),
}

impl Engine {
    /// Sets what a mode says of a device's instances: deferral, suspension, and who polls (what `napier run --mode` sets of an interface of
    /// the kernel). They keep it while they are disabled: a memif device has it when its peer comes. The other half is the event context's ([`EventContext::set_mode`](crate::event::EventContext::set_mode)) or, in
    /// `busy-read`, the socket's.
    ///
    /// ```
    /// use napier_runtime::event::EventContext;
    /// # use napier_runtime::doc_link;
    ///
    /// let (engine, device, _) = doc_link()?;
    /// let context = EventContext::new(&engine);
    /// engine.set_mode(&device, "suspend20".parse()?)?;
    /// context.set_mode("suspend20".parse()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SetModeError`]; nothing is changed then.
    pub fn set_mode(&self, device: &DeviceHandle, mode: Mode) -> Result<(), SetModeError> {
        if mode == Mode::Group {
            return Err(SetModeError::Group);
        }
        plan::apply(&mut EngineSink::Device(self, device), &mode.plan())?;
        Ok(())
    }

    /// napi-get without an id: all enabled instances, of one device if `ifindex` is given, in the
    /// kernel's order.
    ///
    /// # Errors
    /// ERANGE for index 0, ENODEV for an unknown one.
    pub fn napi_dump(&self, ifindex: Option<u64>) -> Result<Vec<NapiInfo>, QueryError> {
        let filter = check_dump_filter(ifindex)?;
        let devices = self.inner.devices.lock();
        if let Some(wanted) = filter
            && devices.of_ifindex(wanted).is_none()
        {
            return Err(QueryError::NoSuchDevice { ifindex: u64::from(wanted) });
        }
        let mut infos: Vec<NapiInfo> = devices
            .entries
            .iter()
            .filter(|entry| filter.is_none_or(|wanted| entry.device.ifindex == wanted))
            .flat_map(|entry| &entry.napis)
            .filter(|napi| !napi.state().is_disabled())
            .map(|napi| self.info_of(napi))
            .collect();
        sort_dump(&mut infos);
        Ok(infos)
    }

    /// napi-get of one instance.
    ///
    /// # Errors
    /// EINVAL without an id, ENOENT if no enabled instance has it.
    pub fn napi_get(&self, request: NapiGet) -> Result<NapiInfo, QueryError> {
        let id = request.check()?;
        let napi = self.inner.deliver.napi_by_id(id).ok_or(QueryError::NoSuchNapi { id: u64::from(id) })?;
        Ok(self.info_of(napi))
    }

    /// Its settings, and the thread that polls it: its own, or that of its group.
    fn info_of(&self, napi: &Napi) -> NapiInfo {
        let info = napi.info();
        let pid = self.inner.deliver.groups.of(napi).map(|group| group.pid);
        NapiInfo { pid: pid.or(info.pid), ..info }
    }

    /// napi-set: checks the whole request, then applies it in the kernel's order.
    ///
    /// # Errors
    /// See [`NapiSetError`]; a refused request changes nothing.
    pub fn napi_set(&self, request: NapiSet) -> Result<(), NapiSetError> {
        let checked = request.check(self.inner.cap_net_admin())?;
        let napi = self.inner.deliver.napi_by_id(checked.id()).ok_or_else(|| checked.no_such_napi())?;
        // Not the control lock: a change of threads may wait, and what else is set is only stored.
        let _one_at_a_time = napi.device.threaded_changes.lock().expect("no panic while held");
        if napi.device.is_removed() {
            return Err(checked.no_such_napi());
        }
        for change in checked.changes() {
            apply(&self.inner.deliver, napi, change).map_err(NapiSetError::ThreadNotCreated)?;
        }
        Ok(())
    }

    /// queue-get of one queue.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn queue_get(&self, request: QueueGet) -> Result<QueueInfo, QueryError> {
        let checked: CheckedQueueGet = request.check()?;
        let devices = self.inner.devices.lock();
        let entry = devices.of_ifindex(checked.ifindex);
        let id = checked.queue(entry.map(DeviceEntry::queues))?;
        // The instance of a queue serves both directions, so both show it.
        let napi_id = entry.and_then(|entry| entry.napis.get(id as usize)).map(|napi| napi.id());
        Ok(QueueInfo { id, ifindex: checked.ifindex, kind: checked.kind, napi_id })
    }

    /// Moves the interrupts of an instance to a softirq CPU (`/proc/irq/N/smp_affinity_list`).
    ///
    /// # Errors
    /// See [`AffinityError`].
    pub fn set_irq_affinity(&self, napi_id: u32, cpu: usize) -> Result<(), AffinityError> {
        let index = self.inner.deliver.softirq.index_of(cpu).ok_or(AffinityError::NoSuchSoftirqCpu { cpu })?;
        let napi = self.inner.deliver.napi_by_id(napi_id).ok_or(AffinityError::NoSuchNapi { id: napi_id })?;
        self.inner.deliver.set_irq_cpu(napi, index).map_err(|errno| AffinityError::Refused { cpu, errno })
    }

    /// Pins the thread of an instance (`taskset -pc CPU PID`), now and when it is started later.
    ///
    /// # Errors
    /// See [`AffinityError`].
    pub fn set_thread_affinity(&self, napi_id: u32, cpu: usize) -> Result<(), AffinityError> {
        let refused = |errno| AffinityError::Refused { cpu, errno };
        if cpu >= CpuSet::MAX_CPU {
            return Err(refused(rustix::io::Errno::INVAL));
        }
        let napi = self.inner.deliver.napi_by_id(napi_id).ok_or(AffinityError::NoSuchNapi { id: napi_id })?;
        // A thread that is being started takes the processor either from what is stored or from here.
        let _one_at_a_time = napi.device.threaded_changes.lock().expect("no panic while held");
        let pid = napi.kthread.lock().expect("no panic while held").as_ref().map(|kthread| kthread.pid);
        if let Some(pid) = pid {
            let mut set = CpuSet::new();
            set.set(cpu);
            rustix::thread::sched_setaffinity(Pid::from_raw(pid.cast_signed()), &set).map_err(refused)?;
        }
        // Last, so that a refused request leaves nothing for threads to come.
        *napi.thread_cpu.lock().expect("only copied") = Some(cpu);
        Ok(())
    }
}

fn apply(deliver: &Arc<Deliver>, napi: &Arc<Napi>, change: NapiChange) -> Result<(), Errno> {
    match change {
        NapiChange::Threaded(setting) => {
            return deliver.napi_set_threaded(napi, setting).map_err(|error| errno_of(&error));
        }
        NapiChange::DeferHardIrqs(count) => napi.set_defer_hard_irqs(count),
        NapiChange::IrqSuspendTimeout(span) => napi.set_irq_suspend_timeout_ns(span.ns),
        NapiChange::GroFlushTimeout(span) => napi.set_gro_flush_timeout_ns(span.ns),
    }
    Ok(())
}

/// Why a thread was not started, as the kernel numbers it.
fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().and_then(Errno::from_number).unwrap_or(Errno::EAGAIN)
}

impl DeviceEntry {
    fn queues(&self) -> DeviceQueues {
        let queues = u32::try_from(self.napis.len()).expect("a link has at most 64 queues");
        DeviceQueues { up: self.device.up.load(Ordering::Relaxed), rx: queues, tx: queues }
    }
}

impl DeviceHandle {
    /// Writes a device setting: the device's value and that of every instance, as sysfs does.
    ///
    /// # Errors
    /// See [`DevSetError`]. If a thread could not be started, no instance is threaded afterwards.
    pub fn set(&self, request: DevSet) -> Result<(), DevSetError> {
        let setting = request.check(self.engine.cap_net_admin(), self.device.tx.len())?;
        let _one_at_a_time = self.device.threaded_changes.lock().expect("no panic while held");
        let napis = self.engine.devices.lock().find_mut(&self.device).map(|entry| entry.napis.clone());
        let napis = napis.ok_or(DevSetError::NoNapi)?;
        let (in_force, error) = match setting {
            DevSetting::Threaded(wanted) => {
                let (in_force, error) = self.write_threaded(&napis, wanted);
                (DevSetting::Threaded(in_force), error)
            }
            DevSetting::GroFlushTimeout(_) | DevSetting::NapiDeferHardIrqs(_) => {
                for napi in &napis {
                    // Only stored, so it cannot fail.
                    let _ = apply(&self.engine.deliver, napi, setting.as_napi_change());
                }
                (setting, None)
            }
        };
        if let Some(entry) = self.engine.devices.lock().find_mut(&self.device) {
            entry.settings.apply(in_force);
        }
        error.map_or(Ok(()), |errno| Err(DevSetError::ThreadNotCreated(errno)))
    }

    /// Where an instance is found: by its id, or by its queue while it is disabled.
    pub(super) fn instance(&self, queue: u16) -> Place {
        let enabled = self.napi(queue).filter(|napi| !napi.state().is_disabled());
        enabled.map_or(Place::Queue(queue), |napi| Place::Instance(napi.id()))
    }

    /// What a change would replace of an instance, whether it is enabled or not.
    pub(super) fn kept(&self, queue: u16, change: NapiChange) -> Option<NapiChange> {
        self.napi(queue)?.info().in_place_of(change)
    }

    /// Changes an instance, whether it is enabled or not; it keeps that.
    pub(super) fn keep(&self, queue: u16, change: NapiChange) -> Result<(), NapiSetError> {
        let Some(napi) = self.napi(queue) else { return Ok(()) };
        let _one_at_a_time = self.device.threaded_changes.lock().expect("no panic while held");
        if self.device.is_removed() {
            return Err(NapiSetError::NoSuchNapi { id: napi.id().into() });
        }
        apply(&self.engine.deliver, &napi, change).map_err(NapiSetError::ThreadNotCreated)
    }

    /// `netif_set_threaded`: the threads of all instances first, then the mode of each; if one thread could not be started
    /// none is threaded. What is in force then, and why.
    fn write_threaded(&self, napis: &[Arc<Napi>], wanted: ThreadedSetting) -> (ThreadedSetting, Option<Errno>) {
        let deliver = &self.engine.deliver;
        let mut started = Vec::with_capacity(napis.len());
        let mut error = None;
        for napi in napis {
            match deliver.start_runner(napi, wanted) {
                Ok(kthread) => started.push(kthread),
                Err(why) => {
                    error = Some(errno_of(&why));
                    break;
                }
            }
        }
        let in_force = device_threaded_in_force(wanted, error.is_none());
        started.resize_with(napis.len(), || None);
        for (napi, kthread) in napis.iter().zip(started) {
            if in_force == wanted {
                deliver.switch_runner(napi, wanted, kthread);
            } else {
                kthread.into_iter().for_each(|kthread| kthread.stop(napi));
                deliver.switch_runner(napi, in_force, None);
            }
        }
        (in_force, error)
    }

    /// The device's own settings; those of an instance may differ.
    #[must_use]
    pub fn settings(&self) -> napier_core::control::DevSettings {
        self.engine.devices.lock().entry(&self.device).settings
    }

    /// Interrupt coalescing of a queue (`ethtool -C`); false if there is no such queue, or if frames are to be counted
    /// (`rx-frames` above 1) and the peer is another process or the kernel, which tells of none.
    ///
    /// On a link `rx-usecs` count from the first frame that waits; elsewhere, and where the line is adaptive, from the
    /// interrupt before.
    pub fn set_coalesce(&self, queue: u16, coalesce: Coalesce) -> bool {
        self.napi(queue).is_some_and(|napi| self.engine.deliver.set_coalesce(&napi, coalesce))
    }

    /// The coalescing in force; `None` if there is no such queue.
    #[must_use]
    pub fn coalesce(&self, queue: u16) -> Option<Coalesce> {
        self.napi(queue).map(|napi| napi.moderation.coalesce())
    }

    /// The receive-side-scaling table (`ethtool -x`).
    #[must_use]
    pub fn indirection(&self) -> [u16; INDIRECTION_ENTRIES] {
        *self.device.rss.indirection.load().entries()
    }

    /// Replaces the table (`ethtool -X weight`).
    ///
    /// # Errors
    /// An entry names a queue that is not there; nothing is changed.
    pub fn set_indirection(&self, entries: [u16; INDIRECTION_ENTRIES]) -> Result<(), RssError> {
        let queues = self.queues();
        let table = IndirectionTable::from_entries(entries, queues)
            .ok_or_else(|| RssError { device: self.name().to_owned(), queues })?;
        self.device.rss.indirection.store(Arc::new(table));
        Ok(())
    }
}

impl Napi {
    pub(crate) fn info(&self) -> NapiInfo {
        let tunables = self.tunables();
        NapiInfo {
            ifindex: self.device.ifindex,
            id: self.id(),
            irq: Some(self.index),
            pid: self.kthread.lock().expect("no panic while held").as_ref().map(|kthread| kthread.pid),
            defer_hard_irqs: Some(tunables.defer_hard_irqs),
            gro_flush_timeout: Some(tunables.gro_flush_timeout),
            irq_suspend_timeout: Some(tunables.irq_suspend_timeout),
            threaded: Some(self.threaded_setting()),
        }
    }
}
