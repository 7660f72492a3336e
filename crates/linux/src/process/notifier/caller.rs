//! What is asked of the thread that makes a call, and done as it would be done for it. It counts if the call still waits afterwards.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use super::super::thread::{self, number, status};
use super::Notifier;
use crate::sys::seccomp;

/// The least port that needs no capability, where the kernel does not say. Source: `include/net/sock.h PROT_SOCK`.
const SERVICE_PORTS: u16 = 1024;

impl Notifier {
    /// Whether a thread is in the network namespace of the one that asks.
    #[must_use]
    pub fn is_in_this_namespace(tid: u32) -> bool {
        shares_namespace(tid, "net")
    }

    /// The process that a thread belongs to; `None` if it has ended.
    #[must_use]
    pub fn process_of(tid: u32) -> Option<u32> {
        thread::process_of(tid)
    }

    /// The least port that needs no capability in the network namespace of the one that asks.
    #[must_use]
    pub fn unprivileged_ports() -> u16 {
        let said = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
        said.ok().and_then(|said| said.trim().parse().ok()).unwrap_or(SERVICE_PORTS)
    }

    /// A socket of the kernel, as the thread would make it: by its user and group, in the namespace of the calling thread.
    ///
    /// # Errors
    /// As `socket(2)`; `ENOENT` if the thread has ended.
    pub fn kernel_socket(tid: u32, domain: i32, kind: i32) -> io::Result<OwnedFd> {
        let status = status(tid).ok_or(io::ErrorKind::NotFound)?;
        let (user, group) = (number(&status, "Uid:", 3), number(&status, "Gid:", 3));
        let (user, group) = user.zip(group).ok_or(io::ErrorKind::NotFound)?;
        seccomp::socket_as(user, group, domain, kind | libc::SOCK_CLOEXEC, 0)
    }

    /// Sets an option of a socket of this process to bytes that a program gave.
    ///
    /// # Errors
    /// As `setsockopt(2)`.
    pub fn set_option(socket: impl AsFd, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
        crate::sys::set_option_of(level, socket.as_fd(), name, value)
    }

    /// Whether a descriptor of a thread is closed on exec.
    #[must_use]
    pub fn closes_on_exec(tid: u32, number: i32) -> bool {
        let info = fs::read_to_string(format!("/proc/{tid}/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & libc::O_CLOEXEC != 0)
    }
}

/// Whether a thread and the one that asks are in one namespace of a kind; false if it cannot be seen.
fn shares_namespace(tid: u32, kind: &str) -> bool {
    let namespace =
        |who: &str| fs::metadata(format!("/proc/{who}/ns/{kind}")).map(|file| (file.dev(), file.ino())).ok();
    let own = namespace("thread-self");
    own.is_some() && namespace(&tid.to_string()) == own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_shares_its_own_namespaces_and_none_with_what_has_ended() {
        assert!(shares_namespace(std::process::id(), "user") && shares_namespace(std::process::id(), "net"));
        assert!(!shares_namespace(u32::MAX, "user"));
    }
}
