//! The files of an interface.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use napier_core::control::DevAttribute;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

/// The files of an interface, from a `sysfs` of its namespace that is mounted nowhere.
pub(super) struct Sysfs {
    root: OwnedFd,
    name: String,
}

impl Sysfs {
    /// Of an interface in the namespace of the calling thread.
    ///
    /// # Errors
    /// `EPERM` without `CAP_SYS_ADMIN`.
    pub(super) fn of(name: &str) -> io::Result<Self> {
        let context = rustix::mount::fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(&context)?;
        let root = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        Ok(Self { root, name: name.to_owned() })
    }

    /// Writes what `echo` would.
    pub(super) fn write(&self, file: DevAttribute, value: &str) -> io::Result<()> {
        self.open(file, OFlags::WRONLY)?.write_all(format!("{value}\n").as_bytes())
    }

    pub(super) fn read(&self, file: DevAttribute) -> io::Result<String> {
        let mut text = String::new();
        self.open(file, OFlags::RDONLY)?.read_to_string(&mut text)?;
        Ok(text.trim_end().to_owned())
    }

    fn open(&self, file: DevAttribute, flags: OFlags) -> io::Result<std::fs::File> {
        let path = format!("class/net/{}/{}", self.name, file.file_name());
        Ok(rustix::fs::openat(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty())?.into())
    }
}
