//! The control socket: Unix seqpacket, one message of 128 bytes per packet, with at most one descriptor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;

use napier_core::memif::{DecodeError, MESSAGE_BYTES, Message};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
};

use crate::access::MemifAccess;

/// Clients that may wait for an accept; the system may allow less (`net.core.somaxconn`). The others are told to try again.
const BACKLOG: i32 = 1024;

/// Where a server listens: a path, or `@` and a name without file (Linux's abstract names).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SocketPath(pub(crate) String);

/// Why nothing can listen there.
#[derive(Debug, thiserror::Error)]
pub enum MemifSocketError {
    /// No socket can have this path.
    #[error("{path:?} is no path for a socket: it must have 1 to 107 bytes and no NUL")]
    Path {
        /// As given.
        path: String,
    },
    /// Another program listens there.
    #[error("a program listens on {path} already: stop it or choose another path")]
    Taken {
        /// As given.
        path: String,
    },
    /// Something else is there.
    #[error("{path} is no socket: move it away or choose another path")]
    NotASocket {
        /// As given.
        path: String,
    },
    /// Its mode or its group.
    #[error("the permissions of {path} cannot be set: {source}; choose a group that this user is in")]
    Access {
        /// As given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused.
    #[error("cannot listen on {path}: {source}; check that its folder is there and can be written")]
    System {
        /// As given.
        path: String,
        /// What it said.
        source: io::Error,
    },
}

impl MemifSocketError {
    /// What kind of error of the system this is.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Path { .. } => io::ErrorKind::InvalidInput,
            Self::Taken { .. } => io::ErrorKind::AddrInUse,
            Self::NotASocket { .. } => io::ErrorKind::AlreadyExists,
            Self::Access { source, .. } | Self::System { source, .. } => source.kind(),
        }
    }
}

/// Of its [kind](MemifSocketError::kind), with the error inside for what it says.
impl From<MemifSocketError> for io::Error {
    fn from(error: MemifSocketError) -> Self {
        Self::new(error.kind(), error)
    }
}

impl SocketPath {
    fn address(&self) -> Result<SocketAddrUnix, MemifSocketError> {
        let address = match self.0.strip_prefix('@') {
            Some("") => Err(Errno::INVAL),
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
            None if self.0.is_empty() => Err(Errno::INVAL),
            None => SocketAddrUnix::new(self.0.as_str()),
        };
        address.map_err(|_| MemifSocketError::Path { path: self.0.clone() })
    }

    /// Whether this can be a path at all.
    ///
    /// # Errors
    ///
    /// [`MemifSocketError::Path`].
    pub(crate) fn check(&self) -> Result<(), MemifSocketError> {
        self.address().map(drop)
    }

    /// Connects, without waiting.
    ///
    /// # Errors
    ///
    /// As `connect(2)`: mostly that no program listens.
    pub(crate) fn connect(&self) -> io::Result<OwnedFd> {
        let address = self.address().map_err(io::Error::other)?;
        let socket = new_socket()?;
        rustix::net::connect(&socket, &address)?;
        Ok(socket)
    }

    /// Listens. A socket file that no program listens on any more is replaced.
    ///
    /// # Errors
    ///
    /// See [`MemifSocketError`].
    pub(crate) fn listen(&self, access: MemifAccess) -> Result<Listening, MemifSocketError> {
        let path = || self.0.clone();
        let system = |source: io::Error| MemifSocketError::System { path: path(), source };
        let address = self.address()?;
        let socket = new_socket().map_err(system)?;
        // The file is made with the mode of its socket, as far as the umask allows it (net/unix/af_unix.c unix_bind_bsd).
        let mode = Mode::from_raw_mode(access.mode & 0o777);
        rustix::fs::fchmod(&socket, mode).map_err(|error| system(error.into()))?;
        match rustix::net::bind(&socket, &address) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) if self.is_abstract() => return Err(MemifSocketError::Taken { path: path() }),
            Err(Errno::ADDRINUSE) => {
                let is_socket = std::fs::symlink_metadata(&self.0).is_ok_and(|meta| meta.file_type().is_socket());
                if !is_socket {
                    return Err(MemifSocketError::NotASocket { path: path() });
                }
                // Only a socket without listener refuses; one of another type is another program's as well.
                match self.connect() {
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    _ => return Err(MemifSocketError::Taken { path: path() }),
                }
                std::fs::remove_file(&self.0).map_err(system)?;
                rustix::net::bind(&socket, &address).map_err(|error| system(error.into()))?;
            }
            Err(error) => return Err(system(error.into())),
        }
        let listening = Listening { socket, path: self.clone() };
        if !self.is_abstract() {
            // No program can connect yet. The group first: no other may get what the mode says.
            if let Some(group) = access.group {
                std::os::unix::fs::chown(&self.0, None, Some(group)).map_err(|source| self.no_access(source))?;
            }
            rustix::fs::chmod(self.0.as_str(), mode).map_err(|error| self.no_access(error.into()))?;
        }
        rustix::net::listen(&listening.socket, BACKLOG).map_err(|error| system(error.into()))?;
        Ok(listening)
    }

    fn no_access(&self, source: io::Error) -> MemifSocketError {
        MemifSocketError::Access { path: self.0.clone(), source }
    }

    fn is_abstract(&self) -> bool {
        self.0.starts_with('@')
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// A listening socket; its file is removed when it is dropped.
pub(crate) struct Listening {
    socket: OwnedFd,
    path: SocketPath,
}

impl Listening {
    /// The next client; `None` = there is none.
    pub(crate) fn accept(&self) -> io::Result<Option<OwnedFd>> {
        match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(socket)),
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.path.is_abstract() {
            // Removed by another program: nothing is left to do.
            let _ = std::fs::remove_file(&self.path.0);
        }
    }
}

/// What a read came to.
pub(crate) enum Received {
    /// Nothing is there now.
    Nothing,
    /// The peer has closed.
    Closed,
    /// A packet, decoded, and the first descriptor that came with it.
    Packet(Result<Message, DecodeError>, Option<OwnedFd>),
}

/// Reads one packet, without waiting.
///
/// # Errors
///
/// As `recvmsg(2)`.
pub(crate) fn receive(socket: &OwnedFd) -> io::Result<Received> {
    let mut bytes = [0; MESSAGE_BYTES + 1];
    // More descriptors than this are closed by the kernel.
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let length = match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Ok(received) => received.bytes,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
        Err(Errno::CONNRESET) => return Ok(Received::Closed),
        Err(error) => return Err(error.into()),
    };
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            for one in descriptors {
                descriptor.get_or_insert(one);
            }
        }
    }
    if length == 0 {
        return Ok(Received::Closed);
    }
    Ok(Received::Packet(Message::decode(&bytes[..length]), descriptor))
}

/// Sends one message, with a descriptor if there is one, without waiting: lock-step leaves room for it.
///
/// # Errors
///
/// As `sendmsg(2)`.
pub(crate) fn send(socket: &OwnedFd, message: &Message, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let bytes = message.encode();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.as_slice();
    if !descriptors.is_empty() {
        let pushed = control.push(SendAncillaryMessage::ScmRights(descriptors));
        assert!(pushed, "room for one descriptor");
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}
