//! A setting of `ethtool` as a value of the list.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ethtool::{self, EthtoolError, Group};
use crate::link;
use crate::setting::text::quoted;
use crate::setting::{DeviceRef, KeyError, Setting};

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

    /// An offload that cannot be on beside an XDP program stays off without a word, whatever is asked; it may be on when the program is gone.
    /// Source: `drivers/net/vmxnet3 vmxnet3_fix_features`, `ixgbe_fix_features`.
    fn taken_by_xdp(&self) -> Result<(), KeyError> {
        let has_xdp = self.device.name_now().is_ok_and(|name| link::has_xdp(&name).unwrap_or(false));
        if has_xdp && self.read()?.as_deref() == Some("off") {
            let name = &self.device.name;
            // The kernel acts on a wish that is another one than before: the next that asks for it shall be that.
            let _ = ethtool::set_one(self.device.ifindex, self.group, &self.name, "off");
            return Err(KeyError::Away(format!("it is off as long as an XDP program is on {name}")));
        }
        Ok(())
    }
}

impl Setting for EthtoolKey {
    fn read(&self) -> Result<Option<String>, KeyError> {
        let all = ethtool::get(self.device.ifindex, self.group).map_err(|error| self.error(error))?;
        let missing = || self.error(EthtoolError::Unknown(self.name.clone()));
        all.get(&self.name).cloned().map(Some).ok_or_else(missing)
    }

    fn write(&self, value: &str) -> Result<(), KeyError> {
        ethtool::set_one(self.device.ifindex, self.group, &self.name, value).map_err(|error| self.error(error))?;
        if self.group == Group::Features && value == "on" { self.taken_by_xdp() } else { Ok(()) }
    }

    fn command(&self, value: &str) -> Option<String> {
        let (device, value) = (quoted(&self.device.name), quoted(value));
        Some(format!("ethtool -{} {device} {} {value}", self.group.letter(), self.name))
    }

    fn device(&self) -> Option<&DeviceRef> {
        Some(&self.device)
    }

    fn may_cut_off(&self) -> bool {
        true
    }
}

impl fmt::Display for EthtoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the {} of {}", self.name, self.group.name(), self.device.name)
    }
}
