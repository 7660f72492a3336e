//! Settings in force before a program has the descriptor: the calls that make one are held, and answered with one that has them.
//!
//! ```text
//! program: epoll_create1, socket --held--> Strict: makes it, sets it, gives it --> the call returns its number
//! ```
//!
//! A socket that is accepted has the options of its listener (`net/core/sock.c sk_clone`), so `accept` is not held. What cannot be
//! made for the program as it would be made by it goes on as if it had not been held, and the watcher sets it later: sockets of
//! another network namespace, and protocols that ask for rights. A socket is made with the user and group of the thread that asked,
//! for they are what it is filtered and accounted by.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command};

use rustix::event::epoll::{CreateFlags, create};

use super::ProgramSettings;
use super::settings::{set_epoll, write_option};
use crate::change::KeyError;
use crate::sys::seccomp::{self, Call, EPOLL_CREATE, EPOLL_CREATE1, SOCKET};

/// Held calls of a program.
#[derive(Debug)]
pub struct Strict {
    listener: OwnedFd,
    settings: ProgramSettings,
    answered: usize,
}

/// A call that is held, and who makes it.
#[derive(Debug)]
pub struct Held {
    call: Call,
    /// The process; `None` if it has ended meanwhile.
    pub pid: Option<u32>,
}

impl Strict {
    pub(super) fn spawn(command: &mut Command, settings: &ProgramSettings) -> io::Result<(Child, Self)> {
        let mut calls = Vec::new();
        if settings.epoll.is_some() {
            calls.extend(EPOLL_CREATE.into_iter().chain([EPOLL_CREATE1]));
        }
        if !settings.sockets.is_empty() {
            calls.push(SOCKET);
        }
        let (child, listener) = seccomp::spawn(command, &calls)?;
        Ok((child, Self { listener, settings: settings.clone(), answered: 0 }))
    }

    /// The next call, once the descriptor can be read; `None` if nobody waits.
    ///
    /// # Errors
    /// None that is known.
    pub fn next(&self) -> io::Result<Option<Held>> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut asked = [PollFd::new(&self.listener, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut asked, Some(&now))? == 0 || !asked[0].revents().contains(PollFlags::IN) {
            return Ok(None);
        }
        let call = seccomp::receive(self.listener.as_fd())?;
        Ok(call.map(|call| Held { pid: status(call.tid).and_then(|status| number(&status, "Tgid:", 0)), call }))
    }

    /// Answers a call. What is said: why it was let go without the settings.
    ///
    /// # Errors
    /// None that is known.
    pub fn answer(&mut self, held: &Held) -> io::Result<Option<String>> {
        let Held { call, .. } = held;
        match self.make(call) {
            Ok(Some((fd, close_on_exec))) => {
                self.answered += 1;
                seccomp::give(self.listener.as_fd(), call, fd.as_fd(), close_on_exec)?;
                Ok(None)
            }
            Ok(None) => seccomp::let_go(self.listener.as_fd(), call).map(|()| None),
            Err(error) => {
                seccomp::let_go(self.listener.as_fd(), call)?;
                Ok(Some(format!("a descriptor was made without the mode, which follows: {error}")))
            }
        }
    }

    /// Calls that were answered with a descriptor.
    #[must_use]
    pub const fn answered(&self) -> usize {
        self.answered
    }

    /// The descriptor, set, and whether it closes on exec; `None` for what the kernel has to decide.
    fn make(&self, call: &Call) -> Result<Option<(OwnedFd, bool)>, KeyError> {
        // Registers are 64 bits; the calls take ints.
        let argument = |at: usize| call.arguments[at] as u32 as i32;
        if call.number == SOCKET {
            return self.make_socket(call, argument(0), argument(1), argument(2));
        }
        let is_old = Some(call.number) == EPOLL_CREATE;
        let close_on_exec = !is_old && argument(0) == libc::EPOLL_CLOEXEC;
        if (is_old && argument(0) <= 0) || (!is_old && argument(0) & !libc::EPOLL_CLOEXEC != 0) {
            return Ok(None);
        }
        let Some(value) = self.settings.epoll else { return Ok(None) };
        let made = create(CreateFlags::CLOEXEC).map_err(|error| KeyError::Io(error.into()))?;
        set_epoll(made.as_fd(), value)?;
        Ok(Some((made, close_on_exec)))
    }

    fn make_socket(
        &self,
        call: &Call,
        domain: i32,
        kind: i32,
        protocol: i32,
    ) -> Result<Option<(OwnedFd, bool)>, KeyError> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let plain = [libc::SOCK_STREAM, libc::SOCK_DGRAM].contains(&(kind & !flags))
            && [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_MPTCP].contains(&protocol);
        let ns = |path: &str| fs::metadata(path).map(|found| found.ino()).ok();
        let own = ns("/proc/thread-self/ns/net");
        let Some(status) = status(call.tid).filter(|_| plain && own.is_some()) else { return Ok(None) };
        if ns(&format!("/proc/{}/ns/net", call.tid)) != own {
            return Ok(None);
        }
        let (Some(user), Some(group)) = (number(&status, "Uid:", 3), number(&status, "Gid:", 3)) else {
            return Ok(None);
        };
        // What was read is that of the thread that waits.
        if !seccomp::is_waiting(self.listener.as_fd(), call) {
            return Ok(None);
        }
        let made = seccomp::socket_as(user, group, domain, kind | libc::SOCK_CLOEXEC, protocol);
        // As the kernel refuses it, which the program then hears from it.
        let Ok(made) = made else { return Ok(None) };
        for option in &self.settings.sockets {
            write_option(made.as_fd(), *option)?;
        }
        Ok(Some((made, kind & libc::SOCK_CLOEXEC != 0)))
    }
}

impl AsFd for Strict {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn status(tid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{tid}/status")).ok()
}

/// A number of a line of `/proc/PID/status`.
fn number(status: &str, name: &str, nth: usize) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().nth(nth)?.parse().ok()
}
