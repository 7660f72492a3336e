//! One value of this machine: what names it, how it is read and written.

use std::fmt;
use std::io;

use napier_core::control::{DevSetError, Errno, NapiInfo, NapiSetError, QueryError};
use serde::{Deserialize, Serialize};

use super::text::quoted;
use super::{Entry, EthtoolKey, NapiAttribute, ThreadKey, file, text};
use crate::error::{KernelError, Refusal, errno_of};
use crate::process::{DescriptorSetting, OwnSettings, Process, ProcessRef, ProgramSettings};
use crate::{device, link, netdev};

/// An interface: by its number, which a new name does not change. The name is for people.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct DeviceRef {
    /// Number.
    pub ifindex: u32,
    /// Name when it was found.
    pub name: String,
}

impl DeviceRef {
    /// The interface of that name in the namespace of the calling thread.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> io::Result<Self> {
        Ok(Self { ifindex: link::index(name)?, name: name.to_owned() })
    }

    /// Its name now.
    ///
    /// # Errors
    /// [`KeyError::Gone`] if this namespace has no such interface any more.
    pub fn name_now(&self) -> Result<String, KeyError> {
        link::name(self.ifindex).map_err(|error| match errno_of(&error) {
            Some(Errno::ENODEV) | None => KeyError::Gone(format!("{} is gone from this namespace", self.name)),
            _ => KeyError::Io(error),
        })
    }
}

/// One value of this machine.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "kebab-case")]
pub enum Key {
    /// An attribute of a NAPI instance (napi-set). Where the interface went down and up, the instance has another id: then
    /// it is the one in the same place among the interface's.
    Napi {
        /// The interface.
        device: DeviceRef,
        /// Its id when it was found.
        id: u32,
        /// Its place among the interface's instances, the oldest first.
        place: u32,
        /// The attribute.
        attribute: NapiAttribute,
    },
    /// A file below `/sys/class/net/IF`.
    DeviceFile {
        /// The interface.
        device: DeviceRef,
        /// Path below its folder, such as `threaded` or `queues/rx-0/rps_cpus`.
        file: String,
    },
    /// A file below `/proc/sys`, by its name with dots.
    Sysctl {
        /// Such as `net.core.busy_poll`.
        name: String,
    },
    /// All descriptors of a process that a mode is about, as far as they were as they are made: [`IN_FORCE`] or [`AS_MADE`].
    Program {
        /// The process.
        process: ProcessRef,
        /// What they have.
        settings: ProgramSettings,
    },
    /// A descriptor of a process that its program had set itself.
    Descriptor {
        /// The process.
        process: ProcessRef,
        /// Its number there.
        fd: i32,
        /// What of it.
        setting: DescriptorSetting,
    },
    /// Another file of `/proc` or `/sys`: the affinity of an interrupt, SMT, masks of workqueues.
    File {
        /// Its path.
        path: String,
    },
    /// A setting of `ethtool`.
    Ethtool(EthtoolKey),
    /// Where a thread runs, and how it is scheduled.
    Thread(ThreadKey),
}

/// A program's descriptors have what its mode says.
pub const IN_FORCE: &str = "in force";
/// A program's descriptors are as they were made.
pub const AS_MADE: &str = "as made";

/// Why a value was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// What it belongs to is gone.
    #[error("{0}")]
    Gone(String),
    /// This machine has no such setting.
    #[error("{0}")]
    NotHere(String),
    /// What it belongs to is away, and comes back with the value that it has: a queue that is switched off.
    #[error("{0}")]
    Away(String),
    /// A capability is missing.
    #[error("not permitted: it needs {0}")]
    Denied(&'static str),
    /// It is not a value of that setting.
    #[error("`{value}` is no value of {what}")]
    Value {
        /// As given.
        value: String,
        /// The setting.
        what: &'static str,
    },
    /// What was written is not what is read.
    #[error("it reads as {found} after it was written")]
    ReadsAs {
        /// What is read.
        found: String,
    },
    /// As the rules and the kernel say it.
    #[error("{0}")]
    Refused(String),
    /// As the system says it.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl KeyError {
    /// Whether a capability or a kernel feature is missing, rather than something being wrong.
    #[must_use]
    pub fn is_privilege(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::NotHere(_))
    }

    /// A refusal in `core`'s words.
    pub(crate) fn of<R: Refusal>(error: KernelError<R>) -> Self {
        match error {
            KernelError::NotHere { .. } => Self::NotHere(error.to_string()),
            KernelError::Refused(_) if error.errno() == Some(Errno::EPERM) => Self::Denied("CAP_NET_ADMIN"),
            KernelError::Refused(refusal) => Self::Refused(refusal.to_string()),
            KernelError::Other(error) => Self::Io(error),
        }
    }
}

impl Key {
    /// What is there; `None` where the kernel does not tell.
    ///
    /// # Errors
    /// [`KeyError`]: gone, not on this machine, not permitted.
    pub fn read(&self) -> Result<Option<String>, KeyError> {
        match self {
            Self::Napi { attribute, .. } => Ok(attribute.value_of(&self.instance()?)),
            Self::DeviceFile { device, file } => {
                device::read_file(&device.name_now()?, file).map(Some).map_err(|error| of_device(error, device))
            }
            Self::Sysctl { name } => file::read(&sysctl(name)).map(Some),
            Self::File { path } => file::read(path).map(Some),
            // There may be none, or some of each.
            Self::Program { process, .. } => Process::again(process).map(|_| None),
            Self::Descriptor { process, fd, setting } => setting.read(process, *fd),
            Self::Ethtool(key) => key.read(),
            Self::Thread(key) => key.read(),
        }
    }

    /// Writes a value. It is not read back: [`super::apply`] does that.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn write(&self, value: &str) -> Result<(), KeyError> {
        match self {
            Self::Napi { attribute, .. } => {
                let request = attribute.change(value)?.request(self.instance()?.id);
                netdev::napi_set(&request).map_err(|error| match error {
                    KernelError::Refused(NapiSetError::NoSuchNapi { .. }) => KeyError::Gone(format!("{self} is gone")),
                    error => KeyError::of(error),
                })
            }
            Self::DeviceFile { device, file } => {
                device::write_file(&device.name_now()?, file, value).map_err(|error| of_device(error, device))
            }
            Self::Sysctl { name } => file::write(&sysctl(name), value),
            Self::File { path } => file::write(path, value),
            Self::Program { process, settings } if value == AS_MADE => {
                settings.put_back(&Process::again(process)?, &OwnSettings::default())
            }
            Self::Program { .. } => Err(KeyError::Value { value: value.to_owned(), what: "a program's descriptors" }),
            Self::Descriptor { process, fd, setting } => setting.write(process, *fd, value),
            Self::Ethtool(key) => key.write(value),
            Self::Thread(key) => key.write(value),
        }
    }

    /// Whether two values are the same setting: lists and masks of CPUs have several spellings.
    #[must_use]
    pub fn same(&self, one: &str, other: &str) -> bool {
        let is = |end: &str| match self {
            Self::File { path } => path.ends_with(end),
            Self::DeviceFile { file, .. } => file.ends_with(end),
            _ => false,
        };
        if one == other {
            return true;
        }
        if is("_list") || matches!(self, Self::Thread(_)) {
            return text::cpu_list(one).is_some_and(|one| text::cpu_list(other) == Some(one));
        }
        if is("cpumask") || is("_cpus") || is("_rxqs") || is("smp_affinity") {
            return text::cpu_mask(one).is_some_and(|one| text::cpu_mask(other) == Some(one));
        }
        false
    }

    /// Whether it ends with an interface.
    pub(super) const fn is_of_device(&self) -> bool {
        matches!(self, Self::Napi { .. } | Self::DeviceFile { .. } | Self::Ethtool(_))
    }

    /// Whether it is of a queue, which may be switched off.
    pub(super) fn is_of_queue(&self) -> bool {
        matches!(self, Self::DeviceFile { file, .. } if file.starts_with("queues/"))
    }

    /// The same of an interface that has another number or name by now.
    pub(super) fn with_device(&self, now: &DeviceRef) -> Self {
        let mut key = self.clone();
        match &mut key {
            Self::Napi { device, .. } | Self::DeviceFile { device, .. } | Self::Ethtool(EthtoolKey { device, .. }) => {
                device.clone_from(now);
            }
            _ => {}
        }
        key
    }

    /// Whether it ends with a process.
    #[must_use]
    pub const fn is_of_program(&self) -> bool {
        matches!(self, Self::Program { .. } | Self::Descriptor { .. })
    }

    /// Whether another key is about the instance that an interface has got in place of this key's.
    pub(super) fn is_before(&self, new: &Self) -> bool {
        match (self, new) {
            (
                Self::Napi { device, id, place, attribute },
                Self::Napi { device: new_device, id: new_id, place: new_place, attribute: new_attribute },
            ) => {
                device.ifindex == new_device.ifindex && (place, attribute) == (new_place, new_attribute) && id != new_id
            }
            _ => false,
        }
    }

    /// What a write changes beside: an entry for each instance that a file of its interface is written to, and for what is lost
    /// with queues that are switched off.
    pub(super) fn implied(&self, value: &str, before: Option<&str>) -> Result<Vec<Entry>, KeyError> {
        if let Self::Ethtool(key) = self {
            return Ok(key.implied(value));
        }
        let Self::DeviceFile { device, file } = self else { return Ok(Vec::new()) };
        let attribute = match file.as_str() {
            "threaded" => NapiAttribute::Threaded,
            "napi_defer_hard_irqs" => NapiAttribute::DeferHardIrqs,
            "gro_flush_timeout" => NapiAttribute::GroFlushTimeout,
            _ => return Ok(Vec::new()),
        };
        // As napi-set spells it.
        let spelled = |value: &str| match (attribute, value) {
            (NapiAttribute::Threaded, "0") => "disabled".to_owned(),
            (NapiAttribute::Threaded, "1") => "enabled".to_owned(),
            _ => value.to_owned(),
        };
        let infos = instances(device)?;
        let entry = |(place, info): (usize, NapiInfo)| {
            let key = Self::Napi { device: device.clone(), id: info.id, place: place as u32, attribute };
            let before_own = attribute.value_of(&info)?;
            let after = spelled(value);
            let file = before.map(spelled);
            // The way back writes what the file had to all of them.
            let is_lost = before_own != after || file.as_ref().is_some_and(|file| *file != before_own);
            is_lost.then_some(Entry { key, before: Some(before_own), after, or: file })
        };
        Ok(infos.into_iter().enumerate().filter_map(entry).collect())
    }

    /// The command by which a person would do the same.
    #[must_use]
    pub fn command(&self, value: &str) -> Option<String> {
        Some(match self {
            Self::Napi { id, attribute, .. } => {
                let quoted =
                    if *attribute == NapiAttribute::Threaded { format!("\"{value}\"") } else { value.to_owned() };
                format!("napier napi-set --json '{{\"id\": {id}, \"{}\": {quoted}}}'", attribute.name())
            }
            Self::DeviceFile { device, file } => {
                format!("echo {} > {}", quoted(value), quoted(&format!("/sys/class/net/{}/{file}", device.name)))
            }
            Self::Sysctl { name } => format!("sysctl -w {}", quoted(&format!("{name}={value}"))),
            Self::File { path } => format!("echo {} > {}", quoted(value), quoted(path)),
            Self::Program { .. } | Self::Descriptor { .. } => return None,
            Self::Ethtool(key) => key.command(value),
            Self::Thread(key) => key.command(value),
        })
    }

    /// The instance as it is now.
    fn instance(&self) -> Result<NapiInfo, KeyError> {
        let Self::Napi { device, id, place, .. } = self else { unreachable!("asked of instances only") };
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
        let found = infos.iter().find(|info| info.id == *id).or_else(|| infos.get(*place as usize));
        let away = "has no such instance now (fewer queues, or generic receive offload is off)";
        found.copied().ok_or_else(|| KeyError::Away(format!("{} {away}", device.name)))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Napi { device, id, attribute, .. } => {
                write!(f, "{} of NAPI instance {id} of {}", attribute.name(), device.name)
            }
            Self::DeviceFile { device, file } => write!(f, "{file} of {}", device.name),
            Self::Sysctl { name } => f.write_str(name),
            Self::File { path } => f.write_str(path),
            Self::Program { process, .. } => write!(f, "descriptors of {process}"),
            Self::Descriptor { process, fd, setting } => {
                write!(f, "{} of descriptor {fd} of {process}", setting.name())
            }
            Self::Ethtool(key) => key.fmt(f),
            Self::Thread(key) => key.fmt(f),
        }
    }
}

/// The instances of an interface, the oldest first.
pub(super) fn instances(device: &DeviceRef) -> Result<Vec<NapiInfo>, KeyError> {
    let mut infos = netdev::napi_dump(Some(device.ifindex)).map_err(|error| match error {
        KernelError::Refused(QueryError::NoSuchDevice { .. }) => KeyError::Gone(format!("{} is gone", device.name)),
        error => KeyError::of(error),
    })?;
    infos.sort_unstable_by_key(|info| info.id);
    Ok(infos)
}

/// Whether it is there, and down (`IFF_UP` of `netdevice(7)`).
fn is_down(device: &DeviceRef) -> bool {
    let flags = device.name_now().ok().and_then(|name| device::read_file(&name, "flags").ok());
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    flags.is_some_and(|flags| flags & 1 == 0)
}

fn of_device(error: device::DeviceError, device: &DeviceRef) -> KeyError {
    match error {
        KernelError::Refused(DevSetError::NotPermitted) => KeyError::Denied("CAP_NET_ADMIN and CAP_SYS_ADMIN"),
        KernelError::Other(error) if errno_of(&error) == Some(Errno::ENODEV) => {
            KeyError::Gone(format!("{} is gone", device.name))
        }
        error => KeyError::of(error),
    }
}

fn sysctl(name: &str) -> String {
    format!("/proc/sys/{}", name.replace('.', "/"))
}
