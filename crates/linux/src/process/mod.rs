//! Programs that were not changed, from outside: how one is started and found, and a watcher that applies a mode to each of its
//! descriptors as it appears.
//!
//! ```text
//! Watcher --every few ms--> processes of the program: /proc/PID/task/*/children
//!                           their descriptors: /proc/PID/fd --pidfd_getfd--> EPIOCSPARAMS, SO_BUSY_POLL, IORING_REGISTER_NAPI
//! ```
//!
//! What is not seen: descriptors of a thread that has a table of its own (`unshare(CLONE_FILES)`), sockets that rings of io_uring hold
//! without a descriptor (the ring itself is), and objects that went to a process outside of the program.

mod accepted;
mod child;
mod given;
mod kept;
mod library;
mod look;
mod met;
mod notifier;
mod preload;
mod roots;
mod signals;
mod strict;
mod thread;
mod tree;
mod watcher;

use std::path::PathBuf;

pub use crate::cgroup::Cgroup;
pub use crate::descriptors::{
    DescriptorKey, DescriptorSetting, EpollValue, Kind, ONLY_EPOLL, OwnSettings, Process, ProcessRef, ProgramKey,
    ProgramSettings, RingValue, SocketValue,
};
pub use child::{Ended, Program};
pub use given::Given;
pub use kept::keep_for_parent;
pub use met::{Library, LibraryCounts, Meeting, library_in};
pub use notifier::{
    CallMemory, CallerRights, Capability, HeldPage, HeldSends, HeldSocketCall, Notifier, OptionRights, SocketCall,
    Watches,
};
pub use preload::{
    PreloadError, find_program, is_setuid, ld_preload, preload_for, preload_would_be, sockets_preload_for,
};
pub use roots::Roots;
pub use signals::{SignalSeen, Signals, is_ignored, wait_for, wait_for_one};
pub use strict::{Answer, HeldCall, Strict};
pub use tree::descendants;
pub use watcher::{MissedRing, Scan, Watcher};

/// The former name, for one version.
#[deprecated(note = "it is `HeldCall`")]
pub type Held = HeldCall;

/// Process and user at the other end of a Unix socket; 0 for a process that is not to be seen from this pid namespace. Source: `unix(7)`,
/// `SO_PEERCRED`.
///
/// # Errors
/// As `getsockopt(2)`.
pub fn peer_of(socket: impl std::os::fd::AsFd) -> std::io::Result<(u32, u32)> {
    crate::sys::peer(socket.as_fd())
}

/// The file of this program, for a child of the same version: also where an upgrade has put another file in its place since it
/// was started. Source: `proc_pid_exe(5)`.
#[must_use]
pub fn this_program() -> PathBuf {
    let named = std::env::current_exe().ok().filter(|file| file.is_file());
    named.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}
