//! A file of an interface as a value of the list.

use std::fmt;

use napier_core::control::{DevSetError, Errno};
use serde::{Deserialize, Serialize};

use crate::device;
use crate::error::{KernelError, errno_of};
use crate::setting::text::{quoted, same_in_file};
use crate::setting::{DeviceRef, KeyError, Setting};

/// A file below `/sys/class/net/IF`.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct DeviceFileKey {
    /// The interface.
    pub device: DeviceRef,
    /// Path below its folder, such as `threaded` or `queues/rx-0/rps_cpus`.
    pub file: String,
}

impl DeviceFileKey {
    fn error(&self, error: device::DeviceError) -> KeyError {
        match error {
            KernelError::Refused(DevSetError::NotPermitted) => KeyError::Denied("CAP_NET_ADMIN and CAP_SYS_ADMIN"),
            KernelError::Other(error) if errno_of(&error) == Some(Errno::ENODEV) => {
                KeyError::Gone(format!("{} is gone", self.device.name))
            }
            error => KeyError::of(error),
        }
    }
}

impl Setting for DeviceFileKey {
    fn read(&self) -> Result<Option<String>, KeyError> {
        device::read_file(&self.device.name_now()?, &self.file).map(Some).map_err(|error| self.error(error))
    }

    fn write(&self, value: &str) -> Result<(), KeyError> {
        device::write_file(&self.device.name_now()?, &self.file, value).map_err(|error| self.error(error))
    }

    fn command(&self, value: &str) -> Option<String> {
        let path = format!("/sys/class/net/{}/{}", self.device.name, self.file);
        Some(format!("echo {} > {}", quoted(value), quoted(&path)))
    }

    fn same(&self, one: &str, other: &str) -> bool {
        same_in_file(&self.file, one, other)
    }

    fn device(&self) -> Option<&DeviceRef> {
        Some(&self.device)
    }

    fn is_of_queue(&self) -> bool {
        self.file.starts_with("queues/")
    }

    fn may_cut_off(&self) -> bool {
        self.file == "threaded"
    }
}

impl fmt::Display for DeviceFileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.file, self.device.name)
    }
}
