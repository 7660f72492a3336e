//! The kernel's own sockets under epoll.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use napier_linux::epoll::{EpollParams, set_params};
use napier_linux::socket::{self, BusyOption};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::time::Timespec;

use super::net::{BACKLOG, BLOCKED_MAX, EVENTS_MAX, EventParams, KEEPALIVE, Net, TOKEN_STOP, Watch};

/// Tells workers on the kernel's sockets to stop.
#[derive(Clone, Debug)]
pub struct KernelStop(Arc<OwnedFd>);

impl KernelStop {
    /// Not raised.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Ends the waits of all workers, now and from now on.
    pub fn raise(&self) {
        // Fails only if it was raised 2^64 times.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// One worker's sockets and the epoll descriptor that watches them.
pub struct KernelNet {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    interface: Option<String>,
    _stop: KernelStop,
}

impl KernelNet {
    /// A network without sockets that watches `stop`; `params` are the busy-polling parameters of its waits.
    ///
    /// # Errors
    /// No descriptor is left, or the kernel refuses the parameters (it has them since 6.9).
    pub fn new(stop: &KernelStop, params: Option<EventParams>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        if let Some(EventParams { busy_poll_usecs, busy_poll_budget, prefer_busy_poll }) = params {
            set_params(&epoll, EpollParams { busy_poll_usecs, busy_poll_budget, prefer_busy_poll })?;
        }
        let net = Self { epoll, events: Vec::with_capacity(EVENTS_MAX), interface: None, _stop: stop.clone() };
        net.add(stop.0.as_fd(), TOKEN_STOP)?;
        Ok(net)
    }

    /// Sockets that are made from now on are bound to this interface.
    #[must_use]
    pub fn on(mut self, interface: Option<&str>) -> Self {
        self.interface = interface.map(str::to_owned);
        self
    }

    /// A socket bound to an address that others may be bound to as well.
    fn bound(&self, at: SocketAddr, kind: SocketType, nonblocking: bool) -> io::Result<OwnedFd> {
        let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | if nonblocking { SocketFlags::NONBLOCK } else { SocketFlags::empty() };
        let socket = rustix::net::socket_with(family, kind, flags, None)?;
        sockopt::set_socket_reuseport(&socket, true)?;
        if kind == SocketType::STREAM {
            sockopt::set_socket_reuseaddr(&socket, true)?;
        }
        if let Some(interface) = &self.interface {
            socket::bind_to_device(&socket, interface).map_err(|error| {
                io::Error::new(error.kind(), format!("interface {interface}: {error}; see ip link"))
            })?;
        }
        rustix::net::bind(&socket, &at)?;
        Ok(socket)
    }

    fn add(&self, socket: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), epoll::EventFlags::IN)?;
        Ok(())
    }
}

impl Net for KernelNet {
    type Listener = TcpListener;
    type Stream = TcpStream;
    type Datagrams = UdpSocket;

    fn listen(&self, at: SocketAddr, token: u64) -> io::Result<TcpListener> {
        let socket = self.bound(at, SocketType::STREAM, true)?;
        // Connections inherit it.
        let (idle, interval, probes) = KEEPALIVE;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, idle)?;
        sockopt::set_tcp_keepintvl(&socket, interval)?;
        sockopt::set_tcp_keepcnt(&socket, probes)?;
        rustix::net::listen(&socket, BACKLOG)?;
        self.add(socket.as_fd(), token)?;
        Ok(socket.into())
    }

    fn bind(&self, at: SocketAddr, token: u64) -> io::Result<UdpSocket> {
        let socket = self.bound(at, SocketType::DGRAM, true)?;
        self.add(socket.as_fd(), token)?;
        Ok(socket.into())
    }

    fn bind_blocking(&self, at: SocketAddr, busy_poll_usecs: u32, prefer: bool) -> io::Result<UdpSocket> {
        let socket = self.bound(at, SocketType::DGRAM, false)?;
        let usecs = i32::try_from(busy_poll_usecs).map_err(|_| io::ErrorKind::InvalidInput)?;
        socket::set(&socket, BusyOption::BusyPoll, usecs)?;
        socket::set(&socket, BusyOption::PreferBusyPoll, prefer.into())?;
        let socket = UdpSocket::from(socket);
        socket.set_read_timeout(Some(BLOCKED_MAX))?;
        Ok(socket)
    }

    fn accept(&self, listener: &TcpListener) -> io::Result<Option<TcpStream>> {
        match listener.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            },
        }
    }

    fn join(&self, stream: &TcpStream, token: u64) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        self.add(stream.as_fd(), token)
    }

    fn watch_listener(&self, listener: &TcpListener, token: u64, is_watched: bool) -> io::Result<()> {
        let flags = if is_watched { epoll::EventFlags::IN } else { epoll::EventFlags::empty() };
        epoll::modify(&self.epoll, listener, epoll::EventData::new_u64(token), flags)?;
        Ok(())
    }

    /// The kernel's buffers are not of this process, and have bounds of their own (`tcp_mem`).
    fn stream_bytes(&self) -> usize {
        0
    }

    fn watch(&self, stream: &TcpStream, token: u64, watch: Watch) -> io::Result<()> {
        let flags = match watch {
            Watch::Read => epoll::EventFlags::IN,
            Watch::Write => epoll::EventFlags::OUT,
        };
        epoll::modify(&self.epoll, stream, epoll::EventData::new_u64(token), flags)?;
        Ok(())
    }

    fn read(&self, mut stream: &TcpStream, room: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut stream, room)
    }

    fn write(&self, mut stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut stream, bytes)
    }

    fn receive(&self, socket: &UdpSocket, room: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        socket.recv_from(room)
    }

    fn send(&self, socket: &UdpSocket, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        socket.send_to(bytes, to).map(|_| ())
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<u64>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| Timespec::try_from(timeout).expect("waits are short"));
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) => ready.extend(self.events.iter().map(|event| event.data.u64())),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
