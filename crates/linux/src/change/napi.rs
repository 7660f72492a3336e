//! Attributes of NAPI instances as text.

use napier_core::control::{NapiChange, NapiInfo, ThreadedSetting};
use napier_core::time::Span;
use serde::{Deserialize, Serialize};

use super::KeyError;

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

    pub(super) fn change(self, value: &str) -> Result<NapiChange, KeyError> {
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
