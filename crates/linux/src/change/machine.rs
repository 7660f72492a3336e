//! A lock that belongs to the machine: two commands whose journals are in different folders see each other by it.
//!
//! It is an abstract Unix socket. Its name holds the number of the interface and exists once in each network namespace, whatever file
//! systems and processes a container sees; it ends with its process. Any user may take such a name, so the process that has it is
//! asked for (`SO_PEERCRED`): one that can change nothing here is passed by, and the next name is tried.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};

use super::header::Scope;
use crate::descriptors::Process;
use crate::sys;

/// Names that are tried, where others have them.
const NAMES: u32 = 8;
/// A process that was killed is waited for: what it had started may have its descriptors until it has begun. 2 s.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);
/// `include/uapi/linux/capability.h`.
const CAP_NET_ADMIN: u32 = 12;

/// What is held while something is changed; let go with it.
#[derive(Debug)]
pub(super) struct MachineLock {
    /// None where this process may have no such socket: the lock of the journal's file is all there is then.
    _socket: Option<OwnedFd>,
}

/// Another process has the lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LockedBy {
    /// Its number, 0 if it is not to be seen from here.
    pub(super) pid: u32,
}

impl MachineLock {
    /// Takes the lock of a scope in the namespace of the calling thread.
    pub(super) fn take(scope: &Scope) -> Result<Self, LockedBy> {
        let name = name(scope);
        let (mut nth, mut tries) = (0, 0);
        while nth < NAMES {
            match begin(&address(&name, nth)) {
                Ok(socket) => {
                    // A name before this one may have been another's when a process took a later one.
                    let later = (nth + 1..NAMES).filter_map(|nth| holder(&name, nth));
                    return match later.into_iter().find(Peer::counts) {
                        Some(peer) => Err(LockedBy { pid: peer.pid }),
                        None => Ok(Self { _socket: Some(socket) }),
                    };
                }
                Err(Errno::ADDRINUSE) => {
                    let found = holder(&name, nth);
                    let is_over = found.as_ref().is_none_or(Peer::has_ended);
                    if is_over && tries < TRIES {
                        tries += 1;
                        std::thread::sleep(PAUSE);
                    } else if found.as_ref().is_none_or(Peer::counts) {
                        return Err(LockedBy { pid: found.map_or(0, |peer| peer.pid) });
                    } else {
                        nth += 1;
                    }
                }
                Err(_) => return Ok(Self { _socket: None }),
            }
        }
        Err(LockedBy { pid: holder(&name, 0).map_or(0, |peer| peer.pid) })
    }
}

/// Numbers of interfaces of this namespace that another command holds, and its process.
pub(super) fn held_here() -> Vec<(u32, u32)> {
    let sockets = fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
    let names = sockets.lines().filter_map(|line| line.rsplit_once(' ')?.1.strip_prefix("@napier/device/"));
    let mut found: Vec<(u32, u32)> = Vec::new();
    for name in names {
        let Some((ifindex, nth)) = name.split_once('/') else { continue };
        let (Ok(ifindex), Ok(nth)) = (ifindex.parse::<u32>(), nth.parse()) else { continue };
        if let Some(peer) = holder(&format!("device/{ifindex}"), nth).filter(Peer::counts)
            && !found.contains(&(ifindex, peer.pid))
        {
            found.push((ifindex, peer.pid));
        }
    }
    found
}

fn name(scope: &Scope) -> String {
    match scope {
        Scope::Device { device, .. } => format!("device/{}", device.ifindex),
        Scope::Host => "host".to_owned(),
    }
}

fn address(name: &str, nth: u32) -> SocketAddrUnix {
    let name = format!("napier/{name}/{nth}");
    SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("it is short")
}

fn socket() -> rustix::io::Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

fn begin(address: &SocketAddrUnix) -> rustix::io::Result<OwnedFd> {
    let socket = socket()?;
    bind(&socket, address)?;
    // No connection is accepted: to be asked who has it, it has to listen.
    listen(&socket, 1024)?;
    Ok(socket)
}

/// The process that has a name; `None` if none has it, or not for long.
fn holder(name: &str, nth: u32) -> Option<Peer> {
    let socket = socket().ok()?;
    match connect(&socket, &address(name, nth)) {
        Ok(()) => {
            let (pid, uid) = sys::peer(socket.as_fd()).ok()?;
            Some(Peer { pid, uid: Some(uid) })
        }
        // So many have asked that there is no room for one more.
        Err(Errno::AGAIN) => Some(Peer { pid: 0, uid: None }),
        Err(_) => None,
    }
}

struct Peer {
    /// 0 if it is in a namespace of processes that is not seen from here.
    pid: u32,
    uid: Option<u32>,
}

impl Peer {
    /// Whether it may have changed something: not any process that knows the name.
    fn counts(&self) -> bool {
        match self.uid {
            None => true,
            Some(uid) if [0, rustix::process::geteuid().as_raw()].contains(&uid) => true,
            Some(_) => self.may_change().unwrap_or(false),
        }
    }

    /// Whether it has the capability, and not in a user namespace of its own making.
    fn may_change(&self) -> Option<bool> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        let has = u64::from_str_radix(effective.trim(), 16).ok()? & (1 << CAP_NET_ADMIN) != 0;
        let users = |who: &str| -> io::Result<u64> { Ok(fs::metadata(format!("/proc/{who}/ns/user"))?.ino()) };
        let is_ours = match (users("self"), users(&self.pid.to_string())) {
            (Ok(own), Ok(other)) => own == other,
            // It is another user's, and not to be looked into.
            _ => true,
        };
        Some(has && is_ours)
    }

    fn has_ended(&self) -> bool {
        self.pid != 0 && !Process::open(self.pid).is_ok_and(|process| !process.has_ended())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::DeviceRef;
    use crate::{Netns, NetnsId};

    #[test]
    fn a_lock_is_seen_in_its_namespace_and_in_no_other() {
        let test = "a_lock_is_seen_in_its_namespace_and_in_no_other";
        let other = match Netns::new() {
            Ok(other) => other,
            Err(error) if error.is_privilege() => return napier_testkit::skip!(test, "{error}"),
            Err(error) => panic!("{error}"),
        };
        let inside = |netns: &Netns, of: fn(&Scope) -> Option<u32>| {
            netns
                .run(|| {
                    let device = DeviceRef { ifindex: 77, name: "any".to_owned() };
                    of(&Scope::Device { device, netns: NetnsId::current().expect("told"), node: None })
                })
                .expect("entered")
        };
        let here = Netns::current().expect("this one");
        let try_it = |scope: &Scope| MachineLock::take(scope).err().map(|held| held.pid);
        let held = here
            .run(|| {
                let device = DeviceRef { ifindex: 77, name: "any".to_owned() };
                MachineLock::take(&Scope::Device { device, netns: NetnsId::Inode(0), node: None }).expect("free")
            })
            .expect("entered");
        // The folder of the journal, and what else a scope says, is not asked.
        assert_eq!(inside(&here, try_it), Some(std::process::id()));
        assert!(held_here().contains(&(77, std::process::id())));
        assert_eq!(inside(&other, try_it), None);
        drop(held);
        assert_eq!(inside(&here, try_it), None);
    }
}
