//! What has to be known before a TCP socket listens or connects.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use napier_core::family::SocketFamily;

use super::listener::Limits;
use super::settings::{ConnSettings, settings};
use crate::tables::bind::{Binding, binding, check_reach};
use crate::tables::path::Destination;
use crate::wire::addr::{self, Addr, End};

/// Connections that wait to be accepted. Source: `include/linux/socket.h SOMAXCONN`.
const BACKLOG_DEFAULT: usize = 4096;
/// Handshakes under way. Source: `net/ipv4/tcp_ipv4.c`, the least default of `net.ipv4.tcp_max_syn_backlog` with memory
/// to spare.
const SYNS_DEFAULT: usize = 1024;

/// Makes a [`TcpListener`](crate::TcpListener) with what has to be known before it listens.
///
/// ```
/// # use napier_runtime::doc_link;
/// use napier_runtime::socket::TcpListener;
///
/// let (_engine, device, _) = doc_link()?;
/// let listener = TcpListener::builder().backlog(64).bind(device.netns(), "10.77.0.1:80")?;
/// assert_eq!(listener.local_addr()?.port(), 80);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Copy, Clone, Debug)]
pub struct TcpListenerBuilder {
    pub(super) binding: Binding,
    pub(super) limits: Limits,
}

impl Default for TcpListenerBuilder {
    fn default() -> Self {
        let limits = Limits { backlog: BACKLOG_DEFAULT, syns: SYNS_DEFAULT, settings: ConnSettings::default() };
        Self { binding: Binding::default(), limits }
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

    binding!(binding, TcpListener);

    settings!(limits.settings);
}

/// Makes a [`TcpStream`](crate::TcpStream) with what has to be known before it connects.
///
/// ```
/// # use napier_runtime::doc_link;
/// use std::time::Duration;
/// use napier_runtime::socket::{TcpListener, TcpStream};
///
/// let (_engine, device, peer) = doc_link()?;
/// let _listener = TcpListener::bind(device.netns(), "10.77.0.1:80")?;
/// let builder = TcpStream::builder().nodelay(true).connect_timeout(Duration::from_secs(5));
/// let stream = builder.connect(peer.netns(), "10.77.0.1:80")?;
/// assert_eq!(stream.peer_addr()?.port(), 80);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Copy, Clone, Debug, Default)]
pub struct TcpStreamBuilder {
    local: Option<SocketAddr>,
    pub(super) nonblocking: bool,
    pub(super) nodelay: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) settings: ConnSettings,
}

impl TcpStreamBuilder {
    /// The own address, the own port, or both (wildcard and port 0 stand for any).
    #[must_use]
    pub fn local(mut self, addr: SocketAddr) -> Self {
        self.local = Some(addr);
        self
    }

    /// Whether [`connect`](Self::connect) returns while the handshake goes on, where the kernel's says `EINPROGRESS`.
    /// The stream is writable, or has an error, when it is over: see [`TcpStream::take_error`](crate::TcpStream::take_error).
    #[must_use]
    pub fn nonblocking(mut self, nonblocking: bool) -> Self {
        self.nonblocking = nonblocking;
        self
    }

    /// As [`TcpStream::set_nodelay`](crate::TcpStream::set_nodelay).
    #[must_use]
    pub fn nodelay(mut self, nodelay: bool) -> Self {
        self.nodelay = nodelay;
        self
    }

    /// How long a blocking [`connect`](Self::connect) waits; `None`: 127 s, as `tcp_syn_retries` = 6, which is the default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    settings!(settings);

    /// The own end that was asked for, the peer, and what the socket is made for.
    pub(crate) fn ends(&self, peer: SocketAddr) -> io::Result<(Option<End>, Destination, SocketFamily)> {
        let any = if peer.is_ipv4() { Addr::ANY_V4 } else { Addr::ANY_V6 };
        let (local, family) = match self.local {
            Some(local) => Binding::default().place(local)?,
            None => (End { addr: any, port: 0 }, family_of(&peer)),
        };
        check_reach(family, local.addr, addr::to(&peer))?;
        Ok((self.local.map(|_| local), Destination::new(&peer), family))
    }
}

/// What a socket is made for that is to reach an address.
fn family_of(peer: &SocketAddr) -> SocketFamily {
    if peer.is_ipv4() { SocketFamily::V4 } else { SocketFamily::V6 }
}
