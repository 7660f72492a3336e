//! napi-get and queue-get: what is shown, and why a question is refused. Source: `net/core/netdev-genl.c` (Linux 7.3).

use core::fmt;

use super::{Errno, NapiChange, ThreadedSetting};
use crate::time::Span;

/// One NAPI instance as napi-get shows it. `None` is what the answer does not have: kernels show `defer-hard-irqs` and the
/// time-outs since 6.13 and `threaded` since 6.17.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct NapiInfo {
    /// `ifindex` of its device.
    pub ifindex: u32,
    /// `id`.
    pub id: u32,
    /// `irq`, if it has one.
    pub irq: Option<u32>,
    /// `pid` of its thread, if there is one.
    pub pid: Option<u32>,
    /// `defer-hard-irqs`.
    pub defer_hard_irqs: Option<u32>,
    /// `gro-flush-timeout`.
    pub gro_flush_timeout: Option<Span>,
    /// `irq-suspend-timeout`.
    pub irq_suspend_timeout: Option<Span>,
    /// `threaded`.
    pub threaded: Option<ThreadedSetting>,
}

impl NapiInfo {
    /// What the instance has for the attribute of a change, whatever the change's value; `None` if the answer does not have
    /// it.
    #[must_use]
    pub fn in_place_of(&self, change: NapiChange) -> Option<NapiChange> {
        match change {
            NapiChange::Threaded(_) => self.threaded.map(NapiChange::Threaded),
            NapiChange::DeferHardIrqs(_) => self.defer_hard_irqs.map(NapiChange::DeferHardIrqs),
            NapiChange::IrqSuspendTimeout(_) => self.irq_suspend_timeout.map(NapiChange::IrqSuspendTimeout),
            NapiChange::GroFlushTimeout(_) => self.gro_flush_timeout.map(NapiChange::GroFlushTimeout),
        }
    }

    /// Names and numbers in the kernel's order, without what is absent. `threaded` shows the kernel's number, and
    /// nothing for the engine's extension.
    pub fn attributes(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [
            ("ifindex", Some(u64::from(self.ifindex))),
            ("id", Some(u64::from(self.id))),
            ("irq", self.irq.map(u64::from)),
            ("pid", self.pid.map(u64::from)),
            ("defer-hard-irqs", self.defer_hard_irqs.map(u64::from)),
            ("gro-flush-timeout", self.gro_flush_timeout.map(|span| span.ns)),
            ("irq-suspend-timeout", self.irq_suspend_timeout.map(|span| span.ns)),
            ("threaded", self.threaded.and_then(ThreadedSetting::number).map(u64::from)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// Puts a dump in the kernel's order: devices by ifindex, on each device descending ids. Source: `net/core/netdev-genl.c
/// netdev_nl_napi_dump_one`.
pub fn sort_dump(infos: &mut [NapiInfo]) {
    infos.sort_unstable_by_key(|info| (info.ifindex, core::cmp::Reverse(info.id)));
}

/// Direction of a queue. Source: `include/uapi/linux/netdev.h enum netdev_queue_type`.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum QueueKind {
    /// 0: receive.
    Rx = 0,
    /// 1: transmit.
    Tx = 1,
}

impl QueueKind {
    /// The kernel's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rx => "rx",
            Self::Tx => "tx",
        }
    }
}

/// One queue as queue-get shows it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct QueueInfo {
    /// `id`: index among the queues of its direction.
    pub id: u32,
    /// `ifindex` of its device.
    pub ifindex: u32,
    /// `type`.
    pub kind: QueueKind,
    /// `napi-id`, if the queue is linked to an instance that has one.
    pub napi_id: Option<u32>,
}

/// Why a question was refused.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum QueryError {
    /// EINVAL: the attribute is required.
    Missing(&'static str),
    /// ERANGE: the value is out of range.
    OutOfRange {
        /// The attribute.
        attribute: &'static str,
        /// What it must be.
        range: &'static str,
    },
    /// ENOENT: no enabled instance has this id.
    NoSuchNapi {
        /// The id.
        id: u64,
    },
    /// ENODEV: no device has this ifindex.
    NoSuchDevice {
        /// The ifindex.
        ifindex: u64,
    },
    /// ENOENT: the device is down.
    DeviceDown {
        /// The ifindex.
        ifindex: u32,
    },
    /// EINVAL: the device has fewer queues of that direction.
    NoSuchQueue {
        /// The index.
        id: u64,
        /// How many there are.
        queues: u32,
    },
}

impl QueryError {
    /// The kernel's error number for it.
    #[must_use]
    pub const fn errno(self) -> Errno {
        match self {
            Self::Missing(_) | Self::NoSuchQueue { .. } => Errno::EINVAL,
            Self::OutOfRange { .. } => Errno::ERANGE,
            Self::NoSuchNapi { .. } | Self::DeviceDown { .. } => Errno::ENOENT,
            Self::NoSuchDevice { .. } => Errno::ENODEV,
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.errno())?;
        match self {
            Self::Missing(attribute) => write!(f, "attribute {attribute} is missing"),
            Self::OutOfRange { attribute, range } => write!(f, "{attribute} must be {range}"),
            Self::NoSuchNapi { id } => {
                write!(f, "no enabled NAPI instance has id {id}: napi-get shows them, and the device must be up")
            }
            Self::NoSuchDevice { ifindex } => write!(f, "no device has ifindex {ifindex}"),
            Self::DeviceDown { ifindex } => write!(f, "the device with ifindex {ifindex} is down: bring it up first"),
            Self::NoSuchQueue { id, queues } => {
                write!(f, "there is no queue {id}: the device has {queues} of that type, counted from 0")
            }
        }
    }
}

impl core::error::Error for QueryError {}

/// napi-get for one instance.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct NapiGet {
    /// `id`; required.
    pub id: Option<u64>,
}

impl NapiGet {
    /// The id asked for. No capability is needed. Whether it exists is asked after this.
    ///
    /// # Errors
    /// EINVAL without id; ENOENT for one that has more than 32 bits.
    pub fn check(self) -> Result<u32, QueryError> {
        let id = self.id.ok_or(QueryError::Missing("id"))?;
        u32::try_from(id).map_err(|_| QueryError::NoSuchNapi { id })
    }
}

/// The `ifindex` filter of a dump: at least 1. Whether the device exists (ENODEV) is asked after this; a device that is
/// down shows nothing.
///
/// # Errors
/// ERANGE for 0; ENODEV for one that has more than 32 bits.
pub fn check_dump_filter(ifindex: Option<u64>) -> Result<Option<u32>, QueryError> {
    ifindex.map(check_ifindex).transpose()
}

fn check_ifindex(ifindex: u64) -> Result<u32, QueryError> {
    match u32::try_from(ifindex) {
        Ok(0) => Err(QueryError::OutOfRange { attribute: "ifindex", range: "at least 1" }),
        Ok(ifindex) => Ok(ifindex),
        Err(_) => Err(QueryError::NoSuchDevice { ifindex }),
    }
}

/// queue-get for one queue.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct QueueGet {
    /// `id`; required.
    pub id: Option<u64>,
    /// `type`, 0 (rx) or 1 (tx); required.
    pub kind: Option<u64>,
    /// `ifindex`; required.
    pub ifindex: Option<u64>,
}

/// A queue-get that was checked, but for the device.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct CheckedQueueGet {
    /// `ifindex`.
    pub ifindex: u32,
    /// `type`.
    pub kind: QueueKind,
    id: u64,
}

/// What a device says about itself to a queue-get.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DeviceQueues {
    /// It is up.
    pub up: bool,
    /// Receive queues in use.
    pub rx: u32,
    /// Transmit queues in use.
    pub tx: u32,
}

impl QueueGet {
    /// Checks ranges, then presence. No capability is needed.
    ///
    /// # Errors
    /// ERANGE, EINVAL, or ENODEV for an ifindex that has more than 32 bits.
    pub fn check(self) -> Result<CheckedQueueGet, QueryError> {
        let kind = match self.kind {
            None => None,
            Some(0) => Some(QueueKind::Rx),
            Some(1) => Some(QueueKind::Tx),
            Some(_) => {
                return Err(QueryError::OutOfRange { attribute: "type", range: "0 (rx) or 1 (tx)" });
            }
        };
        let ifindex = self.ifindex.map(check_ifindex).transpose()?;
        Ok(CheckedQueueGet {
            id: self.id.ok_or(QueryError::Missing("id"))?,
            kind: kind.ok_or(QueryError::Missing("type"))?,
            ifindex: ifindex.ok_or(QueryError::Missing("ifindex"))?,
        })
    }
}

impl CheckedQueueGet {
    /// `id` as it was asked for; whether the device has such a queue is asked after this.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The queue index, given the device (`None`: there is none with this ifindex).
    ///
    /// # Errors
    /// ENODEV, ENOENT for a device that is down, EINVAL for an index that it does not have.
    pub fn queue(&self, device: Option<DeviceQueues>) -> Result<u32, QueryError> {
        let Some(device) = device else {
            return Err(QueryError::NoSuchDevice { ifindex: u64::from(self.ifindex) });
        };
        if !device.up {
            return Err(QueryError::DeviceDown { ifindex: self.ifindex });
        }
        let queues = match self.kind {
            QueueKind::Rx => device.rx,
            QueueKind::Tx => device.tx,
        };
        match u32::try_from(self.id) {
            Ok(id) if id < queues => Ok(id),
            _ => Err(QueryError::NoSuchQueue { id: self.id, queues }),
        }
    }
}

#[cfg(test)]
#[path = "query_tests.rs"]
mod tests;
