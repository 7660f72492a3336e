//! Settings of a device: defaults of its instances, and write-all. Source: `net/core/net-sysfs.c`, `net/core/dev.c
//! netif_set_threaded` (Linux 7.3).

use core::fmt;

use super::{DEFER_HARD_IRQS_MAX, Errno, NapiChange, ThreadedSetting};
use crate::time::Span;

/// A setting of a device by name.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
pub enum DevAttribute {
    /// `gro-flush-timeout`, in ns.
    GroFlushTimeout,
    /// `napi-defer-hard-irqs`, 0..=2147483647.
    NapiDeferHardIrqs,
    /// `threaded`, 0 or 1.
    Threaded,
}

impl DevAttribute {
    /// All of them. There is none for `irq-suspend-timeout`, which only an instance has.
    pub const ALL: [Self; 3] = [Self::GroFlushTimeout, Self::NapiDeferHardIrqs, Self::Threaded];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GroFlushTimeout => "gro-flush-timeout",
            Self::NapiDeferHardIrqs => "napi-defer-hard-irqs",
            Self::Threaded => "threaded",
        }
    }

    /// The name of its file under `/sys/class/net/DEV/`.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::GroFlushTimeout => "gro_flush_timeout",
            Self::NapiDeferHardIrqs => "napi_defer_hard_irqs",
            Self::Threaded => "threaded",
        }
    }

    /// The setting with this name, in either spelling.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|attribute| attribute.name() == name || attribute.file_name() == name)
    }
}

/// A write to a device setting as a user gave it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DevSet {
    /// What to write.
    pub attribute: DevAttribute,
    /// The number.
    pub value: u64,
}

/// Why a write to a device setting was refused.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum DevSetError {
    /// EPERM: it needs CAP_NET_ADMIN.
    NotPermitted,
    /// EINVAL: not a number.
    NotANumber,
    /// ERANGE: the value is out of range.
    OutOfRange {
        /// The setting.
        attribute: DevAttribute,
        /// Its largest value.
        max: u64,
    },
    /// EOPNOTSUPP: the device has no NAPI instance now.
    NoNapi,
    /// EOPNOTSUPP: not a value of a device's `threaded`.
    NotForDevices,
    /// A thread could not be created: `threaded` is now disabled for the device and all its instances.
    ThreadNotCreated(Errno),
}

impl DevSetError {
    /// The kernel's error number for it.
    #[must_use]
    pub const fn errno(self) -> Errno {
        match self {
            Self::NotPermitted => Errno::EPERM,
            Self::NotANumber => Errno::EINVAL,
            Self::OutOfRange { .. } => Errno::ERANGE,
            Self::NoNapi | Self::NotForDevices => Errno::EOPNOTSUPP,
            Self::ThreadNotCreated(errno) => errno,
        }
    }
}

impl fmt::Display for DevSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.errno())?;
        match self {
            Self::NotPermitted => f.write_str("device settings need CAP_NET_ADMIN"),
            Self::NotANumber => f.write_str("the value must be a number, decimal or 0x hexadecimal"),
            Self::OutOfRange { attribute, max } => {
                write!(f, "{} must be 0..={max}", attribute.name())
            }
            Self::NoNapi => f.write_str("the device has no NAPI instance now: bring it up first"),
            Self::NotForDevices => {
                f.write_str("threaded of a device is 0 or 1: set busy-poll on its instances, by napi-set")
            }
            Self::ThreadNotCreated(_) => {
                f.write_str("a NAPI thread could not be created; threaded is now disabled for the whole device")
            }
        }
    }
}

impl core::error::Error for DevSetError {}

/// A number as a sysfs file takes it: decimal or 0x hexadecimal, one line end allowed.
///
/// # Errors
/// [`DevSetError::NotANumber`].
pub fn parse_number(text: &str) -> Result<u64, DevSetError> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // from_str_radix alone would take a sign.
    if digits.starts_with(['+', '-']) {
        return Err(DevSetError::NotANumber);
    }
    u64::from_str_radix(digits, radix).map_err(|_| DevSetError::NotANumber)
}

/// A write to a device setting that was checked.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum DevSetting {
    /// `gro-flush-timeout`.
    GroFlushTimeout(Span),
    /// `napi-defer-hard-irqs`.
    NapiDeferHardIrqs(u32),
    /// `threaded`.
    Threaded(ThreadedSetting),
}

impl DevSet {
    /// Checks in the kernel's order; `listed` is the number of instances that the device has now. Source:
    /// `net/core/net-sysfs.c netdev_store`, `modify_napi_threaded`, `change_napi_defer_hard_irqs`.
    ///
    /// # Errors
    /// See [`DevSetError`].
    pub fn check(self, cap_net_admin: bool, listed: usize) -> Result<DevSetting, DevSetError> {
        if !cap_net_admin {
            return Err(DevSetError::NotPermitted);
        }
        match self.attribute {
            DevAttribute::GroFlushTimeout => Ok(DevSetting::GroFlushTimeout(Span::from_ns(self.value))),
            DevAttribute::NapiDeferHardIrqs => match u32::try_from(self.value) {
                Ok(count) if count <= DEFER_HARD_IRQS_MAX => Ok(DevSetting::NapiDeferHardIrqs(count)),
                _ => Err(DevSetError::OutOfRange { attribute: self.attribute, max: u64::from(DEFER_HARD_IRQS_MAX) }),
            },
            DevAttribute::Threaded if listed == 0 => Err(DevSetError::NoNapi),
            DevAttribute::Threaded => match self.value {
                0 => Ok(DevSetting::Threaded(ThreadedSetting::Disabled)),
                1 => Ok(DevSetting::Threaded(ThreadedSetting::Enabled)),
                _ => Err(DevSetError::NotForDevices),
            },
        }
    }
}

impl DevSetting {
    /// The write that asks for it; `None` for the engine's extension, which is no value of a device.
    #[must_use]
    pub fn request(self) -> Option<DevSet> {
        let (attribute, value) = match self {
            Self::GroFlushTimeout(span) => (DevAttribute::GroFlushTimeout, span.ns),
            Self::NapiDeferHardIrqs(count) => (DevAttribute::NapiDeferHardIrqs, u64::from(count)),
            Self::Threaded(setting) => (DevAttribute::Threaded, u64::from(setting.number()?)),
        };
        Some(DevSet { attribute, value })
    }

    /// The change that every listed instance gets, whatever was set on it before; persistent slots get it too
    /// ([`crate::config::ConfigTable::write_all`]).
    #[must_use]
    pub const fn as_napi_change(self) -> NapiChange {
        match self {
            Self::GroFlushTimeout(span) => NapiChange::GroFlushTimeout(span),
            Self::NapiDeferHardIrqs(count) => NapiChange::DeferHardIrqs(count),
            Self::Threaded(setting) => NapiChange::Threaded(setting),
        }
    }
}

impl NapiChange {
    /// The file of a device that writes this to every instance; `None` where there is none.
    #[must_use]
    pub const fn as_dev_setting(self) -> Option<DevSetting> {
        match self {
            Self::Threaded(setting) => Some(DevSetting::Threaded(setting)),
            Self::DeferHardIrqs(count) => Some(DevSetting::NapiDeferHardIrqs(count)),
            Self::GroFlushTimeout(span) => Some(DevSetting::GroFlushTimeout(span)),
            Self::IrqSuspendTimeout(_) => None,
        }
    }
}

/// `threaded` of a device and all its instances after a write of `wanted`: if a thread of any listed instance could not
/// be created (they are created first, all of them), no instance is threaded and the error is reported. Source:
/// `net/core/dev.c netif_set_threaded`.
#[must_use]
pub const fn device_threaded_in_force(wanted: ThreadedSetting, threads_created: bool) -> ThreadedSetting {
    if threads_created { wanted } else { ThreadedSetting::Disabled }
}

/// The values that a device holds: defaults of instances that are added later. Values set on an instance do not show
/// here.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct DevSettings {
    /// `gro-flush-timeout`.
    pub gro_flush_timeout: Span,
    /// `napi-defer-hard-irqs`.
    pub defer_hard_irqs: u32,
    /// `threaded`.
    pub threaded: ThreadedSetting,
}

impl DevSettings {
    /// What the device has for a setting, whatever the value asked about.
    #[must_use]
    pub const fn in_place_of(&self, setting: DevSetting) -> DevSetting {
        match setting {
            DevSetting::GroFlushTimeout(_) => DevSetting::GroFlushTimeout(self.gro_flush_timeout),
            DevSetting::NapiDeferHardIrqs(_) => DevSetting::NapiDeferHardIrqs(self.defer_hard_irqs),
            DevSetting::Threaded(_) => DevSetting::Threaded(self.threaded),
        }
    }

    /// Stores a checked write.
    pub const fn apply(&mut self, setting: DevSetting) {
        match setting {
            DevSetting::GroFlushTimeout(span) => self.gro_flush_timeout = span,
            DevSetting::NapiDeferHardIrqs(count) => self.defer_hard_irqs = count,
            DevSetting::Threaded(threaded) => self.threaded = threaded,
        }
    }
}

#[cfg(test)]
#[path = "device_tests.rs"]
mod tests;
