//! Mode names and what each one sets.
//!
//! Source of base, deferX, napibusy, fullbusy, suspend0 and suspendX: J. Damato, M. Karsten, "[PATCH net-next v6 0/7]
//! Suspend IRQs during application busy periods", section "Benchmark configs & descriptions". Of busy-read: the script
//! in the cover letter of "net: Add support to do threaded napi busy poll".

use std::fmt;

use napier_runtime::control::{NapiSet, ThreadedSetting};
use napier_runtime::device::DeviceHandle;
use napier_runtime::engine::Engine;
use serde::{Serialize, Serializer};

pub use napier_kv::serve::net::EventParams;

/// A named way of delivering packets; see [`Mode::parse`] for the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is documented by the parameters it stands for")]
pub enum Mode {
    Base,
    Defer { us: u32 },
    NapiBusy,
    FullBusy,
    Suspend0,
    Suspend { us: u32 },
    Threaded,
    Workqueue,
    ThreadedBusyPoll,
    BusyRead,
}

/// All knobs that a mode sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModeParams {
    /// napi-defer-hard-irqs: empty polls before the interrupt is unmasked again.
    pub defer_hard_irqs: u32,
    /// gro-flush-timeout, in ns.
    pub gro_flush_timeout_ns: u64,
    /// irq-suspend-timeout, in ns.
    pub irq_suspend_timeout_ns: u64,
    /// Who polls when an interrupt or a timer asks for it.
    #[serde(serialize_with = "who_polls")]
    pub threaded: ThreadedSetting,
    /// How the server receives.
    pub server: ServerStyle,
}

impl ModeParams {
    /// What the mode sets on the instance with this id.
    pub fn napi_set(&self, id: u32) -> NapiSet {
        NapiSet {
            id: Some(u64::from(id)),
            defer_hard_irqs: Some(u64::from(self.defer_hard_irqs)),
            gro_flush_timeout: Some(self.gro_flush_timeout_ns),
            irq_suspend_timeout: Some(self.irq_suspend_timeout_ns),
            threaded: self.threaded.number().map(u64::from),
            workqueue: self.threaded == ThreadedSetting::Workqueue,
        }
    }

    /// Sets the mode on every queue of a device that has a peer (a memif device has none before its peer is there), by the
    /// calls that a user would make. `poller` is the processor for the thread that polls the instance of a queue; none is
    /// pinned without one.
    pub(crate) fn configure(
        &self,
        engine: &Engine,
        device: &DeviceHandle,
        poller: impl Fn(usize) -> Option<usize>,
    ) -> anyhow::Result<()> {
        for queue in 0..device.queues() {
            let id = device.napi_id(queue);
            if id == 0 {
                continue;
            }
            if let Some(cpu) = poller(queue.into()) {
                engine.set_thread_affinity(id, cpu)?;
            }
            engine.napi_set(self.napi_set(id))?;
        }
        Ok(())
    }
}

fn who_polls<S: Serializer>(threaded: &ThreadedSetting, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match threaded {
        ThreadedSetting::Disabled => "softirq",
        ThreadedSetting::Enabled => "thread",
        ThreadedSetting::BusyPoll => "busy-poll-thread",
        ThreadedSetting::Workqueue => "workqueue",
    })
}

/// How the server receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerStyle {
    /// Each worker waits in an event context (epoll).
    EventContext {
        /// Busy-poll parameters of the context (EPIOCSPARAMS); `None` leaves them unset.
        params: Option<EventParams>,
        /// Longest wait, in ns; `None` waits until an event.
        wait_timeout_ns: Option<u64>,
    },
    /// Each worker blocks in a receive on its socket.
    BlockingReceive {
        /// SO_BUSY_POLL, in us.
        busy_poll_usecs: u32,
        /// SO_PREFER_BUSY_POLL.
        prefer_busy_poll: bool,
    },
}

/// A name that is no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// Not a name of a mode.
    #[error("`{name}` is no mode; give one of {ACCEPTED}")]
    Unknown {
        /// As given.
        name: String,
    },
    /// A deferral of 0 us.
    #[error("`defer0` defers nothing; give `base`, or deferX with X from 1 to {DEFER_US_MAX} us")]
    DeferZero,
    /// The number is too large.
    #[error("`{name}` is out of range; X is from 1 to {us_max} us{why}")]
    Range {
        /// As given.
        name: String,
        /// Largest X, in us.
        us_max: u32,
        /// Why, where it is not evident.
        why: &'static str,
    },
    /// An item of the list is empty, or all of it.
    #[error(
        "no mode given, or nothing between two commas; give a list such as `base,defer20,suspend20`, of {ACCEPTED}"
    )]
    Empty,
    /// The list names a mode twice.
    #[error("`{name}` is given twice; each mode is one row")]
    Twice {
        /// As given.
        name: String,
    },
}

/// All that [`Mode::parse`] accepts, for help and errors.
pub const ACCEPTED: &str = "base, deferX, napibusy, fullbusy, suspend0, suspendX (X in us, such as defer20), threaded, \
                            workqueue, threaded-busy-poll, busy-read";

/// What is compared if nothing else is asked for: the cover letter's modes, and those of the documents on threaded NAPI
/// and on busy polling.
pub const DEFAULT_MODES: &str = "base,defer20,defer200,napibusy,fullbusy,suspend0,suspend20,suspend200,threaded,workqueue,\
                                 threaded-busy-poll,busy-read";

/// What `--quick` compares: one of each kind.
pub const QUICK_MODES: &str = "base,defer20,fullbusy,suspend20";

const DEFER_US_MAX: u32 = 1_000_000;
/// Below irq-suspend-timeout: suspension is an alternation between a short timeout and a long one.
const SUSPEND_US_MAX: u32 = 19_999;
const DEFER_HARD_IRQS: u32 = 100;
const IRQ_SUSPEND_TIMEOUT_NS: u64 = 20_000_000;
const BUDGET: u16 = 64;

impl Mode {
    /// Reads a name: see [`ACCEPTED`].
    ///
    /// # Errors
    /// [`ModeError`] says what is accepted.
    pub fn parse(name: &str) -> Result<Self, ModeError> {
        Ok(match name {
            "base" => Self::Base,
            "napibusy" => Self::NapiBusy,
            "fullbusy" => Self::FullBusy,
            "suspend0" => Self::Suspend0,
            "threaded" => Self::Threaded,
            "workqueue" => Self::Workqueue,
            "threaded-busy-poll" => Self::ThreadedBusyPoll,
            "busy-read" => Self::BusyRead,
            "defer0" => return Err(ModeError::DeferZero),
            _ => {
                if let Some(us) = name.strip_prefix("defer") {
                    Self::Defer { us: timeout(name, us, DEFER_US_MAX, "")? }
                } else if let Some(us) = name.strip_prefix("suspend") {
                    let why = ", below the irq-suspend-timeout of 20 ms";
                    Self::Suspend { us: timeout(name, us, SUSPEND_US_MAX, why)? }
                } else {
                    return Err(ModeError::Unknown { name: name.to_owned() });
                }
            }
        })
    }

    /// Reads a list of names with commas between them; spaces around a name do not matter.
    ///
    /// # Errors
    /// [`ModeError`] for the first name that is wrong or given twice, or if there is none.
    pub fn parse_list(names: &str) -> Result<Vec<Self>, ModeError> {
        let mut modes = Vec::new();
        for name in names.split(',').map(str::trim) {
            if name.is_empty() {
                return Err(ModeError::Empty);
            }
            let mode = Self::parse(name)?;
            if modes.contains(&mode) {
                return Err(ModeError::Twice { name: name.to_owned() });
            }
            modes.push(mode);
        }
        Ok(modes)
    }

    /// What the mode sets.
    pub fn params(self) -> ModeParams {
        let event = |params, wait_timeout_ns| ServerStyle::EventContext { params, wait_timeout_ns };
        let prefer =
            |busy_poll_usecs| Some(EventParams { busy_poll_usecs, busy_poll_budget: BUDGET, prefer_busy_poll: true });
        let base = ModeParams {
            defer_hard_irqs: 0,
            gro_flush_timeout_ns: 0,
            irq_suspend_timeout_ns: 0,
            threaded: ThreadedSetting::Disabled,
            server: event(None, None),
        };
        let defer = |us: u32| ModeParams {
            defer_hard_irqs: DEFER_HARD_IRQS,
            gro_flush_timeout_ns: u64::from(us) * 1000,
            ..base.clone()
        };
        match self {
            Self::Base => base,
            Self::Defer { us } => defer(us),
            Self::NapiBusy => ModeParams { server: event(prefer(64), None), ..defer(200) },
            // A wait with a timeout of zero never busy polls (fs/eventpoll.c ep_poll), so the cover letter's
            // libevent patch, and this, give it 1 ms.
            Self::FullBusy => ModeParams { server: event(prefer(1000), Some(1_000_000)), ..defer(5000) },
            Self::Suspend0 => {
                ModeParams { irq_suspend_timeout_ns: IRQ_SUSPEND_TIMEOUT_NS, server: event(prefer(0), None), ..base }
            }
            Self::Suspend { us } => ModeParams {
                irq_suspend_timeout_ns: IRQ_SUSPEND_TIMEOUT_NS,
                server: event(prefer(0), None),
                ..defer(us)
            },
            Self::Threaded => ModeParams { threaded: ThreadedSetting::Enabled, ..base },
            Self::Workqueue => ModeParams { threaded: ThreadedSetting::Workqueue, ..base },
            Self::ThreadedBusyPoll => ModeParams { threaded: ThreadedSetting::BusyPoll, ..base },
            Self::BusyRead => ModeParams {
                server: ServerStyle::BlockingReceive { busy_poll_usecs: 400, prefer_busy_poll: true },
                ..defer(15)
            },
        }
    }

    /// CPUs the server needs with `queues` queues (and as many workers): one per queue, which softirq and worker
    /// share as on the cover letter's machine, and one more per queue for a thread that never sleeps.
    pub fn server_cpus(self, queues: usize) -> usize {
        match self.params().threaded {
            ThreadedSetting::BusyPoll => 2 * queues,
            ThreadedSetting::Disabled | ThreadedSetting::Enabled | ThreadedSetting::Workqueue => queues,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base => f.pad("base"),
            Self::Defer { us } => f.pad(&format!("defer{us}")),
            Self::NapiBusy => f.pad("napibusy"),
            Self::FullBusy => f.pad("fullbusy"),
            Self::Suspend0 => f.pad("suspend0"),
            Self::Suspend { us } => f.pad(&format!("suspend{us}")),
            Self::Threaded => f.pad("threaded"),
            Self::Workqueue => f.pad("workqueue"),
            Self::ThreadedBusyPoll => f.pad("threaded-busy-poll"),
            Self::BusyRead => f.pad("busy-read"),
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = ModeError;

    fn from_str(name: &str) -> Result<Self, ModeError> {
        Self::parse(name)
    }
}

/// The X of a name, 1 to `us_max`, written without sign or leading zero, so that each mode has one name.
fn timeout(name: &str, us: &str, us_max: u32, why: &'static str) -> Result<u32, ModeError> {
    let plain = us.bytes().all(|byte| byte.is_ascii_digit()) && !us.is_empty() && !us.starts_with('0');
    if !plain {
        return Err(ModeError::Unknown { name: name.to_owned() });
    }
    match us.parse() {
        Ok(us) if us <= us_max => Ok(us),
        _ => Err(ModeError::Range { name: name.to_owned(), us_max, why }),
    }
}

#[cfg(test)]
mod tests;
