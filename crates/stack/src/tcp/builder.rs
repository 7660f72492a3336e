//! What has to be known before a TCP socket listens or connects.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use napier_core::sockopt::SocketBusy;

use super::super::builder::{ReusePort, own_end};
use super::super::demux::Place;
use super::super::netns::NetNs;
use super::super::send::Target;
use super::accept::TcpListener;
use super::listener::{Limits, ListenerInner};
use super::settings::{Settings, settings};
use super::stream::TcpStream;
use super::{Tcp, connect};

/// Connections that wait to be accepted. Source: `include/linux/socket.h SOMAXCONN`.
const BACKLOG_DEFAULT: usize = 4096;
/// Handshakes under way. Source: `net/ipv4/tcp_ipv4.c`, the least default of `net.ipv4.tcp_max_syn_backlog` with memory
/// to spare.
const SYNS_DEFAULT: usize = 1024;

/// Makes a [`TcpListener`] with what has to be known before it listens.
#[derive(Copy, Clone, Debug)]
pub struct TcpListenerBuilder {
    reuse: ReusePort,
    nonblocking: bool,
    limits: Limits,
}

impl Default for TcpListenerBuilder {
    fn default() -> Self {
        let limits = Limits { backlog: BACKLOG_DEFAULT, syns: SYNS_DEFAULT, settings: Settings::default() };
        Self { reuse: ReusePort::No, nonblocking: false, limits }
    }
}

impl TcpListenerBuilder {
    /// Connections that may wait to be accepted (default 4096); as in the kernel, one more than this fits.
    #[must_use]
    pub fn backlog(mut self, connections: usize) -> Self {
        self.limits.backlog = connections;
        self
    }

    /// Handshakes that may be under way at one time (default 1024, at least 1). Each takes the memory of a connection.
    /// When there are more the oldest is given up.
    #[must_use]
    pub fn syn_limit(mut self, handshakes: usize) -> Self {
        self.limits.syns = handshakes.max(1);
        self
    }

    /// How several listeners share one place; see [`ReusePort`]. With [`ReusePort::ByNapi`] each gets the connections of
    /// one NAPI instance.
    #[must_use]
    pub fn reuse_port(mut self, reuse: ReusePort) -> Self {
        self.reuse = reuse;
        self
    }

    /// As [`TcpListener::set_nonblocking`].
    #[must_use]
    pub fn nonblocking(mut self, nonblocking: bool) -> Self {
        self.nonblocking = nonblocking;
        self
    }

    settings!(limits.settings);

    /// Binds and listens. Port 0 stands for any free port.
    ///
    /// # Errors
    /// As [`UdpSocketBuilder::bind`](crate::UdpSocketBuilder::bind); `EAGAIN` if the timer's thread cannot be started.
    pub fn bind(self, ns: &NetNs, addr: SocketAddr) -> io::Result<TcpListener> {
        let local = own_end(addr)?;
        let inner = &ns.0;
        Tcp::of(inner)?;
        let writer = &mut inner.lock();
        inner.check_own(local)?;
        let local = writer.tcp_registry.claim(local, self.reuse)?;
        let busy = SocketBusy::new(inner.host.sysctl_busy_read());
        let listener = Arc::new(ListenerInner::new(local, self.reuse, self.limits, &busy));
        listener.nonblocking.store(self.nonblocking, Ordering::Relaxed);
        inner.edit(writer, |s| s.listeners.insert(Place { local, peer: None }, &listener, self.reuse));
        Ok(TcpListener::from_parts(listener, ns.clone()))
    }
}

/// Makes a [`TcpStream`] with what has to be known before it connects.
#[derive(Copy, Clone, Debug, Default)]
pub struct TcpStreamBuilder {
    local: Option<SocketAddr>,
    nonblocking: bool,
    nodelay: bool,
    timeout: Option<Duration>,
    settings: Settings,
}

impl TcpStreamBuilder {
    /// The own address, the own port, or both (wildcard and port 0 stand for any).
    #[must_use]
    pub fn local(mut self, addr: SocketAddr) -> Self {
        self.local = Some(addr);
        self
    }

    /// Whether [`connect`](Self::connect) returns while the handshake goes on, where the kernel's says `EINPROGRESS`.
    /// The stream is writable, or has an error, when it is over: see [`TcpStream::take_error`].
    #[must_use]
    pub fn nonblocking(mut self, nonblocking: bool) -> Self {
        self.nonblocking = nonblocking;
        self
    }

    /// As [`TcpStream::set_nodelay`].
    #[must_use]
    pub fn nodelay(mut self, nodelay: bool) -> Self {
        self.nodelay = nodelay;
        self
    }

    /// How long a blocking [`connect`](Self::connect) waits (default 127 s, as `tcp_syn_retries` = 6).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    settings!(settings);

    /// Connects to `peer`.
    ///
    /// # Errors
    /// `ECONNREFUSED`, `ECONNRESET`, `ETIMEDOUT`, `EHOSTUNREACH` (no such neighbour), `ENETUNREACH`, `EADDRINUSE`,
    /// `EADDRNOTAVAIL`, `EINVAL` (port 0), `EACCES` (a broadcast address), `EAFNOSUPPORT`; `EAGAIN` if the timer's thread
    /// cannot be started.
    pub fn connect(self, ns: &NetNs, peer: SocketAddr) -> io::Result<TcpStream> {
        let target = Target::new(&peer)?;
        let local = self.local.map(own_end).transpose()?;
        let conn = connect::connect(&ns.0, local, target, self.nodelay, &self.settings)?;
        let stream = TcpStream::from_parts(conn, ns.clone());
        stream.set_nonblocking(self.nonblocking)?;
        if !self.nonblocking {
            stream.finish_connect(self.timeout)?;
        }
        Ok(stream)
    }
}
