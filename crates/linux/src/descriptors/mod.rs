//! Processes that were not changed, from outside: their descriptors, what of them a mode is about, and how it is set.
//!
//! A descriptor that `pidfd_getfd` copies names the program's own object, so this works for static programs and those in any
//! language, and costs the program no instruction. A process is its number with the time when it started: a number that
//! another process has got since is not touched. Source: `kernel/pid.c pidfd_getfd`, `fs/proc/fd.c`.

pub(crate) mod copies;
mod holders;
mod program;
pub(crate) mod ring;
mod settings;
pub(crate) mod sockets;
pub(crate) mod steer;
pub(crate) mod values;

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::procfs::Stat;
use crate::setting::KeyError;
use crate::{LinuxError, Netns};

pub use program::{AS_MADE, IN_FORCE, ONLY_EPOLL, ProgramKey, ProgramSettings};
pub use ring::RingValue;
pub use settings::{DescriptorKey, DescriptorSetting, OwnSettings};
pub use values::{EpollValue, SocketValue};

/// A process: its number, and when it started, which tells it from a later one with that number.
#[derive(Clone, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
pub struct ProcessRef {
    /// Number.
    pub pid: u32,
    /// Ticks from the start of the machine to its own (`/proc/PID/stat`, field 22).
    pub start: u64,
    /// Name of the program when it was found, for people.
    pub name: String,
}

impl ProcessRef {
    /// The process that has this number now.
    ///
    /// # Errors
    /// There is none, or `/proc` does not show it.
    pub fn of(pid: u32) -> io::Result<Self> {
        let Stat { name, started: start, .. } = Stat::of(pid)?;
        Ok(Self { pid, start, name })
    }
}

impl fmt::Display for ProcessRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// What a descriptor is, as far as a mode is about it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// An epoll instance.
    Epoll,
    /// A socket, with its inode.
    Socket(u64),
    /// A ring of io_uring, with its inode, which no other ring has (`io_uring/io_uring.c io_uring_get_file`).
    Ring(u64),
}

/// A process that is held: its number cannot become another's while this lives.
#[derive(Clone, Debug)]
pub struct Process {
    who: Arc<ProcessRef>,
    pidfd: Arc<OwnedFd>,
}

impl Process {
    /// The process with this number.
    ///
    /// # Errors
    /// [`KeyError::Gone`] if there is none.
    pub fn open(pid: u32) -> Result<Self, KeyError> {
        let gone = || KeyError::Gone(format!("there is no process {pid}"));
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let pidfd = pidfd_open(raw, PidfdFlags::empty()).map_err(|error| match error {
            rustix::io::Errno::SRCH => gone(),
            // A number of a thread that is not its process's.
            rustix::io::Errno::INVAL | rustix::io::Errno::NOENT => {
                KeyError::Refused(format!("{pid} is a thread, give the number of its process"))
            }
            error => KeyError::Io(error.into()),
        })?;
        let who = ProcessRef::of(pid).map_err(|error| match error.raw_os_error() {
            Some(libc::ENOENT | libc::ESRCH) => gone(),
            _ => KeyError::Io(error),
        })?;
        Ok(Self { who: Arc::new(who), pidfd: Arc::new(pidfd) })
    }

    /// A process that was found before.
    ///
    /// # Errors
    /// [`KeyError::Gone`] if it has ended, also if another one has its number now.
    pub fn again(who: &ProcessRef) -> Result<Self, KeyError> {
        let found = Self::open(who.pid)?;
        if found.who.start == who.start { Ok(found) } else { Err(KeyError::Gone(format!("{who} has ended"))) }
    }

    /// Which it is.
    #[must_use]
    pub fn who(&self) -> &ProcessRef {
        &self.who
    }

    /// Whether its descriptors can be looked into.
    ///
    /// # Errors
    /// [`KeyError::Denied`]; [`KeyError::NotHere`] on a kernel that has no such call.
    pub fn try_descriptor(&self, fd: i32, kind: Kind) -> Result<(), KeyError> {
        match copies::one(self, fd, kind, |_| Ok(())) {
            Err(KeyError::Gone(_) | KeyError::Away(_)) => Ok(()),
            tried => tried,
        }
    }

    /// A copy of one of its descriptors. It has effects ([`copies`]), and is closed on a thread that may be waited for.
    fn duplicate(&self, fd: i32) -> Result<OwnedFd, KeyError> {
        pidfd_getfd(&self.pidfd, fd, PidfdGetfdFlags::empty()).map_err(|error| match error {
            rustix::io::Errno::BADF => KeyError::Gone(format!("{} has closed descriptor {fd}", self.who)),
            rustix::io::Errno::SRCH => KeyError::Gone(format!("{} has ended", self.who)),
            rustix::io::Errno::PERM => KeyError::Denied(PTRACE),
            rustix::io::Errno::NOSYS => {
                KeyError::NotHere("this kernel has no pidfd_getfd (since Linux 5.6)".to_owned())
            }
            error => KeyError::Io(error.into()),
        })
    }

    /// A copy of one of its descriptors, if it still is what it was; [`KeyError::Gone`] if the number is another object's now.
    fn duplicate_of(&self, fd: i32, kind: Kind) -> Result<OwnedFd, KeyError> {
        let copy = self.duplicate(fd)?;
        let is_it = match kind {
            Kind::Socket(inode) => rustix::fs::fstat(&copy).is_ok_and(|found| {
                found.st_ino == inode
                    && rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Socket
            }),
            Kind::Epoll | Kind::Ring(_) => {
                let link = fs::read_link(format!("/proc/self/fd/{}", copy.as_raw_fd())).map_err(KeyError::Io)?;
                let inode = || rustix::fs::fstat(&copy).map_or(0, |found| found.st_ino);
                link.to_str().and_then(|link| kind_of(link, inode)) == Some(kind)
            }
        };
        if is_it {
            return Ok(copy);
        }
        Err(KeyError::Gone(format!("{} has closed descriptor {fd}", self.who)))
    }

    /// Its epoll instances, sockets and rings, with their numbers.
    ///
    /// # Errors
    /// [`KeyError::Gone`], [`KeyError::Denied`].
    pub fn descriptors(&self) -> Result<Vec<(i32, Kind)>, KeyError> {
        let folder = format!("/proc/{}/fd", self.who.pid);
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).map_err(|error| self.refused(error))? {
            let entry = entry.map_err(|error| self.refused(error))?;
            let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // Closed since.
            let Ok(link) = fs::read_link(entry.path()) else { continue };
            let inode = || fs::metadata(entry.path()).map_or(0, |found| found.ino());
            if let Some(kind) = link.to_str().and_then(|link| kind_of(link, inode)) {
                found.push((fd, kind));
            }
        }
        // What was read may be another's, if it has ended meanwhile.
        if self.has_ended() {
            return Err(KeyError::Gone(format!("{} has ended", self.who)));
        }
        Ok(found)
    }

    /// Whether rings of io_uring are all that could wait for its sockets: it has both, and no epoll instance.
    ///
    /// # Errors
    /// As [`Process::descriptors`].
    pub fn has_rings_alone(&self) -> Result<bool, KeyError> {
        Ok(ring::are_alone(self.descriptors()?.iter().map(|(_, kind)| kind)))
    }

    /// Whether it has ended, waited for or not.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut asked = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut asked, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Sends it a signal, by its number.
    ///
    /// # Errors
    /// It has ended, or may not be sent signals.
    pub fn signal(&self, number: i32) -> io::Result<()> {
        let signal = Signal::from_named_raw(number).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(pidfd_send_signal(&self.pidfd, signal)?)
    }

    /// Inode of its network namespace.
    ///
    /// # Errors
    /// It has ended, or may not be looked at.
    pub fn netns(&self) -> Result<u64, KeyError> {
        let found = fs::metadata(format!("/proc/{}/ns/net", self.who.pid));
        found.map(|found| found.ino()).map_err(|error| self.refused(error))
    }

    /// Its network namespace, if the calling thread is in another one, and may enter it.
    #[must_use]
    pub fn netns_apart(&self) -> Option<Netns> {
        let own = Netns::current().and_then(|own| own.inode().map_err(LinuxError::Enter)).ok()?;
        (self.netns().ok()? != own).then(|| Netns::open(&self.who.pid.to_string()).ok()).flatten()
    }

    fn refused(&self, error: io::Error) -> KeyError {
        match error.kind() {
            io::ErrorKind::PermissionDenied => KeyError::Denied(PTRACE),
            io::ErrorKind::NotFound => KeyError::Gone(format!("{} has ended", self.who)),
            _ if error.raw_os_error() == Some(libc::ESRCH) => KeyError::Gone(format!("{} has ended", self.who)),
            _ => KeyError::Io(error),
        }
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// What looking into another process needs. Source: `kernel/ptrace.c __ptrace_may_access`.
const PTRACE: &str = "CAP_SYS_PTRACE (a program of your own that is setuid or not dumpable counts as another user's)";

/// What a link of `/proc/PID/fd` leads to; `anonymous` is asked for the inode of what has it not in its name.
fn kind_of(link: &str, anonymous: impl FnOnce() -> u64) -> Option<Kind> {
    match link {
        "anon_inode:[eventpoll]" => return Some(Kind::Epoll),
        "anon_inode:[io_uring]" => return Some(Kind::Ring(anonymous())),
        _ => {}
    }
    let inode = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    inode.parse().ok().map(Kind::Socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_descriptors_are_told_apart() {
        let kind_of = |link| kind_of(link, || 7);
        assert_eq!(kind_of("anon_inode:[eventpoll]"), Some(Kind::Epoll));
        assert_eq!(kind_of("anon_inode:[io_uring]"), Some(Kind::Ring(7)));
        assert_eq!(kind_of("socket:[4711]"), Some(Kind::Socket(4711)));
        assert!(
            ["/dev/null", "pipe:[1]", "anon_inode:[eventfd]", "socket:[x]"].iter().all(|link| kind_of(link).is_none())
        );
    }

    #[test]
    fn a_process_with_another_start_is_gone() {
        let own = ProcessRef::of(std::process::id()).expect("it runs");
        assert!(Process::again(&own).is_ok());
        let other = ProcessRef { start: own.start + 1, ..own };
        assert!(matches!(Process::again(&other), Err(KeyError::Gone(_))));
    }
}
