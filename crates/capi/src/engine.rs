//! An engine as C holds it: with a name space of its own, and the mode that all of it has.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use napier_runtime::control::mode::Mode;
use napier_runtime::control::plan::Write;
use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::{Engine, SetModeError, StartError, WeakEngine};
use napier_runtime::event::{EpollParamsError, EventContext};
use napier_runtime::socket::{NetNs, SocketOption};

use crate::error::Failure;
use crate::memory::{self, Options};

/// How an engine is made. Zero is the default of each member but the first.
#[repr(C)]
#[derive(Copy, Clone)]
pub struct NapierEngineOptions {
    /// sizeof(struct napier_engine_options).
    pub size: usize,
    /// The processors that run softirqs, each by a thread that is pinned there; NULL: one thread for each that the process may use, not
    /// pinned.
    pub softirq_cpus: *const i32,
    /// How many these are.
    pub softirq_cpus_len: usize,
    /// Threads of the pool of the mode workqueue; 0: 2.
    pub workers: u32,
    /// Not 0: softirq threads do not ask for SCHED_FIFO.
    pub no_fifo: u32,
    /// net.core.busy_poll, in us.
    pub busy_poll_us: u32,
    /// net.core.busy_read, in us.
    pub busy_read_us: u32,
}

// SAFETY: numbers and a pointer, the size first.
unsafe impl Options for NapierEngineOptions {}

/// An engine, and what C has made in it.
pub(crate) struct EngineObject {
    pub(crate) engine: Engine,
    pub(crate) netns: NetNs,
    made: Arc<Mutex<Made>>,
}

#[derive(Default)]
struct Made {
    mode: Option<Mode>,
    devices: Vec<DeviceHandle>,
    contexts: Vec<Weak<EventContext>>,
}

/// A device, with its engine, which it does not keep running.
pub(crate) struct DeviceObject {
    pub(crate) handle: DeviceHandle,
    pub(crate) engine: WeakEngine,
    made: Arc<Mutex<Made>>,
}

/// Where sockets are: a name space, and its engine.
pub(crate) struct NetnsObject {
    pub(crate) netns: NetNs,
    made: Arc<Mutex<Made>>,
}

/// What goes with each new socket of an engine, as its mode says.
pub(crate) type SocketOptions = Vec<(SocketOption, i32)>;

impl EngineObject {
    /// # Safety
    /// The array of the options has as many elements as they say.
    pub(crate) unsafe fn start(options: &NapierEngineOptions) -> Result<Self, Failure> {
        // SAFETY: as the caller says.
        let cpus = unsafe { memory::array(options.softirq_cpus, options.softirq_cpus_len, "softirq_cpus") }?;
        let cpus = cpus.iter().map(|cpu| usize::try_from(*cpu));
        let cpus = cpus.collect::<Result<Vec<_>, _>>().map_err(|_| Failure::invalid("a CPU is negative"))?;
        let builder = Engine::builder().softirq_cpus(&cpus).fifo(options.no_fifo == 0);
        let builder = builder.sysctl_busy_poll(options.busy_poll_us).sysctl_busy_read(options.busy_read_us);
        let workers = usize::try_from(options.workers).ok().filter(|workers| *workers != 0).unwrap_or(2);
        let engine = builder.workers(workers).start().map_err(|error| match &error {
            StartError::System(source) => {
                Failure::new(source.raw_os_error().unwrap_or(libc::EAGAIN), error.to_string())
            }
            StartError::NoSoftirqCpu { .. } | StartError::CpuNotAllowed { .. } | StartError::CpuTwice { .. } => {
                Failure::invalid(error.to_string())
            }
        })?;
        Ok(Self { netns: engine.namespace(), engine, made: Arc::default() })
    }

    pub(crate) fn namespace(&self) -> NetnsObject {
        NetnsObject { netns: self.engine.namespace(), made: self.made.clone() }
    }

    /// A device that was added, in the mode of the engine. One that refuses the mode, for want of a thread for example, is removed again, of a link with its
    /// other end.
    pub(crate) fn keep(&self, handle: DeviceHandle) -> Result<DeviceObject, Failure> {
        let device = DeviceObject { handle, engine: self.engine.downgrade(), made: self.made.clone() };
        let mut made = lock(&self.made);
        let refusal = made.mode.and_then(|mode| self.engine.set_mode(&device.handle, mode).err());
        if let Some(refusal) = refusal {
            drop(made);
            device.remove()?;
            return Err(refused(&refusal));
        }
        made.devices.push(device.handle.clone());
        Ok(device)
    }

    /// A new context, in the mode of the engine.
    pub(crate) fn context(&self, members_max: u32) -> Result<Arc<EventContext>, Failure> {
        let context = Arc::new(EventContext::with_members_max(&self.engine, members_max));
        let mut made = lock(&self.made);
        if let Some(mode) = made.mode {
            context.set_mode(mode).map_err(|error| params(&error))?;
        }
        // Those that are gone are forgotten when as many have come since.
        if made.contexts.len() == made.contexts.capacity() {
            made.contexts.retain(|context| context.strong_count() > 0);
            let room = made.contexts.len().max(8);
            made.contexts.reserve(room);
        }
        made.contexts.push(Arc::downgrade(&context));
        Ok(context)
    }

    /// Sets the mode of all devices and contexts, and of those that are made later.
    pub(crate) fn set_mode(&self, mode: Mode) -> Result<(), Failure> {
        let mut made = lock(&self.made);
        for device in &made.devices {
            self.engine.set_mode(device, mode).map_err(|error| refused(&error))?;
        }
        for context in made.contexts.iter().filter_map(Weak::upgrade) {
            context.set_mode(mode).map_err(|error| params(&error))?;
        }
        made.mode = Some(mode);
        Ok(())
    }

    pub(crate) fn socket_options(&self) -> SocketOptions {
        of_mode(&self.made)
    }
}

impl NetnsObject {
    pub(crate) fn socket_options(&self) -> SocketOptions {
        of_mode(&self.made)
    }
}

impl DeviceObject {
    pub(crate) fn engine(&self) -> Result<Engine, Failure> {
        self.engine.upgrade().ok_or_else(|| Failure::new(libc::ESHUTDOWN, "the engine of the device has stopped"))
    }

    pub(crate) fn set_mode(&self, mode: Mode) -> Result<(), Failure> {
        self.engine()?.set_mode(&self.handle, mode).map_err(|error| refused(&error))
    }

    /// Removes the device from its engine, of a link both ends.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        let removed = self.engine()?.remove_device(&self.handle);
        removed.map_err(|error| Failure::new(libc::ENODEV, error.to_string()))?;
        // A mode is set for those that are there.
        lock(&self.made).devices.retain(|device| !device.link_state().gone);
        Ok(())
    }
}

/// Sets the context's half of a mode.
pub(crate) fn set_context_mode(context: &EventContext, mode: Mode) -> Result<(), Failure> {
    context.set_mode(mode).map_err(|error| params(&error))
}

fn of_mode(made: &Mutex<Made>) -> SocketOptions {
    let Some(mode) = lock(made).mode else { return Vec::new() };
    let option = |write: &Write| match *write {
        Write::Socket(option, value) => Some((option.into(), value)),
        Write::Instance(_) | Write::Device(_) | Write::Context(_) | Write::Wait(_) => None,
    };
    mode.plan().writes().filter_map(option).collect()
}

fn refused(error: &SetModeError) -> Failure {
    Failure::invalid(error.to_string())
}

fn params(error: &EpollParamsError) -> Failure {
    Failure::invalid(error.to_string())
}

fn lock(made: &Mutex<Made>) -> MutexGuard<'_, Made> {
    made.lock().unwrap_or_else(PoisonError::into_inner)
}
