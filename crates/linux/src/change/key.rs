//! One value of this machine, of whatever kind: as a journal has it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::device_file::DeviceFileKey;
use super::ethtool::EthtoolKey;
use super::file::{FileKey, SysctlKey};
use super::flow_rule::FlowRuleKey;
use super::napi::NapiKey;
use super::thread::ThreadKey;
use crate::descriptors::{DescriptorKey, ProgramKey};
use crate::ethtool::Group;
use crate::setting::{DeviceRef, KeyError, Setting};

/// One value of this machine.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "kebab-case")]
pub enum Key {
    /// An attribute of a NAPI instance (napi-set).
    Napi(NapiKey),
    /// A file below `/sys/class/net/IF`.
    DeviceFile(DeviceFileKey),
    /// A file below `/proc/sys`, by its name with dots.
    Sysctl(SysctlKey),
    /// All descriptors of a process that a mode is about.
    Program(ProgramKey),
    /// A descriptor of a process that its program had set itself.
    Descriptor(DescriptorKey),
    /// Another file of `/proc` or `/sys`: the affinity of an interrupt, SMT, masks of workqueues.
    File(FileKey),
    /// A setting of `ethtool`.
    Ethtool(EthtoolKey),
    /// Where a thread runs, and how it is scheduled.
    Thread(ThreadKey),
    /// Where the packets of a port go.
    FlowRule(FlowRuleKey),
}

impl Key {
    /// A file below `/sys/class/net/IF`, such as `threaded` or `queues/rx-0/rps_cpus`.
    pub fn device_file(device: &DeviceRef, file: impl Into<String>) -> Self {
        Self::DeviceFile(DeviceFileKey { device: device.clone(), file: file.into() })
    }

    /// A file below `/proc/sys`, such as `net.core.busy_poll`.
    pub fn sysctl(name: impl Into<String>) -> Self {
        Self::Sysctl(SysctlKey { name: name.into() })
    }

    /// Another file of `/proc` or `/sys`.
    pub fn file(path: impl Into<String>) -> Self {
        Self::File(FileKey { path: path.into() })
    }

    /// What every kind of setting can do.
    pub(super) fn setting(&self) -> &dyn Setting {
        match self {
            Self::Napi(key) => key,
            Self::DeviceFile(key) => key,
            Self::Sysctl(key) => key,
            Self::Program(key) => key,
            Self::Descriptor(key) => key,
            Self::File(key) => key,
            Self::Ethtool(key) => key,
            Self::Thread(key) => key,
            Self::FlowRule(key) => key,
        }
    }

    /// What is there; `None` where the kernel does not tell.
    ///
    /// # Errors
    /// [`KeyError`]: gone, not on this machine, not permitted.
    pub fn read(&self) -> Result<Option<String>, KeyError> {
        self.setting().read()
    }

    /// Writes a value. It is not read back: [`super::apply`] does that.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn write(&self, value: &str) -> Result<(), KeyError> {
        self.setting().write(value)
    }

    /// Whether two values are the same setting: lists and masks of CPUs have several spellings.
    #[must_use]
    pub fn same(&self, one: &str, other: &str) -> bool {
        one == other || self.setting().same(one, other)
    }

    /// Whether it ends with a process.
    #[must_use]
    pub fn is_of_program(&self) -> bool {
        self.setting().is_of_program()
    }

    /// The command by which a person would do the same.
    #[must_use]
    pub fn command(&self, value: &str) -> Option<String> {
        self.setting().command(value)
    }

    /// Whether a change of it makes a driver set its queues up anew: number and size of them.
    #[must_use]
    pub fn resets_queues(&self) -> bool {
        matches!(self, Self::Ethtool(EthtoolKey { group: Group::Channels | Group::Rings, .. }))
    }

    /// The same of an interface that has another number or name by now.
    pub(super) fn with_device(&self, now: &DeviceRef) -> Self {
        let mut key = self.clone();
        match &mut key {
            Self::Napi(NapiKey { device, .. })
            | Self::DeviceFile(DeviceFileKey { device, .. })
            | Self::Ethtool(EthtoolKey { device, .. })
            | Self::FlowRule(FlowRuleKey { device, .. }) => device.clone_from(now),
            Self::Sysctl(_) | Self::Program(_) | Self::Descriptor(_) | Self::File(_) | Self::Thread(_) => {}
        }
        key
    }

    /// Whether another key is about the instance that an interface has got in place of this key's.
    pub(super) fn is_before(&self, new: &Self) -> bool {
        matches!((self, new), (Self::Napi(old), Self::Napi(new)) if old.is_before(new))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.setting().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_of_earlier_versions_are_read_and_written_alike() {
        for json in [
            r#"{"at":"napi","device":{"ifindex":2,"name":"eth0"},"id":8193,"place":0,"attribute":"gro-flush-timeout"}"#,
            r#"{"at":"device-file","device":{"ifindex":2,"name":"eth0"},"file":"queues/rx-0/rps_cpus"}"#,
            r#"{"at":"sysctl","name":"net.core.busy_poll"}"#,
            r#"{"at":"program","process":{"pid":7,"start":9,"name":"web"},"settings":{"epoll":{"busy_poll_usecs":0,"busy_poll_budget":8,"prefer_busy_poll":true},"sockets":[{"option":46,"value":50}],"steer":true}}"#,
            r#"{"at":"descriptor","process":{"pid":7,"start":9,"name":"web"},"fd":5,"setting":{"is":"socket","inode":11,"cookie":12,"option":46}}"#,
            r#"{"at":"descriptor","process":{"pid":7,"start":9,"name":"web"},"fd":5,"setting":{"is":"epoll"}}"#,
            r#"{"at":"descriptor","process":{"pid":7,"start":9,"name":"web"},"fd":5,"setting":{"is":"ring","inode":11}}"#,
            r#"{"at":"program","process":{"pid":7,"start":9,"name":"web"},"settings":{"ring":{"busy_poll_usecs":64,"prefer_busy_poll":true}}}"#,
            r#"{"at":"file","path":"/proc/irq/24/smp_affinity_list"}"#,
            r#"{"at":"ethtool","device":{"ifindex":2,"name":"eth0"},"group":"coalesce","name":"rx-usecs"}"#,
            r#"{"at":"napi","device":{"ifindex":2,"name":"eth0"},"id":8193,"place":0,"queue":1,"attribute":"gro-flush-timeout"}"#,
            r#"{"at":"flow-rule","device":{"ifindex":2,"name":"eth0"},"flow":"tcp4","port":11211}"#,
            r#"{"at":"thread","tid":3,"started":4,"name":"napi/eth0-1","setting":"affinity"}"#,
        ] {
            let key: Key = serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"));
            assert_eq!(serde_json::to_string(&key).expect("written"), json);
        }
    }
}
