//! Settings of a whole interface (`/sys/class/net/*`), in the namespace of the calling thread: what instances are made with, and a
//! write that all instances get. Source: `net/core/net-sysfs.c`.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;

use napier_core::control::{
    DEFER_HARD_IRQS_MAX, DevAttribute, DevSet, DevSetError, DevSettings, Errno, ThreadedSetting, parse_number,
};
use napier_core::time::Span;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::error::{KernelError, errno_of};

/// Why a setting of an interface was not read or written.
pub type DeviceError = KernelError<DevSetError>;

/// What the interface has for all of its settings. Values set on an instance do not show here.
///
/// # Errors
/// [`DevSetError::NotPermitted`] without `CAP_SYS_ADMIN` (a `sysfs` of this namespace is mounted for the answer);
/// [`KernelError::NotHere`] where the kernel has no such file (`threaded`: since 5.12); `ENODEV` where the namespace has no
/// such interface.
pub fn settings(interface: &str) -> Result<DevSettings, DeviceError> {
    let sysfs = Sysfs::of(interface)?;
    let defer_hard_irqs = sysfs.read(DevAttribute::NapiDeferHardIrqs)?;
    let threaded = sysfs.read(DevAttribute::Threaded)?;
    let unknown = |what, value| io::Error::other(format!("{what} of {interface} reads as {value}"));
    Ok(DevSettings {
        gro_flush_timeout: Span::from_ns(sysfs.read(DevAttribute::GroFlushTimeout)?),
        defer_hard_irqs: u32::try_from(defer_hard_irqs)
            .map_err(|_| unknown("napi_defer_hard_irqs", defer_hard_irqs))?,
        threaded: ThreadedSetting::from_number(threaded).ok_or_else(|| unknown("threaded", threaded))?,
    })
}

/// Writes a setting of the interface, which every instance gets too, and reads it back.
///
/// # Errors
/// [`DevSetError`] as the kernel decides: it needs `CAP_NET_ADMIN` (and `CAP_SYS_ADMIN`, as [`settings`]).
/// [`KernelError::NotHere`] where the kernel has no such file; `ENODEV` where the namespace has no such interface;
/// [`KernelError::Other`] where another value is read than was written.
pub fn set(interface: &str, request: DevSet) -> Result<(), DeviceError> {
    let DevSet { attribute, value } = request;
    let sysfs = Sysfs::of(interface)?;
    let mut file = sysfs.open(attribute, OFlags::WRONLY)?;
    file.write_all(value.to_string().as_bytes()).map_err(|error| refused(error, request))?;
    let found = sysfs.read(attribute)?;
    if found == value {
        return Ok(());
    }
    let name = attribute.file_name();
    Err(io::Error::other(format!("{name} of {interface} reads as {found} after {value} was written")).into())
}

/// A file below the folder of an interface, without the line's end.
///
/// # Errors
/// As [`settings`].
pub(crate) fn read_file(interface: &str, file: &str) -> Result<String, DeviceError> {
    let mut text = String::new();
    Sysfs::of(interface)?.open_file(file, OFlags::RDONLY)?.read_to_string(&mut text).map_err(denied)?;
    Ok(text.trim().to_owned())
}

/// The driver of an interface that is a device; `None` also where that is not to be seen.
pub(crate) fn driver(interface: &str) -> Option<String> {
    let uevent = read_file(interface, "device/uevent").ok()?;
    driver_in(&uevent).map(ToOwned::to_owned)
}

/// The driver that `device/uevent` names.
pub(crate) fn driver_in(uevent: &str) -> Option<&str> {
    uevent.lines().find_map(|line| line.strip_prefix("DRIVER="))
}

/// What tells an interface from another one that has its number later: the inode of its folder, which no other folder gets while
/// the kernel runs, and which neither a new name nor another namespace changes. `None` where `sysfs` is not to be seen. Source:
/// `fs/kernfs/dir.c __kernfs_new_node`.
pub(crate) fn node(interface: &str) -> Option<u64> {
    let sysfs = Sysfs::of(interface).ok()?;
    let found = rustix::fs::statat(&sysfs.root, format!("class/net/{interface}"), rustix::fs::AtFlags::empty());
    // A number of 32 bits comes again.
    found.ok().filter(|_| cfg!(target_pointer_width = "64")).map(|found| found.st_ino)
}

/// The interface of the calling thread's namespace that [`node`] says this of.
pub(crate) fn with_node(wanted: u64) -> Option<String> {
    // Any name will do: the folder of all of them is read.
    let sysfs = Sysfs::of("lo").ok()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(&sysfs.root, "class/net", flags, Mode::empty()).ok()?;
    let entries = rustix::fs::Dir::read_from(&folder).ok()?;
    entries.flatten().find_map(|entry| {
        let name = entry.file_name().to_str().ok()?;
        let found = rustix::fs::statat(&folder, name, rustix::fs::AtFlags::empty()).ok()?;
        (found.st_ino == wanted).then(|| name.to_owned())
    })
}

/// Writes to such a file. It is not read back.
///
/// # Errors
/// As [`settings`], and what the kernel says of the value.
pub(crate) fn write_file(interface: &str, file: &str, value: &str) -> Result<(), DeviceError> {
    let mut opened = Sysfs::of(interface)?.open_file(file, OFlags::WRONLY)?;
    opened.write_all(value.as_bytes()).map_err(|error| match DevAttribute::from_name(file).zip(value.parse().ok()) {
        Some((attribute, value)) => refused(error, DevSet { attribute, value }),
        None => denied(error),
    })
}

/// The folder of an interface. `sysfs` shows the namespace that it was mounted in, so it is mounted here, without a place in
/// the file system.
struct Sysfs<'a> {
    root: OwnedFd,
    interface: &'a str,
}

impl<'a> Sysfs<'a> {
    fn of(interface: &'a str) -> Result<Self, DeviceError> {
        // A name is a part of a path here.
        if interface.contains('/') || ["", ".", ".."].contains(&interface) {
            return Err(io::Error::from_raw_os_error(Errno::ENODEV.number()).into());
        }
        let mount = || {
            let context = rustix::mount::fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            rustix::mount::fsconfig_create(&context)?;
            rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
        };
        let root = match mount() {
            // Without the capability: what is mounted already, if it is this namespace's.
            Err(rustix::io::Errno::PERM) => mounted(interface)?,
            root => root.map_err(|error| denied(error.into()))?,
        };
        Ok(Self { root, interface })
    }

    fn open(&self, attribute: DevAttribute, flags: OFlags) -> Result<std::fs::File, DeviceError> {
        self.open_file(attribute.file_name(), flags)
    }

    fn open_file(&self, file: &str, flags: OFlags) -> Result<std::fs::File, DeviceError> {
        // A file is below the interface's own folder.
        if file.split('/').any(|part| ["", ".", ".."].contains(&part)) {
            return Err(io::Error::from_raw_os_error(Errno::ENOENT.number()).into());
        }
        let open = |path: &str, flags| rustix::fs::openat(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty());
        let folder = format!("class/net/{}", self.interface);
        match open(&format!("{folder}/{file}"), flags) {
            Ok(file) => Ok(file.into()),
            Err(rustix::io::Errno::NOENT) if open(&folder, OFlags::PATH).is_ok() => Err(DeviceError::NotHere {
                what: "this kernel has no such setting of interfaces (threaded: since Linux 5.12)",
                errno: Errno::ENOENT,
            }),
            Err(rustix::io::Errno::NOENT) => Err(io::Error::from_raw_os_error(Errno::ENODEV.number()).into()),
            Err(error) => Err(denied(error.into())),
        }
    }

    fn read(&self, attribute: DevAttribute) -> Result<u64, DeviceError> {
        let mut text = String::new();
        self.open(attribute, OFlags::RDONLY)?.read_to_string(&mut text)?;
        parse_number(&text).map_err(DeviceError::Refused)
    }
}

/// `/sys`, if it shows the interface that the calling thread's namespace has by that name.
fn mounted(interface: &str) -> Result<OwnedFd, DeviceError> {
    let shown = std::fs::read_to_string(format!("/sys/class/net/{interface}/ifindex")).unwrap_or_default();
    let ifindex = crate::link::index(interface)?;
    if shown.trim().parse() != Ok(ifindex) {
        return Err(DeviceError::Refused(DevSetError::NotPermitted));
    }
    let root = rustix::fs::open("/sys", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    root.map_err(|error| denied(error.into()))
}

fn denied(error: io::Error) -> DeviceError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => DeviceError::Refused(DevSetError::NotPermitted),
        _ => DeviceError::Other(error),
    }
}

fn refused(error: io::Error, DevSet { attribute, value }: DevSet) -> DeviceError {
    DeviceError::Refused(match errno_of(&error) {
        Some(Errno::ERANGE) if attribute == DevAttribute::NapiDeferHardIrqs => {
            DevSetError::OutOfRange { attribute, max: DEFER_HARD_IRQS_MAX.into() }
        }
        Some(Errno::EOPNOTSUPP) if value > 1 => DevSetError::NotForDevices,
        Some(Errno::EOPNOTSUPP) => DevSetError::NoNapi,
        _ => return denied(error),
    })
}
