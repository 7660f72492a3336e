//! napi-set: request, checks, changes.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;

use super::{DEFER_HARD_IRQS_MAX, Errno};
use crate::completion::Tunables;
use crate::state::Threaded;
use crate::time::Span;

/// What can be asked for as `threaded`: the kernel's three values, and one that only the engine knows.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default, Hash)]
pub enum ThreadedSetting {
    /// 0, `disabled`: softirq.
    #[default]
    Disabled,
    /// 1, `enabled`: a thread of its own.
    Enabled,
    /// 2, `busy-poll`: a thread of its own that polls for ever.
    BusyPoll,
    /// `workqueue`, an extension of the engine: polled by a pool of workers instead of a thread of its own. The kernel
    /// has no such value, so it has no number; on the state word it is [`Threaded::Enabled`], the pool taking the
    /// thread's place as owner under `SCHED_THREADED`.
    Workqueue,
}

impl ThreadedSetting {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Disabled, Self::Enabled, Self::BusyPoll, Self::Workqueue];

    /// The mode on the state word.
    #[inline]
    #[must_use]
    pub const fn threaded(self) -> Threaded {
        match self {
            Self::Disabled => Threaded::Disabled,
            Self::Enabled | Self::Workqueue => Threaded::Enabled,
            Self::BusyPoll => Threaded::BusyPoll,
        }
    }

    /// The kernel's number; `None` for the extension.
    #[must_use]
    pub const fn number(self) -> Option<u32> {
        match self {
            Self::Disabled => Some(0),
            Self::Enabled => Some(1),
            Self::BusyPoll => Some(2),
            Self::Workqueue => None,
        }
    }

    /// The setting with a number of the kernel's.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Disabled),
            1 => Some(Self::Enabled),
            2 => Some(Self::BusyPoll),
            _ => None,
        }
    }

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
            Self::BusyPoll => "busy-poll",
            Self::Workqueue => "workqueue",
        }
    }

    /// The setting with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|setting| setting.name() == name)
    }
}

impl From<Threaded> for ThreadedSetting {
    fn from(threaded: Threaded) -> Self {
        match threaded {
            Threaded::Disabled => Self::Disabled,
            Threaded::Enabled => Self::Enabled,
            Threaded::BusyPoll => Self::BusyPoll,
        }
    }
}

impl fmt::Display for ThreadedSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A napi-set request as a user gave it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct NapiSet {
    /// `id`; required.
    pub id: Option<u64>,
    /// `defer-hard-irqs`, 0..=2147483647.
    pub defer_hard_irqs: Option<u64>,
    /// `gro-flush-timeout`, in ns; any.
    pub gro_flush_timeout: Option<u64>,
    /// `irq-suspend-timeout`, in ns; any.
    pub irq_suspend_timeout: Option<u64>,
    /// `threaded`, 0..=2.
    pub threaded: Option<u64>,
    /// The engine's extension: `threaded` is to be [`ThreadedSetting::Workqueue`].
    pub workqueue: bool,
}

/// Why a napi-set was refused. Unless it is [`NapiSetError::ThreadNotCreated`], nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NapiSetError {
    /// EPERM: it needs CAP_NET_ADMIN.
    NotPermitted,
    /// EINVAL: the request names no instance.
    MissingId,
    /// EINVAL: the attribute is unknown, or cannot be set.
    NotAccepted {
        /// The name as given.
        attribute: String,
    },
    /// EINVAL: a number of `threaded` and the extension were both given.
    ThreadedTwice,
    /// ERANGE: the value is out of range.
    OutOfRange {
        /// The attribute.
        attribute: &'static str,
        /// Its largest value.
        max: u64,
    },
    /// ENOENT: no enabled instance has this id.
    NoSuchNapi {
        /// The id.
        id: u64,
    },
    /// The thread could not be created; `threaded` comes first, so that nothing was applied.
    ThreadNotCreated(Errno),
}

impl NapiSetError {
    /// The kernel's error number for it.
    #[must_use]
    pub const fn errno(&self) -> Errno {
        match self {
            Self::NotPermitted => Errno::EPERM,
            Self::MissingId | Self::NotAccepted { .. } | Self::ThreadedTwice => Errno::EINVAL,
            Self::OutOfRange { .. } => Errno::ERANGE,
            Self::NoSuchNapi { .. } => Errno::ENOENT,
            Self::ThreadNotCreated(errno) => *errno,
        }
    }
}

impl fmt::Display for NapiSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.errno())?;
        match self {
            Self::NotPermitted => f.write_str("napi-set needs CAP_NET_ADMIN"),
            Self::MissingId => f.write_str("attribute id is missing: give the id that napi-get shows"),
            Self::NotAccepted { attribute } => write!(
                f,
                "napi-set does not accept {attribute}: it takes id, defer-hard-irqs, gro-flush-timeout, \
                 irq-suspend-timeout and threaded"
            ),
            Self::ThreadedTwice => f.write_str("threaded is given twice: give a number or workqueue, not both"),
            Self::OutOfRange { attribute, max } => write!(f, "{attribute} must be 0..={max}"),
            Self::NoSuchNapi { id } => {
                write!(f, "no enabled NAPI instance has id {id}: napi-get shows them, and the device must be up")
            }
            Self::ThreadNotCreated(_) => f.write_str("the NAPI thread could not be created; nothing was changed"),
        }
    }
}

impl core::error::Error for NapiSetError {}

/// A napi-set that was checked.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct CheckedNapiSet {
    id: u32,
    threaded: Option<ThreadedSetting>,
    defer_hard_irqs: Option<u32>,
    irq_suspend_timeout: Option<Span>,
    gro_flush_timeout: Option<Span>,
}

/// One change to an instance.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum NapiChange {
    /// `threaded`.
    Threaded(ThreadedSetting),
    /// `defer-hard-irqs`.
    DeferHardIrqs(u32),
    /// `irq-suspend-timeout`.
    IrqSuspendTimeout(Span),
    /// `gro-flush-timeout`.
    GroFlushTimeout(Span),
}

impl fmt::Display for NapiChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threaded(setting) => write!(f, "threaded {setting}"),
            Self::DeferHardIrqs(count) => write!(f, "defer-hard-irqs {count}"),
            Self::IrqSuspendTimeout(span) => write!(f, "irq-suspend-timeout {} ns", span.ns),
            Self::GroFlushTimeout(span) => write!(f, "gro-flush-timeout {} ns", span.ns),
        }
    }
}

impl NapiChange {
    /// The napi-set that asks for this change alone.
    #[must_use]
    pub fn request(self, id: u32) -> NapiSet {
        let mut request = NapiSet { id: Some(u64::from(id)), ..NapiSet::default() };
        match self {
            Self::Threaded(setting) => {
                request.threaded = setting.number().map(u64::from);
                request.workqueue = setting == ThreadedSetting::Workqueue;
            }
            Self::DeferHardIrqs(count) => request.defer_hard_irqs = Some(u64::from(count)),
            Self::IrqSuspendTimeout(span) => request.irq_suspend_timeout = Some(span.ns),
            Self::GroFlushTimeout(span) => request.gro_flush_timeout = Some(span.ns),
        }
        request
    }

    /// Applies a change of a tunable; false (and nothing done) for `threaded`, which is the executor's.
    pub const fn apply(self, tunables: &mut Tunables) -> bool {
        match self {
            Self::Threaded(_) => return false,
            Self::DeferHardIrqs(count) => tunables.defer_hard_irqs = count,
            Self::IrqSuspendTimeout(span) => tunables.irq_suspend_timeout = span,
            Self::GroFlushTimeout(span) => tunables.gro_flush_timeout = span,
        }
        true
    }
}

impl NapiSet {
    /// Adds an attribute by the kernel's name.
    ///
    /// # Errors
    /// [`NapiSetError::NotAccepted`] for a name that napi-set does not take.
    pub fn attribute(&mut self, name: &str, value: u64) -> Result<(), NapiSetError> {
        let place = match name {
            "id" => &mut self.id,
            "defer-hard-irqs" => &mut self.defer_hard_irqs,
            "gro-flush-timeout" => &mut self.gro_flush_timeout,
            "irq-suspend-timeout" => &mut self.irq_suspend_timeout,
            "threaded" => &mut self.threaded,
            _ => {
                return Err(NapiSetError::NotAccepted { attribute: name.to_owned() });
            }
        };
        *place = Some(value);
        Ok(())
    }

    /// Checks the whole request, in the kernel's order: capability, ranges, presence of the id. Whether the id exists
    /// is asked after this. Source: `net/core/netdev-genl-gen.c`, `net/core/netdev-genl.c netdev_nl_napi_set_doit`.
    ///
    /// # Errors
    /// See [`NapiSetError`].
    pub fn check(self, cap_net_admin: bool) -> Result<CheckedNapiSet, NapiSetError> {
        if !cap_net_admin {
            return Err(NapiSetError::NotPermitted);
        }
        let defer_hard_irqs = match self.defer_hard_irqs {
            None => None,
            Some(count) => match u32::try_from(count) {
                Ok(count) if count <= DEFER_HARD_IRQS_MAX => Some(count),
                _ => return Err(out_of_range("defer-hard-irqs", DEFER_HARD_IRQS_MAX)),
            },
        };
        let threaded = match (self.threaded, self.workqueue) {
            (None, false) => None,
            (None, true) => Some(ThreadedSetting::Workqueue),
            (Some(number), false) => {
                Some(ThreadedSetting::from_number(number).ok_or_else(|| out_of_range("threaded", 2))?)
            }
            (Some(_), true) => return Err(NapiSetError::ThreadedTwice),
        };
        let id = self.id.ok_or(NapiSetError::MissingId)?;
        // The kernel's attribute has 32 bits; a larger number cannot be the id of anything.
        let id = u32::try_from(id).map_err(|_| NapiSetError::NoSuchNapi { id })?;
        Ok(CheckedNapiSet {
            id,
            threaded,
            defer_hard_irqs,
            irq_suspend_timeout: self.irq_suspend_timeout.map(Span::from_ns),
            gro_flush_timeout: self.gro_flush_timeout.map(Span::from_ns),
        })
    }
}

const fn out_of_range(attribute: &'static str, max: u32) -> NapiSetError {
    NapiSetError::OutOfRange { attribute, max: max as u64 }
}

impl CheckedNapiSet {
    /// The instance to change.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// The changes in the order of application; if `threaded` fails the rest is left. None at all is a success that
    /// changes nothing. Source: `net/core/netdev-genl.c netdev_nl_napi_set_config`.
    pub fn changes(&self) -> impl Iterator<Item = NapiChange> + use<> {
        [
            self.threaded.map(NapiChange::Threaded),
            self.defer_hard_irqs.map(NapiChange::DeferHardIrqs),
            self.irq_suspend_timeout.map(NapiChange::IrqSuspendTimeout),
            self.gro_flush_timeout.map(NapiChange::GroFlushTimeout),
        ]
        .into_iter()
        .flatten()
    }

    /// The error for an id that no instance has.
    #[must_use]
    pub const fn no_such_napi(&self) -> NapiSetError {
        NapiSetError::NoSuchNapi { id: self.id as u64 }
    }
}

#[cfg(test)]
#[path = "napi_set_tests.rs"]
mod tests;
