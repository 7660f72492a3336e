//! What a thread that makes a call may do, by the kernel's own rule: `security/commoncap.c cap_capable`.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::super::thread::{number, status};
use super::Notifier;
use crate::sys::{self, userns};

/// `PROC_USER_INIT_INO`, the first user namespace. Source: `include/linux/proc_ns.h`.
const FIRST_USERS: u64 = 0xefff_fffd;
/// User namespaces are made in one another at most so deep. Source: `kernel/user_namespace.c create_user_ns`.
const LEVELS_MAX: usize = 33;

/// A capability. Source: `include/uapi/linux/capability.h`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Capability {
    /// Ports below `net.ipv4.ip_unprivileged_port_start`.
    NetBindService = 10,
    /// Settings of the network.
    NetAdmin = 12,
    /// Packets of any kind.
    NetRaw = 13,
}

impl Capability {
    const fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// What a thread may do.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct CallerRights {
    network: u64,
    machine: u64,
}

impl CallerRights {
    /// Of a thread with these capabilities over its network namespace and over the machine.
    #[must_use]
    pub fn new(network: &[Capability], machine: &[Capability]) -> Self {
        let bits = |all: &[Capability]| all.iter().fold(0, |bits, one| bits | one.bit());
        Self { network: bits(network), machine: bits(machine) }
    }

    /// Whether it has a capability in the user namespace that owns the network namespace (`ns_capable`).
    #[must_use]
    pub const fn over_network(self, capability: Capability) -> bool {
        self.network & capability.bit() != 0
    }

    /// Whether it has a capability in the first user namespace (`capable`).
    #[must_use]
    pub const fn over_machine(self, capability: Capability) -> bool {
        self.machine & capability.bit() != 0
    }
}

/// What kernels differ in when a program sets an option of a socket.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct OptionRights {
    /// `CAP_NET_RAW` does for a priority above 6 (Linux 5.17).
    pub priority_by_net_raw: bool,
    /// A longer time of busy polling needs no capability (newer kernels).
    pub busy_poll_is_free: bool,
}

impl OptionRights {
    /// Of this kernel: it is asked. What cannot be asked for want of a capability counts as the stricter one.
    #[must_use]
    pub fn of_this_kernel() -> Self {
        let none = CapabilitySet::empty();
        let priority = |kept| is_allowed(kept, libc::SO_PRIORITY, 7);
        Self {
            priority_by_net_raw: priority(none) == Some(false) && priority(CapabilitySet::NET_RAW) == Some(true),
            busy_poll_is_free: is_allowed(none, libc::SO_BUSY_POLL, i32::MAX) == Some(true),
        }
    }
}

/// Whether the kernel lets a thread with these capabilities alone set an option; `None`: there can be no such thread here.
fn is_allowed(kept: CapabilitySet, option: i32, value: i32) -> Option<bool> {
    let asking = std::thread::Builder::new().name("napier-asks".to_owned()).spawn(move || {
        // They are of this thread alone, which ends.
        let mut own = capabilities(None).ok()?;
        if !own.permitted.contains(kept) {
            return None;
        }
        own.effective = kept;
        set_capabilities(None, own).ok()?;
        // Options of `SOL_SOCKET` are the same for all families (`net/core/sock.c sk_setsockopt`).
        let made = socket(AddressFamily::UNIX, SocketType::DGRAM, None).ok()?;
        Some(sys::set_socket_option(made.as_fd(), option, value).is_ok())
    });
    asking.ok()?.join().ok()?
}

impl Notifier {
    /// What a thread may do, over the network namespace of the one that asks among others. It counts if the call still waits afterwards.
    #[must_use]
    pub fn rights_of(tid: u32) -> CallerRights {
        let own = File::open("/proc/thread-self/ns/net");
        own.map_or_else(|_| CallerRights::default(), |own| rights_over(own.as_fd(), tid))
    }
}

fn rights_over(network: BorrowedFd<'_>, tid: u32) -> CallerRights {
    let found = || {
        let (users, status) = (fs::metadata(format!("/proc/{tid}/ns/user")).ok()?, status(tid)?);
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        let effective = u64::from_str_radix(effective.trim(), 16).ok()?;
        let caller = Caller { users: (users.dev(), users.ino()), user: number(&status, "Uid:", 1)?, effective };
        let machine = if users.ino() == FIRST_USERS { effective } else { 0 };
        Some(CallerRights { network: caller.over(network).unwrap_or(0), machine })
    };
    found().unwrap_or_default()
}

/// What the rule looks at.
struct Caller {
    /// Its user namespace.
    users: (u64, u64),
    user: u32,
    effective: u64,
}

impl Caller {
    /// Its capabilities over a namespace: those that it has, if the owner is its user namespace or was made in it; all, if its user has made the owner
    /// there. `None`: none, or it cannot be seen.
    fn over(&self, namespace: BorrowedFd<'_>) -> Option<u64> {
        let is_own = |users: BorrowedFd<'_>| {
            let found = rustix::fs::fstat(users).ok();
            found.is_some_and(|found| (found.st_dev, found.st_ino) == self.users)
        };
        let mut owner = userns::owner(namespace).ok()?;
        for _ in 0..LEVELS_MAX {
            if is_own(owner.as_fd()) {
                return Some(self.effective);
            }
            let parent = userns::parent(owner.as_fd()).ok()?;
            if is_own(parent.as_fd()) && userns::maker(owner.as_fd()).is_ok_and(|user| user == self.user) {
                return Some(u64::MAX);
            }
            owner = parent;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::process::{Child, Command, Stdio};

    use super::*;

    const ALL: [Capability; 3] = [Capability::NetBindService, Capability::NetAdmin, Capability::NetRaw];

    #[test]
    fn a_thread_has_what_its_status_says_and_one_that_has_ended_has_nothing() {
        let own = capabilities(None).expect("this thread is there").effective;
        let tid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
        let (found, all) = (Notifier::rights_of(tid), CallerRights { network: u64::MAX, machine: u64::MAX });
        assert!(ALL.iter().all(|one| all.over_network(*one) && all.over_machine(*one)));
        for one in ALL {
            assert!(own.bits() & one.bit() != 0 || !found.over_network(one), "{one:?}");
        }
        assert_eq!(Notifier::rights_of(u32::MAX), CallerRights::default());
        assert!(CallerRights::new(&[Capability::NetRaw], &[]).over_network(Capability::NetRaw));
        assert!(!CallerRights::new(&[Capability::NetRaw], &ALL).over_network(Capability::NetAdmin));
    }

    /// A process in a user namespace of its own, and in a network namespace of that one if it is asked for.
    fn apart(test: &str, flags: &str) -> Option<Child> {
        let started = Command::new("unshare")
            .args([flags, "sh", "-c", "echo; read end"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else {
            napier_testkit::skip!(test, "there is no unshare");
            return None;
        };
        if child.stdout.as_mut().expect("a pipe").read(&mut [0]).is_ok_and(|count| count == 1) {
            return Some(child);
        }
        let _ = child.wait();
        napier_testkit::skip!(test, "no user namespace can be made");
        None
    }

    fn end(mut child: Child) {
        drop(child.stdin.take());
        let _ = child.wait();
    }

    #[test]
    fn a_private_user_namespace_gives_nothing_over_networks_of_others() {
        let Some(child) = apart("a_private_user_namespace_gives_nothing_over_networks_of_others", "-Ur") else {
            return;
        };
        let found = Notifier::rights_of(child.id());
        end(child);
        assert_eq!(found, CallerRights::default());
    }

    #[test]
    fn a_network_of_a_private_user_namespace_is_its_roots_and_its_makers() {
        let test = "a_network_of_a_private_user_namespace_is_its_roots_and_its_makers";
        let Some(child) = apart(test, "-Urn") else { return };
        let Ok(network) = File::open(format!("/proc/{}/ns/net", child.id())) else {
            end(child);
            return napier_testkit::skip!(test, "its namespaces are not to be opened");
        };
        // `unshare` and `sh` have the one user that has made it.
        let (theirs, own) =
            (rights_over(network.as_fd(), child.id()), rights_over(network.as_fd(), std::process::id()));
        end(child);
        for one in ALL {
            assert!(theirs.over_network(one) && !theirs.over_machine(one) && own.over_network(one), "{one:?}");
        }
    }

    #[test]
    fn this_kernel_says_the_same_twice_and_no_thread_loses_anything() {
        let before = capabilities(None).expect("this thread is there");
        assert_eq!(OptionRights::of_this_kernel(), OptionRights::of_this_kernel());
        assert_eq!(capabilities(None).expect("this thread is there"), before);
    }
}
