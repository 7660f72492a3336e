//! The control vocabulary: the kernel's names, ranges, errors and order of application for napi-get, napi-set,
//! queue-get and the settings of a device. Source: `net/core/netdev-genl.c`, `net/core/netdev-genl-gen.c`,
//! `include/uapi/linux/netdev.h`, `net/core/net-sysfs.c` (Linux 7.3).
//!
//! A request comes as a user gave it, is checked as a whole (so that one bad attribute changes nothing), and is then
//! applied change by change. Changes hold for completions to come; a timer that is armed is not armed anew. What a [`mode`]
//! sets is a [`plan`] of such changes.

mod cpu_list;
mod device;
pub mod mode;
mod napi_set;
pub mod plan;
mod query;
mod show;

pub use crate::errno::Errno;
pub use cpu_list::cpu_list;
pub use device::{DevAttribute, DevSet, DevSetError, DevSetting, DevSettings, device_threaded_in_force, parse_number};
pub use napi_set::{CheckedNapiSet, NapiChange, NapiSet, NapiSetError, ThreadedSetting};
pub use query::{
    CheckedQueueGet, DeviceQueues, NapiGet, NapiInfo, QueryError, QueueGet, QueueInfo, QueueKind, check_dump_filter,
    sort_dump,
};
pub use show::{DevInfo, QSTATS, QSTATS_FIRST, QStats, XDP_FEATURES, XDP_RX_METADATA_FEATURES, XSK_FEATURES};

/// Largest `defer-hard-irqs`. Source: `Documentation/netlink/specs/netdev.yaml` (s32-max).
pub const DEFER_HARD_IRQS_MAX: u32 = i32::MAX as u32;
