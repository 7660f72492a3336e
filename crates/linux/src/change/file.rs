//! Files of `/proc` and `/sys` that are settings of the kernel, and nothing else: a journal names them, and what it names is written.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Write as _};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::setting::text::{quoted, same_in_file};
use crate::setting::{KeyError, Setting};

/// Where settings are. What is below `/proc` by the number of a process leads to its files, and to all of the file system.
const ROOTS: [&str; 4] = ["/proc/sys", "/proc/irq", "/sys", "/proc/fs"];
/// Where interrupts are.
const IRQS: &str = "/proc/irq/";

/// A file of `/proc` or `/sys`.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct FileKey {
    /// Its path.
    pub path: String,
}

impl Setting for FileKey {
    fn read(&self) -> Result<Option<String>, KeyError> {
        read(&self.path).map(Some)
    }

    fn write(&self, value: &str) -> Result<(), KeyError> {
        write(&self.path, value)
    }

    fn command(&self, value: &str) -> Option<String> {
        Some(format!("echo {} > {}", quoted(value), quoted(&self.path)))
    }

    fn same(&self, one: &str, other: &str) -> bool {
        same_in_file(&self.path, one, other)
    }

    fn may_cut_off(&self) -> bool {
        self.path.starts_with(IRQS)
    }

    /// Source: `kernel/irq/proc.c write_irq_affinity`, which answers EIO for an interrupt that cannot be moved.
    fn why(&self, error: &KeyError) -> String {
        match error {
            KeyError::Io(error) if self.path.starts_with(IRQS) && error.raw_os_error() == Some(libc::EIO) => {
                "its driver or the kernel decides where this interrupt goes, and does not let it be moved".to_owned()
            }
            error => error.to_string(),
        }
    }
}

impl fmt::Display for FileKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

/// A file below `/proc/sys`, by its name with dots.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct SysctlKey {
    /// Such as `net.core.busy_poll`.
    pub name: String,
}

impl SysctlKey {
    fn path(&self) -> String {
        format!("/proc/sys/{}", self.name.replace('.', "/"))
    }
}

impl Setting for SysctlKey {
    fn read(&self) -> Result<Option<String>, KeyError> {
        read(&self.path()).map(Some)
    }

    fn write(&self, value: &str) -> Result<(), KeyError> {
        write(&self.path(), value)
    }

    fn command(&self, value: &str) -> Option<String> {
        Some(format!("sysctl -w {}", quoted(&format!("{}={value}", self.name))))
    }
}

impl fmt::Display for SysctlKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

fn read(path: &str) -> Result<String, KeyError> {
    let mut text = String::new();
    let read = open(path, OFlags::RDONLY)?.read_to_string(&mut text);
    read.map(|_| text.trim().to_owned()).map_err(|error| of(error, path))
}

fn write(path: &str, value: &str) -> Result<(), KeyError> {
    // Not created: a file that is not there is a setting that this machine does not have.
    open(path, OFlags::WRONLY)?.write_all(value.as_bytes()).map_err(|error| of(error, path))
}

/// A plain file below one of the roots, by links that stay there: not a pipe, which would be waited for.
fn open(path: &str, flags: OFlags) -> Result<File, KeyError> {
    let no_setting = || KeyError::NotHere(format!("{path} is no setting of the kernel"));
    let below = |root: &&str| path.strip_prefix(*root).is_some_and(|rest| rest.starts_with('/'));
    let root = ROOTS.into_iter().find(below).ok_or_else(no_setting)?;
    let rest = path[root.len()..].trim_start_matches('/');
    if rest.split('/').any(|part| [".", ".."].contains(&part)) {
        return Err(no_setting());
    }
    let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened =
        openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).and_then(|root| {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            match openat2(&root, rest, flags, Mode::empty(), resolve) {
                // Before Linux 5.6, or a filter that does not know it.
                Err(Errno::NOSYS | Errno::PERM) => openat(&root, rest, flags, Mode::empty()),
                opened => opened,
            }
        });
    let file = File::from(opened.map_err(|error| of(error.into(), path))?);
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    if is_file { Ok(file) } else { Err(no_setting()) }
}

fn of(error: io::Error, path: &str) -> KeyError {
    match error.kind() {
        io::ErrorKind::NotFound => KeyError::NotHere(format!("this machine has no {path}")),
        io::ErrorKind::PermissionDenied => KeyError::Denied("root (or CAP_SYS_ADMIN)"),
        io::ErrorKind::InvalidInput => KeyError::Refused(format!("{path} does not take that value: {error}")),
        _ if [Some(libc::EXDEV), Some(libc::ELOOP)].contains(&error.raw_os_error()) => {
            KeyError::NotHere(format!("{path} is no setting of the kernel"))
        }
        _ => KeyError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_settings_of_the_kernel_are_opened() {
        assert!(read("/proc/sys/kernel/ostype").is_ok_and(|text| text == "Linux"));
        for path in [
            "/proc/self/root/etc/hostname",
            "/proc/self/cwd/Cargo.toml",
            "/proc/self/fd/1",
            "/proc/sys/../self/cmdline",
            "/proc/sys",
            "/etc/hostname",
            "/sys/../etc/hostname",
            "/sysx",
            "proc/sys/kernel/ostype",
            "",
        ] {
            let found = open(path, OFlags::RDONLY);
            assert!(matches!(found, Err(KeyError::NotHere(_))), "{path}: {found:?}");
        }
    }
}
