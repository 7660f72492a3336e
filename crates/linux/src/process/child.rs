//! A program as a child of this process, and what it leaves behind.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::process::{WaitOptions, set_child_subreaper, wait};

use super::notifier::HeldSends;
use super::signals::Signals;
use super::strict::Strict;
use super::tree::{descendants, hold};
use crate::descriptors::ProgramSettings;
use crate::sys::{held, seccomp};

/// How a program ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// With this status.
    Status(u8),
    /// By this signal.
    Signal(u8),
}

impl Ended {
    /// As a shell has it: the status, or 128 and the signal's number.
    #[must_use]
    pub const fn status(self) -> u8 {
        match self {
            Self::Status(status) => status,
            Self::Signal(signal) => 128_u8.saturating_add(signal),
        }
    }
}

/// A program that was started here, with all that it starts: processes whose parents end become this process's children.
#[derive(Debug)]
pub struct Program {
    pid: u32,
    ended: Option<Ended>,
    /// No child is left.
    is_over: bool,
}

impl Program {
    /// Starts it. The calling process waits for all of its children from now on, whichever process started them; signals that it has taken
    /// are not taken in the program.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command, signals: &Signals) -> io::Result<Self> {
        set_child_subreaper(Some(rustix::process::getpid()))?;
        signals.leave_to(command);
        Ok(Self { pid: command.spawn()?.id(), ended: None, is_over: false })
    }

    /// The same with the calls held by which it makes the descriptors that settings are for: [`Strict`] answers them, and a process that is
    /// started beside lets them go on when this one has ended. The calling thread has to be the only one.
    ///
    /// # Errors
    /// It cannot be started, or this kernel has no notifications of system calls (`seccomp_unotify(2)`, since Linux 5.14).
    pub fn start_strict(
        command: &mut Command,
        signals: &Signals,
        settings: &ProgramSettings,
    ) -> io::Result<(Self, Strict)> {
        // Before orphans come here: it is none of the program's.
        let keeper = crate::sys::keeper::start()?;
        set_child_subreaper(Some(rustix::process::getpid()))?;
        signals.leave_to(command);
        let (child, strict) = Strict::spawn(command, settings, keeper)?;
        Ok((Self { pid: child.id(), ended: None, is_over: false }, strict))
    }

    /// Starts it with its calls on sockets held for an engine that is the process `supervisor`, which has made `page` and to which the descriptor of
    /// held calls goes. A process that is started beside lets them go on when the engine has ended. The calling thread has to be the only one.
    ///
    /// # Errors
    /// It cannot be started, this kernel has no notifications of system calls (Linux 5.14), or another supervisor holds calls of this process
    /// already (EBUSY).
    pub fn start_held(
        command: &mut Command,
        signals: &Signals,
        (supervisor, page): (u32, &OwnedFd),
        sends: HeldSends,
    ) -> io::Result<(Self, OwnedFd)> {
        let of = i32::try_from(supervisor).ok().and_then(rustix::process::Pid::from_raw);
        let supervisor =
            rustix::process::pidfd_open(of.ok_or(io::ErrorKind::InvalidInput)?, rustix::process::PidfdFlags::empty())?;
        // Before orphans come here: it is none of the program's.
        let keeper = crate::sys::keeper::start_for(&supervisor, &held::SeenUnanswered::map(page)?)?;
        set_child_subreaper(Some(rustix::process::getpid()))?;
        signals.leave_to(command);
        let more: &[i32] = match sends {
            HeldSends::None => &[],
            HeldSends::Addressed => &[seccomp::SENDTO],
        };
        let (child, listener) = seccomp::spawn(command, &[&seccomp::OF_SOCKETS[..], more].concat(), keeper)?;
        Ok((Self { pid: child.id(), ended: None, is_over: false }, listener))
    }

    /// Its number.
    #[must_use]
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Takes note of all children that have ended.
    ///
    /// # Errors
    /// None that is known.
    pub fn reap(&mut self) -> io::Result<()> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid.as_raw_nonzero().get().cast_unsigned() == self.pid => {
                    let exited =
                        status.exit_status().map(|status| Ended::Status(u8::try_from(status).unwrap_or(u8::MAX)));
                    let signal = status.terminating_signal().and_then(|signal| u8::try_from(signal).ok());
                    self.ended = exited.or(signal.map(Ended::Signal));
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return Ok(()),
                Err(rustix::io::Errno::CHILD) => {
                    self.is_over = true;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// How the process that was started has ended; `None` while it runs. What it started may still run.
    #[must_use]
    pub const fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Whether nothing of it runs any more.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Sends a signal to the process that was started or, if that has ended, to all that it left.
    pub fn signal(&self, number: i32) {
        if self.ended.is_none() {
            // Until it is waited for, no other process gets its number.
            let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw);
            if let (Some(pid), Some(signal)) = (pid, rustix::process::Signal::from_named_raw(number)) {
                let _ = rustix::process::kill_process(pid, signal);
            }
            return;
        }
        let left = || descendants(std::process::id()).into_iter().collect();
        for process in hold(&left(), left) {
            // It may have ended.
            let _ = process.signal(number);
        }
    }
}
