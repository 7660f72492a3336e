//! A lock that belongs to the machine: two commands whose journals are in different folders see each other by it.
//!
//! It is an abstract Unix socket. Its name holds the number of the interface and exists once in each network namespace, whatever file
//! systems and processes a container sees; it ends with its process. Any user may take such a name, so the process that has it is
//! asked for (`SO_PEERCRED`): one that can change nothing here is passed by, and the next name is tried.
//!
//! ```text
//! all of an interface: napier/device/IFINDEX/N         taken, then: does another process have a queue's name?
//! some of its queues:  napier/queue/IFINDEX/QUEUE/N    each taken, then: does another process have the interface's name?
//! ```
//!
//! Of two that come at once at least one sees the other. The one that wants all of it gives up at once, and the other one looks again for
//! a moment, so one of them gets on.

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
/// How often one that wants queues looks whether the whole interface is still another's: 0.2 s.
const LOOKS: u32 = 20;
/// `include/uapi/linux/capability.h`.
const CAP_NET_ADMIN: u32 = 12;

/// What is held while something is changed; let go with it.
#[derive(Debug)]
pub(super) struct MachineLock {
    /// None where this process may have no such socket: the lock of the journal's file is all there is then.
    _sockets: Vec<OwnedFd>,
}

/// Another process has the lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LockedBy {
    /// Its number, 0 if it is not to be seen from here.
    pub(super) pid: u32,
    /// The queue that it has, if not all of the interface.
    pub(super) queue: Option<u32>,
}

impl LockedBy {
    const fn new(pid: u32, queue: Option<u32>) -> Self {
        Self { pid, queue }
    }

    /// What it has, for messages.
    pub(super) fn words(&self, scope: &Scope) -> String {
        let name = scope.name();
        self.queue.map_or_else(|| name.to_owned(), |queue| format!("queue {queue} of {name}"))
    }
}

impl MachineLock {
    /// Takes the lock of a scope in the namespace of the calling thread.
    pub(super) fn take(scope: &Scope) -> Result<Self, LockedBy> {
        let Scope::Device { device, queues, .. } = scope else { return Self::of(take_name("host"), None) };
        let whole = format!("device/{}", device.ifindex);
        let Some(queues) = queues else {
            let lock = Self::of(take_name(&whole), None)?;
            let held = queues_held(device.ifindex);
            return held.first().map_or(Ok(lock), |(queue, pid)| Err(LockedBy::new(*pid, Some(*queue))));
        };
        let mut sockets = Vec::new();
        for queue in queues.iter() {
            let taken = take_name(&format!("queue/{}/{queue}", device.ifindex));
            sockets.extend(taken.map_err(|pid| LockedBy::new(pid, Some(queue)))?);
        }
        match settled(&whole) {
            Some(pid) => Err(LockedBy::new(pid, None)),
            None => Ok(Self { _sockets: sockets }),
        }
    }

    fn of(taken: Result<Option<OwnedFd>, u32>, queue: Option<u32>) -> Result<Self, LockedBy> {
        let socket = taken.map_err(|pid| LockedBy::new(pid, queue))?;
        Ok(Self { _sockets: socket.into_iter().collect() })
    }
}

/// Takes a name, or says which process has it; no socket where this process may have none.
fn take_name(name: &str) -> Result<Option<OwnedFd>, u32> {
    let (mut nth, mut tries) = (0, 0);
    while nth < NAMES {
        match begin(&address(name, nth)) {
            Ok(socket) => {
                // A name before this one may have been another's when a process took a later one.
                let later = (nth + 1..NAMES).filter_map(|nth| holder(name, nth));
                return match later.into_iter().find(Peer::counts) {
                    Some(peer) => Err(peer.pid),
                    None => Ok(Some(socket)),
                };
            }
            Err(Errno::ADDRINUSE) => {
                let found = holder(name, nth);
                let is_over = found.as_ref().is_none_or(Peer::has_ended);
                if is_over && tries < TRIES {
                    tries += 1;
                    std::thread::sleep(PAUSE);
                } else if found.as_ref().is_none_or(Peer::counts) {
                    return Err(found.map_or(0, |peer| peer.pid));
                } else {
                    nth += 1;
                }
            }
            Err(_) => return Ok(None),
        }
    }
    Err(holder(name, 0).map_or(0, |peer| peer.pid))
}

/// The process that has a name, and goes on having it: one that looks for queues of others gives it back at once.
fn settled(name: &str) -> Option<u32> {
    let peer = || (0..NAMES).filter_map(|nth| holder(name, nth)).find(Peer::counts);
    let mut found = peer()?;
    for tries in 0..TRIES {
        if tries >= LOOKS && !found.has_ended() {
            break;
        }
        std::thread::sleep(PAUSE);
        found = peer()?;
    }
    Some(found.pid)
}

/// Queues of an interface that other processes have.
fn queues_held(ifindex: u32) -> Vec<(u32, u32)> {
    let held = || -> Vec<(u32, Peer)> {
        let here = held_names().into_iter().filter(|(found, queue, ..)| *found == ifindex && queue.is_some());
        here.filter_map(|(_, queue, nth)| Some((queue?, holder(&format!("queue/{ifindex}/{}", queue?), nth)?)))
            .collect()
    };
    let mut found = held();
    for _ in 0..TRIES {
        if !found.iter().any(|(_, peer)| peer.has_ended()) {
            break;
        }
        std::thread::sleep(PAUSE);
        found = held();
    }
    found.into_iter().filter(|(_, peer)| peer.counts()).map(|(queue, peer)| (queue, peer.pid)).collect()
}

/// Names of this namespace: of interfaces, and of queues of them.
fn held_names() -> Vec<(u32, Option<u32>, u32)> {
    let sockets = fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
    let parse = |line: &str| {
        let mut words = line.rsplit_once(' ')?.1.strip_prefix("@napier/")?.split('/');
        let kind = words.next()?;
        let mut number = || words.next()?.parse::<u32>().ok();
        match kind {
            "device" => Some((number()?, None, number()?)),
            "queue" => Some((number()?, Some(number()?), number()?)),
            _ => None,
        }
    };
    let mut found: Vec<_> = sockets.lines().filter_map(parse).collect();
    found.sort_unstable();
    found
}

/// Interfaces of this namespace, or queues of them, that another command holds, and its process.
pub(super) fn held_here() -> Vec<(u32, Option<u32>, u32)> {
    let mut found: Vec<(u32, Option<u32>, u32)> = Vec::new();
    for (ifindex, queue, nth) in held_names() {
        let name = queue.map_or_else(|| format!("device/{ifindex}"), |queue| format!("queue/{ifindex}/{queue}"));
        if let Some(peer) = holder(&name, nth).filter(Peer::counts)
            && !found.contains(&(ifindex, queue, peer.pid))
        {
            found.push((ifindex, queue, peer.pid));
        }
    }
    found
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

    /// What another test starts has all descriptors of this process until it is another program.
    const LET_GO: &str = "no process has the lock";

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
                    of(&Scope::Device { device, netns: NetnsId::current().expect("told"), node: None, queues: None })
                })
                .expect("entered")
        };
        let here = Netns::current().expect("this one");
        let try_it = |scope: &Scope| MachineLock::take(scope).err().map(|held| held.pid);
        let held = here
            .run(|| {
                let device = DeviceRef { ifindex: 77, name: "any".to_owned() };
                let netns = NetnsId::Inode(0);
                MachineLock::take(&Scope::Device { device, netns, node: None, queues: None }).expect("free")
            })
            .expect("entered");
        // The folder of the journal, and what else a scope says, is not asked.
        assert_eq!(inside(&here, try_it), Some(std::process::id()));
        assert!(held_here().contains(&(77, None, std::process::id())));
        assert_eq!(inside(&other, try_it), None);
        drop(held);
        napier_testkit::eventually(LET_GO, || inside(&here, try_it).is_none());
    }

    #[test]
    fn queues_exclude_themselves_and_the_whole_interface() {
        // No interface is needed for a name.
        let of = |queues: Option<&str>| Scope::Device {
            device: DeviceRef { ifindex: 4_000_077, name: "any".to_owned() },
            netns: NetnsId::Inode(0),
            node: None,
            queues: queues.map(|list| list.parse().expect("a list")),
        };
        let pid = std::process::id();
        let take = |queues| MachineLock::take(&of(queues));
        let refused = |queues| take(queues).expect_err("it is held");
        let free = |queues| {
            let mut lock = None;
            napier_testkit::eventually(LET_GO, || {
                lock = take(queues).ok();
                lock.is_some()
            });
            lock
        };
        let one = take(Some("0-1,5")).expect("free");
        assert_eq!(refused(Some("1-2")), LockedBy { pid, queue: Some(1) });
        assert_eq!(refused(None), LockedBy { pid, queue: Some(0) });
        assert_eq!(refused(Some("5")).words(&of(None)), "queue 5 of any");
        let two = free(Some("2-4"));
        let held: Vec<_> = held_here().into_iter().filter(|(ifindex, ..)| *ifindex == 4_000_077).collect();
        assert_eq!(held, (0..6).map(|queue| (4_000_077, Some(queue), pid)).collect::<Vec<_>>());
        drop(one);
        napier_testkit::eventually(LET_GO, || refused(None) == LockedBy { pid, queue: Some(2) });
        drop(two);
        // Nothing is left of what was refused.
        let whole = free(None);
        assert_eq!(refused(Some("7")), LockedBy { pid, queue: None });
        drop(whole);
        drop(free(Some("7")));
    }
}
