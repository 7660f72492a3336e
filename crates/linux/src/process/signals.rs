//! Signals that a run passes on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::sys::signals::{self, Mask};

/// Those that a run takes: what ends programs, what programs are told with, and the end of a child.
const TAKEN: [libc::c_int; 8] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGWINCH,
    libc::SIGCHLD,
];

/// `sizeof(struct signalfd_siginfo)`. Source: `include/uapi/linux/signalfd.h`.
const SIGINFO_BYTES: usize = 128;

/// Whether this process ignores a signal.
#[must_use]
pub fn is_ignored(signal: i32) -> bool {
    signals::is_ignored(signal)
}

/// Signals of this process, which do nothing but come through here while it lives.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    /// What was blocked before, as the program shall have it.
    before: Mask,
    /// Likewise: whether the end of children is ignored.
    ignores_children: bool,
}

/// A signal that came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalSeen {
    /// A child has ended.
    Child,
    /// Another one.
    Other {
        /// Its number.
        number: i32,
        /// The kernel sent it, as a terminal does to all of its foreground: the program has it too.
        is_from_terminal: bool,
    },
}

impl Signals {
    /// Takes them from the calling thread, which has to be the only one, for good; but for those that the process that started this
    /// process had it ignore (`nohup`, `&` in a script), which the program ignores too.
    ///
    /// # Errors
    /// The process has too many files open.
    pub fn take() -> io::Result<Self> {
        let ignores_children = is_ignored(libc::SIGCHLD);
        let taken: Vec<_> =
            TAKEN.into_iter().filter(|signal| *signal == libc::SIGCHLD || !is_ignored(*signal)).collect();
        let (fd, before) = signals::take(&taken)?;
        Ok(Self { fd, before, ignores_children })
    }

    /// Lets a command begin without them being taken.
    pub(super) fn leave_to(&self, command: &mut Command) {
        signals::begin_with(command, self.before, self.ignores_children.then_some(libc::SIGCHLD));
    }

    /// The same for another thread, which takes them instead of this one.
    ///
    /// # Errors
    /// The process has too many files open.
    pub fn again(&self) -> io::Result<Self> {
        Ok(Self { fd: self.fd.try_clone()?, before: self.before, ignores_children: self.ignores_children })
    }

    /// The next one that came, if there is one.
    ///
    /// # Errors
    /// None that is known.
    pub fn next(&self) -> io::Result<Option<SignalSeen>> {
        let mut info = [0; SIGINFO_BYTES];
        match rustix::io::read(&self.fd, &mut info[..]) {
            Ok(SIGINFO_BYTES) => {}
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let word = |at: usize| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
        // ssi_signo, ssi_errno, ssi_code
        let (number, code) = (word(0), word(8));
        if number == libc::SIGCHLD {
            return Ok(Some(SignalSeen::Child));
        }
        Ok(Some(SignalSeen::Other { number, is_from_terminal: code == libc::SI_KERNEL }))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Waits until a signal has come, one of these descriptors can be read, or the time is over; `None`: as long as it takes.
///
/// # Errors
/// None that is known.
pub fn wait_for(signals: &Signals, beside: &[BorrowedFd<'_>], span: Option<Duration>) -> io::Result<()> {
    let mut asked = vec![PollFd::new(signals, PollFlags::IN)];
    asked.extend(beside.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
    let span = span.map(Timespec::try_from).transpose().map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut asked, span.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits until one of these descriptors can be read, or the time is over; which is the first that can.
///
/// # Errors
/// None that is known.
pub fn wait_for_one(these: &[BorrowedFd<'_>], span: Duration) -> io::Result<Option<usize>> {
    let mut asked: Vec<_> = these.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let span = Timespec::try_from(span).map_err(|_| io::ErrorKind::InvalidInput)?;
    match poll(&mut asked, Some(&span)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(asked.iter().position(|asked| !asked.revents().is_empty()))
}
