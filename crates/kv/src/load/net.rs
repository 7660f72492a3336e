//! What a load generator needs of a network, and the kernel's sockets.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, epoll};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};

/// How long a connection may take to come about.
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How requests travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proto {
    /// Streams.
    Tcp,
    /// Datagrams, each with memcached's header.
    Udp,
}

impl std::fmt::Display for Proto {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl std::str::FromStr for Proto {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            _ => Err("no such protocol; give tcp or udp"),
        }
    }
}

/// A load generator's network. Nothing blocks but [`wait`](Self::wait).
pub trait ClientNet {
    /// A connection, or a connected socket of datagrams.
    type Socket;

    /// Connects, and watches the connection for something to read under `token`.
    ///
    /// # Errors
    /// There is no peer.
    fn connect(&mut self, proto: Proto, to: SocketAddr, token: u64) -> io::Result<Self::Socket>;

    /// Reads what is there, of datagrams one; 0 once the peer has closed.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing is there; else the connection is broken.
    fn read(&self, socket: &Self::Socket, room: &mut [u8]) -> io::Result<usize>;

    /// Writes what there is room for, of datagrams one.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none; else the connection is broken.
    fn write(&self, socket: &Self::Socket, bytes: &[u8]) -> io::Result<usize>;

    /// Waits at most `timeout` for something to read and hands out the tokens of those that have something.
    ///
    /// # Errors
    /// The place to wait is broken.
    fn wait(&mut self, timeout: Duration, ready: &mut Vec<u64>) -> io::Result<()>;

    /// Tokens of sockets that are to be read before each wait: reading them polls for all others.
    #[inline]
    fn pilots(&self) -> &[u64] {
        &[]
    }
}

/// The kernel's sockets.
pub struct KernelClient {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

/// A socket of the kernel.
#[derive(Debug)]
pub enum KernelSocket {
    /// A connection.
    Stream(TcpStream),
    /// A connected socket of datagrams.
    Datagrams(UdpSocket),
}

impl AsFd for KernelSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stream(stream) => stream.as_fd(),
            Self::Datagrams(socket) => socket.as_fd(),
        }
    }
}

impl KernelClient {
    /// Without connections.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?, events: Vec::with_capacity(256) })
    }

    fn take_ready(&mut self, ready: &mut Vec<u64>) -> io::Result<()> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&now)) {
            Ok(_) => ready.extend(self.events.iter().map(|event| event.data.u64())),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl ClientNet for KernelClient {
    type Socket = KernelSocket;

    fn connect(&mut self, proto: Proto, to: SocketAddr, token: u64) -> io::Result<KernelSocket> {
        let socket = match proto {
            Proto::Tcp => {
                let stream = TcpStream::connect_timeout(&to, CONNECT_MAX)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                KernelSocket::Stream(stream)
            }
            Proto::Udp => {
                let any: SocketAddr = if to.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
                let socket = UdpSocket::bind(any)?;
                socket.connect(to)?;
                socket.set_nonblocking(true)?;
                KernelSocket::Datagrams(socket)
            }
        };
        epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        Ok(socket)
    }

    fn read(&self, socket: &KernelSocket, room: &mut [u8]) -> io::Result<usize> {
        match socket {
            KernelSocket::Stream(stream) => (&*stream).read(room),
            KernelSocket::Datagrams(socket) => socket.recv(room),
        }
    }

    fn write(&self, socket: &KernelSocket, bytes: &[u8]) -> io::Result<usize> {
        match socket {
            KernelSocket::Stream(stream) => (&*stream).write(bytes),
            KernelSocket::Datagrams(socket) => socket.send(bytes),
        }
    }

    fn wait(&mut self, timeout: Duration, ready: &mut Vec<u64>) -> io::Result<()> {
        self.take_ready(ready)?;
        if !ready.is_empty() || timeout.is_zero() {
            return Ok(());
        }
        // epoll_wait counts in milliseconds and rounds up, which would make requests late; ppoll counts in nanoseconds.
        let timeout = Timespec::try_from(timeout).expect("waits are short");
        let mut watched = [PollFd::new(&self.epoll, PollFlags::IN)];
        match rustix::event::poll(&mut watched, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(()),
            Ok(_) => self.take_ready(ready),
            Err(error) => Err(error.into()),
        }
    }
}
