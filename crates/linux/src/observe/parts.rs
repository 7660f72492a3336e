//! What facts of programs and threads are made of.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::Waits;

/// A thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// When it was started, in ticks since the start of the kernel.
    pub started: u64,
    /// Its name.
    pub name: String,
    /// CPUs that it may run on.
    pub cpus: Vec<u32>,
    /// The CPU that it ran on last.
    pub last_cpu: u32,
    /// Class and priority, such as `fifo 50`.
    pub scheduling: String,
}

/// A program.
#[derive(Clone, Default, PartialEq, Debug, Serialize)]
pub struct Program {
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Its epoll instances.
    pub epolls: Vec<Epoll>,
    /// Its sockets that busy poll or have received from a NAPI instance.
    pub sockets: Vec<Socket>,
    /// Its rings of io_uring.
    pub rings: Vec<Ring>,
    /// Its connections, by the interface that their packets come in by; those of this machine with itself by `lo`.
    pub connections: BTreeMap<String, Through>,
    /// Descriptors of its IPv4 and IPv6 sockets, connected or not.
    #[serde(skip)]
    pub internet: BTreeSet<i32>,
    /// How often its threads went to sleep while they were looked at; `None` if that was not asked for.
    pub sleeps: Option<u64>,
    /// What its threads waited in while they were looked at; empty if that was not asked for.
    pub waits: Waits,
}

/// Connections by one interface.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Through {
    /// How many.
    pub count: u32,
    /// Those that have received from a NAPI instance: `SO_INCOMING_NAPI_ID` is not 0.
    pub with_id: u32,
}

/// A ring of io_uring.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Ring {
    /// Descriptor in the program.
    pub fd: i32,
    /// It busy polls for its sockets (`IORING_REGISTER_NAPI`); `None` where the kernel does not say.
    pub polls: Option<bool>,
    /// For so long at a time; 0 if it does not.
    pub busy_poll_usecs: u32,
    /// Whether interrupts stay masked while it polls.
    pub prefer_busy_poll: bool,
}

/// An epoll instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Epoll {
    /// Descriptor in the program.
    pub fd: i32,
    /// Busy-poll parameters; `None` before Linux 6.9.
    pub params: Option<EpollParams>,
    /// Descriptors that it waits for.
    pub members: Vec<i32>,
}

/// Busy-poll parameters of an epoll instance.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
#[expect(missing_docs, reason = "they are the kernel's names")]
pub struct EpollParams {
    pub busy_poll_usecs: u32,
    pub busy_poll_budget: u16,
    pub prefer_busy_poll: bool,
}

/// A socket.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Socket {
    /// Descriptor in the program.
    pub fd: i32,
    /// `SO_BUSY_POLL`, µs.
    pub busy_poll_usecs: u32,
    /// `SO_PREFER_BUSY_POLL`.
    pub prefer_busy_poll: bool,
    /// `SO_INCOMING_NAPI_ID`.
    pub napi_id: Option<u32>,
}

impl Program {
    /// The epoll instance that waits for another one, which has this descriptor.
    #[must_use]
    pub fn outer_of(&self, fd: i32) -> Option<i32> {
        if !self.epolls.iter().any(|epoll| epoll.fd == fd) {
            return None;
        }
        self.epolls.iter().find(|epoll| epoll.fd != fd && epoll.members.contains(&fd)).map(|epoll| epoll.fd)
    }
}

impl Thread {
    /// The thread that has this number now.
    pub(crate) fn of(tid: u32) -> std::io::Result<Self> {
        use crate::change::thread::cpus;
        use crate::sys::sched::Class;
        let found = crate::procfs::Stat::of(tid)?;
        let scheduling = Class::from_number(found.policy).with(found.priority);
        let (name, started, last_cpu) = (found.name, found.started, found.last_cpu);
        Ok(Self { tid, started, name, cpus: cpus(tid)?, last_cpu, scheduling })
    }
}
