//! A setting of `ethtool` as a value of the list.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::text::quoted;
use super::{DeviceRef, Entry, Key, KeyError};
use crate::ethtool::{self, EthtoolError, Group};

const RX_FILES: [&str; 2] = ["rps_cpus", "rps_flow_cnt"];
const TX_FILES: [&str; 2] = ["xps_cpus", "xps_rxqs"];
/// Queues that are looked at: more than any driver has.
const QUEUES_MAX: u32 = 4096;

/// One setting of an interface, as `ethtool` names it: `rx` of its channels, `rx-usecs` of its coalescing, `rx-gro` of its
/// offloads.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct EthtoolKey {
    /// The interface.
    pub device: DeviceRef,
    /// What it is a part of.
    pub group: Group,
    /// Its name.
    pub name: String,
}

impl EthtoolKey {
    pub(super) fn read(&self) -> Result<Option<String>, KeyError> {
        let all = ethtool::get(self.device.ifindex, self.group).map_err(|error| self.error(error))?;
        let missing = || self.error(EthtoolError::Unknown(self.name.clone()));
        all.get(&self.name).cloned().map(Some).ok_or_else(missing)
    }

    pub(super) fn write(&self, value: &str) -> Result<(), KeyError> {
        ethtool::set_one(self.device.ifindex, self.group, &self.name, value).map_err(|error| self.error(error))
    }

    pub(super) fn command(&self, value: &str) -> String {
        let (device, value) = (quoted(&self.device.name), quoted(value));
        format!("ethtool -{} {device} {} {value}", self.group.letter(), self.name)
    }

    /// What queues have that a write of their number switches off: their files come back empty. Source: `net/core/net-sysfs.c
    /// net_rx_queue_update_kobjects`, `net/core/dev.c netif_reset_xps_queues_gt`.
    pub(super) fn implied(&self, value: &str) -> Vec<Entry> {
        let kinds: &[(&str, &[&str])] = match (self.group, self.name.as_str()) {
            (Group::Channels, "combined") => &[("rx", &RX_FILES), ("tx", &TX_FILES)],
            (Group::Channels, "rx") => &[("rx", &RX_FILES)],
            (Group::Channels, "tx") => &[("tx", &TX_FILES)],
            _ => return Vec::new(),
        };
        let Ok(wanted) = value.parse::<u32>() else { return Vec::new() };
        let mut entries = Vec::new();
        for (kind, files) in kinds {
            for queue in (wanted..QUEUES_MAX).take_while(|queue| self.has_queue(kind, *queue)) {
                entries.extend(files.iter().filter_map(|file| self.lost(&format!("queues/{kind}-{queue}/{file}"))));
            }
        }
        entries
    }

    fn has_queue(&self, kind: &str, queue: u32) -> bool {
        let file = if kind == "rx" { "rps_cpus" } else { "tx_timeout" };
        let key = Key::DeviceFile { device: self.device.clone(), file: format!("queues/{kind}-{queue}/{file}") };
        key.read().is_ok()
    }

    fn lost(&self, file: &str) -> Option<Entry> {
        let key = Key::DeviceFile { device: self.device.clone(), file: file.to_owned() };
        let before = key.read().ok()??;
        (!key.same(&before, "0")).then(|| Entry { key, before: Some(before), after: "0".to_owned(), or: None })
    }

    fn error(&self, error: EthtoolError) -> KeyError {
        match error {
            EthtoolError::Gone => KeyError::Gone(format!("{} is gone", self.device.name)),
            EthtoolError::NotPermitted => KeyError::Denied("CAP_NET_ADMIN"),
            EthtoolError::NotHere(_) => {
                KeyError::NotHere(format!("the driver of {} has no {} to set", self.device.name, self.group.name()))
            }
            EthtoolError::Unknown(name) => {
                let (group, device) = (self.group.name(), &self.device.name);
                KeyError::NotHere(format!("the driver of {device} has no `{name}` among its {group}"))
            }
            EthtoolError::Io(error) => KeyError::Io(error),
            error => KeyError::Refused(error.to_string()),
        }
    }
}

impl fmt::Display for EthtoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the {} of {}", self.name, self.group.name(), self.device.name)
    }
}
