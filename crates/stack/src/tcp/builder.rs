//! What has to be known before a TCP socket listens or connects.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use napier_core::sockopt::SocketBusy;

use super::super::addr::End;
use super::super::builder::ReusePort;
use super::super::demux::Place;
use super::super::netns::NetNs;
use super::super::registry::Denied;
use super::super::seams::errno;
use super::super::send::Target;
use super::accept::TcpListener;
use super::congestion::CongestionControl;
use super::conn::Buffers;
use super::connect::Settings;
use super::listener::{Limits, ListenerInner};
use super::rules::Patience;
use super::stream::{TcpStream, keep_alive, user_timeout};
use super::{Tcp, connect};

/// Bytes of either buffer unless the program says otherwise. Source: `net/ipv4/tcp.c tcp_init`, the default of
/// `net.ipv4.tcp_wmem`; with it 10,000 connections take 320 MB.
const BUFFER_DEFAULT: usize = 16 * 1024;
/// Limits of what may be asked for. Source: as for `SO_RCVBUF`.
const BUFFER_MIN: usize = 2304;
const BUFFER_MAX: usize = 4 << 20;
/// Connections that wait to be accepted. Source: `include/linux/socket.h SOMAXCONN`.
const BACKLOG_DEFAULT: usize = 4096;
/// Handshakes under way. Source: `net/ipv4/tcp_ipv4.c`, the least default of `net.ipv4.tcp_max_syn_backlog` with memory
/// to spare.
const SYNS_DEFAULT: usize = 1024;

impl Default for Buffers {
    fn default() -> Self {
        Self { receive: BUFFER_DEFAULT, send: BUFFER_DEFAULT }
    }
}

fn clamp(bytes: usize) -> usize {
    bytes.clamp(BUFFER_MIN, BUFFER_MAX)
}

/// Makes a [`TcpListener`] with what has to be known before it listens.
#[derive(Copy, Clone, Debug)]
pub struct TcpListenerBuilder {
    reuse: ReusePort,
    nonblocking: bool,
    limits: Limits,
}

impl Default for TcpListenerBuilder {
    fn default() -> Self {
        let (buffers, patience) = (Buffers::default(), Patience::default());
        let limits = Limits { backlog: BACKLOG_DEFAULT, syns: SYNS_DEFAULT, buffers, patience, congestion: None };
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

    /// Receive buffer of accepted connections in bytes (default 16 KiB, 2304 bytes to 4 MiB). Not doubled: nothing but
    /// received bytes is in it.
    #[must_use]
    pub fn rcvbuf(mut self, bytes: usize) -> Self {
        self.limits.buffers.receive = clamp(bytes);
        self
    }

    /// Send buffer of accepted connections in bytes, as [`rcvbuf`](Self::rcvbuf).
    #[must_use]
    pub fn sndbuf(mut self, bytes: usize) -> Self {
        self.limits.buffers.send = clamp(bytes);
        self
    }

    /// Which congestion control accepted connections have (`TCP_CONGESTION`; default [`CongestionControl::Reno`], but none over a link
    /// within one process).
    #[must_use]
    pub fn congestion(mut self, control: CongestionControl) -> Self {
        self.limits.congestion = Some(control);
        self
    }

    /// As [`TcpStream::set_keepalive`], for accepted connections.
    ///
    /// # Errors
    /// `EINVAL` if a time is shorter than a millisecond or there are no probes.
    pub fn keepalive(mut self, keep: Option<(Duration, Duration, u32)>) -> io::Result<Self> {
        self.limits.patience.keep = keep.map(keep_alive).transpose()?;
        Ok(self)
    }

    /// As [`TcpStream::set_user_timeout`], for accepted connections.
    ///
    /// # Errors
    /// `EINVAL` for a time shorter than a millisecond.
    pub fn user_timeout(mut self, timeout: Option<Duration>) -> io::Result<Self> {
        self.limits.patience.user = timeout.map(user_timeout).transpose()?;
        Ok(self)
    }

    /// Binds and listens. Port 0 stands for any free port.
    ///
    /// # Errors
    /// As [`UdpSocketBuilder::bind`](crate::UdpSocketBuilder::bind); `EAGAIN` if the timer's thread cannot be started.
    pub fn bind(self, ns: &NetNs, addr: SocketAddr) -> io::Result<TcpListener> {
        let local = End::from_socket_addr(&addr).ok_or_else(|| errno(libc::EADDRNOTAVAIL))?;
        let inner = &ns.0;
        Tcp::of(inner)?;
        let writer = &mut inner.lock();
        inner.check_running()?;
        if !local.addr.is_any() && !inner.snapshot.load().is_local(local.addr) {
            return Err(errno(libc::EADDRNOTAVAIL));
        }
        let local = writer.tcp_registry.claim(local, self.reuse).map_err(|denied| match denied {
            Denied::InUse => errno(libc::EADDRINUSE),
            Denied::OtherReuse => errno(libc::EINVAL),
        })?;
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
    buffers: Buffers,
    patience: Patience,
    congestion: Option<CongestionControl>,
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

    /// Receive buffer in bytes, as [`TcpListenerBuilder::rcvbuf`].
    #[must_use]
    pub fn rcvbuf(mut self, bytes: usize) -> Self {
        self.buffers.receive = clamp(bytes);
        self
    }

    /// Send buffer in bytes, as [`TcpListenerBuilder::rcvbuf`].
    #[must_use]
    pub fn sndbuf(mut self, bytes: usize) -> Self {
        self.buffers.send = clamp(bytes);
        self
    }

    /// Which congestion control the connection has (`TCP_CONGESTION`; default [`CongestionControl::Reno`], but none over a link
    /// within one process).
    #[must_use]
    pub fn congestion(mut self, control: CongestionControl) -> Self {
        self.congestion = Some(control);
        self
    }

    /// As [`TcpStream::set_keepalive`].
    ///
    /// # Errors
    /// `EINVAL` if a time is shorter than a millisecond or there are no probes.
    pub fn keepalive(mut self, keep: Option<(Duration, Duration, u32)>) -> io::Result<Self> {
        self.patience.keep = keep.map(keep_alive).transpose()?;
        Ok(self)
    }

    /// As [`TcpStream::set_user_timeout`]; it bounds the handshake too.
    ///
    /// # Errors
    /// `EINVAL` for a time shorter than a millisecond.
    pub fn user_timeout(mut self, timeout: Option<Duration>) -> io::Result<Self> {
        self.patience.user = timeout.map(user_timeout).transpose()?;
        Ok(self)
    }

    /// Connects to `peer`.
    ///
    /// # Errors
    /// `ECONNREFUSED`, `ECONNRESET`, `ETIMEDOUT`, `EHOSTUNREACH` (no such neighbour), `ENETUNREACH`, `EADDRINUSE`,
    /// `EADDRNOTAVAIL`, `EINVAL` (port 0), `EACCES` (a broadcast address), `EAFNOSUPPORT`; `EAGAIN` if the timer's thread
    /// cannot be started.
    pub fn connect(self, ns: &NetNs, peer: SocketAddr) -> io::Result<TcpStream> {
        let target = Target::new(&peer)?;
        let local = match self.local {
            Some(addr) => Some(End::from_socket_addr(&addr).ok_or_else(|| errno(libc::EADDRNOTAVAIL))?),
            None => None,
        };
        let conn = connect::connect(
            &ns.0,
            local,
            target,
            self.buffers,
            Settings { nodelay: self.nodelay, patience: self.patience, congestion: self.congestion },
        )?;
        let stream = TcpStream::from_parts(conn, ns.clone());
        stream.set_nonblocking(self.nonblocking)?;
        if !self.nonblocking {
            stream.finish_connect(self.timeout)?;
        }
        Ok(stream)
    }
}
