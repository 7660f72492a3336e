//! Who polls an instance, and when.

mod busy;
mod complete;
pub(crate) mod kthread;
mod lifecycle;
mod schedule;
pub(crate) mod softirq;
mod sysctl;
mod threaded;
pub(crate) mod workqueue;

pub use sysctl::SysctlError;
pub(crate) use sysctl::Sysctls;
