//! NAPI instances of an interface (`netdev` netlink), in the namespace of the calling thread, and the older settings of
//! the whole interface in sysfs.

use std::io::{self, Write};
use std::os::fd::OwnedFd;

use netlink_bindings::netdev;
use netlink_socket2::NetlinkSocket;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::link::plain;

/// What to set of an instance. `None` leaves a setting as it is.
#[derive(Copy, Clone, Default, PartialEq, Eq, Debug)]
pub struct NapiSettings {
    /// `defer-hard-irqs`: empty polls before interrupts are enabled again.
    pub defer_hard_irqs: Option<u32>,
    /// `gro-flush-timeout`, ns.
    pub gro_flush_timeout_ns: Option<u32>,
    /// `irq-suspend-timeout`, ns.
    pub irq_suspend_timeout_ns: Option<u32>,
    /// `threaded`: 0, 1, or 2 to busy poll (which Linux 6.18 refuses).
    pub threaded: Option<u32>,
}

/// An instance as the kernel lists it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct NapiInfo {
    /// NAPI id. It changes when the instance is made anew, as by switching GRO.
    pub id: u32,
    /// Process id of the thread that polls it.
    pub thread_pid: Option<u32>,
    /// `defer-hard-irqs`.
    pub defer_hard_irqs: u32,
    /// `gro-flush-timeout`, ns.
    pub gro_flush_timeout_ns: u32,
    /// `irq-suspend-timeout`, ns; 0 where the kernel has none.
    pub irq_suspend_timeout_ns: u32,
}

pub(crate) fn list(ifindex: u32) -> io::Result<Vec<NapiInfo>> {
    let mut request = netdev::Request::new().op_napi_get_dump();
    request.encode().push_ifindex(ifindex);
    let mut socket = NetlinkSocket::new();
    let mut replies = socket.request(&request)?;
    let mut found = Vec::new();
    while let Some(reply) = replies.recv() {
        let reply = reply.map_err(plain)?;
        found.push(NapiInfo {
            id: reply.get_id().map_err(io::Error::other)?,
            thread_pid: reply.get_pid().ok(),
            defer_hard_irqs: reply.get_defer_hard_irqs().unwrap_or(0),
            gro_flush_timeout_ns: reply.get_gro_flush_timeout().unwrap_or(0),
            irq_suspend_timeout_ns: reply.get_irq_suspend_timeout().unwrap_or(0),
        });
    }
    found.sort_by_key(|napi| napi.id);
    Ok(found)
}

pub(crate) fn set(id: u32, settings: &NapiSettings) -> io::Result<()> {
    let mut request = netdev::Request::new().op_napi_set_do();
    let mut attributes = request.encode().push_id(id);
    if let Some(value) = settings.defer_hard_irqs {
        attributes = attributes.push_defer_hard_irqs(value);
    }
    if let Some(value) = settings.gro_flush_timeout_ns {
        attributes = attributes.push_gro_flush_timeout(value);
    }
    if let Some(value) = settings.irq_suspend_timeout_ns {
        attributes = attributes.push_irq_suspend_timeout(value);
    }
    if let Some(value) = settings.threaded {
        attributes = attributes.push_threaded(value);
    }
    drop(attributes);
    NetlinkSocket::new().request(&request)?.recv_ack().map_err(plain)
}

/// Sets what sysfs has for a whole interface. sysfs shows the namespace that it was mounted in, so it is mounted here
/// without a place in the file system.
pub(crate) fn set_device(name: &str, settings: &NapiSettings) -> io::Result<()> {
    let context = rustix::mount::fsopen("sysfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(&context)?;
    let sysfs = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    let write = |setting: &str, value: Option<u32>| match value {
        Some(value) => write_file(&sysfs, &format!("class/net/{name}/{setting}"), &value.to_string()),
        None => Ok(()),
    };
    if settings.irq_suspend_timeout_ns.is_some() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    write("napi_defer_hard_irqs", settings.defer_hard_irqs)?;
    write("gro_flush_timeout", settings.gro_flush_timeout_ns)?;
    write("threaded", settings.threaded)
}

fn write_file(directory: &OwnedFd, path: &str, text: &str) -> io::Result<()> {
    let file = rustix::fs::openat(directory, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    std::fs::File::from(file).write_all(text.as_bytes())
}
