//! An attribute of a NAPI instance as a value of the list.

use std::fmt;

use napier_core::control::{NapiChange, NapiInfo, NapiSetError, ThreadedSetting};
use napier_core::time::Span;
use serde::{Deserialize, Serialize};

use super::instances::{instances, is_down};
use super::queues::serving_one;
use crate::error::KernelError;
use crate::netdev;
use crate::setting::{DeviceRef, KeyError, Setting};

/// No instance has this number: they count up from the number of CPUs.
const NO_INSTANCE: u32 = u32::MAX;

/// An attribute of a NAPI instance, as napi-set names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "they are the kernel's names")]
pub enum NapiAttribute {
    DeferHardIrqs,
    GroFlushTimeout,
    IrqSuspendTimeout,
    Threaded,
}

impl NapiAttribute {
    /// The kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeferHardIrqs => "defer-hard-irqs",
            Self::GroFlushTimeout => "gro-flush-timeout",
            Self::IrqSuspendTimeout => "irq-suspend-timeout",
            Self::Threaded => "threaded",
        }
    }

    /// Attribute and value of a change.
    #[must_use]
    pub fn of(change: NapiChange) -> (Self, String) {
        match change {
            NapiChange::DeferHardIrqs(count) => (Self::DeferHardIrqs, count.to_string()),
            NapiChange::GroFlushTimeout(span) => (Self::GroFlushTimeout, span.ns.to_string()),
            NapiChange::IrqSuspendTimeout(span) => (Self::IrqSuspendTimeout, span.ns.to_string()),
            NapiChange::Threaded(setting) => (Self::Threaded, setting.name().to_owned()),
        }
    }

    /// What an instance has; `None` where this kernel does not show it.
    #[must_use]
    pub fn value_of(self, info: &NapiInfo) -> Option<String> {
        match self {
            Self::DeferHardIrqs => info.defer_hard_irqs.map(|count| count.to_string()),
            Self::GroFlushTimeout => info.gro_flush_timeout.map(|span| span.ns.to_string()),
            // A kernel without suspension suspends nothing.
            Self::IrqSuspendTimeout => Some(info.irq_suspend_timeout.unwrap_or(Span::ZERO).ns.to_string()),
            Self::Threaded => info.threaded.map(|setting| setting.name().to_owned()),
        }
    }

    fn change(self, value: &str) -> Result<NapiChange, KeyError> {
        let wrong = || KeyError::Value { value: value.to_owned(), what: self.name() };
        let ns = || value.parse().map(Span::from_ns).map_err(|_| wrong());
        Ok(match self {
            Self::DeferHardIrqs => NapiChange::DeferHardIrqs(value.parse().map_err(|_| wrong())?),
            Self::GroFlushTimeout => NapiChange::GroFlushTimeout(ns()?),
            Self::IrqSuspendTimeout => NapiChange::IrqSuspendTimeout(ns()?),
            Self::Threaded => NapiChange::Threaded(ThreadedSetting::from_name(value).ok_or_else(wrong)?),
        })
    }
}

/// An attribute of a NAPI instance (napi-set). Where the interface went down and up, the instance has another id: then it is the
/// one in the same place among the interface's.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct NapiKey {
    /// The interface.
    pub device: DeviceRef,
    /// Its id when it was found.
    pub id: u32,
    /// Its place among the interface's instances, the oldest first.
    pub place: u32,
    /// The receive queue that it serves, for who owns some queues alone: then it is the one that serves this queue, whatever its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u32>,
    /// The attribute.
    pub attribute: NapiAttribute,
}

impl NapiKey {
    /// The instance as it is now.
    fn instance(&self) -> Result<NapiInfo, KeyError> {
        let Self { device, id, place, queue, .. } = self;
        // Not the whole list for each of its attributes.
        if let Ok(info) = netdev::napi_get(*id)
            && info.ifindex == device.ifindex
        {
            return Ok(info);
        }
        let infos = instances(device)?;
        if infos.is_empty() && is_down(device) {
            // Drivers that keep settings give them back when it is up again.
            return Err(KeyError::Refused(format!("{} is down and shows no instances", device.name)));
        }
        let found = match queue {
            // The list of queues is not there without instances.
            Some(queue) if !infos.is_empty() => serving_one(device, *queue)?,
            _ => infos.iter().find(|info| info.id == *id).or_else(|| infos.get(*place as usize)).copied(),
        };
        let away = "has no such instance now (fewer queues, or generic receive offload is off)";
        found.ok_or_else(|| KeyError::Away(format!("{} {away}", device.name)))
    }

    /// Whether another key is about the instance that the interface has got in place of this key's.
    pub(super) fn is_before(&self, new: &Self) -> bool {
        self.device.ifindex == new.device.ifindex
            && (self.attribute, self.queue) == (new.attribute, new.queue)
            && (self.queue.is_some() || self.place == new.place)
            && self.id != new.id
    }
}

impl Setting for NapiKey {
    fn read(&self) -> Result<Option<String>, KeyError> {
        Ok(self.attribute.value_of(&self.instance()?))
    }

    fn write(&self, value: &str) -> Result<(), KeyError> {
        let request = self.attribute.change(value)?.request(self.instance()?.id);
        netdev::napi_set(&request).map_err(|error| match error {
            KernelError::Refused(NapiSetError::NoSuchNapi { .. }) => KeyError::Gone(format!("{self} is gone")),
            error => KeyError::of(error),
        })
    }

    fn command(&self, value: &str) -> Option<String> {
        let is_word = self.attribute == NapiAttribute::Threaded;
        let quoted = if is_word { format!("\"{value}\"") } else { value.to_owned() };
        let (id, name) = (self.id, self.attribute.name());
        Some(format!("napier napi-set --json '{{\"id\": {id}, \"{name}\": {quoted}}}'"))
    }

    fn device(&self) -> Option<&DeviceRef> {
        Some(&self.device)
    }

    fn may_cut_off(&self) -> bool {
        self.attribute == NapiAttribute::Threaded
    }

    /// The kernel is asked to set the value on an instance that does not exist: what it does not take it refuses before it looks
    /// for the instance (`net/netlink/genetlink.c`, the policy of the attribute).
    fn refusal(&self, value: &str) -> Option<KeyError> {
        let request = match self.attribute.change(value) {
            Ok(change) => change.request(NO_INSTANCE),
            Err(error) => return Some(error),
        };
        match netdev::napi_set(&request).err()? {
            KernelError::Refused(NapiSetError::NoSuchNapi { .. }) => None,
            error => match KeyError::of(error) {
                // Who may not set anything learns no more.
                KeyError::Denied(_) | KeyError::Io(_) => None,
                error => Some(error),
            },
        }
    }
}

impl fmt::Display for NapiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.map_or_else(String::new, |queue| format!(" (queue {queue})"));
        write!(f, "{} of NAPI instance {}{queue} of {}", self.attribute.name(), self.id, self.device.name)
    }
}
