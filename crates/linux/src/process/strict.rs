//! Settings in force before a program has the descriptor: the calls that make one are held, and answered with one that has them.
//!
//! ```text
//! program: epoll_create1, socket --held--> Strict: makes it, sets it, gives it --> the call returns its number
//!          io_uring_register(IORING_REGISTER_ENABLE_RINGS) --held--> the watcher registers the ring --> the call goes on
//!                                 \------> the keeper, if this process has ended: --> the call goes on as if it had not been held
//! ```
//!
//! A socket that is accepted has the options of its listener (`net/core/sock.c sk_clone`), so `accept` is not held. What cannot be
//! made for the program as it would be made by it goes on as if it had not been held, and the watcher sets it later: sockets of
//! another network namespace, and protocols that ask for rights. A socket is made with the user and group of the thread that asked,
//! for they are what it is filtered and accounted by; so are its control group and its security label, which no other process can give it:
//! the call of a thread that has others than this process goes on, and its socket is looked for at once ([`Answer::Follows`]).
//!
//! A ring of io_uring that is made disabled takes settings from any process until it is enabled; one for a single thread from that thread alone
//! then. A ring that is made enabled for a single thread belongs to the thread that makes it, so it cannot be made here.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command};

use rustix::event::epoll::{CreateFlags, create};

use super::given::{Given, Giver};
use super::thread::{number, process_of, status};
use crate::descriptors::ProgramSettings;
use crate::descriptors::values::{set_epoll, write_option};
use crate::setting::KeyError;
use crate::sys::keeper::{Handed, Keeper};
use crate::sys::seccomp::{self, Call, ENABLE_RINGS, EPOLL_CREATE, EPOLL_CREATE1, SOCKET};

/// Held calls of a program.
#[derive(Debug)]
pub struct Strict {
    listener: OwnedFd,
    handed: Handed,
    settings: ProgramSettings,
    giver: Giver,
    answered: usize,
}

/// A call that is held, and who makes it.
#[derive(Debug)]
pub struct HeldCall {
    call: Call,
    /// The process; `None` if it has ended meanwhile.
    pub pid: Option<u32>,
}

impl HeldCall {
    /// Whether a ring of io_uring is enabled by it: it is to be set before the answer.
    #[must_use]
    pub const fn enables_ring(&self) -> bool {
        self.call.number == ENABLE_RINGS
    }
}

/// What became of a held call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It returns a descriptor that is set, or it is the kernel that decides.
    Done,
    /// It goes on and makes a socket, which is to be set right after.
    Follows,
    /// It goes on without the settings, and why.
    Without(String),
}

impl Strict {
    pub(super) fn spawn(
        command: &mut Command,
        settings: &ProgramSettings,
        (keeper, handed): (Keeper, Handed),
    ) -> io::Result<(Child, Self)> {
        let mut calls = Vec::new();
        if settings.epoll.is_some() {
            calls.extend(EPOLL_CREATE.into_iter().chain([EPOLL_CREATE1]));
        }
        if !settings.sockets.is_empty() {
            calls.push(SOCKET);
        }
        if settings.ring.is_some() {
            calls.push(ENABLE_RINGS);
        }
        let (child, listener) = seccomp::spawn(command, &calls, keeper)?;
        Ok((child, Self { listener, handed, settings: settings.clone(), giver: Giver::default(), answered: 0 }))
    }

    /// The next call, once the descriptor can be read; `None` if no call waits.
    ///
    /// # Errors
    /// None that is known.
    pub fn next_held(&mut self) -> io::Result<Option<HeldCall>> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut asked = [PollFd::new(&self.listener, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut asked, Some(&now))? == 0 || !asked[0].revents().contains(PollFlags::IN) {
            return Ok(None);
        }
        let call = self.handed.receive(self.listener.as_fd())?;
        Ok(call.map(|call| HeldCall { pid: process_of(call.tid), call }))
    }

    /// Answers a call.
    ///
    /// # Errors
    /// None that is known.
    pub fn answer(&mut self, held: &HeldCall) -> io::Result<Answer> {
        let HeldCall { call, .. } = held;
        let (made, follows) = match self.make(call) {
            Ok(Made::Descriptor(fd, close_on_exec)) => {
                let given = self.giver.give(self.listener.as_fd(), call, fd.as_fd(), close_on_exec)?;
                self.answered += usize::from(matches!(given, Given::Heard(_)));
                return Ok(Answer::Done);
            }
            Ok(Made::ByKernel) => (Ok(()), Answer::Done),
            Ok(Made::ByCaller) => (Ok(()), Answer::Follows),
            Err(error) => (Err(error), Answer::Done),
        };
        seccomp::let_go(self.listener.as_fd(), call.id)?;
        Ok(match made {
            Ok(()) => follows,
            Err(error) => Answer::Without(format!("a descriptor was made without the mode, which follows: {error}")),
        })
    }

    /// Calls that were answered with a descriptor.
    #[must_use]
    pub const fn answered(&self) -> usize {
        self.answered
    }

    fn make(&self, call: &Call) -> Result<Made, KeyError> {
        // Registers are 64 bits; the calls take ints.
        let argument = |at: usize| call.arguments[at] as u32 as i32;
        match call.number {
            SOCKET => return self.make_socket(call, argument(0), argument(1), argument(2)),
            ENABLE_RINGS => return Ok(Made::ByKernel),
            _ => {}
        }
        let is_old = Some(call.number) == EPOLL_CREATE;
        let close_on_exec = !is_old && argument(0) == libc::EPOLL_CLOEXEC;
        if (is_old && argument(0) <= 0) || (!is_old && argument(0) & !libc::EPOLL_CLOEXEC != 0) {
            return Ok(Made::ByKernel);
        }
        let Some(value) = self.settings.epoll else { return Ok(Made::ByKernel) };
        let made = create(CreateFlags::CLOEXEC).map_err(|error| KeyError::Io(error.into()))?;
        set_epoll(made.as_fd(), value)?;
        Ok(Made::Descriptor(made, close_on_exec))
    }

    fn make_socket(&self, call: &Call, domain: i32, kind: i32, protocol: i32) -> Result<Made, KeyError> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let plain = [libc::SOCK_STREAM, libc::SOCK_DGRAM].contains(&(kind & !flags))
            && [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_MPTCP].contains(&protocol);
        let ns = |path: &str| fs::metadata(path).map(|found| found.ino()).ok();
        let own = ns("/proc/thread-self/ns/net");
        let Some(status) = status(call.tid).filter(|_| plain && own.is_some()) else { return Ok(Made::ByKernel) };
        if ns(&format!("/proc/{}/ns/net", call.tid)) != own {
            return Ok(Made::ByKernel);
        }
        let (Some(user), Some(group)) = (number(&status, "Uid:", 3), number(&status, "Gid:", 3)) else {
            return Ok(Made::ByKernel);
        };
        let is_placed_alike = is_placed_as_this(call.tid);
        // What was read is that of the thread that waits.
        if !seccomp::is_waiting(self.listener.as_fd(), call) {
            return Ok(Made::ByKernel);
        }
        if !is_placed_alike {
            return Ok(Made::ByCaller);
        }
        let made = seccomp::socket_as(user, group, domain, kind | libc::SOCK_CLOEXEC, protocol);
        // As the kernel refuses it, which the program then hears from it.
        let Ok(made) = made else { return Ok(Made::ByKernel) };
        for option in &self.settings.sockets {
            write_option(made.as_fd(), *option)?;
        }
        Ok(Made::Descriptor(made, kind & libc::SOCK_CLOEXEC != 0))
    }
}

/// Who makes what a held call asks for.
enum Made {
    /// It is made and set; whether it closes on exec.
    Descriptor(OwnedFd, bool),
    /// The kernel decides, and the watcher sets what comes of it.
    ByKernel,
    /// The thread that asked: what it is given by its place cannot be given here.
    ByCaller,
}

/// Whether a thread is in the control groups that this one is in, and has its security label. Source: `net/core/sock.c sk_alloc
/// cgroup_sk_alloc`, `net/socket.c security_socket_post_create`.
fn is_placed_as_this(tid: u32) -> bool {
    // No label can be read where no security module has them.
    ["cgroup", "attr/current"].iter().all(|file| {
        let [theirs, own] =
            [tid.to_string(), "thread-self".to_owned()].map(|who| fs::read(format!("/proc/{who}/{file}")));
        theirs.ok() == own.ok()
    })
}

impl AsFd for Strict {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}
