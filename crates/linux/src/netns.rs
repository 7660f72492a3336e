//! A network namespace without a name.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::fs::OFlags;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use serde::{Deserialize, Serialize};

use crate::{LinuxError, sys};

/// `include/uapi/asm-generic/socket.h`, Linux 5.14.
const SO_NETNS_COOKIE: libc::c_int = 71;

/// `include/uapi/linux/magic.h`.
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;

/// A network namespace. Clones name the same one; it ends with the last clone, thread and socket in it.
#[derive(Clone, Debug)]
pub struct Netns {
    fd: Arc<OwnedFd>,
}

impl Netns {
    /// Makes a namespace. The calling thread stays where it is.
    ///
    /// # Errors
    /// [`LinuxError::Unshare`], without the capability or where the kernel has no namespaces.
    pub fn new() -> Result<Self, LinuxError> {
        let made = std::thread::Builder::new().name("netns".to_owned()).spawn(|| {
            #[expect(deprecated, reason = "unsafe only with the flag for descriptors, which is not set")]
            rustix::thread::unshare(UnshareFlags::NEWNET)?;
            open_current()
        });
        let made = made.map_err(LinuxError::Thread)?.join().expect("it cannot panic");
        let fd = made.map_err(LinuxError::Unshare)?;
        Ok(Self { fd: Arc::new(fd) })
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// `/proc` is not there, or the process has too many files open.
    pub fn current() -> Result<Self, LinuxError> {
        Ok(Self { fd: Arc::new(open_current().map_err(LinuxError::Enter)?) })
    }

    /// The namespace that `text` names: a name of `ip netns`, the number of a process that is in it, or a path.
    ///
    /// # Errors
    /// [`LinuxError::Refused`]: there is no such namespace, or it is not this user's to open.
    pub fn open(text: &str) -> Result<Self, LinuxError> {
        let path = match text.parse::<u32>() {
            Ok(process) => format!("/proc/{process}/ns/net"),
            Err(_) if text.contains('/') => text.to_owned(),
            Err(_) => format!("/run/netns/{text}"),
        };
        // A path may lead anywhere, such as to a pipe without a writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = || {
            let fd = rustix::fs::open(&path, flags, rustix::fs::Mode::empty())?;
            // A name may be that of a folder. Another kind of namespace is refused when it is entered.
            let is_namespace = rustix::fs::fstatfs(&fd)?.f_type == NSFS_MAGIC;
            if is_namespace { Ok(fd) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no namespace")) }
        };
        let what = format!("opening the network namespace {text} ({path})");
        Ok(Self::of(open().map_err(LinuxError::refused(what))?))
    }

    /// The namespace that a descriptor of it names.
    pub(crate) fn of(fd: OwnedFd) -> Self {
        Self { fd: Arc::new(fd) }
    }

    /// Its inode, by which the kernel names it.
    ///
    /// # Errors
    /// As the system says it.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.fd)?.st_ino)
    }

    /// Moves the calling thread into this namespace, for good. Threads that it starts afterwards are inside too.
    ///
    /// # Errors
    /// [`LinuxError::Enter`].
    pub fn enter(&self) -> Result<(), LinuxError> {
        move_into_link_name_space(self.fd.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| LinuxError::Enter(error.into()))
    }

    /// Runs `f` inside the namespace, on a thread of its own, and waits for it.
    ///
    /// # Errors
    /// The namespace could not be entered; `f` was not called.
    ///
    /// # Panics
    /// If `f` panics.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> Result<R, LinuxError> {
        std::thread::scope(|scope| {
            let inside = std::thread::Builder::new().name("in-netns".to_owned()).spawn_scoped(scope, || {
                self.enter()?;
                Ok(f())
            });
            match inside.map_err(LinuxError::Thread)?.join() {
                Ok(answer) => answer,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Starts a thread inside the namespace.
    ///
    /// # Errors
    /// The namespace could not be entered, or no thread could be started; `f` was not called.
    pub fn spawn<R: Send + 'static>(
        &self,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> Result<JoinHandle<R>, LinuxError> {
        // A thread inherits the namespace of the one that starts it.
        self.run(move || std::thread::Builder::new().name("in-netns".to_owned()).spawn(f))?.map_err(LinuxError::Thread)
    }
}

impl From<Arc<OwnedFd>> for Netns {
    /// The namespace that a descriptor of it names. Another kind of descriptor is refused when it is entered.
    fn from(fd: Arc<OwnedFd>) -> Self {
        Self { fd }
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A network namespace, by what tells it from all that the kernel has had since its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum NetnsId {
    /// `SO_NETNS_COOKIE`, which no other namespace gets.
    Cookie {
        /// Its number.
        cookie: u64,
    },
    /// The inode, before Linux 5.14: the kernel gives it again once the namespace is gone.
    Inode(u64),
}

impl NetnsId {
    /// That of the calling thread.
    ///
    /// # Errors
    /// `/proc` is not there.
    pub fn current() -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::DGRAM,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        );
        let cookie = socket.map_err(Into::into).and_then(|socket| sys::socket_cookie(socket.as_fd(), SO_NETNS_COOKIE));
        match cookie {
            Ok(cookie) => Ok(Self::Cookie { cookie }),
            Err(_) => Self::inode(),
        }
    }

    /// Whether the calling thread is in it.
    #[must_use]
    pub fn is_current(self) -> bool {
        let own = if matches!(self, Self::Cookie { .. }) { Self::current() } else { Self::inode() };
        own.is_ok_and(|own| own == self)
    }

    fn inode() -> io::Result<Self> {
        Ok(Self::Inode(rustix::fs::fstat(open_current()?)?.st_ino))
    }
}

impl fmt::Display for NetnsId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cookie { cookie } => write!(f, "c{cookie}"),
            Self::Inode(inode) => write!(f, "{inode}"),
        }
    }
}

/// The namespaces that processes are in, or that have a name of `ip netns`; each once.
pub(crate) fn all() -> Vec<Netns> {
    let of_process = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        entry.file_name().to_str()?.parse::<u32>().ok()?;
        Some(entry.path().join("ns/net"))
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(of_process);
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<(u64, Netns)> = Vec::new();
    for path in names.chain(processes) {
        let Some(path) = path.to_str() else { continue };
        // What was opened is held, so its inode is no other namespace's meanwhile.
        let is_known = std::fs::metadata(path).is_ok_and(|seen| found.iter().any(|(inode, _)| *inode == seen.ino()));
        if is_known {
            continue;
        }
        if let Ok(netns) = Netns::open(path)
            && let Ok(inode) = netns.inode()
        {
            found.push((inode, netns));
        }
    }
    found.into_iter().map(|(_, netns)| netns).collect()
}

fn open_current() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel gives an inode again at once; what a journal of a namespace says is not about the next one.
    #[test]
    fn a_namespace_is_told_from_those_that_were_before() {
        let mut seen = Vec::new();
        for _ in 0..20 {
            let made = match Netns::new() {
                Ok(made) => made,
                Err(error) if error.is_privilege() => {
                    return napier_testkit::skip!("a_namespace_is_told_from_those_that_were_before", "{error}");
                }
                Err(error) => panic!("{error}"),
            };
            let id = made.run(|| NetnsId::current().expect("told")).expect("entered");
            assert!(!seen.contains(&id), "{id} again: {seen:?}");
            assert!(made.run(|| id.is_current()).expect("entered") && !id.is_current());
            assert!(matches!(id, NetnsId::Cookie { .. }), "this kernel has no cookies");
            seen.push(id);
        }
    }
}
