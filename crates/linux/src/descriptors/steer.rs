//! Connections to workers by the queue that they come through: each listener of a port that several have (`SO_REUSEPORT`) gets
//! those of its queues, so that a worker's epoll instance sees one NAPI instance.
//!
//! The kernel asks a classic program for the number of a socket of the group, in the order in which they began to listen. Ours answers
//! with the packet's `queue_mapping`, modulo the number of sockets. For a NIC that is the receive queue and 1 (`skb_record_rx_queue`),
//! for a veth the queue that the sender had chosen, which is the receive queue: the numbers differ, but one queue has one answer either way. Packets of
//! loopback have no queue: no socket has their answer, and the kernel takes its hash. Source: `net/core/sock_reuseport.c
//! reuseport_select_sock`, `net/core/filter.c convert_skb_access`, `drivers/net/veth.c veth_xmit`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::{getpeername, getsockname};

use super::values::is_internet;
use crate::setting::KeyError;
use crate::sys;

/// What is known of a program's sockets.
#[derive(Debug, Default)]
pub(crate) struct Steering {
    /// Listeners of each address, by inode.
    groups: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    /// For how many listeners the program of a group is.
    steered: BTreeMap<Vec<u8>, usize>,
    /// Sockets that cannot become listeners any more.
    others: BTreeSet<u64>,
}

impl Steering {
    /// Whether a socket need not be asked what it is.
    pub(crate) fn is_settled(&self, inode: u64) -> bool {
        self.others.contains(&inode) || self.groups.values().any(|members| members.contains(&inode))
    }

    /// Whether it is none of a group's.
    pub(crate) fn is_other(&self, inode: u64) -> bool {
        self.others.contains(&inode)
    }

    /// Takes note of what a socket is.
    pub(crate) fn learn(&mut self, inode: u64, what: What) {
        match what {
            What::Member(group) => {
                self.groups.entry(group).or_default().insert(inode);
            }
            What::Other => {
                self.others.insert(inode);
            }
            What::Undecided => {}
        }
    }

    /// Groups that have grown or shrunk since they were steered: a member of each, and how many they are.
    pub(crate) fn changed(&self) -> Vec<(Vec<u8>, u64, usize)> {
        let changed = self
            .groups
            .iter()
            .filter(|(group, members)| members.len() > 1 && self.steered.get(*group) != Some(&members.len()));
        changed.filter_map(|(group, members)| Some((group.clone(), *members.first()?, members.len()))).collect()
    }

    /// Takes note that a group is steered.
    pub(crate) fn is_steered(&mut self, group: Vec<u8>, count: usize) {
        self.steered.insert(group, count);
    }

    /// Forgets sockets that were closed.
    pub(crate) fn retain(&mut self, seen: &BTreeSet<u64>) {
        self.others.retain(|inode| seen.contains(inode));
        for members in self.groups.values_mut() {
            members.retain(|inode| seen.contains(inode));
        }
        self.groups.retain(|_, members| !members.is_empty());
        let groups = &self.groups;
        self.steered.retain(|group, _| groups.contains_key(group));
    }
}

/// What a socket is to a group.
pub(crate) enum What {
    /// It receives for this address.
    Member(Vec<u8>),
    /// It cannot become a listener any more.
    Other,
    /// It may listen later.
    Undecided,
}

/// What a socket is.
pub(crate) fn what(fd: BorrowedFd<'_>) -> What {
    if !is_internet(fd) || getpeername(fd).is_ok() {
        return What::Other;
    }
    match group_of(fd) {
        Some(group) if is_listener(fd) => What::Member(group),
        _ => What::Undecided,
    }
}

/// Gives the group of a socket a program for so many members.
pub(crate) fn steer(fd: BorrowedFd<'_>, count: usize) -> Result<(), KeyError> {
    sys::attach_reuseport(fd, &by_queue(count)).map_err(KeyError::Io)
}

/// Takes the program from a listener's group, if it has one.
pub(crate) fn put_back(fd: BorrowedFd<'_>) -> Result<(), KeyError> {
    if !is_internet(fd) || !is_listener(fd) {
        return Ok(());
    }
    match sys::detach_reuseport(fd) {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => Err(KeyError::Io(error)),
        _ => Ok(()),
    }
}

/// Whether it receives for an address that others may have too.
fn is_listener(fd: BorrowedFd<'_>) -> bool {
    let option = |option| sys::socket_option(fd, option).unwrap_or(0);
    let receives = match option(libc::SO_TYPE) {
        libc::SOCK_STREAM => option(libc::SO_ACCEPTCONN) == 1,
        libc::SOCK_DGRAM => true,
        _ => false,
    };
    receives && option(libc::SO_REUSEPORT) == 1
}

/// Kind and address.
fn group_of(fd: BorrowedFd<'_>) -> Option<Vec<u8>> {
    let kind = sys::socket_option(fd, libc::SO_TYPE).ok()?;
    let address = getsockname(fd.as_fd()).ok()?;
    Some(format!("{kind} {address:?}").into_bytes())
}

/// Receive queue modulo the number of sockets.
fn by_queue(count: usize) -> [libc::sock_filter; 6] {
    use libc::{BPF_ABS, BPF_ALU, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_MOD, BPF_RET, BPF_W};
    /// `include/uapi/linux/filter.h`: `SKF_AD_OFF + SKF_AD_IFINDEX` and `SKF_AD_QUEUE`.
    const INTERFACE: u32 = (-0x1000_i32 + 8).cast_unsigned();
    const QUEUE: u32 = (-0x1000_i32 + 24).cast_unsigned();
    /// `include/net/flow.h`: of every namespace.
    const LOOPBACK_IFINDEX: u32 = 1;
    /// `BPF_A`: what was computed.
    const ACCUMULATOR: u32 = 0x10;
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let of = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    [
        of(BPF_LD | BPF_W | BPF_ABS, 0, 0, INTERFACE),
        of(BPF_JMP | BPF_JEQ | BPF_K, 3, 0, LOOPBACK_IFINDEX),
        of(BPF_LD | BPF_W | BPF_ABS, 0, 0, QUEUE),
        of(BPF_ALU | BPF_MOD | BPF_K, 0, 0, count),
        of(BPF_RET | ACCUMULATOR, 0, 0, 0),
        of(BPF_RET | BPF_K, 0, 0, u32::MAX),
    ]
}
