//! A network namespace without a name.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::fs::OFlags;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use crate::LinuxError;

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
        // A path may lead anywhere, such as to a pipe that nobody writes to.
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

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn open_current() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}
